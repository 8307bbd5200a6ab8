/* Many more ranks than processors: slower in proportion, but never stalled. */
#include "harness.h"

enum { RANKS = 16, CALLS = 2000, SECONDS_MAX = 30 };

static void run_calls(struct rank *rank) {
    const int calls = arguments.quick ? CALLS / 20 : CALLS;
    for (int64_t call = 0; call < calls; call++) {
        int64_t value = rank->rank + call, sum = -1;
        int status = kolo_allreduce(rank->comm, &value, &sum, 1, KOLO_I64, KOLO_SUM);
        const int64_t wanted = rank->ranks * (rank->ranks - 1) / 2 + rank->ranks * call;
        if (!expect_status(rank, status, 0, "kolo_allreduce") ||
            !expect(rank, sum == wanted, "call %lld: %lld instead of %lld", (long long)call, (long long)sum,
                    (long long)wanted))
            return;
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Makes 2000 small all-reduces with 16 ranks.");
    for (int algorithm = 0; algorithm < KOLO_ALGORITHMS; algorithm++) {
        const int64_t begin_ns = now_ns();
        if (!wants_algorithm((kolo_algorithm)algorithm))
            continue;
        harness_run(&(struct team){.ranks = arguments.ranks ? arguments.ranks : RANKS,
                                   .algorithm = (kolo_algorithm)algorithm,
                                   .slot_bytes = 8192,
                                   .run = run_calls});
        const double seconds = (double)(now_ns() - begin_ns) * 1e-9;
        expect(NULL, seconds < SECONDS_MAX, "%s: %.1f s", kolo_algorithm_name((kolo_algorithm)algorithm), seconds);
    }
    return harness_end();
}
