/* Peer memory: reading the memory of another rank's process, by process_vm_readv. The kernel lets a process read the
 * memory of processes that it might debug: those of the same user, unless Yama, seccomp or a namespace forbids it. */
#pragma once

#include "comm/comm.h"

/* Copies `bytes` bytes from `from`, an address in the process of `peer`. Returns false if the kernel refuses that, the
 * process has ended or started another program, or its memory there cannot be read; then the contents of `to` are
 * undefined. The peer's second place is the address at which it has mapped its first one (algo/direct_buffers.h), by
 * which this function knows that it reads the right process. */
bool kolo_peer_memory_read(const kolo_comm *comm, uint32_t peer, void *to, const void *from, size_t bytes);
