/* One prediction: a communicator of the real library on the modelled machine, and the real kolo_allreduce on it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kolo.h"
#include "sim_machine.h"
#include "team.h"

/* Whether the bytes are there, to be read and written: flags and lines are real memory; slots and buffers are addresses
 * that fault when used, but for the first bytes of each buffer, which small messages need. */
bool sim_team_is_real(const void *address, size_t bytes);

/* What is asked. */
typedef struct sim_case {
    const sim_machine *machine;
    uint32_t ranks; /* 2 to the machine's cores */
    uint32_t lanes; /* of each rank, a thread in each: no more than its part of the cores; 0: as sim_places_set says */
    kolo_algorithm algorithm;
    kolo_dtype dtype;
    size_t count;
    bool in_place;
    size_t slot_bytes; /* 0: the library's default */
    bool check;        /* the protocol, too: sim_check.h */
    uint64_t noise_seed;
    uint64_t skipped_wait; /* which of the waits that have to wait does not, from 1; 0: all do */
} sim_case;

typedef struct sim_outcome {
    double time_us; /* of one call, the slowest rank's; buffers warm */
    kolo_algorithm algorithm;
    size_t chunks; /* 0: in lines */
    bool extrapolated;
    uint64_t events;
    char problem[512]; /* why there is no time; "" if there is one */
} sim_outcome;

/* 0, or -1 with outcome->problem. */
int sim_run(const sim_case *asked, sim_outcome *outcome);

/* For what stands in for the library's lower layers: what is asked, the bytes of each call's message, and the running
 * thread's call, from 1. */
const sim_case *sim_run_asked(void);
size_t sim_run_bytes(void);
uint64_t sim_run_call(void);

/* Of an element of the accumulation type. */
size_t sim_acc_bytes(kolo_dtype dtype);

/* True if the running thread's wait, which would have to wait, is the one to be skipped. */
bool sim_run_skips_wait(void);

/* The running thread's call has failed, or asked for what cannot be done: the prediction fails, with the first of
 * these.
 */
void sim_run_fail(const char *function, const char *what);
