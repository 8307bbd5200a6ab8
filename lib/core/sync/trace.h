/* Writing this process's trace, whose file kolo_trace.h describes.
 *
 * Who writes what. The file is mapped. Its header's counters are shared by the threads of the process, by addition. A
 * block belongs to one thread from the time when the thread takes it until the thread takes the next, or ends; which
 * thread has which block is in memory of the process alone. The thread writes an event, then the block's count of
 * events (release). So whoever reads the file later, also after the process was killed, finds complete events only. A
 * thread that takes a block sets its number to 0 first, and to the new one when the block is empty.
 *
 * The file has all of its blocks from the beginning: a full disk is found before the trace begins, and no store into
 * the mapping can fail. A forked child has no mapping, and a trace of its own once it makes a communicator.
 *
 * Cost. Off, each place costs one load. On, an event costs a look at the processor's counter, and 32 bytes that go to
 * the caches. Each thread notes the clock beside the counter at least every 2^28 ticks, so that readers know the
 * rate. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kolo_trace.h"
#include "sync/atomic.h"

/* What is kept of calls beyond what is always kept. */
enum {
    KOLO_TRACE_WRITES = 1, /* the process writes a trace */
    KOLO_TRACE_TIMES = 2   /* the history has the times of every call: KOLO_DUMP is set */
};
extern kolo_atomic_u32 kolo_trace_mode __attribute__((visibility("hidden")));

/* Whether anything is. */
static inline bool kolo_watches_calls(void) {
    return __builtin_expect(atomic_load_explicit(&kolo_trace_mode, memory_order_acquire) != 0, 0);
}

static inline bool kolo_trace_has(unsigned mode) {
    return atomic_load_explicit(&kolo_trace_mode, memory_order_acquire) & mode; /* pairs with kolo_trace_start */
}

static inline bool kolo_traces(void) {
    return __builtin_expect(kolo_trace_has(KOLO_TRACE_WRITES), 0);
}

/* What the header says of the process. */
struct kolo_trace_process {
    int32_t rank, ranks, local_rank;
    const char *job;
};

/* Reads KOLO_TRACE and KOLO_DUMP, once in a process, and begins the trace. One that cannot be written is a warning.
 * KOLO_ERR_ARG: KOLO_TRACE_BYTES is wrong. */
int kolo_trace_start(const struct kolo_trace_process *process);

/* Says on how many machines the process's first communicator runs, and on which this process. */
void kolo_trace_set_node(int32_t node, int32_t nodes);

/* Whether the process writes a trace, and its next communicator is the first. */
bool kolo_trace_is_first(void);

/* Says how far node 0's clock is from this machine's: writes KOLO_TRACE_OFFSET. Call it only if kolo_traces(). */
void kolo_trace_offset(int64_t offset_ns, uint64_t error_ns);

/* Describes a communicator, also while the trace pauses. Sets its id and time, and returns the id; 0 without a trace.
 */
uint16_t kolo_trace_add_comm(const struct kolo_trace_comm *comm);

/* Says what the calling thread, one of the library's, is for. */
void kolo_trace_name_thread(kolo_trace_thread thread);

/* The processor's counter, or the clock, as event times have it. */
uint64_t kolo_trace_ticks(void);

/* Everything of an event but its time and its two numbers. */
static inline uint64_t kolo_trace_head(kolo_trace_kind kind, unsigned detail, unsigned dtype, unsigned op,
                                       unsigned comm, int rank) {
    return (uint64_t)kind | (uint64_t)(uint8_t)detail << 8 | (uint64_t)(uint8_t)dtype << 16 |
           (uint64_t)(uint8_t)op << 24 | (uint64_t)(uint16_t)comm << 32 | (uint64_t)(uint16_t)rank << 48;
}

/* Writes an event, or one that begins or ends a range or a span. Call them only if kolo_traces(). */
void kolo_trace_write(uint64_t head, uint64_t a, uint64_t b);
void kolo_trace_open(uint64_t head, uint64_t a, uint64_t b);
void kolo_trace_close(uint64_t head);

/* A call. One that is over before it has waited for a microsecond, without a plan, becomes one event: KOLO_TRACE_CALL.
 * What such a call pays for the trace is paid while it waits, or is a few stores. Otherwise its begin is written as
 * soon as it has a plan, or has waited for so long. */
struct kolo_trace_call {
    uint64_t head, a, b; /* of the begin, while that is not written; head 0: it is */
    uint64_t time;       /* when the call began to wait; 0: it has not */
    uint32_t algorithm;  /* kolo_algorithm, by the plan */
};

static inline void kolo_trace_call_begin(struct kolo_trace_call *call, uint64_t head, uint64_t a, uint64_t b) {
    *call = (struct kolo_trace_call){.head = head, .a = a, .b = b};
}

void kolo_trace_call_waits(struct kolo_trace_call *call);
void kolo_trace_call_show(struct kolo_trace_call *call);
void kolo_trace_call_end(struct kolo_trace_call *call, uint64_t head, uint64_t number);

/* Begins and ends a span. */
static inline void kolo_trace_span_begin(kolo_trace_span span, unsigned comm, int rank, uint64_t a, uint64_t b) {
    if (kolo_traces())
        kolo_trace_open(kolo_trace_head(KOLO_TRACE_SPAN_BEGIN, span, 0, 0, comm, rank), a, b);
}

static inline void kolo_trace_span_end(kolo_trace_span span, int status) {
    if (kolo_traces())
        kolo_trace_close(kolo_trace_head(KOLO_TRACE_SPAN_END, span, 0, status < 0 ? (unsigned)-status : 0, 0, 0));
}
