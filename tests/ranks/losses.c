#include "losses.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

void end_rank(struct rank *rank) {
    if (!arguments.threads)
        kill(getpid(), SIGKILL);
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

static int signal_to_self;

static void hit_self(int signal_number) {
    (void)signal_number;
    kill(getpid(), signal_to_self);
}

void arm(int signal_number, uint64_t us) {
    const struct itimerval once = {.it_value.tv_usec = (suseconds_t)(1 + us)};
    signal_to_self = signal_number;
    signal(SIGALRM, hit_self);
    setitimer(ITIMER_REAL, &once, NULL);
}

int call_until_failure(kolo_comm *comm, size_t count) {
    float *data = calloc(count, sizeof *data);
    int status = 0;
    while (status == 0)
        status = kolo_allreduce(comm, data, data, count, KOLO_F32, KOLO_SUM);
    free(data);
    return status;
}

size_t count_for(const kolo_comm *comm) {
    static const size_t counts[] = {6, 300, 30000};
    return counts[(size_t)kolo_comm_size(comm) % 3];
}

bool sums_are_right(const struct rank *rank, kolo_comm *comm, uint64_t alive, size_t count) {
    uint64_t *data = calloc(count, sizeof *data);
    uint64_t ranks_sum = 0;
    for (int peer = 0; peer < rank->ranks; peer++)
        ranks_sum += has(alive, peer) ? (uint64_t)peer : 0;
    for (uint64_t i = 0; i < count; i++)
        data[i] = (uint64_t)rank->rank * 1000 + i;
    bool right = expect_status(rank, kolo_allreduce(comm, data, data, count, KOLO_U64, KOLO_SUM), 0, "kolo_allreduce");
    for (uint64_t i = 0; right && i < count; i++)
        right = expect(rank, data[i] == ranks_sum * 1000 + (uint64_t)count_of(alive) * i, "sum %d is wrong", (int)i);
    free(data);
    return right;
}

void await_counter(uint64_t value) {
    for (int64_t waited_ms = 0; counter_add(0) < value && waited_ms < 60000; waited_ms++)
        sleep_ms(1);
}

void stop_all(const struct team *team, const pid_t *pids, int stops, int64_t late_ms, int64_t stopped_ms) {
    await_counter((uint64_t)team->ranks);
    for (int stop = 0; stop < stops; stop++) {
        sleep_ms(late_ms);
        for (int i = 0; i < team->ranks; i++)
            kill(pids[i], SIGSTOP);
        sleep_ms(stopped_ms);
        for (int i = 0; i < team->ranks; i++)
            kill(pids[i], SIGCONT);
        counter_add(1);
    }
}
