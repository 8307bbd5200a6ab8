#include "fault_control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "comm/comm.h"
#include "comm/failure.h"
#include "fault_run.h"

enum { SOON_NS = 60000000, LATE_NS = 250000000, DEADLINE_MS = 400 };

/* Defects: what a survivor's waits do instead of kolo_failure_check, or what it leaves behind. */

static int check_nothing(kolo_waiter *waiter, const struct kolo_wait *wait) {
    return wait->waited_ns < waiter->timeout_ns ? 0 : KOLO_ERR_TIMEOUT;
}

static int check_for_ever(kolo_waiter *waiter, const struct kolo_wait *wait) {
    (void)waiter, (void)wait;
    return 0;
}

static int blame_another(kolo_waiter *waiter, const struct kolo_wait *wait) {
    kolo_comm *comm = waiter->owner;
    if (wait->waited_ns < SOON_NS)
        return 0;
    return kolo_failure_publish(comm, KOLO_ERR_PEER_DEAD, (wait->peer + 1) % comm->size, 0);
}

static int check_late(kolo_waiter *waiter, const struct kolo_wait *wait) {
    return wait->waited_ns < LATE_NS ? 0 : kolo_failure_check(waiter, wait);
}

static int give_up_early(kolo_waiter *waiter, const struct kolo_wait *wait) {
    if (wait->waited_ns < SOON_NS)
        return 0;
    return kolo_failure_publish(waiter->owner, KOLO_ERR_TIMEOUT, wait->peer, 0);
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
    if (mmap(NULL, 4096, PROT_READ, MAP_SHARED, comm->segment.fd, (off_t)comm->segment.offset) == MAP_FAILED)
        perror("mmap");
}

static void keep_block(kolo_comm *comm) {
    comm->peer_steps = realloc(NULL, comm->size * sizeof *comm->peer_steps);
}

static void nothing(kolo_comm *comm) {
    (void)comm;
}

struct control {
    const char *name;
    void (*spoil)(kolo_comm *comm);
    enum action action;
    bool litters;
    const char *noticed; /* words of the complaint */
};

static const struct control controls[] = {
    {"no defect", nothing, ACTION_KILL, false, NULL},
    {"no defect, stopped", nothing, ACTION_STOP, false, NULL},
    {"deaths are not looked for", be_blind, ACTION_KILL, false, "got -4 (timeout), not -5"},
    {"waits never end", hang, ACTION_KILL, false, "hangs, last at wait."},
    {"another rank is blamed", misname, ACTION_KILL, false, "kolo_comm_failure tells of -5"},
    {"deaths are noticed late", notice_late, ACTION_KILL, false, "noticed after"},
    {"the deadline is not waited for", be_impatient, ACTION_STOP, false, "before the deadline"},
    {"a descriptor is left", keep_descriptor, ACTION_KILL, false, "descriptors, "},
    {"a mapping is left", keep_mapping, ACTION_KILL, false, "shared mappings, "},
    {"a block of memory is left", keep_block, ACTION_KILL, false, "memory blocks, "},
    {"a name is left", nothing, ACTION_KILL, true, "is left"},
};

static const struct fault_case *find_case(const char *name) {
    for (int index = 0; index < fault_cases_count; index++)
        if (strcmp(fault_cases[index].name, name) == 0)
            return &fault_cases[index];
    return NULL;
}

int control_run(void) {
    static struct listing listing;
    static struct run run;
    const struct fault_case *what = find_case("lines-2");
    int failures = 0;
    for (int rank = 0; rank < what->ranks; rank++)
        run_listing(what, rank, &listing);
    for (size_t i = 0; i < sizeof controls / sizeof *controls; i++) {
        const struct control *control = &controls[i];
        const struct trial trial = {.what = what,
                                    .fault = {true, 1, board_point("lines.writing"), 2, control->action},
                                    .listing = &listing,
                                    .spoil = control->spoil,
                                    .deadline_ms = DEADLINE_MS,
                                    .litters = control->litters};
        const bool is_reached = run_trial(&trial, &run);
        const bool is_right = control->noticed ? strstr(run.complaint, control->noticed) != NULL : !run.complaint[0];
        printf("%s: %s: %s\n", is_reached && is_right ? "right" : "FAILED", control->name,
               !is_reached         ? "the victim did not come to its point"
               : !run.complaint[0] ? "no complaint"
                                   : run.complaint);
        failures += !is_reached || !is_right;
    }
    printf("%s, %d failures\n", failures ? "FAILED" : "passed", failures);
    return failures ? 1 : 0;
}
