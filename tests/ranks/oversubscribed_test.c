/* More ranks than processors: slower in proportion, but no call stalls, and no wait yields in vain. */
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

enum { RANKS = 16, CALLS = 500, STALL_MS = 2000 };
enum { PAIR_CALLS = 2000, WARM_CALLS = 100, YIELDS_PER_CALL_MAX = 150, YIELDS_MEASURED = 10000 };

static void run_calls(struct rank *rank) {
    const int calls = arguments.quick ? CALLS / 10 : CALLS;
    int64_t slowest_ns = 0;
    for (int64_t call = 0; call < calls; call++) {
        int64_t value = rank->rank + call, sum = -1;
        const int64_t begin_ns = now_ns();
        int status = kolo_allreduce(rank->comm, &value, &sum, 1, KOLO_I64, KOLO_SUM);
        const int64_t ns = now_ns() - begin_ns;
        const int64_t wanted = rank->ranks * (rank->ranks - 1) / 2 + rank->ranks * call;
        if (!expect_status(rank, status, 0, "kolo_allreduce") ||
            !expect(rank, sum == wanted, "call %lld: %lld instead of %lld", (long long)call, (long long)sum,
                    (long long)wanted))
            return;
        slowest_ns = ns > slowest_ns ? ns : slowest_ns;
    }
    expect_prompt(rank, slowest_ns, STALL_MS, "the slowest call");
}

static int64_t own_cpu_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static bool share_one_processor(void) {
    cpu_set_t all, first;
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return false;
    CPU_ZERO(&first);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&first) == 0; cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &first);
    return sched_setaffinity(0, sizeof first, &first) == 0;
}

static int64_t yield_cpu_ns(void) {
    const int64_t begin_ns = own_cpu_ns();
    for (int i = 0; i < YIELDS_MEASURED; i++)
        sched_yield();
    return (own_cpu_ns() - begin_ns) / YIELDS_MEASURED;
}

static bool call_pair(struct rank *rank, int calls) {
    for (int call = 0; call < calls; call++) {
        int32_t one = 1, sum = 0;
        if (!expect_status(rank, kolo_allreduce(rank->comm, &one, &sum, 1, KOLO_I32, KOLO_SUM), 0, "kolo_allreduce"))
            return false;
    }
    return true;
}

/* Two ranks of sessions of their own on one processor. Where Linux shares it between sessions first (sched_autogroup),
 * a yield does not let the other rank run. */
static void run_sessions(struct rank *rank) {
    setsid();
    if (!expect(rank, share_one_processor(), "no processor can be chosen"))
        return;
    const int64_t yield_ns = yield_cpu_ns();
    if (!expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create") ||
        !call_pair(rank, WARM_CALLS))
        return;
    const int64_t begin_ns = own_cpu_ns();
    if (!call_pair(rank, PAIR_CALLS))
        return;
    const int64_t call_ns = (own_cpu_ns() - begin_ns) / PAIR_CALLS;
    expect(rank, call_ns < YIELDS_PER_CALL_MAX * yield_ns, "a call takes %lld ns of processor time, a yield %lld",
           (long long)call_ns, (long long)yield_ns);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Makes small all-reduces: of 16 ranks by each algorithm, and of two on one processor.");
    for (int algorithm = 0; algorithm < KOLO_ALGORITHMS; algorithm++)
        if (wants_algorithm((kolo_algorithm)algorithm))
            harness_run(&(struct team){.ranks = arguments.ranks ? arguments.ranks : RANKS,
                                       .algorithm = (kolo_algorithm)algorithm,
                                       .slot_bytes = 8192,
                                       .run = run_calls});
    if (!arguments.threads && wants_ranks(2))
        harness_run(&(struct team){.ranks = 2, .creates_itself = true, .run = run_sessions});
    return harness_end();
}
