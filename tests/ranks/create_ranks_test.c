/* Ranks that do not come, come twice, come late or with another size, or die on the way: creation fails on all that
 * came, with a message that says which. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "harness.h"
#include "job_file.h"

/* When a process comes: after so many ms, or once rank 0 has come, or one of the others has been refused. */
enum { AFTER_RANK_0 = -1, AFTER_A_REFUSAL = -2 };

/* What each process of a team says it is, and what it must get. */
struct part {
    int rank;
    int size;
    int64_t when;
    int status;
    const char *words[2];
};

struct cast {
    int64_t create_timeout_ms;
    struct part parts[4];
};

static void run_part(struct rank *rank) {
    const struct cast *cast = rank->team->argument;
    const struct part *part = &cast->parts[rank->rank];
    kolo_comm *comm = NULL;
    rank->options.rank = part->rank;
    rank->options.size = part->size;
    rank->options.create_timeout_ms = cast->create_timeout_ms;
    counter_add(1);
    while (counter_add(0) < (uint64_t)rank->ranks) /* all processes are there */
        sleep_ms(1);
    if (part->when == AFTER_RANK_0 && !await_job(rank, &rank->options, 1))
        return;
    while (part->when == AFTER_A_REFUSAL && counter_add(0) == (uint64_t)rank->ranks)
        sleep_ms(1);
    sleep_ms(part->when > 0 ? part->when : 0);
    const int64_t begin_ns = now_ns();
    int status = kolo_comm_create(&comm, &rank->options);
    if (expect_status(rank, status, part->status, "kolo_comm_create") && status < 0) {
        expect_message(rank, "kolo_comm_create", part->words[0], part->words[1], NULL);
        expect(rank, comm == NULL, "the handle was set by a creation that failed");
    }
    expect_prompt(rank, now_ns() - begin_ns - cast->create_timeout_ms * 1000000, 1000, "creation, past its deadline");
    counter_add(1);
    if (comm)
        expect_status(rank, kolo_barrier(comm), 0, "kolo_barrier");
    kolo_comm_destroy(comm);
}

static void run_cast(int parts, const struct cast *cast) {
    struct team team = {.ranks = parts, .slot_bytes = 4096, .creates_itself = true, .run = run_part, .argument = cast};
    harness_run(&team);
    team.by_descriptor = true;
    harness_run(&team);
}

static void run_casts(void) {
    run_cast(1, &(struct cast){300, {{0, 3, 0, KOLO_ERR_TIMEOUT, {"rank 0: rank 1-2 never came within 300 ms"}}}});
    run_cast(1, &(struct cast){300, {{2, 3, 0, KOLO_ERR_TIMEOUT, {"rank 2: rank 0 never came within 300 ms"}}}});
    run_cast(3, &(struct cast){1000,
                               {{0, 6, 0, KOLO_ERR_TIMEOUT, {"rank 1, 3, 5 never came"}},
                                {2, 6, 0, KOLO_ERR_TIMEOUT, {"rank 1, 3, 5 never came"}},
                                {4, 6, 0, KOLO_ERR_TIMEOUT, {"rank 1, 3, 5 never came"}}}});
    run_cast(3, &(struct cast){5000,
                               {{0, 3, 0, KOLO_ERR_MISMATCH, {"rank 0: creation failed on rank 1", "disagree"}},
                                {1, 3, AFTER_RANK_0, KOLO_ERR_MISMATCH, {"rank 1"}},
                                {1, 3, AFTER_RANK_0, KOLO_ERR_MISMATCH, {"rank 1"}}}});
    run_cast(2,
             &(struct cast){5000,
                            {{0, 2, 0, KOLO_ERR_MISMATCH, {"creation failed on rank 1", "disagree"}},
                             {1, 3, AFTER_RANK_0, KOLO_ERR_MISMATCH, {"rank 1 was created with size 3", "size 2"}}}});
    run_cast(
        2, &(struct cast){5000, /* so many that the file for two is shorter than its own header would be */
                          {{0, 2, 0, KOLO_ERR_MISMATCH, {"creation failed on rank 40"}},
                           {40, 64, AFTER_RANK_0, KOLO_ERR_MISMATCH, {"rank 40 was created with size 64", "size 2"}}}});
    run_cast(3, &(struct cast){5000, /* in whatever order they come */
                               {{0, 3, 200, 0, {NULL}}, {1, 3, 100, 0, {NULL}}, {2, 3, 0, 0, {NULL}}}});
}

/* A second rank 0 must not disturb the job that is being created. */
static void run_second_zero(void) {
    const struct cast cast = {5000,
                              {{0, 2, 0, 0, {NULL}},
                               {0, 2, AFTER_RANK_0, KOLO_ERR_MISMATCH, {"job name in use", "choose another KOLO_JOB"}},
                               {1, 2, AFTER_A_REFUSAL, 0, {NULL}}}};
    harness_run(
        &(struct team){.ranks = 3, .slot_bytes = 4096, .creates_itself = true, .run = run_part, .argument = &cast});
}

/* A rank that dies while the others wait for another one. */
static void run_until_death(struct rank *rank) {
    kolo_comm *comm = NULL;
    rank->options.size = 4; /* rank 3 never comes */
    int status = kolo_comm_create(&comm, &rank->options);
    if (rank->rank != rank->team->victim - 1 && expect_status(rank, status, KOLO_ERR_PEER_DEAD, "kolo_comm_create")) {
        char dead[32];
        snprintf(dead, sizeof dead, "rank %d", rank->team->victim - 1);
        expect_message(rank, "kolo_comm_create", dead, NULL);
        expect_prompt(rank, now_ns() - event_ns(), 1000, "noticed the death");
    }
}

static void kill_victim(const struct team *team, const pid_t *pids) {
    await_job(NULL, team_options(), (UINT64_C(1) << team->ranks) - 1);
    sleep_ms(50); /* the others wait by now */
    event_set();
    kill(pids[team->victim - 1], SIGKILL);
}

static void run_deaths(void) {
    for (int victim = 0; victim < 3; victim++)
        for (int by_descriptor = 0; by_descriptor < 2; by_descriptor++)
            if (by_descriptor || victim != 0) /* by name, rank 0 also leaves a name: see create_files_test */
                harness_run(&(struct team){.ranks = 3,
                                           .slot_bytes = 4096,
                                           .by_descriptor = by_descriptor,
                                           .creates_itself = true,
                                           .victim = victim + 1,
                                           .run = run_until_death,
                                           .meanwhile = kill_victim});
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Creates communicators of which ranks are missing, doubled, different or dead.");
    run_casts();
    run_second_zero();
    if (!arguments.threads)
        run_deaths();
    return harness_end();
}
