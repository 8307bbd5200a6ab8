/* The futex system call. */
#include "sync/futex.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void kolo_futex_sleep(kolo_atomic_u32 *word, uint32_t expected, int64_t ns) {
    struct timespec limit = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    syscall(SYS_futex, word, FUTEX_WAIT, expected, &limit, NULL, 0);
}

void kolo_futex_wake_all(kolo_atomic_u32 *word) {
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
