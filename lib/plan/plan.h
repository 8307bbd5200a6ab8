/* Which algorithm a call uses and in what pieces: a pure function of what is asked and of what rank 0 decided when the
 * communicator was made, so that every rank gets the same answer. plan.c has a row for each collective that has more
 * than one algorithm. */
#ifndef KOLO_PLAN_PLAN_H
#define KOLO_PLAN_PLAN_H

#include "kolo.h"
#include "shm/layout.h"

/* What is asked. */
struct kolo_question {
    kolo_collective collective;
    size_t count; /* elements of the message, or of its longest block, as the call gives them */
    uint32_t ranks;
    uint32_t element_bytes;
    uint32_t acc_bytes; /* of one element of the accumulation type; unused where nothing is reduced */
    bool keeps_order;   /* of the ranks, where it reduces: RING does not, and MESH takes its place */
    bool is_whole;  /* needs all inputs at once, where it reduces: RING and TREE do not, and MESH takes their place */
    uint32_t lanes; /* `count` is the slice of one of so many; 0: it is the whole, and may go through lines */
    size_t packed_bytes_max; /* of KOLO_ALLREDUCE_MANY: what is more goes by MESH */
};

/* A region's first cache line, where blocks have counts that only two ranks know. */
#define KOLO_REGION_HEAD_BYTES 64

struct kolo_answer {
    kolo_algorithm algorithm; /* never AUTO */
    bool lines;               /* ONESHOT or TREE in cache lines that carry their own sequence number */
    size_t chunk_count;       /* elements of the message, or of each block, that one ticket covers; at least 1 */
    size_t chunks;            /* of the message or of the longest block; at least 1 unless lines */
    uint32_t blocks;          /* that have a region of a slot each, in one ticket; 1: the slot is not divided */
    uint32_t head_bytes;      /* of each region, for its block's count; or 0 */
    bool stream;              /* `recv` is stored past the caches */
    bool reads;               /* ranks read out of each other's memory if they can, else as the above says */
};

/* Message bytes that fit one set of lines, and the first line alone, behind its stamp. */
#define KOLO_LINES_BYTES_MAX ((size_t)KOLO_LINES * KOLO_LINE_PAYLOAD - sizeof(uint64_t))
#define KOLO_LINE_BYTES_MAX  (KOLO_LINE_PAYLOAD - sizeof(uint64_t))

void kolo_plan_make(const struct kolo_question *question, const struct kolo_shared_settings *settings,
                    size_t slot_bytes, struct kolo_answer *answer);

/* False if kolo_plan_make cannot work with `settings`, which rank 0 wrote into the segment. */
bool kolo_plan_settings_valid(const struct kolo_shared_settings *settings);

/* For each collective: messages of fewer bytes than this, those of all blocks that a rank sends, go through lines,
 * whatever the dtype; 0: none do. */
void kolo_plan_lines(const struct kolo_shared_settings *settings, size_t bytes_end[KOLO_COLLECTIVES]);

/* Which of the settings' tables is for a collective: KOLO_TABLE_SINGLE if it has one algorithm only. */
uint32_t kolo_plan_table(kolo_collective collective);

/* Whether rank 0 may choose `algorithm` for a collective where nobody forces one: those give the same bits. */
bool kolo_plan_may_choose(kolo_collective collective, kolo_algorithm algorithm);

/* Elements of slice `rank` of `ranks` of a chunk: *first and the number returned. All slices but the last ones are
 * equal. They begin on a KOLO_LINE_BYTES boundary of the chunk if element_bytes divides that. */
size_t kolo_plan_slice(size_t chunk_count, uint32_t element_bytes, uint32_t ranks, uint32_t rank, size_t *first);

#endif
