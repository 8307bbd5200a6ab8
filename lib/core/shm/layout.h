/* The shared memory: everything that ranks share, and who writes and reads it. Nothing of it is defined elsewhere.
 *
 * A job has one file: at its start a kolo_job_header and a kolo_job_member for each rank, through which ranks find each
 * other; behind that, one segment for each communicator that was created through it (or elsewhere, see
 * kolo_shared_offer). The file loses its name as soon as all ranks are attached, or is a memfd that kolorun hands down.
 *
 *     job file   [ job header | job members ][ segment ][ segment ] ...
 *     segment    [ header | members | signals | histories | lines | mailboxes | slots ]
 *                [ internode | internode slots ][ rings | streams ]
 *
 * The internode parts exist only where a job has several nodes. Each pair of ranks has a place for a ring and each rank
 * one for a stream, but a place has no memory until a rank sends there. Offsets follow only from the size of a slot and
 * the numbers of ranks, here and on all nodes (kolo_layout_compute): no rank has to trust an offset.
 *
 * Words that one rank writes while others read are kolo_atomic_*. Everything else is written before a release store and
 * read after the acquire that pairs with it, as each struct says; "before x" in a comment means that the field is
 * written before the release store of x. Structs that different ranks write keep KOLO_LINE_BYTES apart: two cache
 * lines, since processors fetch them in pairs. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kolo.h"
#include "base/wire.h"
#include "cpu/levels.h"
#include "sync/wait.h"

#define KOLO_LINE_BYTES      128
#define KOLO_PAGE_BYTES      4096
#define KOLO_HUGE_PAGE_BYTES ((size_t)2 << 20)
#define KOLO_POPULATE_WRITE  23                           /* MADV_POPULATE_WRITE, which older headers lack */
#define KOLO_LAYOUT          28u                          /* changes with every change to this file */
#define KOLO_JOB_MAGIC       UINT64_C(0x6b6f6c6f2d6a6f62) /* "kolo-job" */
#define KOLO_SEGMENT_MAGIC   UINT64_C(0x6b6f6c6f2d736567) /* "kolo-seg" */
#define KOLO_SLOTS           4                            /* of a rank; kolo_comm.h says "four" */
#define KOLO_SLOT_PARTS      4                            /* of a slot, for small calls with a root */
#define KOLO_PART_BYTES_MAX  16960                        /* no power of two: parts are in other sets of a cache */
#define KOLO_PARTS           (KOLO_SLOTS * KOLO_SLOT_PARTS)
#define KOLO_STAMPS          (KOLO_PARTS + 1) /* calls with steps whose stamps a rank keeps for others */
#define KOLO_STAMPS_NEAR     5                /* of them, beside its progress */
#define KOLO_HISTORY         64               /* last calls that a rank shows; a power of two */
#define KOLO_PASSES          46               /* in succession, see algo/lines.h */
#define KOLO_PASS_LINES      62               /* of those */
#define KOLO_LINES           12               /* of a round */
#define KOLO_LINE_PAYLOAD    56               /* bytes of a line behind its round */
#define KOLO_SLOT_BYTES_MAX  (UINT64_C(1) << 30)
#define KOLO_JOB_NAME_BYTES  128                   /* of a job's name, its NUL included */
#define KOLO_REASON_BYTES    (2 * KOLO_LINE_BYTES) /* likewise of why a creation has failed */
#define KOLO_RANK_WORDS      (KOLO_RANKS_MAX / 64) /* of a set with a bit a rank */
#define KOLO_LANES_MAX       8                     /* of a node to the others */

#define KOLO_CELLS        15    /* of a ring: messages between two ranks that wait for nobody; see kolo_messages.h */
#define KOLO_CELL_PAYLOAD 480   /* bytes of a message in a cell; see kolo_messages.h */
#define KOLO_CHUNKS       4     /* of a stream */
#define KOLO_CHUNK_BYTES  32768 /* of a message that does not fit a cell */

#define KOLO_ADDRESS_WORDS 3 /* of an address, as machines send it to each other */
#define KOLO_MEETING_WORDS 9 /* of an address as text */

#define KOLO_SHOWN_WORDS  32 /* of a level in kolo_shared_difference */
#define KOLO_SHOWN_LEVELS 4

#define KOLO_BANDS 16 /* of message sizes, each with an algorithm and a chunk */

#define KOLO_ALIGNED _Alignas(KOLO_LINE_BYTES)

/* The byte that a process has locked, and the file, see shm/guard.h. */
struct kolo_shared_guard {
    uint64_t device;
    uint64_t inode;
    uint64_t place; /* 0: none */
};

/* A process, with all that others need to see whether it lives. */
struct kolo_shared_process {
    uint32_t pid;
    uint32_t guarded;               /* 1: it has locked its byte of this creation, see shm/guard.h */
    uint64_t start;                 /* start time: tells the process from a later one with the same pid; 0: not known */
    uint64_t pid_namespace;         /* the namespace of the pid, see comm/failure/process.h; 0: not known */
    struct kolo_shared_guard guard; /* the one that it has from earlier communicators */
};

/* The job file. */

/* The name of a nameless file (shm/memory_file.h): where it is open, and which file it is. It consists of words. */
struct kolo_memory_file {
    uint64_t pid; /* of the thread that has the file open: a process whose first thread has ended shows no files */
    uint64_t fd, device, inode;
};

/* The place that rank 0 has given to the segment of a creation. */
struct kolo_shared_offer {
    uint64_t offset;
    uint64_t bytes;
    uint64_t slot_bytes;
    uint64_t is_apart; /* 0: in this file; 1: in `file`, which no mount limits */
    uint64_t mapping;  /* address of rank 0's mapping, for ranks that are threads of the same process */
    struct kolo_memory_file file;
};

struct kolo_job_header {
    /* Rank 0 writes these before the file gets its name (or before magic, in an inherited file), for good. */
    KOLO_ALIGNED kolo_atomic_u64 magic; /* stored last, with release */
    uint32_t version;                   /* of the library, KOLO_VERSION_WORD */
    uint32_t layout;                    /* KOLO_LAYOUT */
    uint32_t ranks;
    struct kolo_shared_process creator; /* its guard is the byte of rank 0's first creation */

    /* Written by compare-and-swap from 0: the first rank of another version that came, see comm/creation/outcome.h. */
    KOLO_ALIGNED kolo_atomic_u64 other_version;

    /* Rank 0 writes `segment` before `offer`, for one creation after another; the others read it after `offer`. */
    KOLO_ALIGNED kolo_atomic_u64 offer; /* the creation, from 1, to which `segment` belongs */
    struct kolo_shared_offer segment;

    /* By compare-and-swap: rank 0 says that one more creation is complete, any rank that one has failed: outcome.h. */
    KOLO_ALIGNED kolo_atomic_u64 outcome;
    kolo_bell bell; /* of `outcome` and `offer`: all ranks but rank 0 sleep here */

    /* Written by rank 0 of a creation: the end of the last segment. */
    KOLO_ALIGNED kolo_atomic_u64 file_end;
    kolo_atomic_u64 arrivals; /* all other ranks, by addition: how often a rank has attached */
    kolo_bell arrivals_bell;  /* rank 0 sleeps here */
    kolo_atomic_u64 watchdog; /* a lease, by compare-and-swap of ranks that wait: see comm/failure/watchdog.h */

    /* Where there are several nodes, rank 0 writes the reason, in words, before an outcome that names it both as
     * reporter and as the rank at fault. */
    KOLO_ALIGNED char reason[KOLO_REASON_BYTES];
};

/* One rank of the job. That rank writes it, `epoch` last; all read it. */
struct kolo_job_member {
    KOLO_ALIGNED kolo_atomic_u64 epoch; /* creations that this rank has begun */
    kolo_atomic_u64 attached;           /* creations in which it has mapped and checked the segment */
    struct kolo_shared_process process;
};

/* A segment. */

/* A band of message sizes: all that are larger than the band before this one allows. */
struct kolo_shared_band {
    uint64_t bytes_max;   /* of a message; UINT64_MAX in the last band */
    uint32_t algorithm;   /* kolo_algorithm, never AUTO */
    uint32_t chunk_bytes; /* of a message, in one slot; slots that are smaller limit it */
};

/* The bands of a collective. */
struct kolo_shared_table {
    uint64_t stream_bytes_min; /* results of messages from here on are stored past the caches */
    uint64_t split_bytes_max;  /* up to here messages with a root are cut into smaller chunks; 0: none are */
    uint32_t bands;            /* at least 1 */
    struct kolo_shared_band band[KOLO_BANDS];
};

/* A collective with several algorithms has bands of its own; all others share those of KOLO_TABLE_SINGLE. */
enum { KOLO_TABLE_SINGLE, KOLO_TABLE_ALLREDUCE, KOLO_TABLE_REDUCE, KOLO_TABLE_SCAN, KOLO_TABLES };

/* Sizes from bytes_min to bytes_max; none if bytes_max is 0. */
struct kolo_shared_range {
    uint64_t bytes_min, bytes_max;
};

/* The settings that bind all ranks of a communicator. Rank 0 decides them, see plan/plan.h. */
struct kolo_shared_settings {
    uint32_t algorithm;         /* kolo_algorithm, forced; AUTO: by band */
    uint32_t threads;           /* lanes of each rank, see api/lanes/lanes.h; 0 or 1: one */
    uint64_t direct_bytes_min;  /* messages from here on may be reduced directly in buffers of kolo_alloc */
    uint64_t single_copy_bytes; /* these two for groups of the ranks: rank 0's KOLO_SINGLE_COPY */
    bool tree_sizes_given;      /* by rank 0's KOLO_ALGO */
    uint64_t take_bytes_min; /* results of so many bytes: all that read one slot take its lines over, see kolo_take */
    /* The ranks in a group of each level of a tree: powers of two, ascending; 0: no such level, nor any after it. */
    uint32_t tree_sizes[KOLO_LEVELS_MAX];
    struct kolo_shared_table tables[KOLO_TABLES];
    struct kolo_shared_range reads[KOLO_COLLECTIVES]; /* blocks that ranks read out of each other's memory */
};

struct kolo_shared_header {
    /* Rank 0 writes these before the job's `offer`. They never change afterwards. The first three keep their places in
     * all later versions: by them an observer (kolo_watch.h) of any version recognises a segment. */
    KOLO_ALIGNED kolo_atomic_u64 magic; /* stored after what follows, with release */
    uint32_t version;
    uint32_t layout;
    uint32_t ranks;
    uint32_t internode; /* ranks of all nodes; 0: there is one node, and the segment lacks the parts for several */
    uint64_t slot_bytes;
    uint64_t segment_bytes;
    uint64_t identity;             /* of the communicator: see kolo_trace_comm */
    char job[KOLO_JOB_NAME_BYTES]; /* what tools call the job; "": it has no name */
    struct kolo_shared_settings settings;
    uint32_t guards_anew; /* 1: the locks of this creation become guards, see shm/guard.h */
    uint32_t lacks_slots; /* 1: each rank gives memory to its slots when it uses them first */

    /* Written once, by compare-and-swap from 0: see comm/failure/failure.h. All ranks look at it in long waits. */
    KOLO_ALIGNED kolo_atomic_u64 failure;

    /* Set to 1 by any rank that could not read another rank's memory, see algo/direct_buffers.h. */
    kolo_atomic_u64 reads_refused;

    /* A lease, which ranks that wait take by compare-and-swap: see comm/failure/watchdog.h. */
    KOLO_ALIGNED kolo_atomic_u64 watchdog;

    /* Upper half: ranks that have not left; the last one gives the memory back. Lower half: ranks that use rank 0's
     * mapping, rank 0 included; the last one removes it. A rank that leaves changes both in one step. */
    KOLO_ALIGNED kolo_atomic_u64 occupancy;

    /* Once a generation, by any rank, by compare-and-swap: see comm/creation/agreement.h. */
    KOLO_ALIGNED kolo_atomic_u64 shrink_decision; /* the rank whose view counts */
    kolo_atomic_u64 shrink_outcome;               /* the reason why the generation has made no communicator */
};

/* The leader's offer in a generation of kolo_comm_shrink: an empty file for the ranks of this node and, with several
 * nodes, the ranks that go on and the place where they meet. */
struct kolo_shrink_offer {
    struct kolo_memory_file file;
    uint64_t left[KOLO_RANK_WORDS];                      /* a bit for each rank, of all nodes, that goes on */
    char meeting[KOLO_MEETING_WORDS * sizeof(uint64_t)]; /* where the ranks meet, as text; with one node: "" */
};

/* A rank's proposal in one generation of kolo_comm_shrink, see comm/creation/agreement.h. */
struct kolo_shared_proposal {
    KOLO_ALIGNED kolo_atomic_u64 view[KOLO_RANK_WORDS]; /* a bit for each rank that goes on */
    KOLO_ALIGNED kolo_atomic_u64 offered;               /* the generation of `offer`; stored last */
    kolo_atomic_u64 offer[sizeof(struct kolo_shrink_offer) / sizeof(uint64_t)]; /* the leader's, word by word */
};

/* The key of a call, see comm/step/call_key.h; the first word 0: there is none. */
struct kolo_packed_key {
    uint64_t words[3];
};

/* The items that a rank has passed in a mismatched call, see comm/failure/findings.h. That rank writes them. */
struct kolo_shared_difference {
    KOLO_ALIGNED kolo_atomic_u64 levels; /* levels that the rank has shown; stored after their words */
    kolo_bell bell;                      /* of `levels` */
    uint64_t kind;                       /* kolo_items_kind */
    uint64_t words[KOLO_SHOWN_LEVELS][KOLO_SHOWN_WORDS];
};

enum { KOLO_MEMBER_PRESENT = 1, KOLO_MEMBER_DEPARTED = 2, KOLO_MEMBER_DEAD = 3 };

/* A rank of the communicator. The rank itself writes this before kolo_job_member.attached; `state`, the failure fields
 * and those of kolo_comm_shrink later. Another rank sets the `state` of a dead one (kolo_segment_mark_dead). */
struct kolo_shared_member {
    KOLO_ALIGNED struct kolo_shared_process process;
    uint32_t membarrier; /* 1: registered, see sync/fence.h */
    kolo_cpu_set cpus;   /* its affinity at creation */

    KOLO_ALIGNED kolo_atomic_u64 state; /* KOLO_MEMBER_* */
    /* The reporter of a failure writes its own fields before the header's `failure`. With several lanes, all of this is
     * in the segment of the first. */
    uint64_t failure_call;
    uint64_t failure_lane; /* the lane that found the failure, and whose calls are counted */
    int64_t failure_code;
    uint64_t failure_peer_calls;            /* collectives that the rank at fault had begun by then */
    struct kolo_packed_key failure_keys[2]; /* call failure_call, of the reporter and of the rank at fault; or none */
    struct kolo_packed_key failure_pair[2]; /* the send or receive of the reporter, and the one that it did not match */
    kolo_atomic_u64 looked_ns; /* time of its last look at whether others live, see comm/failure/watchdog.h */
    kolo_atomic_u64 processor; /* its last in a wait, plus one; 0: not known. See comm/step/progress.h */

    struct kolo_shared_difference difference;

    KOLO_ALIGNED kolo_atomic_u64 shrink_arrived;     /* the last generation of kolo_comm_shrink in which it arrived */
    struct kolo_shared_proposal shrink_proposals[2]; /* [generation % 2] */
};

/* A rank's progress. That rank writes it; all read it. */
struct kolo_shared_signal {
    /* Peers look at this line in every call but the smallest. stamps[s % KOLO_STAMPS_NEAR] tells what the calls up to
     * that of schedule s are; it is written before the first progress of schedule s. */
    KOLO_ALIGNED kolo_atomic_u64 progress; /* steps completed, see comm/step/progress.h */
    kolo_atomic_u64 stamps[KOLO_STAMPS_NEAR];
    kolo_atomic_u64 places[2]; /* of `send` and `recv`, see algo/direct_buffers.h; before `progress` */

    /* Peers look at this line only when a wait gets long. Observers look at it from outside. */
    KOLO_ALIGNED kolo_bell bell;
    kolo_atomic_u64 calls;   /* collectives begun; written after the history's key */
    kolo_atomic_u64 ended;   /* those of them that have ended, also by an error */
    kolo_atomic_u64 waiting; /* the rank that it waits for, and since when: see comm/step/history.h; 0: none */
    kolo_atomic_u64 payload_bytes, sent_bytes, received_bytes; /* as kolo_stats, of the calls that have ended */

    /* Peers look here where this rank is ahead of them: [s % KOLO_STAMPS], the same for more schedules. */
    KOLO_ALIGNED kolo_atomic_u64 all_stamps[KOLO_STAMPS];
};

/* The times of a call, and its longest wait. All stores are releases; `number` is the last one. */
struct kolo_shared_record {
    kolo_atomic_u64 number; /* of the call; 0: none */
    kolo_atomic_u64 began_ns;
    kolo_atomic_u64 ended_ns; /* valid once signal.ended has reached `number` */
    kolo_atomic_u64 longest;  /* its longest wait beyond spinning: for which rank, how long; 0: none */
};

/* A rank's calls of one collective that have ended. */
struct kolo_shared_total {
    kolo_atomic_u64 calls, payload_bytes;
};

/* A rank's last calls, see comm/step/history.h. Its rank writes it; ranks that report failures and observers read. */
struct kolo_shared_history {
    /* [c % (2 * KOLO_HISTORY)]: what call c is, see comm/failure/failure.h. There are twice as many keys as are shown:
     * the key of a call is written before its number, and must not overwrite a key that may still be read. */
    KOLO_ALIGNED kolo_atomic_u64 keys[2 * KOLO_HISTORY][3];
    KOLO_ALIGNED struct kolo_shared_record records[KOLO_HISTORY]; /* [c % KOLO_HISTORY], of calls that took long */
    KOLO_ALIGNED kolo_atomic_u64 waited_ns;                       /* as in kolo_stats */
    kolo_atomic_u64 spun_ns;                                      /* as in kolo_waiter */
    struct kolo_shared_total totals[KOLO_COLLECTIVES];
};

/* A cache line that carries its own sequence number, see algo/lines.h. Its owner writes it; all read it. */
struct kolo_shared_line {
    _Alignas(64) kolo_atomic_u64 round; /* written after the payload */
    uint8_t payload[KOLO_LINE_PAYLOAD];
};

/* Returns how many lines a message may have. From 448 to 640 bytes between two ranks (Zen 5) lines took 0.62 to 0.77 of
 * the time of slots near, but for allgather, and 0.8 to 1.1 far, but for all-to-all. With more ranks, where each reads
 * more lines than it needs, that became 0.4 to 1.3. */
static inline uint32_t kolo_lines_most(uint32_t ranks) {
    return ranks == 2 ? KOLO_LINES : 8;
}

/* Room for the payload of those. */
static inline size_t kolo_unpacked_bytes(uint32_t ranks) {
    return kolo_lines_most(ranks) * sizeof(struct kolo_shared_line);
}

/* The lines of one rank: two sets for rounds, then those for passes. Their size is not a multiple of 4096 bytes: a core
 * mistakes a load for one of what it has just stored if both have the same place in their pages. */
struct kolo_shared_lines {
    KOLO_ALIGNED struct kolo_shared_line lines[2 * KOLO_LINES + KOLO_PASS_LINES];
};

/* The rest is for sends and receives between two ranks, see comm/channels/transfer.h. */

/* A rank's mailbox: what other ranks have to tell it. */
struct kolo_shared_mailbox {
    KOLO_ALIGNED kolo_atomic_u64 senders[KOLO_RANK_WORDS]; /* a bit for each rank whose ring to this one has memory; it
                                                              adds its bit once, before its first message */
    KOLO_ALIGNED kolo_atomic_u64 listens; /* set once by its rank, to 1: `events` counts from then on */
    KOLO_ALIGNED kolo_atomic_u64 events;  /* any rank adds, after it has published something for this one */
    kolo_bell bell;                       /* of `events`: its rank sleeps here */

    /* A bit for each rank of other nodes. rings: this rank's ring to that one has memory; this rank sets the bits.
     * news: this rank has published something for that one; this rank sets the bits, and the relay takes them. */
    KOLO_ALIGNED kolo_atomic_u64 rings[KOLO_RANK_WORDS];
    KOLO_ALIGNED kolo_atomic_u64 news[KOLO_RANK_WORDS];
};

/* A cell of a ring: one message. The sender writes it, `sequence` last; the receiver reads it. */
struct kolo_shared_cell {
    _Alignas(64) kolo_atomic_u64 sequence; /* number of the message among those of its pair, from 1 */
    int32_t tag;
    uint32_t dtype;
    uint64_t count;
    uint64_t chunks_before; /* of a large message: its place in the sender's stream; UINT64_MAX: none yet */
    uint8_t payload[KOLO_CELL_PAYLOAD];
};

/* The messages from one rank to another: number m is in cell m % KOLO_CELLS. */
struct kolo_shared_ring {
    /* Written by the receiver. */
    KOLO_ALIGNED kolo_atomic_u64 taken; /* messages that it is done with */
    kolo_atomic_u64 asked;              /* how many messages it has asked for */
    uint64_t asked_number;              /* the number of the last of them; before `asked` */

    /* Written by the sender. */
    KOLO_ALIGNED kolo_atomic_u64 served; /* how many of those asked for it sends, or has sent, through its stream */
    uint64_t served_chunks_before;       /* where the last of them begins there; before `served` */
    uint64_t served_bytes;               /* and how long it is, for the relay */

    _Alignas(512) struct kolo_shared_cell cells[KOLO_CELLS];
};

/* A rank's stream, through which it sends messages that do not fit a cell, to one rank after another. Chunk c is
 * chunks[c % KOLO_CHUNKS], counted over all such messages. The receiver takes its lines over (reduce/copy.h). */
struct kolo_shared_stream {
    KOLO_ALIGNED kolo_atomic_u64 filled; /* chunks, by its rank */
    KOLO_ALIGNED kolo_atomic_u64 taken;  /* chunks, by the receiver of the message under way */
    _Alignas(KOLO_PAGE_BYTES) uint8_t chunks[KOLO_CHUNKS][KOLO_CHUNK_BYTES];
};

/* The words by which a node's ranks and one proxy of their leader work together, see internode/proxy.h. */
struct kolo_shared_lane {
    KOLO_ALIGNED kolo_atomic_u64 done; /* exchanges on this lane with smaller numbers, over all calls, are over */
    kolo_bell bell;
    kolo_atomic_u64 late; /* the node from which the first unfinished exchange lacks data, plus one; 0: none */
    kolo_atomic_u64 lost; /* 1: the connections to some node have ended */

    /* Totals of the exchanges so far; before `done`. */
    KOLO_ALIGNED kolo_atomic_u64 sent_bytes;
    kolo_atomic_u64 received_bytes;
    kolo_atomic_u64 system_calls;
};

/* The relay, which carries sends and receives to other nodes, see internode/relay/relay.h. */
struct kolo_shared_relay {
    /* Ranks set their bit in `news` when their mailbox has news, and then add to `events`. */
    KOLO_ALIGNED kolo_atomic_u64 news[KOLO_RANK_WORDS];
    KOLO_ALIGNED kolo_atomic_u64 events;
    kolo_bell bell; /* the relay sleeps here */

    /* Written by the relay: a bit for each rank of other nodes that has left, and for each that is out of reach. */
    KOLO_ALIGNED kolo_atomic_u64 left[KOLO_RANK_WORDS];
    kolo_atomic_u64 lost[KOLO_RANK_WORDS];
};

#define KOLO_REPORT_BYTES 144

struct kolo_shared_internode {
    struct kolo_shared_lane lanes[KOLO_LANES_MAX];
    struct kolo_shared_relay relay;

    /* The report of a failure that was found by a proxy or on another node, as kolo_failure_pack makes it; before the
     * header's `failure`. The thread that has swapped `reporting` from 0 writes it. */
    KOLO_ALIGNED kolo_atomic_u64 reporting;
    uint8_t report[KOLO_REPORT_BYTES];

    /* For each node, the listener that its leader keeps, as kolo_address_pack writes it, see
     * internode/assembly/shrink_nodes.c. The leader writes them before the communicator is complete, for good. */
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
static_assert(offsetof(struct kolo_shared_signal, all_stamps) == 2 * KOLO_LINE_BYTES, "two lines for all but those");
static_assert(offsetof(struct kolo_shared_signal, places) + 8 * 2 <= 64, "progress and stamps in one line");
static_assert(offsetof(struct kolo_shared_signal, received_bytes) + 8 <= KOLO_LINE_BYTES + 64, "the rest in one line");
static_assert(KOLO_HISTORY > KOLO_PARTS + KOLO_PASSES && KOLO_STAMPS > KOLO_PARTS,
              "no rank is further ahead of another");
static_assert(offsetof(struct kolo_shared_header, layout) == 12, "magic, version and layout are found by any version");
static_assert(sizeof(struct kolo_shared_line) == 64, "a cache line");

static_assert(sizeof(struct kolo_shared_cell) == 512 && sizeof(struct kolo_shared_ring) == 2 * KOLO_PAGE_BYTES,
              "a ring is whole pages");
static_assert(sizeof(struct kolo_shared_stream) % KOLO_PAGE_BYTES == 0, "whole pages");

static inline size_t kolo_whole_pages(size_t bytes) {
    return (bytes + KOLO_PAGE_BYTES - 1) / KOLO_PAGE_BYTES * KOLO_PAGE_BYTES;
}

/* The offsets of a segment's parts, in bytes from its start. */
struct kolo_layout {
    size_t members;
    size_t signals;
    size_t histories;
    size_t lines;
    size_t mailboxes;
    size_t slots;     /* slot i of rank r is at slots + (r * KOLO_SLOTS + i) * slot_bytes */
    size_t internode; /* 0: there is none; its 2 * KOLO_SLOTS slots of slot_bytes are behind it, at internode_slots */
    size_t internode_slots;
    size_t rings;     /* see comm/channels/rings.h */
    size_t streams;   /* behind the rings, one for each rank of all nodes */
    size_t allocated; /* bytes before the rings, whole pages: all but slots have memory from the beginning */
    size_t bytes;     /* all bytes, whole pages */
};

/* slot_bytes: a multiple of KOLO_PAGE_BYTES, at most KOLO_SLOT_BYTES_MAX. internode: as in the header. */
struct kolo_layout kolo_layout_compute(uint32_t ranks, size_t slot_bytes, uint32_t internode);

/* The properties of a segment as others claim them, in a file of file_bytes, for kolo_layout_is_legal. */
struct kolo_segment_claim {
    uint64_t ranks, slot_bytes, internode, segment_bytes, offset, file_bytes;
};
bool kolo_layout_is_legal(const struct kolo_segment_claim *claim);

/* Returns the bytes of the job file before the first segment, whole pages. */
size_t kolo_layout_job_bytes(uint32_t ranks);
