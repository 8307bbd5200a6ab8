/* How messages between two ranks fail: a mismatch is found on both ranks, with both calls in words; a rank that has
 * ended, left or not come is named at once or at the deadline; and what was sent before still arrives. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

enum { LARGE = 1 << 20, NOTICED_MS_MAX = 100, DEADLINE_MS = 300 };

static char *data_of(void) {
    static _Thread_local char data[LARGE];
    return data;
}

/* Rank 1 sends, rank 0 expects something else; the others wait in a barrier, which fails as well. */
struct mismatch {
    size_t sent, expected;
    kolo_dtype dtype;
    const char *words[2];
};

static void run_mismatch(struct rank *rank) {
    const struct mismatch *what = rank->team->argument;
    const int last = rank->ranks - 1;
    int status = 0;
    if (rank->rank == last)
        status = kolo_send(rank->comm, data_of(), what->sent, KOLO_I8, 0, 7);
    else if (rank->rank == 0)
        status = kolo_recv(rank->comm, data_of(), what->expected, what->dtype, last, 7, NULL);
    if (status == 0 && rank->rank != 0) /* a small send has ended */
        status = kolo_barrier(rank->comm);
    char sender[80], receiver[80];
    snprintf(sender, sizeof sender, "rank %d calls %s to rank 0, tag 7", last, what->words[0]);
    snprintf(receiver, sizeof receiver, "rank 0 calls %s from rank %d, tag 7", what->words[1], last);
    if (expect_status(rank, status, KOLO_ERR_MISMATCH, "a mismatch"))
        expect_message(rank, "a mismatch", sender, receiver, NULL);
    kolo_failure failure = {.failure_bytes = sizeof failure};
    expect_status(rank, kolo_comm_failure(rank->comm, &failure), 0, "kolo_comm_failure");
    expect(rank, failure.rank == last && failure.reporter == 0 && failure.cause == KOLO_CAUSE_MISMATCH,
           "the failure is of rank %d, by rank %d", failure.rank, failure.reporter);
    expect_status(rank, kolo_send(rank->comm, data_of(), 1, KOLO_I8, 0, 7), KOLO_ERR_STATE, "the next kolo_send");
    expect_status(rank, kolo_recv(rank->comm, data_of(), 1, KOLO_I8, 0, 7, NULL), KOLO_ERR_STATE, "the next kolo_recv");
}

/* What the ranks other than the victim are in when it ends. */
enum wait_for { IN_RECV, IN_RECV_ANY, IN_LARGE_SEND, IN_FULL_RING, IN_SENDRECV, WAITS };

struct ending {
    enum wait_for wait;
    bool leaves; /* by kolo_comm_destroy, instead of by an exit */
};

static int wait_for(const struct rank *rank, enum wait_for wait, int victim) {
    int status = 0;
    switch (wait) {
    case IN_RECV:
        return kolo_recv(rank->comm, data_of(), 1, KOLO_I8, victim, 1, NULL);
    case IN_RECV_ANY:
        return kolo_recv(rank->comm, data_of(), 1, KOLO_I8, KOLO_ANY_RANK, 1, NULL);
    case IN_LARGE_SEND:
        return kolo_send(rank->comm, data_of(), LARGE, KOLO_I8, victim, 1);
    case IN_FULL_RING:
        for (int i = 0; status == 0 && i <= KOLO_SEND_SMALL_MAX; i++)
            status = kolo_send(rank->comm, data_of(), 1, KOLO_I8, victim, 1);
        return status;
    default:
        return kolo_sendrecv(rank->comm, data_of(), LARGE / 2, victim, 1, data_of() + LARGE / 2, 1, victim, 1, KOLO_I8,
                             NULL);
    }
}

/* The victim sends each other rank a message and ends while they are in the wait. One of them receives the message only
 * then, before it waits. */
static void run_ending(struct rank *rank) {
    const struct ending *what = rank->team->argument;
    const int victim = rank->ranks - 1;
    char named[32];
    int32_t sent = 4711;
    snprintf(named, sizeof named, "rank %d (pid", victim);
    if (rank->rank == victim) {
        for (int to = 0; to < victim; to++)
            expect_status(rank, kolo_send(rank->comm, &sent, 1, KOLO_I32, to, 0), 0, "kolo_send");
        sleep_ms(20);
        event_set();
        if (!what->leaves)
            _exit(0);
        kolo_comm_destroy(rank->comm);
        rank->comm = NULL;
        while (counter_add(0) < (uint64_t)victim) /* its process lives on until the others have noticed */
            sleep_ms(1);
        return;
    }
    if (rank->rank == 0)
        while (event_ns() == 0)
            sleep_ms(1);
    /* Where others may have found the end by then, the communicator can be broken. */
    int32_t taken = 0;
    if (rank->ranks == 2 || rank->rank != 0) {
        expect_status(rank, kolo_recv(rank->comm, &taken, 1, KOLO_I32, victim, 0, NULL), 0, "kolo_recv");
        expect(rank, taken == sent, "%d was received", taken);
    }
    const int status = wait_for(rank, what->wait, victim);
    expect(rank, event_ns() > 0, "the call ended before the victim");
    if (expect_status(rank, status, KOLO_ERR_PEER_DEAD, "the wait"))
        expect_message(rank, "the wait", named, NULL);
    expect_prompt(rank, now_ns() - event_ns(), NOTICED_MS_MAX, "noticed the end");
    counter_add(1);
}

/* Rank 0 waits for the last rank, which has sent nothing but a message with another tag; a third rank is of no concern.
 */
static void run_timeout(struct rank *rank) {
    const enum wait_for *wait = rank->team->argument;
    const int late = rank->ranks - 1;
    char named[32], call[64];
    snprintf(named, sizeof named, "rank %d (pid", late);
    if (*wait == IN_RECV_ANY)
        snprintf(call, sizeof call, "in recv of 1 i8 from any rank, tag 1");
    else if (*wait == IN_RECV || *wait == IN_SENDRECV)
        snprintf(call, sizeof call, "in recv of %d i8 from rank %d, tag 1", 1, late);
    else
        snprintf(call, sizeof call, "in send of %d i8 to rank %d, tag 1", *wait == IN_LARGE_SEND ? LARGE : 1, late);
    if (rank->rank == late)
        expect_status(rank, kolo_send(rank->comm, data_of(), 1, KOLO_I8, 0, 0), 0, "kolo_send with another tag");
    if (rank->rank == 0) {
        const int status = wait_for(rank, *wait, late);
        if (*wait == IN_RECV_ANY && expect_status(rank, status, KOLO_ERR_TIMEOUT, "the wait for any"))
            expect_message(rank, "the wait for any", "did not come", call, NULL);
        else if (*wait != IN_RECV_ANY && expect_timely(rank, rank->comm, status, KOLO_ERR_TIMEOUT, late, "the wait"))
            expect_message(rank, "the wait", named, call, NULL);
        counter_add(1);
    }
    while (counter_add(0) == 0)
        sleep_ms(1);
    if (rank->rank != 0 && expect_status(rank, kolo_barrier(rank->comm), KOLO_ERR_TIMEOUT, "the barrier after that"))
        expect_message(rank, "the barrier after that", "rank 0 waited for it", call, NULL);
}

/* What fails after messages for which ranks have waited is told as if there had been none. */
static void run_after_messages(struct rank *rank) {
    const int late = rank->ranks - 1;
    if (rank->rank == late)
        sleep_ms(20); /* the others wait for its message */
    expect_status(rank,
                  kolo_sendrecv(rank->comm, data_of(), 8, (rank->rank + 1) % rank->ranks, 5, data_of() + 8, 8,
                                (rank->rank + late) % rank->ranks, 5, KOLO_I8, NULL),
                  0, "kolo_sendrecv");
    if (rank->rank != late) {
        if (expect_status(rank, kolo_barrier(rank->comm), KOLO_ERR_TIMEOUT, "a barrier that a rank does not make"))
            expect_message(rank, "a barrier that a rank does not make", "in call 1", NULL);
        counter_add(1);
    }
    while (counter_add(0) < (uint64_t)late)
        sleep_ms(1);
}

int main(int argc, char **argv) {
    static const struct mismatch mismatches[] = {
        {8, 7, KOLO_I8, {"send of 8 i8", "recv of 7 i8"}},
        {8, 8, KOLO_U8, {"send of 8 i8", "recv of 8 u8"}},
        {1, 0, KOLO_I8, {"send of 1 i8", "recv of 0 i8"}},
        {LARGE, LARGE - 1, KOLO_I8, {"send of 1048576 i8", "recv of 1048575 i8"}},
        {LARGE, LARGE / 8, KOLO_F64, {"send of 1048576 i8", "recv of 131072 f64"}},
    };
    harness_begin(argc, argv, "Makes sends and receives fail in every way.");
    for (int ranks = 2; ranks <= 4; ranks++) {
        if (!wants_ranks(ranks))
            continue;
        for (size_t i = 0; i < sizeof mismatches / sizeof *mismatches; i++)
            harness_run(&(struct team){.ranks = ranks, .run = run_mismatch, .argument = &mismatches[i]});
        for (int wait = 0; wait < WAITS; wait++)
            for (int leaves = arguments.threads; leaves < 2; leaves++) {
                const struct ending what = {(enum wait_for)wait, leaves};
                if (wait == IN_RECV_ANY && leaves && ranks > 2)
                    continue; /* the others, who also wait for any, have not left */
                harness_run(&(struct team){.ranks = ranks, .run = run_ending, .argument = &what});
            }
        harness_run(&(struct team){.ranks = ranks, .timeout_ms = DEADLINE_MS, .run = run_after_messages});
        for (enum wait_for wait = 0; wait < WAITS; wait++)
            harness_run(
                &(struct team){.ranks = ranks, .timeout_ms = DEADLINE_MS, .run = run_timeout, .argument = &wait});
    }
    return harness_end();
}
