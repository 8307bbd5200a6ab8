/* Runs kolo's protocols under schedules that a seed chooses (sched_engine.h), and shows that faults in them are found
 * (sched_control.h). */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command_line.h"
#include "now.h"
#include "number_option.h"
#include "sched_plan.h"
#include "sched_control.h"
#include "sched_engine.h"

enum { CONTROL_SEEDS = 10000, SECONDS = 20, SECONDS_MAX = 1000000 };

static struct {
    size_t seed;
    size_t seeds; /* 0: as many as fit */
    size_t seconds;
    const sched_case *only;
    const char *control;
    bool controls;
    bool list;
    bool trace;
} options = {.seconds = SECONDS};

static struct { uint64_t runs, steps, switches; } totals;

/* A negative control, and the case that must find it. Not every case can. A slot is rarely claimed before it is free by
 * what the claimer has waited for anyway: in mesh and tree whoever reads from a slot gives back into it, and in ring
 * and oneshot nobody gets that far ahead; the root of a broadcast does. And central's steps leave gaps in which
 * another's may be early. */
static const struct control {
    sched_control control;
    const char *name;
    const char *found_by;
} controls[] = {
    {SCHED_CLAIM_AT_ONCE, "claim-at-once", "swap"},
    {SCHED_CLAIM_AT_ONCE, "claim-at-once", "broadcast"},
    {SCHED_CLAIM_AT_ONCE, "claim-at-once", "mixed"},
    {SCHED_CLAIM_AT_ONCE, "claim-at-once", "ahead"},
    {SCHED_CLAIM_AT_ONCE, "claim-at-once", "pairs"},
    {SCHED_CLAIM_AT_ONCE, "claim-at-once", "rooted"},
    {SCHED_RETIRE_EARLY, "retire-early", "swap"},
    {SCHED_RETIRE_EARLY, "retire-early", "mixed"},
    {SCHED_RETIRE_EARLY, "retire-early", "pairs"},
    {SCHED_RETIRE_EARLY, "retire-early", "family"},
    {SCHED_SUCCESSION_EARLY, "succession-early", "pairs"},
    {SCHED_STEP_WAIT_SKIPPED, "step-wait-skipped", "oneshot"},
    {SCHED_STEP_WAIT_SKIPPED, "step-wait-skipped", "swap"},
    {SCHED_STEP_WAIT_SKIPPED, "step-wait-skipped", "mesh"},
    {SCHED_STEP_WAIT_SKIPPED, "step-wait-skipped", "tree"},
    {SCHED_STEP_WAIT_SKIPPED, "step-wait-skipped", "ring"},
    {SCHED_STEP_WAIT_SKIPPED, "step-wait-skipped", "central"},
    {SCHED_STEP_WAIT_SKIPPED, "step-wait-skipped", "direct"},
    {SCHED_STEP_WAIT_SKIPPED, "step-wait-skipped", "broadcast"},
    {SCHED_STEP_WAIT_SKIPPED, "step-wait-skipped", "rooted"},
    {SCHED_STEP_WAIT_SKIPPED, "step-wait-skipped", "family"},
    {SCHED_LINE_WAIT_SKIPPED, "line-wait-skipped", "lines"},
    {SCHED_LINE_WAIT_SKIPPED, "line-wait-skipped", "tree"},
    {SCHED_STEP_EARLY, "step-early", "oneshot"},
    {SCHED_STEP_EARLY, "step-early", "mesh"},
    {SCHED_STEP_EARLY, "step-early", "tree"},
    {SCHED_STEP_EARLY, "step-early", "ring"},
    {SCHED_STEP_EARLY, "step-early", "direct"},
    {SCHED_STEP_EARLY, "step-early", "family"},
    {SCHED_STEP_RELAXED, "step-relaxed", "mesh"},
    {SCHED_STEP_RELAXED, "step-relaxed", "mixed"},
    {SCHED_LINE_RELAXED, "line-relaxed", "lines"},
    {SCHED_LINES_ONE_SET, "lines-one-set", "lines"},
    {SCHED_PASSES_UNBOUNDED, "passes-unbounded", "passes"},
    {SCHED_TURN_WRONG, "turn-wrong", "swap"},
    {SCHED_SWAPS_GO_ON, "swaps-go-on", "exchanged"},
    {SCHED_NO_MEMBARRIER, "no-membarrier", "sleep"},
    {SCHED_NO_FULL_FENCE, "no-full-fence", "sleep"},
    {SCHED_BELL_UNSEEN, "bell-unseen", "sleep"},
    {SCHED_RINGS_STILL, "rings-still", "sleep"},
    {SCHED_FUTEX_UNCHECKED, "futex-unchecked", "sleep"},
    {SCHED_STAMPS_EQUAL, "stamps-equal", "mismatch"},
    {SCHED_STEP_STAMP_UNSEEN, "step-stamp-unseen", "mismatch"},
    {SCHED_CLAIM_STAMP_UNSEEN, "claim-stamp-unseen", "rivals"},
    {SCHED_CLAIM_STAMP_UNSEEN, "claim-stamp-unseen", "factions"},
    {SCHED_CLAIM_LOOKS_ONCE, "claim-looks-once", "overtaken"},
    {SCHED_KEY_UNSEEN, "key-unseen", "mismatch"},
    {SCHED_KEY_LATE, "key-late", "sleep"},
    {SCHED_DEATH_UNSEEN, "death-unseen", "death"},
    {SCHED_FAILURE_OVERWRITTEN, "failure-overwritten", "abort"},
    {SCHED_FAILURE_UNSEEN, "failure-unseen", "mapped"},
    {SCHED_LEAVING_UNAWAITED, "leaving-unawaited", "mapped"},
    {SCHED_UNSETTLED, "unsettled", "table"},
    {SCHED_REACHED_EARLY, "reached-early", "table"},
    {SCHED_SEQUENCE_ONCE, "sequence-once", "table"},
    {SCHED_PENDING_UNSEEN, "pending-unseen", "table"},
    {SCHED_NO_FULL_FENCE, "no-full-fence", "table"},
    {SCHED_ROOM_UNSEEN, "room-unseen", "table"},
    {SCHED_FILLED_RELAXED, "filled-relaxed", "table"},
    {SCHED_TAKEN_RELAXED, "taken-relaxed", "table"},
    {SCHED_FOLD_UNAWAITED, "fold-unawaited", "clocks"},
    {SCHED_PLACE_UNSEEN, "place-unseen", "heirs"},
    {SCHED_DEATH_UNSEEN, "death-unseen", "heirs"},
};

enum { CONTROLS = sizeof controls / sizeof *controls };

static void print_list(void) {
    const sched_case *next;
    for (uint32_t i = 0; (next = sched_case_at(i)); i++)
        printf("%-10s %s\n", next->name, next->purpose);
    for (size_t i = 0; i < CONTROLS; i++)
        printf("control %-20s found by %s\n", controls[i].name, controls[i].found_by);
}

/* True if one run went well; says so if it did not, unless `quietly`. */
static bool run_once(const sched_case *which, uint64_t seed, bool quietly) {
    char problem[700];
    const bool fine = sched_case_run(which, seed, options.trace, problem, sizeof problem);
    totals.runs++;
    totals.steps += sched_steps();
    totals.switches += sched_switches();
    if (!fine && !quietly)
        printf("FAILED: case %s, seed %" PRIu64 ": %s\n  repeat with: schedules_test --case %s --seed %" PRIu64
               "%s%s --trace\n",
               which->name, seed, problem, which->name, seed, options.control ? " --control " : "",
               options.control ? options.control : "");
    return fine;
}

/* All cases, seed after seed, until time or seeds are used up or one fails. */
static int run_seeds(void) {
    const double end_s = now_s() + (double)options.seconds;
    uint64_t seeds = 0;
    bool fine = true;
    while (fine && (options.seeds ? seeds < options.seeds : now_s() < end_s)) {
        const sched_case *which;
        for (uint32_t i = 0; fine && (which = sched_case_at(i)); i++)
            if (!options.only || options.only == which)
                fine = run_once(which, options.seed + seeds, false);
        seeds++;
    }
    printf("%" PRIu64 " runs with %" PRIu64 " seeds from %" PRIu64 " on: %" PRIu64 " steps, %" PRIu64 " switches: %s\n",
           totals.runs, seeds, options.seed, totals.steps, totals.switches, fine ? "all well" : "FAILED");
    return fine ? 0 : 1;
}

/* True if the fault is found within CONTROL_SEEDS. */
static bool run_control(const struct control *control) {
    const sched_case *which = sched_case_find(control->found_by);
    uint64_t seeds = 0;
    sched_control_now = control->control;
    while (seeds < CONTROL_SEEDS && run_once(which, options.seed + seeds, true))
        seeds++;
    sched_control_now = SCHED_SOUND;
    if (seeds == CONTROL_SEEDS)
        printf("FAILED: %s: case %s found nothing in %d seeds from %" PRIu64 " on\n", control->name, which->name,
               CONTROL_SEEDS, options.seed);
    else
        printf("%-20s found by %-10s with seed %" PRIu64 " of %d\n", control->name, which->name, seeds + 1,
               CONTROL_SEEDS);
    return seeds < CONTROL_SEEDS;
}

static int run_controls(void) {
    bool fine = true;
    printf("seeds from %" PRIu64 " on\n", options.seed);
    for (size_t i = 0; i < CONTROLS; i++)
        fine &= run_control(&controls[i]);
    return fine ? 0 : 1;
}

static const char *read_case(const char *name) {
    options.only = sched_case_find(name);
    return options.only ? NULL : "a case that --list shows";
}

static const char *read_control(const char *name) {
    for (size_t i = 0; i < CONTROLS; i++)
        if (strcmp(controls[i].name, name) == 0)
            sched_control_now = controls[i].control;
    options.control = name;
    return sched_control_now != SCHED_SOUND ? NULL : "a control that --list shows";
}

static const command_option table[] = {
    {"--seconds S", "as many seeds as fit in S seconds (default: 20)", TO_COUNT(options.seconds, 0, SECONDS_MAX)},
    {"--seeds N", "N seeds of each case", TO_COUNT(options.seeds, 0, SIZE_MAX)},
    {"--seed N", "the first seed, or with --case the only one (default: by TEST_SEED)",
     TO_COUNT(options.seed, 0, SIZE_MAX)},
    {"--case NAME", "only this case", TO_FUNCTION(read_case)},
    {"--trace", "print each step", TO_FLAG(options.trace)},
    {"--controls", "instead, put in each fault of the negative controls and expect it to be found",
     TO_FLAG(options.controls)},
    {"--control NAME", "put in this fault", TO_FUNCTION(read_control)},
    {"--list", "list cases and controls", TO_FLAG(options.list)},
};

static command_line line = {
    .program = "schedules_test",
    .before = "Usage: schedules_test [options]\n\n"
              "Runs kolo's protocols with all ranks in one thread, under schedules chosen by seeds.",
    .options = table,
    .options_count = sizeof table / sizeof *table,
    .after = "Exit status: 0 if all went well, 1 if not, 2 for a wrong option.\n\n"
             "Example: schedules_test --case mesh --seed 17 --trace",
};

int main(int argc, char **argv) {
    options.seed = default_seed() % 1000000000 * 1000000;
    setvbuf(stdout, NULL, _IOLBF, 0);
    command_line_read(&line, argc, argv);
    if (options.list) {
        print_list();
        return 0;
    }
    if (options.only && command_line_has(&line, "--seed") && options.seeds == 0)
        options.seeds = 1;
    return options.controls ? run_controls() : run_seeds();
}
