/* The plan of a call: its algorithm and its pieces. It is a pure function of the question and of what rank 0 decided
 * when the communicator was made, so that every rank gets the same answer. The
 * traits of each collective come from its row in the registry (algo/registry.h). */
#ifndef KOLO_PLAN_PLAN_H
#define KOLO_PLAN_PLAN_H

#include "kolo.h"
#include "shm/layout.h"

/* What the plan has to know of a collective. */
struct kolo_traits {
    uint32_t table;    /* which of the settings' `tables`; KOLO_TABLE_SINGLE: it has one algorithm only, in slots */
    uint32_t choices;  /* a bit for each that rank 0 may choose where nobody forces one: all give the same bits */
    bool has_lines;    /* ONESHOT can go through lines */
    bool sends_blocks; /* a rank sends a block to each other */
    bool has_heads;    /* a block comes with its count */
    bool is_list;      /* a list of tensors */
};

/* The registry, which is above the plan, has them. */
struct kolo_traits kolo_traits_of(kolo_collective collective);

/* Whether an algorithm can be forced on a collective. Never DIRECT, which is for buffers of kolo_alloc: calls with
 * other buffers then go by band. */
bool kolo_traits_force(kolo_collective collective, kolo_algorithm algorithm);

/* The question. */
struct kolo_question {
    kolo_collective collective;
    size_t count; /* elements of the message, or of its longest block, as the call gives them */
    uint32_t ranks;
    uint32_t element_bytes;
    uint32_t acc_bytes; /* bytes of one element of the accumulation type; unused where nothing is reduced */
    bool keeps_order;   /* a reduction that keeps the order of ranks: RING does not, and MESH takes its place */
    bool is_whole;      /* a reduction that needs all inputs at once: MESH takes the place of RING and TREE */
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
    bool reads;               /* ranks read out of each other's memory if they can; if not, the fields above hold */
};

/* The message bytes that fit one set of lines, and the first line alone, behind its stamp. */
#define KOLO_LINES_BYTES_MAX ((size_t)KOLO_LINES * KOLO_LINE_PAYLOAD - sizeof(uint64_t))
#define KOLO_LINE_BYTES_MAX  (KOLO_LINE_PAYLOAD - sizeof(uint64_t))

void kolo_plan_make(const struct kolo_question *question, const struct kolo_shared_settings *settings,
                    size_t slot_bytes, struct kolo_answer *answer);

/* Returns false if kolo_plan_make cannot work with `settings`, which rank 0 wrote into the segment. */
bool kolo_plan_settings_valid(const struct kolo_shared_settings *settings);

/* Fills bytes_end for each collective: messages of fewer bytes, counted over all blocks that a rank sends, go through
 * lines, whatever the dtype; 0: none do. */
void kolo_plan_lines(const struct kolo_shared_settings *settings, size_t bytes_end[KOLO_COLLECTIVES]);

/* Returns the number of elements of slice `rank` of `ranks` of a chunk; *first is the first of them. All slices but the
 * last ones are equal. Slices begin on a KOLO_LINE_BYTES boundary of the chunk if element_bytes divides that. */
size_t kolo_plan_slice(size_t chunk_count, uint32_t element_bytes, uint32_t ranks, uint32_t rank, size_t *first);

#endif
