/* Many more ranks than processors: slower in proportion, but no call stalls. */
#include "harness.h"

enum { RANKS = 16, CALLS = 500, STALL_MS = 2000 };

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

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Makes 500 small all-reduces with 16 ranks by each algorithm.");
    for (int algorithm = 0; algorithm < KOLO_ALGORITHMS; algorithm++)
        if (wants_algorithm((kolo_algorithm)algorithm))
            harness_run(&(struct team){.ranks = arguments.ranks ? arguments.ranks : RANKS,
                                       .algorithm = (kolo_algorithm)algorithm,
                                       .slot_bytes = 8192,
                                       .run = run_calls});
    return harness_end();
}
