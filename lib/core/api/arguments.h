/* What is checked before a call: which thread is in a call, whether the communicator can be used, and the arguments. */
#pragma once

#include "algo/registry.h"
#include "comm/step/call_key.h"

/* A call takes this at its begin and gives it up at its end where assertions are on. Where two threads are in one
 * communicator at once, the second gets KOLO_ERR_STATE. */
#ifdef NDEBUG
static inline int kolo_enter(const char *function, kolo_comm *comm) {
    (void)function, (void)comm;
    return 0;
}

static inline void kolo_leave(kolo_comm *comm) {
    (void)comm;
}
#else
int kolo_enter(const char *function, kolo_comm *comm);
void kolo_leave(kolo_comm *comm);
#endif

/* Says why `function` cannot use the communicator, and returns the status. */
__attribute__((cold)) int kolo_unusable(const char *function, const kolo_comm *comm);

/* Refuses NULL, a communicator that was inherited through fork, and a lane that kolo_comm_lane has handed out. */
static inline int kolo_check_whole(const char *function, const kolo_comm *comm) {
    return comm && comm->token->ours && !comm->is_lane ? 0 : kolo_unusable(function, comm);
}

/* More elements than memory can hold, of any size, so that no number of bytes overflows. */
#define KOLO_COUNT_MAX (SIZE_MAX / (2 * KOLO_OP_ELEMENT_BYTES_MAX))

/* The arguments that the caller passes. */
struct kolo_arguments {
    const void *send;
    void *recv;
    size_t count; /* as in struct kolo_message; set by the check where the blocks' counts say it */
    kolo_dtype dtype;
    kolo_op op; /* SUM for a collective without one */
    int root;   /* 0 likewise */
    struct kolo_blocks send_blocks, recv_blocks;
    struct kolo_apply apply;    /* of a collective that applies it */
    const kolo_kernel *kernel;  /* set by the check */
    uint8_t flags;              /* KOLO_CALL_*; the check adds some */
    const kolo_tensor *tensors; /* where the collective has them; then `count` is found in the check */
    size_t ntensors;
    uint64_t
        digest; /* of what all ranks have to pass alike besides; of tensors and of blocks' counts found in the check */
    struct kolo_items items; /* the same for messages; `item` NULL: the tensors, the blocks' counts, or nothing */
    void (*function)(void *argument); /* of kolo_irun, and no collective; `recv` is its argument */
};

/* The arguments of a call, as a literal: the compiler would copy a function's result. */
#define WITH_COUNT(send_, recv_, count_, dtype_, op_, root_)                                                           \
    ((struct kolo_arguments){                                                                                          \
        .send = (send_), .recv = (recv_), .count = (count_), .dtype = (dtype_), .op = (op_), .root = (root_)})
#define WITH_COUNTS(send_, recv_, count_, dtype_, op_, root_, send_counts_, send_offsets_, recv_counts_,               \
                    recv_offsets_)                                                                                     \
    ((struct kolo_arguments){.send = (send_),                                                                          \
                             .recv = (recv_),                                                                          \
                             .count = (count_),                                                                        \
                             .dtype = (dtype_),                                                                        \
                             .op = (op_),                                                                              \
                             .root = (root_),                                                                          \
                             .send_blocks = {(send_counts_), (send_offsets_), NULL},                                   \
                             .recv_blocks = {(recv_counts_), (recv_offsets_), NULL}})

#define WITH_TENSORS(tensors_, ntensors_, dtype_, op_)                                                                 \
    ((struct kolo_arguments){.dtype = (dtype_), .op = (op_), .tensors = (tensors_), .ntensors = (ntensors_)})

/* The kernel, or NULL if there is no such dtype or op, the dtype lacks the op, or the op is one of kolo_op_create. */
static inline const kolo_kernel *kolo_arguments_kernel(const kolo_comm *comm, kolo_dtype dtype, kolo_op op) {
    if ((unsigned)dtype >= KOLO_DTYPES || (unsigned)op >= KOLO_OPS)
        return NULL;
    const kolo_kernel *kernel = &comm->reducer->kernels[dtype][op];
    return kernel->fold ? kernel : NULL;
}

/* Whether this rank has each buffer that it needs, and they are apart, or in place: without blocks of counts of their
 * own. A block's bytes times the ranks do not overflow. */
static inline __attribute__((always_inline)) bool kolo_arguments_fit(const struct kolo_descriptor *descriptor,
                                                                     const kolo_comm *comm, const void *send,
                                                                     const void *recv, size_t bytes, int root) {
    const uintptr_t s = (uintptr_t)send, r = (uintptr_t)recv;
    const bool is_root = comm->global_rank == (uint32_t)root;
    const bool has_send = !descriptor->send_at_root || is_root, has_recv = !descriptor->recv_at_root || is_root;
    const size_t sent = descriptor->send == BLOCKS ? bytes * comm->global_size : bytes;
    const size_t taken = descriptor->recv == BLOCKS ? bytes * comm->global_size : bytes;
    const size_t own = comm->global_rank * bytes;
    const size_t own_in_send = descriptor->send == BLOCKS && descriptor->recv == WHOLE ? own : 0;
    const size_t own_in_recv = descriptor->recv == BLOCKS && descriptor->send == WHOLE ? own : 0;
    if (bytes == 0)
        return true;
    if ((has_send && !send) || (has_recv && !recv))
        return false;
    return !has_send || !has_recv || s + own_in_send == r + own_in_recv || s + sent <= r || r + taken <= s;
}

/* The check of a call that kolo_arguments_accept has not accepted. 0 or KOLO_ERR_ARG. */
int kolo_arguments_check_all(const struct kolo_descriptor *descriptor, const char *function, const kolo_comm *comm,
                             struct kolo_arguments *call, size_t *const *offsets);

/* The check of most calls, at a glance: they have nothing of the program's own, nor a list. Fills in the rest. */
static inline bool kolo_arguments_accept(const struct kolo_descriptor *descriptor, const kolo_comm *comm,
                                         struct kolo_arguments *call) {
    call->kernel = kolo_arguments_kernel(comm, call->dtype, call->op);
    if (!call->kernel || descriptor->send == COUNTED || descriptor->recv == COUNTED || descriptor->has_tensors ||
        descriptor->applies || call->count > KOLO_COUNT_MAX / KOLO_RANKS_MAX ||
        (descriptor->has_root && (uint32_t)call->root >= comm->global_size) ||
        !kolo_arguments_fit(descriptor, comm, call->send, call->recv, call->count * call->kernel->element_bytes,
                            call->root))
        return false;
    if (descriptor->send_at_root && comm->global_rank != (uint32_t)call->root)
        call->send = NULL;
    if (descriptor->recv_at_root && comm->global_rank != (uint32_t)call->root)
        call->recv = NULL;
    return true;
}

/* Checks the arguments of a call, and fills in the rest of them: its kernel, and where blocks begin, which is in
 * offsets[0] for those to send, in offsets[1] for those to receive, a number per rank. 0 or KOLO_ERR_ARG. */
static inline int kolo_arguments_check(const struct kolo_descriptor *descriptor, const char *function,
                                       const kolo_comm *comm, struct kolo_arguments *call, size_t *const *offsets) {
    return __builtin_expect(kolo_arguments_accept(descriptor, comm, call), 1)
               ? 0
               : kolo_arguments_check_all(descriptor, function, comm, call, offsets);
}

/* The parts of the check once the kernel is known: of a list of tensors, and of other calls. */
int kolo_arguments_count_tensors(const char *function, const kolo_comm *comm, struct kolo_arguments *call);
int kolo_arguments_resolve(const struct kolo_descriptor *descriptor, const char *function, const kolo_comm *comm,
                           struct kolo_arguments *call, size_t *const *offsets);

/* The counts or tensors that all ranks have to pass alike, of a collective that has some. They refer to the call. */
struct kolo_items kolo_arguments_items(const struct kolo_descriptor *descriptor, const kolo_comm *comm,
                                       const struct kolo_arguments *call);

/* The key of a legal call. */
struct kolo_call_key kolo_arguments_key(const struct kolo_descriptor *descriptor, const struct kolo_arguments *call);
