/* Lines: small messages in cache lines that each carry a sequence number, the round. A reader that sees the round in a
 * line has the line's payload too, so nothing else has to cross.
 *
 * A rank has two sets of lines and uses them in turn, one in each round. Each rank counts the rounds by itself; the
 * count is the same on all ranks. The first line of a message also carries the call's stamp.
 *
 * The writer stores the payload, then the round (release). The reader loads the round (acquire), then the payload. Each
 * algorithm says when a set may be written again. */
#ifndef KOLO_ALGO_LINES_H
#define KOLO_ALGO_LINES_H

#include <string.h>

#include "plan/plan.h"
#include "comm/comm.h"
#include "comm/failure/failure.h"
#include "sync/point.h"

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

/* Writes `bytes` of `payload` into this rank's lines from `first` on, the stamp first. The caller rings the bell. */
static inline void kolo_lines_write(kolo_comm *comm, uint32_t first, const uint8_t *payload, size_t bytes,
                                    uint64_t round) {
    struct kolo_shared_line *line = &comm->segment.lines[comm->rank].sets[round & 1][first];
    size_t done = bytes < KOLO_LINE_BYTES_MAX ? bytes : KOLO_LINE_BYTES_MAX;
    KOLO_POINT("lines.writing");
    memcpy(line->payload, &comm->call.stamp, sizeof comm->call.stamp);
    kolo_copy_short(line->payload + sizeof comm->call.stamp, payload, done);
    KOLO_POINT("lines.filled");
    kolo_store_release(&line->round, round); /* pairs with kolo_lines_read; so does the store below */
    KOLO_POINT("lines.stored");
    for (; done < bytes; done += KOLO_LINE_PAYLOAD) {
        const size_t left = bytes - done;
        line++;
        kolo_copy_short(line->payload, payload + done, left < KOLO_LINE_PAYLOAD ? left : KOLO_LINE_PAYLOAD);
        KOLO_POINT("lines.filled_next");
        kolo_store_release(&line->round, round);
        KOLO_POINT("lines.stored_next");
    }
}

/* Begins a round: this rank's lines have `bytes` of `payload`. Returns the round. */
static inline uint64_t kolo_lines_show(kolo_comm *comm, const void *payload, size_t bytes) {
    const uint64_t round = ++comm->call.line_rounds;
    kolo_lines_write(comm, 0, payload, bytes, round);
    kolo_bell_ring(&comm->waiter, &comm->signal->bell);
    return round;
}

/* Whether a peer has already begun the round after the present one. */
static inline bool kolo_lines_is_ahead(const kolo_comm *comm, uint32_t peer) {
    const uint64_t next = comm->call.line_rounds + 1;
    return kolo_load_acquire(&comm->segment.lines[peer].sets[next & 1][0].round) >=
           next; /* pairs with kolo_lines_write */
}

/* Waits for the rest of a peer's lines; returns its payload from all of them in one piece, or NULL with the status in
 * *rc. */
static inline const uint8_t *kolo_lines_unpack(kolo_comm *comm, uint32_t peer, struct kolo_shared_line *line,
                                               size_t bytes, uint64_t round, int *rc) {
    kolo_bell *bell = &comm->segment.signals[peer].bell;
    uint8_t *unpacked = comm->call.unpacked + peer * sizeof(struct kolo_shared_lines) / 2;
    memcpy(unpacked, line->payload + sizeof comm->call.stamp, KOLO_LINE_BYTES_MAX);
    for (size_t done = KOLO_LINE_BYTES_MAX; done < bytes; done += KOLO_LINE_PAYLOAD) {
        line++;
        KOLO_POINT("lines.awaiting_next");
        *rc = kolo_wait_at_least(&comm->waiter, &line->round, round, bell, peer);
        if (*rc < 0)
            return NULL;
        memcpy(unpacked + done, line->payload, KOLO_LINE_PAYLOAD); /* unpacked has room for whole lines */
    }
    return unpacked;
}

/* Waits for a peer's lines from `first` on, checks the stamp, and sets *source to its payload: within the line if there
 * is one line. */
static inline int kolo_lines_read(kolo_comm *comm, uint32_t peer, uint32_t first, size_t bytes, uint64_t round,
                                  const void **source) {
    struct kolo_shared_line *line = &comm->segment.lines[peer].sets[round & 1][first];
    kolo_bell *bell = &comm->segment.signals[peer].bell;
    KOLO_POINT("lines.awaiting");
    int rc = kolo_wait_at_least(&comm->waiter, &line->round, round, bell, peer); /* pairs with kolo_lines_write */
    if (rc < 0)
        return rc;
    KOLO_POINT("lines.awaited");
    if (__builtin_expect(memcmp(line->payload, &comm->call.stamp, sizeof comm->call.stamp) != 0, 0))
        return kolo_failure_publish(comm, KOLO_ERR_MISMATCH, peer, 0);
    *source = bytes <= KOLO_LINE_BYTES_MAX ? line->payload + sizeof comm->call.stamp
                                           : kolo_lines_unpack(comm, peer, line, bytes, round, &rc);
    return rc;
}

#endif
