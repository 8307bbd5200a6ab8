/* Reads in one system call; the kernel pins the pages and copies, while the other process goes on. */
#include "comm/step/peer_memory.h"

#include <sys/uio.h>

bool kolo_peer_memory_read(const kolo_comm *comm, uint32_t peer, void *to, const void *from, size_t bytes) {
    const struct kolo_shared_process *process = &comm->segment.members[peer].process;
    if (!kolo_liveness_knows_pid(process, comm->liveness.own_namespace))
        return false; /* the pid may be another process's */
    for (size_t done = 0; done < bytes;) {
        const struct iovec local = {(uint8_t *)to + done, bytes - done},
                           remote = {(uint8_t *)(uintptr_t)from + done, bytes - done};
        const ssize_t read = process_vm_readv((pid_t)process->pid, &local, 1, &remote, 1, 0);
        if (read <= 0)
            return false;
        done += (size_t)read;
    }
    return true;
}
