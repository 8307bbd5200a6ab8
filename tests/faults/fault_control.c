#include "fault_run.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "comm/comm.h"
#include "comm/failure/failure.h"

enum { SOON_NS = 60000000, LATE_NS = 250000000, DEADLINE_MS = 400, HELD_NS = 20000000, TRIES = 5, TRIES_TO_REACH = 20 };

/* Defects: what a survivor's waits do instead of kolo_failure_check, or what it leaves behind. */

static int check_nothing(kolo_waiter *waiter, const struct kolo_wait *wait) {
    return wait->waited_ns < kolo_waiter_timeout_ns(waiter) ? 0 : KOLO_ERR_TIMEOUT;
}

static int check_for_ever(kolo_waiter *waiter, const struct kolo_wait *wait) {
    (void)waiter, (void)wait;
    return 0;
}

static int blame_another(kolo_waiter *waiter, const struct kolo_wait *wait) {
    kolo_comm *comm = waiter->owner;
    if (wait->waited_ns < SOON_NS)
        return 0;
    return kolo_failure_publish_near(comm, KOLO_ERR_PEER_DEAD, (wait->peer + 1) % comm->size, 0);
}

static int check_late(kolo_waiter *waiter, const struct kolo_wait *wait) {
    return wait->waited_ns < LATE_NS ? 0 : kolo_failure_check(waiter, wait);
}

static int give_up_early(kolo_waiter *waiter, const struct kolo_wait *wait) {
    if (wait->waited_ns < SOON_NS)
        return 0;
    return kolo_failure_publish_near(waiter->owner, KOLO_ERR_TIMEOUT, kolo_peer_rank(wait->peer), 0);
}

static void be_blind(kolo_comm *comm) {
    comm->waiter.check = check_nothing;
}

static void hang(kolo_comm *comm) {
    comm->waiter.check = check_for_ever;
}

static void misname(kolo_comm *comm) {
    comm->waiter.check = blame_another;
}

static void notice_late(kolo_comm *comm) {
    comm->waiter.check = check_late;
}

static void be_impatient(kolo_comm *comm) {
    comm->waiter.check = give_up_early;
}

static void keep_descriptor(kolo_comm *comm) {
    (void)comm;
    if (dup(STDERR_FILENO) < 0)
        perror("dup");
}

static void keep_mapping(kolo_comm *comm) {
    (void)comm;
    const int fd = memfd_create("kept", MFD_CLOEXEC);
    if (mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED)
        perror("mmap");
    close(fd);
}

static void keep_block(kolo_comm *comm) {
    comm->call.peer_steps = realloc(NULL, comm->size * sizeof *comm->call.peer_steps);
}

static void nothing(kolo_comm *comm) {
    (void)comm;
}

/* Defects in a shrink. */

static void see_no_death(kolo_comm *comm) {
    for (uint32_t rank = 0; rank < comm->size; rank++)
        comm->liveness.watched[rank].guard.place = 0;
    comm->liveness.own_namespace = ~comm->liveness.own_namespace;
}

static void wait_for_ever(kolo_comm *comm) {
    see_no_death(comm);
    comm->waiter.timeout_ns = INT64_MAX / 2;
}

static void wait_briefly(kolo_comm *comm) {
    comm->waiter.timeout_ns = SOON_NS / 2;
}

static void drop_last(kolo_comm *comm) {
    if (comm->rank + 1 < comm->size)
        comm->survivors[0] &= ~(UINT64_C(1) << (comm->size - 1));
}

static void stay_away(kolo_comm *comm) {
    comm->shrunk = comm->rank == 0;
}

static void hurry(kolo_comm *comm) {
    comm->origin.create_timeout_ns = 1;
}

/* Where the victim is struck. */
static const struct place {
    const char *case_name;
    const char *point;
    int rank;
    uint64_t passage;
} in_call = {"lines-2", "lines.writing", 1, 2}, in_shrink = {"shrink-3", "shrink.adopted", 1, 1},
  on_nodes = {"nodes-barrier-2x2", "hierarchy.folded", 3, 2}, in_rejoin = {"nodes-shrink-2x2", "agreement.begun", 2, 1},
  in_join = {"join-2", "grow.made", 1, 1};

struct control {
    const struct place *place;
    const char *name;
    void (*spoil)(kolo_comm *comm);
    enum action action;
    bool litters;
    const char *noticed; /* words of the complaint */
};

static const struct control controls[] = {
    {&in_call, "no defect", nothing, ACTION_KILL, false, NULL},
    {&in_call, "no defect, stopped", nothing, ACTION_STOP, false, NULL},
    {&in_call, "deaths are not looked for", be_blind, ACTION_KILL, false, "got -4 (timeout), not -5"},
    {&in_call, "waits never end", hang, ACTION_KILL, false, "hangs, last at wait."},
    {&in_call, "another rank is blamed", misname, ACTION_KILL, false, "kolo_comm_failure tells of -5"},
    {&in_call, "deaths are noticed late", notice_late, ACTION_KILL, false, "noticed after"},
    {&in_call, "the deadline is not waited for", be_impatient, ACTION_STOP, false, "before the deadline"},
    {&in_call, "a descriptor is left", keep_descriptor, ACTION_KILL, false, "descriptors, "},
    {&in_call, "a mapping is left", keep_mapping, ACTION_KILL, false, "shared mappings, "},
    {&in_call, "a block of memory is left", keep_block, ACTION_KILL, false, "memory blocks, "},
    {&in_call, "a name is left", nothing, ACTION_KILL, true, "is left"},
    {&in_shrink, "no defect", nothing, ACTION_KILL, false, NULL},
    {&in_shrink, "no defect, stopped", nothing, ACTION_STOP, false, NULL},
    {&in_shrink, "deaths are not looked for", see_no_death, ACTION_KILL, false, "shrink 1 took"},
    {&in_shrink, "waits never end", wait_for_ever, ACTION_KILL, false, "hangs, last at job."},
    {&in_shrink, "the deadline is not waited for", wait_briefly, ACTION_STOP, false, "0 shrinks and 0 sums waited"},
    {&in_shrink, "a living rank is left out", drop_last, ACTION_KILL, false, "has no communicator"},
    {&in_shrink, "one stays away", stay_away, ACTION_KILL, false, "rank 0: shrink 1: status -10"},
    {&in_shrink, "the creation has no time", hurry, ACTION_KILL, false, "has no communicator"},
    {&in_shrink, "a descriptor is left", keep_descriptor, ACTION_KILL, false, "descriptors, "},
    {&in_join, "no defect", nothing, ACTION_KILL, false, NULL},
    {&in_join, "no defect, stopped", nothing, ACTION_STOP, false, NULL},
    {&in_join, "deaths are not looked for", be_blind, ACTION_KILL, false, "kolo_comm_grow: status -4"},
    {&in_join, "deaths are noticed late", notice_late, ACTION_KILL, false, "step 2 took"},
    {&in_join, "waits never end", hang, ACTION_KILL, false, "hangs, last at wait."},
    {&in_join, "a descriptor is left", keep_descriptor, ACTION_KILL, false, "descriptors, "},
    {&on_nodes, "no defect", nothing, ACTION_KILL, false, NULL},
    {&on_nodes, "no defect, stopped", nothing, ACTION_STOP, false, NULL},
    {&on_nodes, "deaths are not looked for", be_blind, ACTION_KILL, false, "got -4 (timeout)"},
    {&on_nodes, "waits never end", hang, ACTION_KILL, false, "hangs, last at"},
    {&on_nodes, "another rank is blamed", misname, ACTION_KILL, false, "where rank 3 was struck"},
    {&on_nodes, "the deadline is not waited for", be_impatient, ACTION_STOP, false, "gave up after"},
    {&on_nodes, "a descriptor is left", keep_descriptor, ACTION_KILL, false, "descriptors, "},
    {&on_nodes, "a block of memory is left", keep_block, ACTION_KILL, false, "memory blocks, "},
    {&in_rejoin, "no defect", nothing, ACTION_KILL, false, NULL},
    {&in_rejoin, "a living rank is left out", drop_last, ACTION_KILL, false, "has no communicator"},
    {&in_rejoin, "one stays away", stay_away, ACTION_KILL, false, "rank 0: shrink: status -10"},
    {&in_rejoin, "a descriptor is left", keep_descriptor, ACTION_KILL, false, "descriptors, "},
};

static const struct fault_case *find_case(const char *name) {
    for (int index = 0; index < fault_cases_count; index++)
        if (strcmp(fault_cases[index].name, name) == 0)
            return &fault_cases[index];
    return NULL;
}

static const struct listing *list_case(const struct fault_case *what) {
    static struct listing listing;
    static const struct fault_case *listed;
    if (what != listed)
        run_listing(what, &listing);
    listed = what;
    return &listing;
}

int control_run(void) {
    static struct run run;
    int failures = 0;
    for (size_t i = 0; i < sizeof controls / sizeof *controls; i++) {
        const struct control *control = &controls[i];
        const struct place *place = control->place;
        const struct fault_case *what = find_case(place->case_name);
        const struct trial trial = {
            .what = what,
            .fault = {true, place->rank, board_point(place->point), place->passage, control->action},
            .listing = list_case(what),
            .spoil = control->spoil,
            .deadline_ms = DEADLINE_MS,
            .litters = control->litters};
        bool is_reached = false, is_right = false;
        /* Ranks that the machine holds up miss their point, or deadlines as short as these. */
        for (int tries = 0; tries < (is_reached ? TRIES : TRIES_TO_REACH) && !is_right; tries++) {
            is_reached = run_trial(&trial, &run);
            is_right =
                is_reached && (control->noticed ? strstr(run.complaint, control->noticed) != NULL : !run.complaint[0]);
            if (is_reached && !run.is_late && run.held_ns < HELD_NS)
                break;
        }
        printf("%s: %s: %s: %s\n", is_right ? "right" : "FAILED", what->name, control->name,
               !is_reached         ? "the victim did not come to its point"
               : !run.complaint[0] ? "no complaint"
                                   : run.complaint);
        failures += !is_right;
    }
    printf("%s, %d failures\n", failures ? "FAILED" : "passed", failures);
    return failures ? 1 : 0;
}
