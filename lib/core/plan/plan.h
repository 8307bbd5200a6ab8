/* The plan of a call: its algorithm and its pieces. It is a pure function of the question and of what rank 0 decided
 * when the communicator was made, so that every rank gets the same answer. */
#pragma once

#include "kolo.h"
#include "reduce/reducer.h"
#include "shm/layout.h"

struct kolo_message; /* see algo/algo.h */

/* The contents of a buffer, in elements: `count`; a block of `count` for each rank; or blocks of any length. */
enum shape { WHOLE, BLOCKS, COUNTED };

/* How the data gets from machine to machine (internode/hierarchy/hierarchy.h). NO_WAY: no data, only a name. */
enum kolo_way { KOLO_NO_WAY, KOLO_WAY_REDUCE, KOLO_WAY_SPREAD, KOLO_WAY_MOVE, KOLO_WAY_SCAN, KOLO_WAY_APPLY };

/* Runs a call. */
typedef int kolo_run_fn(kolo_comm *comm, const struct kolo_message *message);

/* Runs a call whose message fits this rank's lines. For KOLO_ALLREDUCE_MANY `send` is the list of tensors. */
typedef int kolo_lines_fn(kolo_comm *comm, const void *send, void *recv, size_t count, const kolo_kernel *kernel,
                          uint32_t root);

/* A collective's row in the registry (algo/registry.h): its name, what its buffers have, what the plan has to know, its
 * functions, and the way that its data takes between machines. */
struct kolo_descriptor {
    const char *function; /* that blocks; its name behind kolo_ is the name of the collective */
    kolo_collective collective;

    bool has_op;   /* it reduces */
    bool has_root; /* a rank that all name */
    enum shape send, recv;
    bool send_at_root, recv_at_root; /* that only the root has */
    bool applies;                    /* a function to the ranges of the message that ranks own */
    bool is_unequal;                 /* the counts of blocks are known to their sender and receiver alone */
    bool has_tensors;                /* a list of them is in place of both buffers */
    bool leaves_own_out;             /* a rank's result is without its own input */
    enum kolo_way way;

    /* With more than one algorithm in slots: its table in struct kolo_shared_settings, and those that a profile may
     * choose, a bit each. All of these give the same bits. */
    uint32_t table, choices;
    kolo_lines_fn *lines;                     /* messages that fit lines; NULL: none go there */
    kolo_run_fn *algorithms[KOLO_ALGORITHMS]; /* in slots: what the plan chooses from; the only one is at ONESHOT */
    kolo_run_fn *direct;                      /* tried first where others' buffers may be reached; NULL: none */
};

/* Returns a collective's row. */
const struct kolo_descriptor *kolo_descriptor_of(kolo_collective collective);

/* The question. */
struct kolo_question {
    const struct kolo_descriptor *descriptor;
    size_t count; /* elements of the message, or of its longest block, as the call gives them */
    uint32_t ranks;
    const kolo_kernel *kernel; /* one that keeps order goes by MESH in place of RING; one that is whole, also of TREE */
    uint32_t lanes; /* `count` is one lane's slice, of so many lanes; 0: it is the whole, and may go through lines */
    size_t packed_bytes_max; /* larger lists of tensors go by MESH */
};

/* The bytes of a region's head, its first cache line, where blocks have counts that only two ranks know. */
#define KOLO_REGION_HEAD_BYTES 64

struct kolo_answer {
    kolo_algorithm algorithm; /* never AUTO */
    bool lines;               /* ONESHOT or TREE in cache lines that carry their own sequence number */
    size_t chunk_count;       /* elements of the message, or of each block, that one ticket covers; at least 1 */
    size_t chunks;            /* of the message or of the longest block; at least 1 unless lines */
    uint32_t blocks;          /* blocks in one ticket, each with a region of a slot; 1: the slot is not divided */
    uint32_t head_bytes;      /* of each region, for its block's count; or 0 */
    bool stream;              /* `recv` is stored past the caches */
    bool leaves_own_out;      /* as in the descriptor */
    bool takes;               /* all ranks that read one slot take its lines over */
    bool reads;               /* ranks read out of each other's memory if they can; if not, the fields above hold */
};

/* The message bytes, all blocks of a rank together, that fit lines, and the first line alone, behind its stamp. */
static inline size_t kolo_lines_bytes_max(uint32_t ranks) {
    return kolo_lines_most(ranks) * (size_t)KOLO_LINE_PAYLOAD - sizeof(uint64_t);
}
#define KOLO_LINES_BYTES_MAX ((size_t)KOLO_LINES * KOLO_LINE_PAYLOAD - sizeof(uint64_t)) /* between two ranks */
#define KOLO_LINE_BYTES_MAX  (KOLO_LINE_PAYLOAD - sizeof(uint64_t))

void kolo_plan_make(const struct kolo_question *question, const struct kolo_shared_settings *settings,
                    size_t slot_bytes, struct kolo_answer *answer);

/* Returns false if kolo_plan_make cannot work with `settings`, which rank 0 wrote into the segment. */
bool kolo_plan_settings_valid(const struct kolo_shared_settings *settings);

/* Fills bytes_end for each collective: messages of fewer bytes, over all blocks that a rank sends, go through lines. */
void kolo_plan_lines(const struct kolo_shared_settings *settings, uint32_t ranks, size_t bytes_end[KOLO_COLLECTIVES]);

/* Returns the number of elements of slice `rank` of `ranks` of a chunk; *first is the first of them. All slices but the
 * last ones are equal. Slices begin on a KOLO_LINE_BYTES boundary of the chunk if element_bytes divides that. */
size_t kolo_plan_slice(size_t chunk_count, uint32_t element_bytes, uint32_t ranks, uint32_t rank, size_t *first);

/* The longest of them. */
static inline size_t kolo_plan_longest(size_t chunk_count, uint32_t element_bytes, uint32_t ranks) {
    size_t first;
    return kolo_plan_slice(chunk_count, element_bytes, ranks, 0, &first);
}
