/* The record of a failure: with KOLO_DUMP=DIR, each rank that finds its communicator broken writes a file to that
 * directory, JOB.RANK.PID.N.kolodump with mode 0600: JSON with what failed, and what the last calls of every rank of
 * this machine were. `kolo-trace --crash DIR` tells in words what the ranks' records say together. */
#pragma once

#include "comm/comm.h"

/* Writes it, if KOLO_DUMP asks for it, once for a communicator. A record that cannot be written is a warning. */
void kolo_failure_record(kolo_comm *comm, const kolo_failure *failure);
