/* Reading a peer's memory takes one system call: the kernel pins the pages and copies, while the other process goes on.
 *
 * The other rank may have started another program meanwhile, or may have ended and its pid be another process's. So the
 * last bytes come with a word of the segment, read from where that rank has mapped it: an address space that has the
 * word is the rank's, and was so for all bytes before. */
#include "comm/step/peer_memory.h"

#include <sys/uio.h>

bool kolo_peer_memory_read(const kolo_comm *comm, uint32_t peer, void *to, const void *from, size_t bytes) {
    const struct kolo_shared_process *process = &comm->segment.members[peer].process;
    if (!kolo_liveness_knows_pid(process, comm->liveness.own_namespace))
        return false; /* the pid may be another process's */
    struct kolo_shared_signal *signal = &comm->segment.signals[peer];
    const uint64_t place = kolo_load_relaxed(&signal->places[0]);
    uint64_t proof = ~place;
    size_t done = 0;
    do {
        const struct iovec local[2] = {{(uint8_t *)to + done, bytes - done}, {&proof, sizeof proof}},
                           remote[2] = {
                               {(uint8_t *)(uintptr_t)from + done, bytes - done},
                               {(void *)(uintptr_t)kolo_load_relaxed(&signal->places[1]), sizeof proof},
                           };
        const ssize_t read = process_vm_readv((pid_t)process->pid, local, 2, remote, 2, 0);
        if (read <= 0)
            return false;
        done += (size_t)read;
    } while (done < bytes);
    return proof == place;
}
