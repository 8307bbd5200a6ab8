/* The message of one row, as one rank has it: its buffers, the arguments of the call, the inputs, and whether the
 * result is right. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perf_buffers.h"
#include "perf_collectives.h"
#include "perf_options.h"
#include "perf_values.h"

/* Values of one rank (perf_values.h). Verified calls and timed ones use different seeds, so that a result which a call
 * did not write is not taken for one that it did. */
enum { PERF_SEED_VERIFIED, PERF_SEED_TIMED, PERF_SEEDS };

typedef struct perf_tables {
    char input[PERF_SEEDS][PERF_VALUES_BYTES_MAX];
    char expected[PERF_SEEDS][PERF_VALUES_BYTES_MAX]; /* unless each block comes from another rank */
    char neutral[PERF_VALUES_BYTES_MAX];
    char other[PERF_VALUES_BYTES_MAX]; /* of another rank's block */
} perf_tables;

typedef struct perf_message {
    /* Set by the program. */
    const perf_collective *collective;
    const perf_options *options; /* dtype, op, root, check, alloc, buffers */
    const char *program;         /* as its complaints begin */
    /* Its own. */
    perf_call call;
    int rank;
    int ranks;
    size_t count; /* elements of the message */
    size_t send_count;
    size_t recv_count;
    size_t own_at; /* where this rank's block begins in the message */
    bool in_place; /* the row is */
    bool shared;   /* this rank's two buffers are one; a root's may be, and the others' not */
    perf_buffer send_buffer;
    perf_buffer recv_buffer;
    size_t *counts; /* of each block */
    perf_tables *tables;
} perf_message;

/* Allocates what messages of up to `bytes` bytes need; where all are in place, no more. Returns 0, or -1 for want of
 * memory; perf_message_free either way. */
int perf_message_prepare(perf_message *message, kolo_comm *comm, size_t bytes, bool always_in_place);
void perf_message_free(perf_message *message);

/* Begins a row. */
void perf_message_begin(perf_message *message, size_t bytes, bool in_place);

/* Each timed call works on the last one's result: in place, without rewriting the buffer. Its result is then not
 * predictable. */
bool perf_message_feeds_on_results(const perf_message *message);

/* Writes the inputs of timed calls. */
void perf_message_fill(const perf_message *message);

/* Brings the buffers into the state that the options ask for before a timed sample. */
void perf_message_prepare_sample(const perf_message *message);

/* Before a verified call: fresh inputs (PERF_SEED_VERIFIED), a result buffer that holds something else, guard bytes. */
void perf_message_begin_check(const perf_message *message);

/* Compares the buffers, as the last call left them, with that seed's values: every element of the result, of `send`
 * where it must not change, and the guard bytes. Returns how many are wrong on this rank, and says on stderr where the
 * first one is. */
uint64_t perf_message_check(const perf_message *message, int seed);
