/* Many ranks that die at once, be it the one that looks whether all live or those that watch each other
 * (comm/failure/watchdog.h): all that are left learn it at once, in a creation to which one rank does not come, and in
 * a call for which one rank is late. */
#include <signal.h>

#include "job_file.h"

enum { RANKS = 48, LATE = RANKS - 1, NOTICED_MS_MAX = 100, SETTLED_MS = 150, AWAY_MS = 500 };

struct deaths {
    uint64_t victims; /* a bit each */
    bool in_creation;
};

static bool is_victim(const struct team *team, int rank) {
    const struct deaths *deaths = team->argument;
    return deaths->victims >> rank & 1;
}

/* Stays away until all others have noticed. */
static void stay_away(void) {
    const int64_t until_ns = now_ns() + INT64_C(60000000000);
    while (event_ns() == 0 && now_ns() < until_ns)
        sleep_ms(1);
    sleep_ms(AWAY_MS);
}

static void check_survivor(const struct rank *rank, int status, const char *what) {
    expect_status(rank, status, KOLO_ERR_PEER_DEAD, what);
    expect_prompt(rank, now_ns() - event_ns(), NOTICED_MS_MAX, "noticed the deaths");
}

static void run_rank(struct rank *rank) {
    const struct deaths *deaths = rank->team->argument;
    if (deaths->in_creation && rank->rank == LATE) {
        stay_away();
        return;
    }
    if (deaths->in_creation) {
        check_survivor(rank, kolo_comm_create(&rank->comm, &rank->options), "kolo_comm_create");
        return;
    }
    if (!expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create"))
        return;
    counter_add(1);
    if (rank->rank == LATE)
        stay_away();
    else
        check_survivor(rank, kolo_barrier(rank->comm), "kolo_barrier");
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

static void kill_victims(const struct team *team, const pid_t *pids) {
    const struct deaths *deaths = team->argument;
    const int64_t until_ns = now_ns() + INT64_C(60000000000);
    if (deaths->in_creation)
        await_job(NULL, team_options(), (UINT64_C(1) << LATE) - 1);
    else
        while (counter_add(0) < RANKS && now_ns() < until_ns)
            sleep_ms(1);
    sleep_ms(SETTLED_MS); /* until all sleep, and one looks for all */
    event_set();
    for (int rank = 0; rank < RANKS; rank++)
        if (is_victim(team, rank))
            kill(pids[rank], SIGKILL);
}

int main(int argc, char **argv) {
    const uint64_t all = (UINT64_C(1) << LATE) - 1, even = all / 3, half = (UINT64_C(1) << LATE / 2) - 1;
    /* Whoever looks for all is in one of each pair; of the last ones, hardly any is left. */
    const uint64_t sets[] = {even, all ^ even, half, all ^ half, all ^ 1, all ^ 2};
    harness_begin(argc, argv, "Kills many ranks at once, and checks that the others learn it at once.");
    for (size_t i = 0; i < 2 * sizeof sets / sizeof *sets; i++) {
        const struct deaths deaths = {.victims = sets[i / 2], .in_creation = i % 2};
        harness_run(&(struct team){.ranks = RANKS,
                                   .slot_bytes = 4096,
                                   .by_descriptor = true,
                                   .creates_itself = true,
                                   .victims = deaths.victims,
                                   .run = run_rank,
                                   .argument = &deaths,
                                   .meanwhile = kill_victims});
    }
    return harness_end();
}
