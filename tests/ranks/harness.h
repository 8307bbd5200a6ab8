/* What the rank tests share: a function run as the ranks of a team, either as forked processes or as threads of this
 * one process, and its failures collected with all that is needed to repeat them.
 *
 * A program is harness_begin, any number of harness_run, harness_end. Ranks check with expect() and return when it says
 * false. A watchdog ends a program that hangs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "kolo.h"
#include "splitmix64.h"

enum { HARNESS_SKIPPED = 77, HARNESS_RANKS_MAX = 256, HARNESS_RESULTS_MAX = 8192 };

/* What the program was asked to do. */
struct harness_arguments {
    int ranks;        /* 0: all rank counts that the test goes through */
    int algorithm;    /* a kolo_algorithm; -1: all */
    uint64_t seed;    /* of all that is random */
    bool seeded;      /* the seed was asked for; else it is default_seed() */
    uint32_t calls;   /* of a random program; 0: as many as it has */
    bool threads;     /* ranks are threads, not processes */
    bool quick;       /* a fraction of the cases */
    char repeat[128]; /* the program's name and the arguments above that do not depend on the team */
};

extern struct harness_arguments arguments;

struct rank;

/* A team to run. */
struct team {
    int ranks;
    kolo_algorithm algorithm;
    size_t slot_bytes;   /* 0: default */
    int64_t timeout_ms;  /* 0: long enough for any machine */
    bool by_descriptor;  /* the ranks meet through an inherited memfd, not by name */
    bool empties_file;   /* next to nothing may be left in that at the end */
    bool creates_itself; /* `run` begins without a communicator */
    int victim;          /* 1 + the rank that may end in any way; 0: none */
    uint64_t victims;    /* a bit for each of several that may */
    bool loses; /* calls may fail as where ranks are late, leave, die or abort: expect_status says false then */
    void (*run)(struct rank *rank);
    const void *argument;                                          /* for run */
    void (*meanwhile)(const struct team *team, const pid_t *pids); /* in the parent of processes; may be NULL */
};

/* One rank of it. */
struct rank {
    int rank;
    int ranks;
    const struct team *team;
    kolo_options options; /* to create the team's communicator with */
    kolo_comm *comm;      /* NULL if the team creates itself */
};

/* Reads and prints the arguments, starts the watchdog. Exits with 2 where they cannot be read, with 0 after --help. */
void harness_begin(int argc, char **argv, const char *purpose);

/* In a test whose ranks disagree. There two of them may copy into one place of a slot: of which nobody reads, or whose
 * readers fail (algo/phases.h, algo/regions.h). The thread sanitizer is not to tell of that. */
#define HARNESS_RANKS_DISAGREE                                                                                         \
    const char *__tsan_default_suppressions(void);                                                                     \
    const char *__tsan_default_suppressions(void) {                                                                    \
        return "race:kolo_copy";                                                                                       \
    }

/* Changes the seed, for all teams to come. */
void harness_seed(uint64_t seed);

/* Returns main's exit status, after a look for what was left in /dev/shm. */
int harness_end(void);

/* Exits with HARNESS_SKIPPED after saying why. */
void harness_skip(const char *why);

/* Runs a team to its end; again, where all that went wrong is that something was late: see expect_prompt. */
void harness_run(const struct team *team);

/* What rank 0 of the team that runs has to create its communicator with; for `meanwhile`. */
const kolo_options *team_options(void);

/* Milliseconds within which something must have happened that takes `ms` at most: more where all is slow. */
int64_t patience_ms(int64_t ms);

/* Returns `holds`; if false, reports the failure. rank NULL: outside a team. */
bool expect(const struct rank *rank, bool holds, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Expects that what took so long took patience_ms(ms) at most, not counting what the machine took from the team since
 * event_set (held_time.h); `what` happened. What else makes one late now and then, such as a machine below this one,
 * cannot be seen from here: the team is run again, and fails where it is late three times. */
bool expect_prompt(const struct rank *rank, int64_t took_ns, int64_t ms, const char *what);

/* Expects status `wanted`; `what` was called. */
bool expect_status(const struct rank *rank, int status, int wanted, const char *what);

static inline kolo_comm_info info_of(const kolo_comm *comm) {
    kolo_comm_info info = {.info_bytes = sizeof info};
    kolo_comm_query(comm, &info);
    return info;
}

/* Expects that a call returned `wanted`, KOLO_ERR_TIMEOUT because of rank `culprit`. In a team with a deadline of its
 * own, a short one, it may have passed for another rank, which a busy machine kept from coming: that is late as above.
 */
bool expect_timely(const struct rank *rank, const kolo_comm *comm, int status, int wanted, int culprit,
                   const char *what);

/* Expects every one of the words in kolo_error_message(). A NULL ends them. */
bool expect_message(const struct rank *rank, const char *what, ...) __attribute__((sentinel));

/* The call that returned `status` was refused as a wrong argument, with these words. */
void refused(const struct rank *rank, int status, const char *words);

/* The message says that `name` has that value on rank `odd`, and another one elsewhere. */
bool expect_difference(const struct rank *rank, const char *name, const char *value, int odd, const char *elsewhere);

/* Puts down a result of this rank; when the team has ended, result `index` must be the same on all ranks. */
void record_result(const struct rank *rank, uint32_t index, uint64_t result);

/* Rank 0's result `index` of the team that ran last. */
uint64_t recorded_result(uint32_t index);

/* A time that all ranks and the parent see, for "how long after the event"; 0 before it is set. It is taken last. */
void event_set(void);
int64_t event_ns(void);

/* A counter that all ranks of a team see; 0 at the team's start. Returns the value after adding. */
uint64_t counter_add(uint64_t addend);

int64_t now_ns(void);

/* How long this thread has waited for a processor so far; 0 where the kernel does not say. */
int64_t held_ns(void);
void sleep_ms(int64_t ms);

/* How many descriptors this process has open, and a few more, always as many. */
int open_descriptors(void);
void close_descriptors(void); /* but standard input, output and error */

/* Bytes that this process has on its heap; 0 where the C library does not tell. */
size_t heap_bytes(void);

/* A job name that no other test uses, and the path of the file that a user's job has while it is being created; each in
 * a static buffer. */
const char *fresh_job(void);
const char *job_path(const char *job, uid_t user);

/* Options for one rank of `ranks` that meet under a name or, where fd is not -1, through an inherited descriptor. */
kolo_options options_for(int rank, int ranks, const char *job, int fd);

/* The seed of one part of a test. */
uint64_t random_seed(uint64_t part, uint64_t index);

/* Whether rank count or algorithm were asked for, or all are. */
bool wants_ranks(int ranks);
bool wants_algorithm(kolo_algorithm algorithm);
