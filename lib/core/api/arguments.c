/* Finds which thread is in a call and why a communicator cannot be used, and checks the arguments of collectives. */
#include "api/arguments.h"

#include <inttypes.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "comm/failure/failure.h"
#include "reduce/own_ops.h"

#ifndef NDEBUG
int kolo_enter(const char *function, kolo_comm *comm) {
    const uint64_t self = (uint64_t)syscall(SYS_gettid);
    if (!comm || !comm->token->ours) /* which the call itself refuses */
        return 0;
    if (kolo_compare_and_swap(&comm->user, 0, self))
        return 0;
    return kolo_fail(KOLO_ERR_STATE,
                     "rank %u: %s in thread %" PRIu64 ": thread %" PRIu64
                     " is in a call on this communicator: one thread at a time may use it",
                     comm->global_rank, function, self, kolo_load_acquire(&comm->user));
}

void kolo_leave(kolo_comm *comm) {
    if (comm && comm->token->ours)
        kolo_store_release(&comm->user, 0);
}
#endif

int kolo_unusable(const char *function, const kolo_comm *comm) {
    if (!comm)
        return kolo_fail(KOLO_ERR_ARG, "%s: comm is NULL", function);
    if (!comm->token->ours)
        return KOLO_FAIL_IN(comm, function, KOLO_ERR_STATE,
                            "the communicator was inherited through fork; only the process that created it can use it");
    if (comm->is_lane && kolo_comm_is_usable(comm))
        return KOLO_REFUSE(comm, function,
                           "the communicator is a lane: it takes blocking collectives and kolo_comm_abort; all else is "
                           "for the communicator that it is a lane of");
    kolo_failure failure;
    kolo_failure_describe(comm, &failure);
    return KOLO_FAIL_IN(comm, function, KOLO_ERR_STATE, "the communicator is broken: %s",
                        failure.status ? failure.message : "it was aborted");
}

/* Arguments. */

static int refuse_null(const char *function, const kolo_comm *comm, const char *name, size_t count) {
    return KOLO_REFUSE(comm, function, "%s is NULL with count %zu", name, count);
}

/* Refuses a dtype or op that does not exist, or two that do not fit each other. */
static int refuse_op(const char *function, const kolo_comm *comm, kolo_dtype dtype, kolo_op op) {
    const kolo_kernel *own = kolo_own_op_kernel(op);
    if (!kolo_name(KOLO_NAME_DTYPE, dtype))
        return KOLO_REFUSE(comm, function, "dtype %d: there is no such dtype", (int)dtype);
    if (own)
        return KOLO_REFUSE(comm, function, "dtype %s has %zu bytes, and the operation is for elements of %u",
                           kolo_name(KOLO_NAME_DTYPE, dtype), kolo_dtype_bytes(dtype), own->element_bytes);
    if ((int)op >= (int)KOLO_OPS_OWN)
        return KOLO_REFUSE(comm, function, "op %#x: kolo_op_create has made no such operation, or it was destroyed",
                           (unsigned)op);
    if ((unsigned)op >= KOLO_OPS)
        return KOLO_REFUSE(comm, function, "op %d: there is no such op", (int)op);
    if (dtype == KOLO_OPAQUE)
        return KOLO_REFUSE(comm, function, "dtype opaque is only for operations of kolo_op_create");
    return KOLO_REFUSE(comm, function, "op %s is for %s, not for %s", kolo_name(KOLO_NAME_OP, op),
                       op == KOLO_SUM_EXACT ? "floats" : "integers", kolo_name(KOLO_NAME_DTYPE, dtype));
}

/* The kernel for a call with an operation of kolo_op_create; NULL where no such operation exists, or it does not take
 * this dtype. Fills in the rest of what the call's key says of the operation. */
static const kolo_kernel *own_kernel(struct kolo_arguments *call) {
    const kolo_kernel *kernel = kolo_own_op_kernel(call->op);
    if (!kernel || (call->dtype != KOLO_OPAQUE && kolo_dtype_bytes(call->dtype) != kernel->element_bytes))
        return NULL;
    call->op = KOLO_SUM;
    call->flags |= kernel->keeps_order ? KOLO_CALL_ORDERED : KOLO_CALL_OWN;
    return kernel;
}

/* One of the two buffers of a call, as this rank has it. */
struct buffer {
    const char *name;
    const uint8_t *begin;
    enum shape shape;
    bool exists;
    size_t count; /* elements from `begin` on */
    size_t own;   /* of those, before this rank's block */
};

/* Fills in where blocks with counts begin, and how far they reach. */
static int resolve_blocks(const char *function, const kolo_comm *comm, struct buffer *buffer,
                          struct kolo_blocks *blocks, size_t *packed) {
    size_t end = 0;
    if (!blocks->counts)
        return KOLO_REFUSE(comm, function, "counts of %s is NULL", buffer->name);
    for (uint32_t rank = 0; rank < comm->global_size; rank++) {
        const size_t count = blocks->counts[rank], first = blocks->offsets ? blocks->offsets[rank] : end;
        if (count > KOLO_COUNT_MAX || first > KOLO_COUNT_MAX - count)
            return KOLO_REFUSE(comm, function,
                               "%s: block %u of %zu elements from element %zu on: more than memory can hold",
                               buffer->name, rank, count, first);
        packed[rank] = first;
        if (count && first + count > end)
            end = first + count;
    }
    blocks->offsets = packed;
    blocks->whole = blocks->counts;
    buffer->count = end;
    buffer->own = packed[comm->global_rank];
    return 0;
}

/* Fills in the rest of `buffer`, and of `blocks`. */
static int resolve_buffer(const char *function, const kolo_comm *comm, const struct kolo_arguments *call,
                          struct buffer *buffer, struct kolo_blocks *blocks, size_t *packed) {
    if (!buffer->exists) {
        *blocks = (struct kolo_blocks){0};
    } else if (buffer->shape == COUNTED) {
        const int rc = resolve_blocks(function, comm, buffer, blocks, packed);
        if (rc < 0)
            return rc;
    } else {
        const uint32_t size = buffer->shape == BLOCKS ? comm->global_size : 1;
        if (call->count > KOLO_COUNT_MAX / size)
            return KOLO_REFUSE(comm, function, "count %zu: more %s than memory can hold", call->count,
                               call->dtype == KOLO_OPAQUE ? "elements" : kolo_name(KOLO_NAME_DTYPE, call->dtype));
        buffer->count = call->count * size;
        buffer->own = buffer->shape == BLOCKS ? call->count * comm->global_rank : 0;
    }
    return buffer->count && !buffer->begin ? refuse_null(function, comm, buffer->name, buffer->count) : 0;
}

/* Whether the buffers overlap other than in place. In place: where one has blocks, the other is this rank's block. */
static bool overlap(const struct buffer *send, const struct buffer *recv, size_t element_bytes) {
    const uintptr_t s = (uintptr_t)send->begin, r = (uintptr_t)recv->begin;
    const bool is_apart = s + send->count * element_bytes <= r || r + recv->count * element_bytes <= s;
    const bool both_counted = send->shape == COUNTED && recv->shape == COUNTED;
    const size_t own_in_send = send->shape != WHOLE && recv->shape == WHOLE ? send->own * element_bytes : 0;
    const size_t own_in_recv = recv->shape != WHOLE && send->shape == WHOLE ? recv->own * element_bytes : 0;
    if (!send->exists || !recv->exists || !send->count || !recv->count || is_apart)
        return false;
    return both_counted || s + own_in_send != r + own_in_recv;
}

static int explain_overlap(const char *function, const kolo_comm *comm, const struct buffer *send,
                           const struct buffer *recv) {
    const char *const fix = send->shape == COUNTED && recv->shape == COUNTED ? "it does not work in place"
                            : send->shape == recv->shape                     ? "for in place pass the same address"
                            : send->shape == WHOLE ? "for in place pass this rank's block of recv as send"
                                                   : "for in place pass this rank's block of send as recv";
    return KOLO_REFUSE(comm, function, "the %zu elements at send %p and the %zu at recv %p overlap: %s", send->count,
                       (const void *)send->begin, recv->count, (const void *)recv->begin, fix);
}

/* Digests the counts that all ranks know; does nothing where there are none (NULL). */
static void digest_counts(const kolo_comm *comm, struct kolo_arguments *call, const size_t *counts) {
    uint64_t digest = call->digest;
    for (uint32_t rank = 0; counts && rank < comm->global_size; rank++)
        digest = kolo_digest_after(digest, counts[rank]);
    if (counts)
        call->digest = digest;
}

int kolo_arguments_resolve(const struct kolo_descriptor *descriptor, const char *function, const kolo_comm *comm,
                           struct kolo_arguments *call, size_t *const *offsets) {
    const size_t element_bytes = call->kernel->element_bytes;
    if (descriptor->has_root && (call->root < 0 || (uint32_t)call->root >= comm->global_size))
        return KOLO_REFUSE(comm, function, "root %d: must be from 0 to %u", call->root, comm->global_size - 1);
    const bool is_root = comm->global_rank == (uint32_t)call->root;
    if (descriptor->send_at_root && !is_root)
        call->send = NULL;
    if (descriptor->recv_at_root && !is_root)
        call->recv = NULL;
    const bool is_one = descriptor->has_root && !descriptor->send_at_root && !descriptor->recv_at_root;
    struct buffer send = {.name = is_one ? "buffer" : "send",
                          .begin = call->send,
                          .shape = descriptor->send,
                          .exists = is_root || !descriptor->send_at_root};
    struct buffer recv = {
        .name = "recv", .begin = call->recv, .shape = descriptor->recv, .exists = is_root || !descriptor->recv_at_root};
    if (descriptor->recv == COUNTED && !descriptor->is_unequal && call->recv_blocks.counts)
        call->count = call->recv_blocks.counts[comm->global_rank];
    if (descriptor->send == COUNTED && !descriptor->is_unequal && call->send_blocks.counts)
        call->count = call->send_blocks.counts[comm->global_rank];
    int rc = resolve_buffer(function, comm, call, &send, &call->send_blocks, offsets[0]);
    if (rc == 0)
        rc = resolve_buffer(function, comm, call, &recv, &call->recv_blocks, offsets[1]);
    if (rc < 0)
        return rc;
    const uint32_t rank = comm->global_rank;
    const size_t sent = descriptor->send == COUNTED && send.exists ? call->send_blocks.counts[rank] : call->count;
    const size_t taken = descriptor->recv == COUNTED && recv.exists ? call->recv_blocks.counts[rank] : call->count;
    if (descriptor->is_unequal && send.exists && recv.exists && sent != taken)
        return KOLO_REFUSE(comm, function, "sends itself %zu elements and expects %zu", sent, taken);
    if (overlap(&send, &recv, element_bytes))
        return explain_overlap(function, comm, &send, &recv);
    if (!descriptor->is_unequal)
        digest_counts(comm, call, call->send_blocks.counts ? call->send_blocks.counts : call->recv_blocks.counts);
    return 0;
}

/* Completes the arguments of an all-reduce that applies a function: a buffer that is NULL becomes the other one. */
static int resolve_apply(const char *function, const kolo_comm *comm, struct kolo_arguments *call) {
    struct kolo_apply *apply = &call->apply;
    apply->has_gradients = call->send;
    apply->has_parameters = call->recv;
    if (!apply->function)
        return KOLO_REFUSE(comm, function, "function is NULL");
    if (call->count && !call->send && !call->recv)
        return KOLO_REFUSE(comm, function, "gradients and parameters are both NULL with count %zu", call->count);
    if (call->count && call->send == call->recv)
        return KOLO_REFUSE(comm, function, "gradients and parameters are both %p: they must not overlap", call->recv);
    call->flags |= !apply->has_gradients    ? KOLO_CALL_NO_GRADIENTS
                   : !apply->has_parameters ? KOLO_CALL_NO_PARAMETERS
                                            : 0;
    if (!apply->has_gradients)
        call->send = call->recv;
    if (!apply->has_parameters)
        call->recv = (void *)(uintptr_t)call->send;
    return 0;
}

int kolo_arguments_count_tensors(const char *function, const kolo_comm *comm, struct kolo_arguments *call) {
    uint64_t digest = kolo_digest_after(call->digest, call->ntensors);
    size_t count = 0;
    if (!call->tensors && call->ntensors)
        return refuse_null(function, comm, "tensors", call->ntensors);
    for (size_t i = 0; i < call->ntensors; i++) {
        const kolo_tensor *tensor = &call->tensors[i];
        if (tensor->count > KOLO_COUNT_MAX - count)
            return KOLO_REFUSE(comm, function, "tensor %zu of %zu elements: more than memory can hold in all", i,
                               tensor->count);
        if (!tensor->data && tensor->count)
            return KOLO_REFUSE(comm, function, "data of tensor %zu is NULL with count %zu", i, tensor->count);
        count += tensor->count;
        digest = kolo_digest_after(digest, tensor->count);
    }
    call->count = count;
    call->digest = digest;
    return 0;
}

int kolo_arguments_check_all(const struct kolo_descriptor *descriptor, const char *function, const kolo_comm *comm,
                             struct kolo_arguments *call, size_t *const *offsets) {
    if (!call->kernel)
        call->kernel = own_kernel(call);
    if (!call->kernel)
        return refuse_op(function, comm, call->dtype, call->op);
    const int rc = descriptor->applies ? resolve_apply(function, comm, call) : 0;
    if (rc < 0)
        return rc;
    return descriptor->has_tensors ? kolo_arguments_count_tensors(function, comm, call)
                                   : kolo_arguments_resolve(descriptor, function, comm, call, offsets);
}

static struct kolo_item item_of_tensors(const void *context, size_t index) {
    const struct kolo_arguments *call = context;
    return index == 0 ? kolo_item_number("ntensors", call->ntensors)
                      : kolo_item_of_list("tensors", index - 1, ".count", call->tensors[index - 1].count);
}

static struct kolo_item item_of_counts(const void *context, size_t index) {
    const struct kolo_arguments *call = context;
    const size_t *counts = call->send_blocks.counts ? call->send_blocks.counts : call->recv_blocks.counts;
    return kolo_item_of_list("counts", index, "", counts[index]);
}

struct kolo_items kolo_arguments_items(const struct kolo_descriptor *descriptor, const kolo_comm *comm,
                                       const struct kolo_arguments *call) {
    if (descriptor->has_tensors)
        return (struct kolo_items){.count = 1 + call->ntensors, .item = item_of_tensors, .context = call};
    return (struct kolo_items){.count = comm->global_size, .item = item_of_counts, .context = call};
}

struct kolo_call_key kolo_arguments_key(const struct kolo_descriptor *descriptor, const struct kolo_arguments *call) {
    const bool is_counted = descriptor->send == COUNTED || descriptor->recv == COUNTED;
    return (struct kolo_call_key){.collective = (uint8_t)(descriptor->collective + 1),
                                  .dtype = (uint8_t)call->dtype,
                                  .op = (uint8_t)call->op,
                                  .flags = call->flags,
                                  .root = descriptor->has_root ? (uint16_t)call->root : 0,
                                  .element_bytes =
                                      call->dtype == KOLO_OPAQUE ? (uint16_t)call->kernel->element_bytes : 0,
                                  .count = is_counted ? 0 : call->count, /* the count is this rank's alone */
                                  .digest = call->digest};
}
