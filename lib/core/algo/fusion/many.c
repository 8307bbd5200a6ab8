/* The all-reduce of a list of tensors, in place: mesh (algo/allreduce/mesh.c), with the list in place of `send` and
 * `recv`. Steps, tickets, and the writers and readers of each part of a slot are those of mesh, and so is the argument
 * that it is correct. Only this rank's own memory differs, of which the others see nothing:
 *
 *   - scatter packs the chunk, except the own slice, from the tensors into the slot;
 *   - reduce folds the own slice piece by piece. The part of a piece that lies in one tensor is read and written there.
 *     Where that part is small, the piece is packed into comm->call.stage, folded there, and unpacked while it is in
 *     the first cache;
 *   - gather unpacks what the peers have given back straight from the slot into the tensors.
 *
 * Each of the three walks through the list once, with a cursor of its own. In place works as in mesh: a tensor's
 * elements of chunk c are written by reduce(c), which has read them, and by gather(c), after scatter(c) has packed
 * them.
 *
 * A list of at most KOLO_PACKED_BYTES_MAX is packed into comm->call.packed as a whole and goes the way of any
 * all-reduce of that size, but by mesh in place of ring, whose order depends on where in the message an element is: a
 * copy within the first caches takes little time beside one exchange between ranks. */
#include "algo/fusion/many.h"

#include <assert.h>
#include <string.h>

#include "algo/lines.h"
#include "algo/phases.h"

enum { SHORT_BYTES = 128 };

/* Moves the cursor on to the tensor that has element `first`, which exists. */
static inline void advance(struct kolo_tensor_cursor *cursor, size_t first) {
    assert(first >= cursor->begin);
    while (first - cursor->begin >= cursor->tensor->count) {
        cursor->begin += cursor->tensor->count;
        cursor->tensor++;
    }
}

/* Returns where element `first` lies. *count becomes how many elements lie there in one piece, at most `count`. */
static inline uint8_t *piece_at(struct kolo_tensor_cursor *cursor, size_t first, size_t *count) {
    advance(cursor, first);
    const size_t at = first - cursor->begin, left = cursor->tensor->count - at;
    if (left < *count)
        *count = left;
    return (uint8_t *)cursor->tensor->data + at * cursor->element_bytes;
}

/* Copies bytes, inline where a call would take longer than the copy. */
static inline void copy(uint8_t *to, const uint8_t *from, size_t bytes) {
    if (bytes <= SHORT_BYTES)
        kolo_copy_short(to, from, bytes);
    else
        kolo_copy(to, from, bytes);
}

void kolo_tensor_cursor_pack(struct kolo_tensor_cursor *cursor, size_t first, size_t count, uint8_t *to) {
    while (count > 0) {
        size_t part = count;
        const uint8_t *from = piece_at(cursor, first, &part);
        copy(to, from, part * cursor->element_bytes);
        to += part * cursor->element_bytes;
        first += part;
        count -= part;
    }
}

void kolo_tensor_cursor_unpack(struct kolo_tensor_cursor *cursor, size_t first, size_t count, const uint8_t *from) {
    while (count > 0) {
        size_t part = count;
        uint8_t *to = piece_at(cursor, first, &part);
        copy(to, from, part * cursor->element_bytes);
        from += part * cursor->element_bytes;
        first += part;
        count -= part;
    }
}

static_assert(KOLO_PACKED_BYTES_MAX >= KOLO_LINES_BYTES_MAX, "what fits lines can be packed");
static_assert(KOLO_PIECE_BYTES <= KOLO_STREAMED_PIECE_BYTES, "comm->call.stage has room for a piece");

/* The least part of one tensor that is folded by itself: to fold a smaller one takes longer than to copy it. */
#define DIRECT_BYTES_MIN 512

struct many {
    kolo_comm *comm;
    const struct kolo_message *message;
    struct kolo_tensor_cursor scattered, reduced, gathered;
};

/* A chunk and its slices. `first` is the chunk's place in the list. */
struct chunk {
    size_t number, first, count;
    size_t own, own_count; /* this rank's slice, in the chunk */
    uint8_t *slot;         /* this rank's */
};

static struct chunk chunk_at(const struct many *many, size_t number) {
    const kolo_comm *comm = many->comm;
    struct chunk chunk = {.number = number, .slot = kolo_slot(comm, comm->rank, number)};
    chunk.count = kolo_chunk(many->message, number, &chunk.first);
    chunk.own_count =
        kolo_plan_slice(chunk.count, many->message->kernel->element_bytes, comm->size, comm->rank, &chunk.own);
    chunk.first += many->message->tensors_first;
    return chunk;
}

static int scatter(struct many *many, const struct chunk *chunk) {
    kolo_comm *comm = many->comm;
    const size_t element_bytes = many->message->kernel->element_bytes, behind = chunk->own + chunk->own_count;
    const int rc = chunk->number < KOLO_SLOTS ? kolo_slot_claim(comm, chunk->number) : 0;
    KOLO_POINT("many.claimed");
    if (rc < 0)
        return rc;
    kolo_call_stage(comm, KOLO_TRACE_STAGE_COPY_IN);
    kolo_tensor_cursor_pack(&many->scattered, chunk->first, chunk->own, chunk->slot);
    kolo_tensor_cursor_pack(&many->scattered, chunk->first + behind, chunk->count - behind,
                            chunk->slot + behind * element_bytes);
    KOLO_POINT("many.scattered");
    comm->stats.sent_bytes += (chunk->count - chunk->own_count) * element_bytes;
    kolo_step_publish(comm, kolo_step_scattered(chunk->number));
    return 0;
}

/* Folds a piece of comm->call.sources, whose own part is at `own`, into `own` and comm->call.targets. Moves both on. */
static void fold_piece(kolo_comm *comm, const kolo_kernel *kernel, uint8_t *own, size_t count) {
    const size_t bytes = count * kernel->element_bytes;
    const uint32_t first = kolo_rank_after(comm, comm->rank);
    comm->call.sources[comm->rank] = own;
    if (comm->size == 2) {
        kernel->fold_to_both(comm->call.targets[first], own, comm->call.sources, count, 2);
    } else {
        kernel->fold(comm->call.targets[first], comm->call.sources, comm->size, count, comm->size);
        for (uint32_t peer = kolo_rank_after(comm, first); peer != first; peer = kolo_rank_after(comm, peer))
            kolo_copy(peer == comm->rank ? own : comm->call.targets[peer], comm->call.targets[first], bytes);
    }
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        comm->call.sources[rank] = (const uint8_t *)comm->call.sources[rank] + bytes;
        comm->call.targets[rank] += bytes;
    }
}

static int reduce(struct many *many, const struct chunk *chunk) {
    kolo_comm *comm = many->comm;
    const kolo_kernel *kernel = many->message->kernel;
    const size_t element_bytes = kernel->element_bytes, piece_count = KOLO_PIECE_BYTES / element_bytes;
    const int rc = kolo_step_await_all(comm, kolo_step_scattered(chunk->number));
    if (rc < 0)
        return rc;
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        comm->call.targets[rank] = kolo_slot(comm, rank, chunk->number) + chunk->own * element_bytes;
        comm->call.sources[rank] = comm->call.targets[rank];
    }
    kolo_call_stage(comm, KOLO_TRACE_STAGE_FOLD);
    size_t part;
    for (size_t done = 0; done < chunk->own_count; done += part) {
        const size_t left = chunk->own_count - done, first = chunk->first + chunk->own + done;
        part = left < piece_count ? left : piece_count;
        size_t whole = part;
        uint8_t *own = piece_at(&many->reduced, first, &whole);
        if (whole * element_bytes >= DIRECT_BYTES_MIN)
            part = whole;
        if (whole == part) {
            fold_piece(comm, kernel, own, part);
        } else {
            struct kolo_tensor_cursor before = many->reduced;
            kolo_tensor_cursor_pack(&many->reduced, first, part, comm->call.stage);
            fold_piece(comm, kernel, comm->call.stage, part);
            kolo_tensor_cursor_unpack(&before, first, part, comm->call.stage);
        }
        KOLO_POINT("many.folded");
    }
    kolo_traffic(comm, chunk->own_count * element_bytes, comm->size - 1, comm->size - 1);
    KOLO_POINT("many.reduced");
    kolo_step_publish(comm, kolo_step_reduced(chunk->number));
    return 0;
}

/* The slices of the ranks before this one come last, but stand first in the list. */
static int gather(struct many *many, const struct chunk *chunk) {
    kolo_comm *comm = many->comm;
    const size_t element_bytes = many->message->kernel->element_bytes;
    struct kolo_tensor_cursor before = many->gathered;
    size_t slice;
    for (uint32_t peer = kolo_rank_after(comm, comm->rank); peer != comm->rank; peer = kolo_rank_after(comm, peer)) {
        const size_t count = kolo_plan_slice(chunk->count, (uint32_t)element_bytes, comm->size, peer, &slice);
        const int rc = kolo_step_await(comm, peer, kolo_step_reduced(chunk->number));
        if (rc < 0)
            return rc;
        kolo_call_stage(comm, KOLO_TRACE_STAGE_COPY_OUT);
        kolo_tensor_cursor_unpack(peer < comm->rank ? &before : &many->gathered, chunk->first + slice, count,
                                  chunk->slot + slice * element_bytes);
        KOLO_POINT("many.gathered");
        comm->stats.received_bytes += count * element_bytes;
    }
    if (comm->rank + 1 == comm->size) /* no slice is behind its own */
        many->gathered = before;
    return 0;
}

static int run_mesh(kolo_comm *comm, const struct kolo_message *message) {
    const size_t chunks = message->plan.chunks;
    const struct kolo_tensor_cursor begin = kolo_tensor_cursor_make(message->tensors, message->kernel->element_bytes);
    struct many many = {comm, message, begin, begin, begin};
    kolo_schedule_begin(comm, kolo_step_reduced(chunks - 1), chunks);
    struct chunk shown = chunk_at(&many, 0), under_way = shown, last = shown;
    int rc = scatter(&many, &shown);
    for (size_t number = 0; rc == 0 && number <= chunks; number++) {
        last = under_way;
        under_way = shown;
        if (number + 1 < chunks) {
            shown = chunk_at(&many, number + 1);
            rc = scatter(&many, &shown);
        }
        if (rc == 0 && number < chunks)
            rc = reduce(&many, &under_way);
        if (rc == 0 && number > 0) {
            rc = gather(&many, &last);
            kolo_slot_retire(comm, number - 1, kolo_step_scattered(number + 2));
        }
    }
    kolo_schedule_end(comm);
    return rc;
}

int kolo_many_lines(kolo_comm *comm, const void *send, void *recv, size_t count, const kolo_kernel *kernel,
                    uint32_t root) {
    struct kolo_tensor_cursor list = kolo_tensor_cursor_make(send, kernel->element_bytes), before = list;
    (void)recv;
    kolo_tensor_cursor_pack(&list, 0, count, comm->call.packed);
    const int rc = kolo_oneshot_lines(comm, comm->call.packed, comm->call.packed, count, kernel, root);
    if (rc == 0)
        kolo_tensor_cursor_unpack(&before, 0, count, comm->call.packed);
    return rc;
}

int kolo_many_run(kolo_comm *comm, const struct kolo_message *message) {
    static kolo_run_fn *const algorithms[KOLO_ALGORITHMS] = {
        [KOLO_ALGORITHM_ONESHOT] = kolo_oneshot_run,
        [KOLO_ALGORITHM_MESH] = kolo_mesh_run,
        [KOLO_ALGORITHM_CENTRAL] = kolo_central_run,
        [KOLO_ALGORITHM_TREE] = kolo_tree_run,
    };
    struct kolo_tensor_cursor list = kolo_tensor_cursor_make(message->tensors, message->kernel->element_bytes);
    struct kolo_tensor_cursor before = list;
    struct kolo_message packed = *message;
    if (message->count * message->kernel->element_bytes > KOLO_PACKED_BYTES_MAX)
        return run_mesh(comm, message);
    kolo_tensor_cursor_pack(&list, message->tensors_first, message->count, comm->call.packed);
    packed.send = packed.recv = comm->call.packed;
    const int rc = algorithms[message->plan.algorithm](comm, &packed);
    if (rc == 0)
        kolo_tensor_cursor_unpack(&before, message->tensors_first, message->count, comm->call.packed);
    return rc;
}
