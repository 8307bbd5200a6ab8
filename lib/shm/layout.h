/* Everything that ranks share in memory, and who writes and reads it. It is defined nowhere else.
 *
 * A job has one file: at its start a kolo_job_header and a kolo_job_member for each rank, through which ranks find each
 * other; behind that, one segment for each communicator that was created through it (or elsewhere, see
 * kolo_shared_offer). The file comes from shm_open, and loses its name as soon as all ranks are attached, or
 * it is a memfd that kolorun hands down.
 *
 *     job file   [ job header | job members ][ segment ][ segment ] ...
 *     segment    [ header | members | signals | histories | lines | slots | internode | internode slots ]
 *
 * The internode parts are there only where a job has several nodes. Offsets follow from that, the number of ranks and
 * the size of a slot alone (kolo_layout_compute), so that no rank has to trust an offset that it reads.
 *
 * Words that one rank writes while others read are kolo_atomic_*; all else is written before a release store and read
 * after the acquire that pairs with it, as each struct says. Structs that different ranks write keep KOLO_LINE_BYTES
 * apart: two cache lines, since processors fetch them in pairs. */
#ifndef KOLO_SHM_LAYOUT_H
#define KOLO_SHM_LAYOUT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kolo.h"
#include "base/wire.h"
#include "cpu/topology.h"
#include "shm/memory_file.h"
#include "sync/wait.h"

#define KOLO_LINE_BYTES     128
#define KOLO_PAGE_BYTES     4096
#define KOLO_LAYOUT         15u                          /* changes with every change to this file */
#define KOLO_JOB_MAGIC      UINT64_C(0x6b6f6c6f2d6a6f62) /* "kolo-job" */
#define KOLO_SEGMENT_MAGIC  UINT64_C(0x6b6f6c6f2d736567) /* "kolo-seg" */
#define KOLO_SLOTS          4                            /* of a rank; kolo.h says "four" */
#define KOLO_STAMPS         5                            /* calls whose stamps a rank keeps for others to check */
#define KOLO_HISTORY        64                           /* last calls that a rank shows; a power of two */
#define KOLO_LINES          8                            /* lines of one set */
#define KOLO_LINE_PAYLOAD   56                           /* bytes of a line behind its round */
#define KOLO_SLOT_BYTES_MAX (UINT64_C(1) << 30)
#define KOLO_JOB_NAME_BYTES 128                   /* of a job's name, its NUL included */
#define KOLO_REASON_BYTES   (2 * KOLO_LINE_BYTES) /* likewise of why a creation has failed */
#define KOLO_RANK_WORDS     (KOLO_RANKS_MAX / 64) /* of a set with a bit a rank */
#define KOLO_LANES_MAX      8                     /* of a node to the others */

#define KOLO_ADDRESS_WORDS 3 /* of an address, as machines send it to each other */
#define KOLO_MEETING_WORDS 9 /* of an address as text */

#define KOLO_BANDS       16 /* of message sizes, each with an algorithm and a chunk */
#define KOLO_TREE_LEVELS 4

#define KOLO_ALIGNED _Alignas(KOLO_LINE_BYTES)

/* Which byte of which file a process has locked, see shm/guard.h. */
struct kolo_shared_guard {
    uint64_t device;
    uint64_t inode;
    uint64_t place; /* 0: none */
};

/* A process, as others need it to see whether it lives. */
struct kolo_shared_process {
    uint32_t pid;
    uint32_t guarded;               /* 1: it has locked its byte of this creation, see shm/guard.h */
    uint64_t start;                 /* tells it from a later one with the same pid; 0: not known */
    uint64_t pid_namespace;         /* in which the pid counts, see comm/failure/process.h; 0: not known */
    struct kolo_shared_guard guard; /* that it has from earlier communicators */
};

/* The job file. */

/* Where rank 0 has placed the segment of a creation. */
struct kolo_shared_offer {
    uint64_t offset;
    uint64_t bytes;
    uint64_t slot_bytes;
    uint64_t is_apart; /* 0: in this file; 1: in `file`, which no mount limits */
    uint64_t mapping;  /* address of rank 0's mapping, for ranks that are threads of the same process */
    struct kolo_memory_file file;
};

struct kolo_job_header {
    /* Rank 0 writes these before the file gets its name (or before magic, in an inherited file); constant then. */
    KOLO_ALIGNED kolo_atomic_u64 magic; /* stored last, with release */
    uint32_t version;                   /* of the library, KOLO_VERSION_WORD */
    uint32_t layout;                    /* KOLO_LAYOUT */
    uint32_t ranks;
    struct kolo_shared_process creator; /* its byte is that of rank 0's first creation */

    /* By compare-and-swap from 0: the first rank of another version that came, see comm/creation/outcome.h. */
    KOLO_ALIGNED kolo_atomic_u64 other_version;

    /* Rank 0 writes these before offer, for one creation after another; the others read them after it. */
    KOLO_ALIGNED kolo_atomic_u64 offer; /* for which creation, from 1, the next is */
    struct kolo_shared_offer segment;

    /* By compare-and-swap: rank 0 that one more creation is complete, any rank that one has failed. See
     * comm/creation/outcome.h. */
    KOLO_ALIGNED kolo_atomic_u64 outcome;
    kolo_bell bell; /* of that and of the offer, where all but rank 0 sleep */

    /* Rank 0 of a creation: end of the last segment. */
    KOLO_ALIGNED kolo_atomic_u64 file_end;
    kolo_atomic_u64 arrivals; /* all others, by addition: how often one has attached */
    kolo_bell arrivals_bell;  /* where rank 0 sleeps */
    kolo_atomic_u64 watchdog; /* ranks that wait, by compare-and-swap: see comm/failure/watchdog.h */

    /* Rank 0, where there are several nodes, before an outcome of which it is the culprit too: why, in words. */
    KOLO_ALIGNED char reason[KOLO_REASON_BYTES];
};

/* Written by its rank; epoch last. Read by all. */
struct kolo_job_member {
    KOLO_ALIGNED kolo_atomic_u64 epoch; /* creations that this rank has begun */
    kolo_atomic_u64 attached;           /* creations in which it has mapped and checked the segment */
    struct kolo_shared_process process;
};

/* A segment. */

/* How to handle messages that are larger than the band before this one allows. */
struct kolo_shared_band {
    uint64_t bytes_max;   /* of a message; UINT64_MAX in the last band */
    uint32_t algorithm;   /* kolo_algorithm, never AUTO */
    uint32_t chunk_bytes; /* of a message, in one slot; slots that are smaller limit it */
};

/* How to handle the messages of a collective, by their size. */
struct kolo_shared_table {
    uint64_t stream_bytes_min; /* results of messages from here on are stored past the caches */
    uint32_t bands;            /* at least 1 */
    struct kolo_shared_band band[KOLO_BANDS];
};

/* A collective with several algorithms has a table of its own; all others share the first one. */
enum { KOLO_TABLE_SINGLE, KOLO_TABLE_ALLREDUCE, KOLO_TABLE_REDUCE, KOLO_TABLES };

/* The settings that bind all ranks of a communicator. Rank 0 decides them, see plan/plan.h. */
struct kolo_shared_settings {
    uint32_t algorithm;        /* kolo_algorithm, forced; AUTO: by band */
    uint64_t direct_bytes_min; /* messages from here on may be reduced directly in buffers of kolo_alloc */
    /* Ranks in a group of each level of a tree: powers of two, ascending; 0: no such level, nor any after it. */
    uint32_t tree_sizes[KOLO_TREE_LEVELS];
    struct kolo_shared_table tables[KOLO_TABLES];
};

struct kolo_shared_header {
    /* Rank 0, before the job's offer; constant. The first three keep their places in versions to come: by them an
     * observer (kolo_watch.h) of any version recognises a segment. */
    KOLO_ALIGNED kolo_atomic_u64 magic; /* stored after what follows, with release */
    uint32_t version;
    uint32_t layout;
    uint32_t ranks;
    uint32_t internode; /* 1: the segment has the parts for several nodes */
    uint64_t slot_bytes;
    uint64_t segment_bytes;
    char job[KOLO_JOB_NAME_BYTES]; /* what tools call the job; "": it has no name */
    struct kolo_shared_settings settings;
    uint32_t guards_anew; /* 1: the locks of this creation become guards, see shm/guard.h */

    /* Any rank, by compare-and-swap from 0, once: see comm/failure/failure.h. All look at it when a wait gets long. */
    KOLO_ALIGNED kolo_atomic_u64 failure;

    /* Ranks that wait, by compare-and-swap: which of them checks whether others live, see comm/failure/watchdog.h. */
    KOLO_ALIGNED kolo_atomic_u64 watchdog;

    /* Upper half: ranks that have not left; the last one gives the memory back. Lower half: ranks that use rank 0's
     * mapping, rank 0 included; the last one removes it. One word, so that leaving touches it once. */
    KOLO_ALIGNED kolo_atomic_u64 occupancy;

    /* Any rank in kolo_comm_shrink, by compare-and-swap, once a generation: see comm/creation/agreement.h. */
    KOLO_ALIGNED kolo_atomic_u64 shrink_decision; /* whose view counts */
    kolo_atomic_u64 shrink_outcome;               /* why no communicator has come of it */
};

/* What the leader of a generation of kolo_comm_shrink offers: an empty file for the ranks of this node and, with
 * several nodes, which of all ranks go on and where they meet. */
struct kolo_shrink_offer {
    struct kolo_memory_file file;
    uint64_t left[KOLO_RANK_WORDS];                      /* a bit for each rank, of all nodes, that goes on */
    char meeting[KOLO_MEETING_WORDS * sizeof(uint64_t)]; /* where they meet, as text; of one node: "" */
};

/* What a rank proposes in one generation of kolo_comm_shrink, see comm/creation/agreement.h. */
struct kolo_shared_proposal {
    KOLO_ALIGNED kolo_atomic_u64 view[KOLO_RANK_WORDS]; /* a bit for each rank that goes on */
    KOLO_ALIGNED kolo_atomic_u64 offered;               /* the generation of what follows; stored last */
    kolo_atomic_u64 offer[sizeof(struct kolo_shrink_offer) / sizeof(uint64_t)]; /* the leader's, word by word */
};

enum { KOLO_MEMBER_PRESENT = 1, KOLO_MEMBER_DEPARTED = 2, KOLO_MEMBER_DEAD = 3 };

/* Who a rank is. Its owner writes it before kolo_job_member.attached, and `state`, the failure fields and those of
 * kolo_comm_shrink later. Of a rank that is dead, another one sets `state`, see kolo_segment_mark_dead. */
struct kolo_shared_member {
    KOLO_ALIGNED struct kolo_shared_process process;
    uint32_t membarrier; /* 1: registered, see sync/fence.h */
    kolo_cpu_set cpus;   /* its affinity at creation */

    KOLO_ALIGNED kolo_atomic_u64 state; /* KOLO_MEMBER_* */
    uint64_t failure_call;              /* before the header's failure, if this rank is the reporter */
    int64_t failure_code;
    uint64_t failure_peer_calls; /* collectives that the rank at fault had begun by then */
    kolo_atomic_u64 looked_ns;   /* when it last looked whether others live, see comm/failure/watchdog.h */
    kolo_atomic_u64 processor;   /* on which it last waited, plus one; 0: not known. See comm/step/oversubscription.h */

    KOLO_ALIGNED kolo_atomic_u64 shrink_arrived;     /* the last generation of kolo_comm_shrink to which it came */
    struct kolo_shared_proposal shrink_proposals[2]; /* [generation % 2] */
};

/* How far a rank has got. Its rank writes it; all read it. */
struct kolo_shared_signal {
    /* The line that peers look at in every call but the smallest. stamps[c % KOLO_STAMPS] tells what the calls up to c
     * are and is written before the first progress of that call. */
    KOLO_ALIGNED kolo_atomic_u64 progress; /* steps completed, see comm/step/progress.h */
    kolo_atomic_u64 stamps[KOLO_STAMPS];
    kolo_atomic_u64
        places[2]; /* of `send` and `recv` in buffers of kolo_alloc, see algo/direct_buffers.h; before progress */

    /* The line that peers look at only when a wait gets long, and others from outside. */
    KOLO_ALIGNED kolo_bell bell;
    kolo_atomic_u64 calls; /* collectives begun; written after the history's word */
    kolo_atomic_u64 ended; /* and of those, ended, by an error too */
    kolo_atomic_u64
        waiting; /* for which rank beyond spinning, and since when: see comm/step/history.h; 0: for nobody */
    kolo_atomic_u64 payload_bytes, sent_bytes, received_bytes; /* as kolo_stats, of the calls that have ended */
};

/* When a call was and what it waited for. The stores are releases, `number` is the last. */
struct kolo_shared_record {
    kolo_atomic_u64 number; /* of the call; 0: none */
    kolo_atomic_u64 began_ns;
    kolo_atomic_u64 ended_ns; /* counts once signal.ended has come to `number` */
    kolo_atomic_u64 longest;  /* its longest wait beyond spinning: for which rank, how long; 0: none */
};

/* A rank's last calls, see comm/step/history.h. Its rank writes it. Ranks read it when they report a failure, and
 * observers do. */
struct kolo_shared_history {
    /* [c % (2 * KOLO_HISTORY)]: what call c is, see comm/failure/failure.h. Twice as many as are shown: the word of a
     * call is written before its number, and must not overwrite one that may still be read. */
    KOLO_ALIGNED kolo_atomic_u64 words[2 * KOLO_HISTORY];
    KOLO_ALIGNED struct kolo_shared_record records[KOLO_HISTORY]; /* [c % KOLO_HISTORY], of calls that took long */
    KOLO_ALIGNED kolo_atomic_u64 waited_ns;                       /* as in kolo_stats */
};

/* A cache line that carries its own sequence number, see algo/lines.h. Its owner writes it; all read it. */
struct kolo_shared_line {
    _Alignas(64) kolo_atomic_u64 round; /* written after the payload */
    uint8_t payload[KOLO_LINE_PAYLOAD];
};

/* Two alternating sets of lines of one rank. */
struct kolo_shared_lines {
    KOLO_ALIGNED struct kolo_shared_line sets[2][KOLO_LINES];
};

/* Where the ranks of a node work together with one proxy of their leader, see internode/proxy.h. That proxy writes
 * it. */
struct kolo_shared_lane {
    KOLO_ALIGNED kolo_atomic_u64 done; /* exchanges, over all calls: those with smaller numbers on this lane are over */
    kolo_bell bell;
    kolo_atomic_u64 late; /* the node from which the first unfinished exchange lacks data, plus one; 0: none */
    kolo_atomic_u64 lost; /* 1: the connections to some node have ended */

    /* Of the exchanges so far; before `done`. */
    KOLO_ALIGNED kolo_atomic_u64 sent_bytes;
    kolo_atomic_u64 received_bytes;
    kolo_atomic_u64 system_calls;
};

#define KOLO_REPORT_BYTES 64

struct kolo_shared_internode {
    struct kolo_shared_lane lanes[KOLO_LANES_MAX];

    /* Before the header's failure, where that was found by a proxy or on another node: kolo_failure_pack. Written by
     * whoever has swapped `reporting` from 0. */
    KOLO_ALIGNED kolo_atomic_u64 reporting;
    uint8_t report[KOLO_REPORT_BYTES];

    /* By node: the listener that its leader keeps, as kolo_address_pack writes it, see
     * internode/assembly/shrink_nodes.h. The leader writes them before the communicator is complete; constant then. */
    KOLO_ALIGNED uint8_t listeners[KOLO_RANKS_MAX][8 * KOLO_ADDRESS_WORDS];
};

static_assert(sizeof(struct kolo_job_header) == 5 * KOLO_LINE_BYTES + KOLO_REASON_BYTES, "one line a writer");
static_assert(offsetof(struct kolo_job_header, creator) == 24, "whether it lives is found by any version");
static_assert(offsetof(struct kolo_job_header, other_version) == 128,
              "any version finds where to say that it has come");
static_assert(sizeof(struct kolo_job_member) == KOLO_LINE_BYTES, "one line a rank");
static_assert(sizeof(struct kolo_shared_header) % KOLO_LINE_BYTES == 0, "whole lines");
static_assert(offsetof(struct kolo_shared_header, failure) % KOLO_LINE_BYTES == 0, "failure has its own line");
static_assert(offsetof(struct kolo_shared_member, state) == 2 * KOLO_LINE_BYTES, "state has its own line");
static_assert(KOLO_RANKS_MAX % 64 == 0, "whole words");
static_assert(sizeof(struct kolo_shared_signal) == 2 * KOLO_LINE_BYTES, "two lines a rank");
static_assert(offsetof(struct kolo_shared_signal, places) + 8 * 2 <= 64, "progress and stamps in one line");
static_assert(offsetof(struct kolo_shared_signal, received_bytes) + 8 <= KOLO_LINE_BYTES + 64, "the rest in one line");
static_assert(KOLO_HISTORY > KOLO_SLOTS + 1 && KOLO_STAMPS > KOLO_SLOTS, "no rank is further ahead of another");
static_assert(offsetof(struct kolo_shared_header, layout) == 12, "magic, version and layout are found by any version");
static_assert(sizeof(struct kolo_shared_line) == 64, "a cache line");

static inline size_t kolo_whole_pages(size_t bytes) {
    return (bytes + KOLO_PAGE_BYTES - 1) / KOLO_PAGE_BYTES * KOLO_PAGE_BYTES;
}

/* Where the parts of a segment begin, in bytes from its start. */
struct kolo_layout {
    size_t members;
    size_t signals;
    size_t histories;
    size_t lines;
    size_t slots;     /* slot i of rank r is at slots + (r * KOLO_SLOTS + i) * slot_bytes */
    size_t internode; /* 0: there is none; behind it, at internode_slots, 2 * KOLO_SLOTS of slot_bytes */
    size_t internode_slots;
    size_t bytes; /* of all, whole pages */
};

/* slot_bytes: a multiple of KOLO_PAGE_BYTES, at most KOLO_SLOT_BYTES_MAX. */
struct kolo_layout kolo_layout_compute(uint32_t ranks, size_t slot_bytes, bool internode);

/* Whether a segment with these properties, which others claim, can be in a file of so many bytes. */
struct kolo_segment_claim {
    uint64_t ranks, slot_bytes, internode, segment_bytes, offset, file_bytes;
};
bool kolo_layout_is_legal(const struct kolo_segment_claim *claim);

/* Bytes of the job file before the first segment, whole pages. */
size_t kolo_layout_job_bytes(uint32_t ranks);

#endif
