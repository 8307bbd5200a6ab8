/* The collectives that are measured: a row each, with what a rank sends and receives, how much of that has to cross
 * between ranks, and how the call is made. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "kolo.h"

/* What a buffer holds. A message of blocks has one for each rank; its size is that of all of them together. */
typedef enum perf_shape { PERF_NONE, PERF_WHOLE, PERF_BLOCKS, PERF_BLOCK /* this rank's, of a message */ } perf_shape;

typedef struct perf_side {
    perf_shape shape;
    bool at_root; /* the root alone has this buffer */
} perf_side;

/* Which inputs a result is made of. */
typedef enum perf_origin {
    PERF_OF_ROOT,
    PERF_OF_EACH, /* a block from each rank */
    PERF_OF_ALL,  /* reduced, here and below */
    PERF_OF_PREFIX,
    PERF_OF_EARLIER /* those before this rank; the first has no result */
} perf_origin;

/* The arguments of one rank's call. */
typedef struct perf_call {
    kolo_comm *comm;
    void *send;
    void *recv;
    size_t count;         /* of the message, or of this rank's block */
    const size_t *counts; /* of each block */
    kolo_dtype dtype;
    kolo_op op;
    int root;
} perf_call;

enum { PERF_OUT = 1, PERF_IN = 2 }; /* send and recv are two buffers, or one */

typedef struct perf_collective {
    kolo_collective kolo; /* which knows its name, and whether it has an op and a root */
    const char *meaning;  /* in a line of --help */
    perf_side send;
    perf_side recv;
    perf_origin origin;
    bool unequal;    /* blocks may differ in length, so that a message may be any number of elements */
    unsigned places; /* PERF_OUT, PERF_IN */
    double factor;   /* busbw / algbw; where a rank's own block need not cross, times (n-1)/n for n ranks */
    bool keeps_own;
    int (*call)(const perf_call *call);
} perf_collective;

/* In the order in which `kolo-perf all` measures them. NULL past the last. */
const perf_collective *perf_collective_at(unsigned index);
unsigned perf_collectives_count(void);
const char *perf_collective_name(const perf_collective *collective);

/* NULL: no such collective is measured. */
const perf_collective *perf_collective_find(kolo_collective kolo);

/* Issues the call in the background. */
int perf_collective_start(const perf_collective *collective, const perf_call *call, kolo_request **request);

/* Bytes of these buffers of all ranks together. */
double perf_side_bytes(perf_side side, double message_bytes, int ranks);

/* Whether a job that wants it so has one buffer for both. */
bool perf_collective_in_place(const perf_collective *collective, bool wanted);

/* What a call has to do on the core that has to do most, where the ranks lie evenly on the cores. */
typedef struct perf_traffic {
    double read_bytes;     /* of inputs, for the results of its ranks */
    double written_bytes;  /* its ranks' results; each is written by its own rank */
    double crossing_bytes; /* of those that are read, those that come from other cores */
    double input_bytes;    /* a core's part of all that there is to read */
    bool both_ways;        /* every rank needs to know something of every other, so that none can be a call ahead */
    bool reduces;
} perf_traffic;

/* Nothing of it but `both_ways` is known where there is no data. */
perf_traffic perf_collective_traffic(const perf_collective *collective, int ranks, int cores, double bytes,
                                     bool in_place);

bool perf_collective_has_data(const perf_collective *collective);
bool perf_collective_has_blocks(const perf_collective *collective);
bool perf_collective_has_algorithms(const perf_collective *collective); /* more than one */

/* In place, its result takes the place of an input that it needs. */
bool perf_collective_spends_input(const perf_collective *collective);

/* A message is a whole multiple of so many bytes; 0: it has no data. */
size_t perf_collective_unit_bytes(const perf_collective *collective, int ranks, kolo_dtype dtype);

/* By what algbw is multiplied, so that busbw compares between numbers of ranks. */
double perf_collective_bus_factor(const perf_collective *collective, int ranks);

/* A message as a list of tensors: so many, as equal as they can be, one behind the other. */

enum { PERF_TENSORS_MAX = 1000000 };

/* How many tensors a message has. */
extern int perf_tensors_count;

/* Those of the calling thread's message, until it asks for those of another one. NULL: out of memory. */
const kolo_tensor *perf_tensors_of(const perf_call *call);

/* Before the calling thread ends. */
void perf_tensors_free(void);
