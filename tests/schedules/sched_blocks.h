/* What each rank sends and receives in a call: its blocks, the call's key, and the result. */
#pragma once

#include "api/arguments.h"
#include "collective_shapes.h"
#include "sched_engine.h"
#include "sched_plan.h"

/* Blocks, one behind the other; of a buffer without blocks there is one. */
typedef struct sched_layout {
    size_t counts[SCHED_RANKS_MAX], offsets[SCHED_RANKS_MAX];
    size_t count; /* elements of all */
    size_t own;   /* elements before this rank's block; 0 if there are none */
} sched_layout;

/* What `rank` sends, or receives: nothing if the root alone does. */
sched_layout sched_lay_out(const sched_call *call, uint32_t rank, uint32_t ranks, bool sends);

/* The largest count of a call that fits SCHED_BUFFER_BYTES on each rank. */
size_t sched_count_max(kolo_collective collective, kolo_dtype dtype, uint32_t ranks);

/* As the library tells it. */
struct kolo_call_key sched_key_of(const sched_call *call, uint32_t ranks);

/* Writes what each rank must hold after the call, whose inputs are there. */
void sched_expect(const sched_call *call, uint32_t ranks, uint8_t inputs[][SCHED_BUFFER_BYTES],
                  uint8_t results[][SCHED_BUFFER_BYTES]);

/* Makes it. */
int sched_make_call(kolo_comm *comm, const sched_call *call, void *send, void *recv);
