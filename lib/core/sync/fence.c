/* The system call of the asymmetric fence: see fence.h. */
#include "sync/fence.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sync/atomic.h"

int kolo_fence_register(void) {
    long rc = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0);
    return rc < 0 ? -errno : 0;
}

void kolo_fence_sleeper(void) {
    /* The thread fence orders this thread's own accesses if the call is refused: publishers then use full fences. */
    atomic_thread_fence(memory_order_seq_cst);
    syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

void kolo_fence_threads(void) {
    static kolo_atomic_u64 meeting_point;
    kolo_fetch_add(&meeting_point, 1);
}
