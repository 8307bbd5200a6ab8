/* Lines: small messages in cache lines that each carry a sequence number, as in NCCL's LL protocol. A reader that sees
 * the number in a line has the line's payload too, so nothing else has to cross. The writer stores the payload, then
 * the number (release). The reader loads the number (acquire), then the payload. The first line of a message also
 * carries the call's stamp.
 *
 * Rounds. In a round every rank writes a line, and ends the round only when it has seen one of each other rank, or data
 * that depends on all. A rank has two sets of lines for rounds, and uses them in turn. In round r + 2 it writes the set
 * that it last wrote in round r. By then every peer has read it: the writer has seen each peer's lines of round r + 1
 * before its own round r + 1 ended, and a peer writes those after it has finished round r.
 *
 * Passes are for collectives in which not all ranks need something of all others: those with a root, and scans. A rank
 * writes only if another rank needs its data, and waits only for the data that it needs, so ranks can be ahead of each
 * other. The passes after a round take as many lines as their messages need, one behind the other. A rank that has
 * ended the round knows that all have begun it, so they have ended all passes before it, and no rank reads these lines
 * any more. Where too few lines are left for the next pass, or ranks would be too far ahead of each other for a failure
 * to tell what they called (comm/step/history.h), it is done as a round. In that round ranks also find out that they
 * name different roots, which they do not in passes in which each of them only writes. If ranks differ in how long a
 * message is, they look in different places from then on, and find a line with another stamp, or none.
 *
 * Each rank counts rounds, and the passes since the last one and their lines, by itself; the counts are the same on all
 * ranks. The number in a line of a round is the round's; in a line of a pass it is that of the next round. */
#pragma once

#include <string.h>

#include "plan/plan.h"
#include "comm/failure/failure.h"
#include "reduce/copy.h"

/* Copies at most one line's payload. It is inline, since a call of memcpy would take longer than the copy. */
static inline void kolo_copy_short(uint8_t *to, const uint8_t *from, size_t bytes) {
    if (bytes >= 16) {
        for (size_t at = 0; at + 16 < bytes; at += 16)
            memcpy(to + at, from + at, 16);
        memcpy(to + bytes - 16, from + bytes - 16, 16);
    } else if (bytes >= 8) {
        memcpy(to, from, 8);
        memcpy(to + bytes - 8, from + bytes - 8, 8);
    } else if (bytes >= 4) {
        memcpy(to, from, 4);
        memcpy(to + bytes - 4, from + bytes - 4, 4);
    } else if (bytes > 0) {
        to[0] = from[0];
        to[bytes / 2] = from[bytes / 2];
        to[bytes - 1] = from[bytes - 1];
    }
}

/* A round or pass. */
struct kolo_round {
    uint64_t number;
    uint32_t first; /* of its lines */
    bool is_pass;
};

static inline struct kolo_shared_line *kolo_line(const kolo_comm *comm, uint32_t rank, const struct kolo_round *round,
                                                 uint32_t first) {
    return &comm->segment.lines[rank].lines[round->first + first];
}

/* Writes `bytes` of `payload` into this rank's lines from `first` on, the stamp first. The caller rings the bell. */
static inline void kolo_lines_write(kolo_comm *comm, uint32_t first, const uint8_t *payload, size_t bytes,
                                    const struct kolo_round *round) {
    struct kolo_shared_line *line = kolo_line(comm, comm->rank, round, first);
    size_t done = bytes < KOLO_LINE_BYTES_MAX ? bytes : KOLO_LINE_BYTES_MAX;
    KOLO_POINT("lines.writing");
    memcpy(line->payload, &comm->call.stamp, sizeof comm->call.stamp);
    kolo_copy_short(line->payload + sizeof comm->call.stamp, payload, done);
    KOLO_POINT("lines.filled");
    kolo_store_release(&line->round, round->number); /* pairs with kolo_lines_read; so does the store below */
    KOLO_POINT("lines.stored");
    for (; done < bytes; done += KOLO_LINE_PAYLOAD) {
        const size_t left = bytes - done;
        line++;
        kolo_copy_short(line->payload, payload + done, left < KOLO_LINE_PAYLOAD ? left : KOLO_LINE_PAYLOAD);
        KOLO_POINT("lines.filled_next");
        kolo_store_release(&line->round, round->number);
        KOLO_POINT("lines.stored_next");
    }
}

/* Begins a round. */
static inline struct kolo_round kolo_lines_round(kolo_comm *comm) {
    const uint64_t number = ++comm->call.line_rounds;
    comm->call.passes = comm->call.pass_lines = 0;
    return (struct kolo_round){number, KOLO_LINES * (number & 1), false};
}

/* Begins a pass with messages of `bytes`, or the round that is due instead. */
static inline struct kolo_round kolo_lines_pass(kolo_comm *comm, size_t bytes) {
    const size_t begin = comm->call.pass_lines,
                 end = begin + (sizeof comm->call.stamp + bytes + KOLO_LINE_PAYLOAD - 1) / KOLO_LINE_PAYLOAD;
    if (end > KOLO_PASS_LINES || comm->call.passes == KOLO_PASSES)
        return kolo_lines_round(comm);
    comm->call.passes++;
    comm->call.pass_lines = end;
    return (struct kolo_round){comm->call.line_rounds + 1, 2 * KOLO_LINES + (uint32_t)begin, true};
}

/* Shows `bytes` of `payload` in this rank's lines. */
static inline void kolo_lines_show(kolo_comm *comm, const struct kolo_round *round, const void *payload, size_t bytes) {
    kolo_lines_write(comm, 0, payload, bytes, round);
    kolo_bell_ring(&comm->waiter, &comm->signal->bell);
}

/* Ends a round in which this rank has shown one line, after it has seen those of all peers: they have ended the round
 * before, whose lines the next round takes. Of several lines only the first would be worth recalling. */
static inline void kolo_lines_recall(const kolo_comm *comm, const struct kolo_round *round, size_t bytes) {
    if (bytes <= KOLO_LINE_BYTES_MAX)
        kolo_recall_line(&comm->segment.lines[comm->rank].lines[KOLO_LINES * (~round->number & 1)]);
}

/* Like kolo_lines_show, in a round or a pass. `is_needed`: another rank needs the payload. */
static inline void kolo_lines_show_if(kolo_comm *comm, const struct kolo_round *round, bool is_needed,
                                      const void *payload, size_t bytes) {
    if (is_needed || !round->is_pass)
        kolo_lines_show(comm, round, payload, is_needed ? bytes : 0);
}

/* Returns whether a peer has already begun the round after the present one. */
static inline bool kolo_lines_is_ahead(const kolo_comm *comm, uint32_t peer) {
    const uint64_t next = comm->call.line_rounds + 1;
    return kolo_load_acquire(&comm->segment.lines[peer].lines[KOLO_LINES * (next & 1)].round) >=
           next; /* pairs with kolo_lines_write */
}

/* Waits for the rest of a peer's lines. Returns the payload of all in one piece, or NULL with the status in *rc. */
static inline const uint8_t *kolo_lines_unpack(kolo_comm *comm, uint32_t peer, struct kolo_shared_line *line,
                                               size_t bytes, uint64_t number, int *rc) {
    kolo_bell *bell = &comm->segment.signals[peer].bell;
    uint8_t *unpacked = comm->call.unpacked + peer * kolo_unpacked_bytes(comm->size);
    memcpy(unpacked, line->payload + sizeof comm->call.stamp, KOLO_LINE_BYTES_MAX);
    for (size_t done = KOLO_LINE_BYTES_MAX; done < bytes; done += KOLO_LINE_PAYLOAD) {
        line++;
        KOLO_POINT("lines.awaiting_next");
        *rc = kolo_wait_at_least(&comm->waiter, &line->round, number, bell, peer);
        if (*rc < 0)
            return NULL;
        memcpy(unpacked + done, line->payload, KOLO_LINE_PAYLOAD); /* unpacked has room for whole lines */
    }
    return unpacked;
}

/* Waits for a peer's lines from `first` on, checks the stamp, and sets *source to the payload: of one line in place. */
static inline int kolo_lines_read(kolo_comm *comm, uint32_t peer, uint32_t first, size_t bytes,
                                  const struct kolo_round *round, const void **source) {
    struct kolo_shared_line *line = kolo_line(comm, peer, round, first);
    kolo_bell *bell = &comm->segment.signals[peer].bell;
    KOLO_POINT("lines.awaiting");
    int rc =
        kolo_wait_at_least(&comm->waiter, &line->round, round->number, bell, peer); /* pairs with kolo_lines_write */
    if (rc < 0)
        return rc;
    KOLO_POINT("lines.awaited");
    if (__builtin_expect(memcmp(line->payload, &comm->call.stamp, sizeof comm->call.stamp) != 0, 0))
        return kolo_failure_publish_near(comm, KOLO_ERR_MISMATCH, peer, 0);
    *source = bytes <= KOLO_LINE_BYTES_MAX ? line->payload + sizeof comm->call.stamp
                                           : kolo_lines_unpack(comm, peer, line, bytes, round->number, &rc);
    return rc;
}
