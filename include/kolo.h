/* kolo: all-reduce and other collectives between the processes of one many-core machine. This header has the core, in
 * parts that it includes:
 *     kolo_types.h        errors, element types, reductions, algorithms, names
 *     kolo_comm.h         communicators: create, split, grow, shrink, destroy; what failed, what was done
 *     kolo_collectives.h  collectives that block, operations of the program's own
 *     kolo_memory.h       memory that all ranks have mapped
 *     kolo_requests.h     collectives in the background
 *     kolo_messages.h     messages between two ranks
 * Programs that want more include it by name:
 *     kolo_fusion.h       buckets of tensors that become ready one by one, and their compression
 *     kolo_optimizer.h    an all-reduce that updates parameters on the way, and optimizers made of it
 *     kolo_exact.h        sums of floats that do not depend on who holds which addend
 *     kolo_table.h        a parameter server's tables
 *     kolo_lanes.h        ranks of several threads
 *     kolo_tools.h        what kolo sees of the machine and would do on it
 *     kolo_watch.h        running jobs, seen from outside
 *     kolo_trace.h        a timeline of each rank, in files
 * What stands here holds for all of them. A library that was built with -DKOLO_TABLE=OFF has no kolo_table_*, one with
 * -DKOLO_TRAINING=OFF no kolo_bucket_*, kolo_optimizer_* and kolo_exact_*: a program that calls one of these cannot be
 * linked with it (undefined reference), and kolo4py raises Unsupported.
 *
 * Results: a function that returns int returns 0 or a negative KOLO_ERR_*, unless its comment says otherwise. Handles
 * come out through a parameter and are set only on success. Nothing here prints (unless KOLO_LOG asks for it), exits,
 * aborts the process or installs a signal handler. Counts are in elements, sizes in bytes.
 *
 * Threads: one thread at a time uses a communicator. (Builds with assertions refuse a second thread's call with
 * KOLO_ERR_STATE; the communicator stays usable.) A process may hold many communicators, and several threads of one
 * process may each be a rank. A collective blocks until this rank's part is done and `recv` holds the result; those in
 * the background, kolo_i*, return at once. Every rank of a communicator makes the same calls in the same order.
 *
 * Errors: after any error but KOLO_ERR_ARG and KOLO_ERR_UNSUPPORTED the communicator is broken for every rank, unless
 * the function's comment says that it stays usable; that is the same on all ranks, too. The call's buffers are the
 * caller's again (kolo_memory.h names one exception), and the contents of the output buffer are undefined. Of a broken
 * communicator only the queries, kolo_comm_failure, kolo_comm_shrink, kolo_comm_set_*, kolo_comm_eventfd,
 * kolo_comm_destroy, kolo_free and kolo_request_* may be called; all other calls return KOLO_ERR_STATE.
 * kolo_error_message() says what happened.
 *
 * Deadlines count only time in which the waiting process could run. A job that is stopped as a whole (Ctrl-Z, a
 * suspended virtual machine) therefore goes on when it is continued. If one rank alone is stopped, the others return
 * KOLO_ERR_TIMEOUT at their deadline.
 *
 * Structs that begin with a size: set that field to sizeof the struct before the call (KOLO_OPTIONS_INIT does); without
 * it the call returns KOLO_ERR_ARG. New versions only add fields at the end, so that programs and libraries of
 * different versions work together. Of a struct that the library fills, fields that only the caller knows are set to 0.
 * Of a struct that it reads, fields that only the library knows have their defaults, and those that only the caller
 * knows must be 0.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KOLO_H
#define KOLO_H

#include "kolo_collectives.h"
#include "kolo_comm.h"
#include "kolo_memory.h"
#include "kolo_messages.h"
#include "kolo_requests.h"
#include "kolo_types.h"

#define KOLO_VERSION_MAJOR 0
#define KOLO_VERSION_MINOR 1
#define KOLO_VERSION_PATCH 0

#endif
