/* Whether the kernel lets this process use io_uring. */
#include "net/uring.h"

#if KOLO_HAVE_URING

#include <liburing.h>

int kolo_uring_probe(void) {
    struct io_uring ring;
    int rc = io_uring_queue_init(4, &ring, 0);
    if (rc < 0)
        return rc;
    io_uring_queue_exit(&ring);
    return 0;
}

#else

#include <errno.h>

int kolo_uring_probe(void) {
    return -ENOSYS;
}

#endif
