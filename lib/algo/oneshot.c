/* One shot: every rank shows its input to all, and every rank reduces all inputs itself, in the canonical order.
 *
 * Lines, for up to KOLO_LINES_BYTES_MAX. A rank writes its input into cache lines that each end up with the number of
 * the round, which the rank alone counts and which is the same on all ranks; the first line also carries the call's
 * stamp. A reader that sees the round in a line has the line's payload: nothing else has to cross. Two ranks need one
 * cache-line transfer each way, at the same time.
 *     The lines are two sets, used in turn. A rank writes a set in round r+2 that it last wrote in round r: by then
 * every peer has read it, since the writer has seen each peer's lines of round r+1 before its own round r+1 ended, and
 * a peer writes those after it has finished round r. Writer: payload, then round (release). Reader: round (acquire),
 * then payload.
 *
 * Slots, for more. Chunk by chunk: copy the input into the slot and publish, then fold all ranks' slots. Step c + 1
 * says that chunk c is there. A rank shows chunk c + 1 before it folds chunk c, so that peers need not wait for its
 * fold. When it publishes step c + 3 it has folded chunk c. */
#include "algo/algo.h"

#include <string.h>

#include "comm/progress.h"
#include "reduce/copy.h"

/* At most one line's payload, in line: a call of memcpy would take longer than the copy. */
static inline void copy_short(uint8_t *to, const uint8_t *from, size_t bytes) {
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

/* Writes `bytes` of `payload` into lines, the stamp first. */
static inline void write_lines(struct kolo_shared_line *line, const uint8_t *payload, size_t bytes, uint64_t stamp,
                               uint64_t round) {
    size_t done = bytes < KOLO_LINE_BYTES_MAX ? bytes : KOLO_LINE_BYTES_MAX;
    memcpy(line->payload, &stamp, sizeof stamp);
    copy_short(line->payload + sizeof stamp, payload, done);
    kolo_store_release(&line->round, round); /* pairs with read_lines, as does the next */
    for (; done < bytes; done += KOLO_LINE_PAYLOAD) {
        const size_t left = bytes - done;
        line++;
        copy_short(line->payload, payload + done, left < KOLO_LINE_PAYLOAD ? left : KOLO_LINE_PAYLOAD);
        kolo_store_release(&line->round, round);
    }
}

/* Waits for the rest of a peer's lines; returns its input from all of them in one piece, or NULL with the status in
 * *rc. */
static const uint8_t *unpack_lines(kolo_comm *comm, uint32_t peer, struct kolo_shared_line *line, size_t bytes,
                                   uint64_t round, int *rc) {
    kolo_bell *bell = &comm->segment.signals[peer].bell;
    uint8_t *unpacked = comm->unpacked + peer * sizeof(struct kolo_shared_lines) / 2;
    memcpy(unpacked, line->payload + sizeof comm->stamp, KOLO_LINE_BYTES_MAX);
    for (size_t done = KOLO_LINE_BYTES_MAX; done < bytes; done += KOLO_LINE_PAYLOAD) {
        line++;
        *rc = kolo_wait_at_least(&comm->waiter, &line->round, round, bell, peer);
        if (*rc < 0)
            return NULL;
        memcpy(unpacked + done, line->payload, KOLO_LINE_PAYLOAD); /* unpacked has room for whole lines */
    }
    return unpacked;
}

/* Waits for a peer's lines, checks the stamp, and sets *source to its input: within the line if there is one line. */
static inline int read_lines(kolo_comm *comm, uint32_t peer, size_t bytes, uint64_t round, const void **source) {
    struct kolo_shared_line *line = comm->segment.lines[peer].sets[round & 1];
    kolo_bell *bell = &comm->segment.signals[peer].bell;
    int rc = kolo_wait_at_least(&comm->waiter, &line->round, round, bell, peer); /* pairs with write_lines */
    if (rc < 0)
        return rc;
    if (__builtin_expect(memcmp(line->payload, &comm->stamp, sizeof comm->stamp) != 0, 0))
        return kolo_failure_publish(comm, KOLO_ERR_MISMATCH, peer, 0);
    *source = bytes <= KOLO_LINE_BYTES_MAX ? line->payload + sizeof comm->stamp
                                           : unpack_lines(comm, peer, line, bytes, round, &rc);
    return rc;
}

int kolo_oneshot_lines(kolo_comm *comm, const void *send, void *recv, size_t count, const kolo_kernel *kernel) {
    const size_t bytes = count * kernel->element_bytes;
    const uint64_t round = ++comm->line_rounds;
    write_lines(comm->segment.lines[comm->rank].sets[round & 1], send, bytes, comm->stamp, round);
    kolo_bell_ring(&comm->waiter, &comm->signal->bell);
    comm->sources[comm->rank] = send;
    for (uint32_t peer = 0; peer < comm->size; peer++) {
        if (peer == comm->rank)
            continue;
        int rc = read_lines(comm, peer, bytes, round, &comm->sources[peer]);
        if (rc < 0)
            return rc;
    }
    if (count)
        kernel->fold(recv, NULL, comm->sources, comm->size, count, comm->size);
    comm->stats.sent_bytes += bytes;
    comm->stats.received_bytes += bytes * (comm->size - 1);
    return 0;
}

static int show_chunk(kolo_comm *comm, const struct kolo_reduction *reduction, size_t chunk) {
    const size_t element_bytes = reduction->kernel->element_bytes;
    size_t first, count = kolo_chunk(reduction, chunk, &first);
    int rc = kolo_slot_claim(comm, chunk);
    if (rc < 0)
        return rc;
    kolo_copy(kolo_slot(comm, comm->rank, chunk), reduction->send + first * element_bytes, count * element_bytes);
    kolo_step_publish(comm, chunk + 1);
    return 0;
}

int kolo_oneshot_run(kolo_comm *comm, const struct kolo_reduction *reduction) {
    const size_t element_bytes = reduction->kernel->element_bytes, chunks = reduction->plan.chunks;
    int rc = show_chunk(comm, reduction, 0);
    for (size_t chunk = 0; rc == 0 && chunk < chunks; chunk++) {
        if (chunk + 1 < chunks)
            rc = show_chunk(comm, reduction, chunk + 1);
        if (rc == 0)
            rc = kolo_step_await_all(comm, chunk + 1);
        if (rc < 0)
            break;
        size_t first, count = kolo_chunk(reduction, chunk, &first);
        for (uint32_t rank = 0; rank < comm->size; rank++)
            comm->sources[rank] = kolo_slot(comm, rank, chunk);
        comm->sources[comm->rank] = reduction->send + first * element_bytes;
        reduction->kernel->fold(reduction->recv + first * element_bytes, NULL, comm->sources, comm->size, count,
                                comm->size);
        kolo_slot_retire(comm, chunk, chunk + 3 < chunks + 1 ? chunk + 3 : chunks + 1);
    }
    comm->stats.sent_bytes += reduction->count * element_bytes;
    comm->stats.received_bytes += reduction->count * element_bytes * (comm->size - 1);
    kolo_call_end(comm, chunks, chunks);
    return rc;
}
