/* Reading the memory of another rank's process, with process_vm_readv. The kernel lets a process do that to those that
 * it might debug: of the same user, and not where Yama's ptrace_scope, seccomp or another namespace is in the way. */
#ifndef KOLO_COMM_STEP_PEER_MEMORY_H
#define KOLO_COMM_STEP_PEER_MEMORY_H

#include "comm/comm.h"

/* Copies `bytes` bytes from `from`, an address in the process of `peer`. False if the kernel refuses that, the process
 * has ended or started another program, or its memory there is none that can be read; then `to` holds rubbish. The
 * peer's places say where it has the first of them (algo/direct_buffers.h). */
bool kolo_peer_memory_read(const kolo_comm *comm, uint32_t peer, void *to, const void *from, size_t bytes);

#endif
