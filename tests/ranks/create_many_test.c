/* What it takes many ranks to create a communicator, to use it for the first time and to leave it: system calls and
 * looks at each other, counted over all ranks, grow with n log n at most. While they wait they look whether all live,
 * as often as that must be, which is once at each rank in LOOK_MS, however many wait.
 *
 * Linked so that the library's calls of the functions below come here first. */
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <time.h>

#include "harness.h"

enum { CALLS_A_RANK = 30 /* x log2 n */, CALLS_A_LOOK = 2, LOOK_MS = 30 };

static uint64_t calls; /* of this rank */

long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
int __real_open(const char *path, int flags, unsigned mode);
int __wrap_open(const char *path, int flags, unsigned mode);
int __real_fcntl(int fd, int command, void *argument);
int __wrap_fcntl(int fd, int command, void *argument);
int __real_poll(struct pollfd *polled, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *polled, nfds_t count, int timeout_ms);
int __real_nanosleep(const struct timespec *duration, struct timespec *left);
int __wrap_nanosleep(const struct timespec *duration, struct timespec *left);

/* pidfd_open, futex and the like: no argument but these is passed on the stack. */
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f) {
    calls++;
    return __real_syscall(number, a, b, c, d, e, f);
}

int __wrap_open(const char *path, int flags, unsigned mode) {
    calls++;
    return __real_open(path, flags, mode);
}

int __wrap_fcntl(int fd, int command, void *argument) {
    calls++;
    return __real_fcntl(fd, command, argument);
}

int __wrap_poll(struct pollfd *polled, nfds_t count, int timeout_ms) {
    calls++;
    return __real_poll(polled, count, timeout_ms);
}

int __wrap_nanosleep(const struct timespec *duration, struct timespec *left) {
    calls++;
    return __real_nanosleep(duration, left);
}

static void come_and_go(struct rank *rank) {
    float sum = 1;
    calls = 0;
    if (!expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create") ||
        !expect_status(rank, kolo_allreduce(rank->comm, &sum, &sum, 1, KOLO_F32, KOLO_SUM), 0, "kolo_allreduce"))
        return;
    expect(rank, sum == (float)rank->ranks, "%d ones are %g", rank->ranks, (double)sum);
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
    counter_add(calls);
}

static uint32_t log2_of(uint32_t n) {
    return n < 2 ? 0 : 32 - (uint32_t)__builtin_clz(n - 1);
}

static void count_calls(int ranks, bool by_descriptor) {
    const int64_t begin_ns = now_ns();
    harness_run(&(struct team){.ranks = ranks,
                               .slot_bytes = 4096,
                               .by_descriptor = by_descriptor,
                               .creates_itself = true,
                               .run = come_and_go});
    const uint64_t n = (uint64_t)ranks, looks = n * (uint64_t)((now_ns() - begin_ns) / (LOOK_MS * INT64_C(1000000)));
    const uint64_t counted = counter_add(0), most = CALLS_A_RANK * n * log2_of((uint32_t)ranks) + CALLS_A_LOOK * looks;
    expect(NULL, counted > n && counted <= most,
           "%d ranks that create, reduce and leave made %" PRIu64 " calls of the system, and %" PRIu64
           " are to be enough",
           ranks, counted, most);
}

int main(int argc, char **argv) {
    static const int counts[] = {8, 32, 128, 256};
    harness_begin(argc, argv,
                  "Checks that many ranks create a communicator without looking at each other all the time.");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (wants_ranks(counts[i]) && !(arguments.quick && counts[i] > 32)) {
            count_calls(counts[i], false);
            count_calls(counts[i], true);
        }
    return harness_end();
}
