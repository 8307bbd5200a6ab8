/* The collectives. Each has one row of the registry (algo/registry.h), and all take one path: check the arguments,
 * stamp the call, run the algorithm. */
#include <string.h>

#include "api/lanes/helpers.h"
#include "api/lanes/lanes.h"
#include "api/lanes/slices.h"
#include "api/requests/queue.h"
#include "api/sharing.h"
#include "api/short_call.h"
#include "algo/fusion/apply.h"
#include "base/status.h"
#include "comm/creation/create.h"
#include "comm/step/history.h"
#include "comm/step/progress.h"
#include "cpu/fpenv.h"

/* The kernel, or NULL if there is no such dtype or op, the dtype lacks the op, or the op is one of kolo_op_create. */
static inline const kolo_kernel *find_kernel(const kolo_comm *comm, kolo_dtype dtype, kolo_op op) {
    if ((unsigned)dtype >= KOLO_DTYPES || (unsigned)op >= KOLO_OPS)
        return NULL;
    const kolo_kernel *kernel = &comm->reducer->kernels[dtype][op];
    return kernel->fold ? kernel : NULL;
}

/* Whether a call of a collective whose buffers are all whole is legal. */
static inline bool is_legal(const struct kolo_descriptor *descriptor, const kolo_comm *comm,
                            const struct kolo_arguments *call, size_t element_bytes) {
    const uintptr_t send = (uintptr_t)call->send, recv = (uintptr_t)call->recv;
    if (descriptor->has_root && (call->root < 0 || (uint32_t)call->root >= comm->global_size))
        return false;
    return call->count == 0 ||
           (call->count <= KOLO_COUNT_MAX && call->send && call->recv &&
            (send == recv || (send < recv ? recv - send : send - recv) >= call->count * element_bytes));
}

static inline bool has_blocks(const struct kolo_descriptor *descriptor) {
    return descriptor->send != WHOLE || descriptor->recv != WHOLE || descriptor->recv_at_root;
}

/* True if the call may be done on buffers of kolo_alloc: the same on all ranks, as they have made the same calls.
 * Direct reads and writes all ranks' buffers, wherever they run. Between cache domains tree is predicted to be ahead
 * once the buffers do not fit the caches any more: on 2 x 64 cores of an EPYC 921 us, not 1792, at 2 MiB, 54 ms, not
 * 73, at 64 MiB; with 256 KiB direct takes 14 us and tree 53. */
static bool may_be_direct(const kolo_comm *comm, const struct kolo_message *message, size_t bytes) {
    const uint32_t algorithm = comm->settings.algorithm;
    return comm->first->heap.live && (algorithm == KOLO_ALGORITHM_DIRECT ||
                                      (algorithm == KOLO_ALGORITHM_AUTO && bytes >= comm->settings.direct_bytes_min &&
                                       !(message->plan.algorithm == KOLO_ALGORITHM_TREE && message->plan.stream)));
}

/* A buffer that may be passed to memcpy. The caller's may be NULL with a count of 0, and where only the root has
 * one. */
static void *or_nothing(const void *buffer) {
    static uint8_t nothing;
    return buffer ? (void *)buffer : &nothing;
}

/* The longest block, as far as this rank knows. */
static size_t longest_block(const kolo_comm *comm, const struct kolo_arguments *call) {
    size_t longest = call->count;
    for (uint32_t rank = 0; rank < comm->global_size; rank++) {
        if (call->send_blocks.counts && call->send_blocks.counts[rank] > longest)
            longest = call->send_blocks.counts[rank];
        if (call->recv_blocks.counts && call->recv_blocks.counts[rank] > longest)
            longest = call->recv_blocks.counts[rank];
    }
    return longest;
}

/* Sets *longest to the longest block of all ranks. */
static int agree_on_longest(kolo_comm *comm, size_t *longest) {
    const uint64_t own = *longest;
    uint64_t of_all = 0;
    const int rc = kolo_words_max(comm, &own, &of_all);
    *longest = of_all;
    return rc;
}

/* What the plan, which lies below the registry, has to know of a row. */
struct kolo_traits kolo_traits_of(kolo_collective collective) {
    const struct kolo_descriptor *row = &kolo_registry[collective];
    struct kolo_traits traits = {.table = row->table,
                                 .choices = row->choices,
                                 .has_lines = row->lines,
                                 .sends_blocks = row->send != WHOLE || row->applies,
                                 .has_heads = row->is_unequal,
                                 .is_list = row->has_tensors};
    for (int i = 0; row->table != KOLO_TABLE_SINGLE && i < KOLO_ALGORITHMS; i++)
        traits.algorithms |= (uint32_t)(row->algorithms[i] != NULL) << i;
    return traits;
}

/* Runs a message by its plan. lanes: the message is a slice of one that so many lanes share; 0: it is whole. */
static inline __attribute__((always_inline)) int run_planned(const struct kolo_descriptor *descriptor, kolo_comm *comm,
                                                             struct kolo_message *message, size_t longest,
                                                             uint32_t lanes) {
    const kolo_kernel *kernel = message->kernel;
    const struct kolo_question question = {.collective = descriptor->collective,
                                           .count = longest,
                                           .ranks = comm->size,
                                           .element_bytes = kernel->element_bytes,
                                           .acc_bytes = kernel->acc_bytes,
                                           .keeps_order = kernel->keeps_order,
                                           .is_whole = kernel->is_whole,
                                           .lanes = lanes,
                                           .packed_bytes_max = KOLO_PACKED_BYTES_MAX};
    const size_t bytes = message->count * kernel->element_bytes;
    if (comm->nodes) {
        message->longest = longest;
        if (descriptor->has_op)
            comm->stats.calls_by_algorithm[KOLO_ALGORITHM_MESH]++;
        return comm->above->internode->run(comm, descriptor, message);
    }
    kolo_plan_make(&question, &comm->settings, comm->segment.slot_bytes, &message->plan);
    /* This is asked before plan.stream changes, so that the answer is the same in place. */
    bool is_direct = descriptor->direct && !message->plan.lines && may_be_direct(comm, message, bytes);
    /* The value is the same on all ranks, too: no rank stores it for this call before all have begun the call. */
    message->plan.reads = message->plan.reads && !is_direct && !kolo_load_relaxed(&comm->segment.header->reads_refused);
    is_direct |= message->plan.reads;
    if (message->send == message->recv)
        message->plan.stream = false; /* what has just been read is in a cache anyway */
    if (is_direct) {
        const int rc = descriptor->direct(comm, message);
        if (rc != KOLO_DIRECT_IMPOSSIBLE) {
            comm->stats.calls_by_algorithm[KOLO_ALGORITHM_DIRECT]++;
            return rc;
        }
    }
    if (descriptor->has_op)
        comm->stats.calls_by_algorithm[message->plan.algorithm]++;
    return descriptor->algorithms[message->plan.algorithm](comm, message);
}

/* A call that is divided among lanes. */
struct divided {
    const struct kolo_descriptor *descriptor;
    const struct kolo_arguments *call;
    const kolo_kernel *kernel;
    size_t longest; /* of the undivided blocks */
    uint32_t lanes;
};

/* Runs one lane's slice of a call that has begun. */
static int run_slice(kolo_comm *lane, const struct divided *divided) {
    struct kolo_message slice;
    kolo_slice_make(&slice, divided->descriptor, lane->first, divided->call, divided->kernel, lane->origin.lane,
                    divided->lanes);
    return run_planned(divided->descriptor, lane, &slice,
                       kolo_slice_longest(divided->longest, divided->kernel->element_bytes, divided->lanes),
                       divided->lanes);
}

/* Begins a call. */
static inline void begin(const struct kolo_descriptor *descriptor, kolo_comm *comm, const struct kolo_arguments *call) {
    const struct kolo_told told = kolo_arguments_told(descriptor, call);
    const bool has_list = descriptor->has_tensors ||
                          (!descriptor->is_unequal && (descriptor->send == COUNTED || descriptor->recv == COUNTED));
    comm->call.items = has_list && !call->items.item ? kolo_arguments_items(descriptor, comm, call) : call->items;
    kolo_call_begin(comm, told.word, told.detail);
}

/* Leaves a call. From then on the caller's lists are the caller's again. */
static inline void leave(kolo_comm *comm) {
    comm->call.items.item = NULL;
    kolo_call_leave(comm);
}

/* A kolo_lane_fn. In lane 0, where the call has begun, it runs only the slice; in another lane that has a slice, all of
 * the call. */
static int run_divided(kolo_comm *lane, const void *argument) {
    const struct divided *divided = argument;
    const struct kolo_descriptor *descriptor = divided->descriptor;
    const struct kolo_arguments *call = divided->call;
    if (lane->origin.lane == 0)
        return run_slice(lane, divided);
    if (lane->origin.lane >= divided->lanes)
        return 0;
    int rc = kolo_enter(descriptor->function, lane);
    if (rc < 0)
        return rc;
    begin(descriptor, lane, call);
    const uint32_t callers_fpenv = kolo_fpenv_enter();
    kolo_history_begin(lane);
    rc = run_slice(lane, divided);
    kolo_history_end(lane);
    kolo_fpenv_leave(callers_fpenv);
    leave(lane);
    kolo_leave(lane);
    return rc;
}

/* The call's longest block, as all ranks know it. */
static inline int find_longest(const struct kolo_descriptor *descriptor, kolo_comm *comm,
                               const struct kolo_arguments *call, size_t *longest) {
    *longest = call->count;
    if (descriptor->send == COUNTED || descriptor->recv == COUNTED)
        *longest = longest_block(comm, call);
    return descriptor->is_unequal ? agree_on_longest(comm, longest) : 0;
}

static __attribute__((noinline)) int run_with_helpers(const struct kolo_descriptor *descriptor, kolo_comm *comm,
                                                      const struct kolo_arguments *call, const kolo_kernel *kernel,
                                                      size_t longest, uint32_t slices) {
    const struct divided divided = {descriptor, call, kernel, longest, slices};
    return kolo_helpers_run(comm->lanes->helpers, comm->lanes->lane, kolo_lanes_count(comm), run_divided, &divided);
}

static inline __attribute__((always_inline)) int run_message(const struct kolo_descriptor *descriptor, kolo_comm *comm,
                                                             const struct kolo_arguments *call,
                                                             const kolo_kernel *kernel) {
    struct kolo_message message; /* only the fields that are needed are initialized: small messages come here, too */
    message.send = or_nothing(call->send);
    message.recv = or_nothing(call->recv);
    message.count = call->count;
    if (has_blocks(descriptor)) {
        message.gap = 0;
        message.send_blocks = call->send_blocks;
        message.recv_blocks = call->recv_blocks;
    }
    if (descriptor->applies) {
        message.apply = &call->apply;
        message.lane = 0;
        message.lanes = 1;
    }
    if (descriptor->has_tensors) {
        message.tensors = call->tensors;
        message.tensors_first = 0;
    }
    message.kernel = kernel;
    message.root = (uint32_t)call->root;
    /* Such messages take long enough to afford two looks at the clock. */
    const bool is_timed = call->count * kernel->element_bytes >= KOLO_TIMED_BYTES_MIN;
    size_t longest;
    if (is_timed)
        kolo_history_begin(comm);
    int rc = find_longest(descriptor, comm, call, &longest);
    if (descriptor->applies)
        longest = kolo_apply_longest(call->count, kernel->element_bytes, comm->global_size);
    const uint32_t slices =
        comm->lanes && !call->by_lane
            ? kolo_slices_count(descriptor, comm, longest, kernel->element_bytes, KOLO_HELPED_BYTES_MIN)
            : 1;
    if (rc == 0)
        rc = slices > 1 ? run_with_helpers(descriptor, comm, call, kernel, longest, slices)
                        : run_planned(descriptor, comm, &message, longest, 0);
    if (is_timed)
        kolo_history_end(comm);
    return rc;
}

/* Bytes that a rank sends at most, where no block has a count of its own. */
static inline size_t sent_bytes(const struct kolo_descriptor *descriptor, const kolo_comm *comm,
                                const struct kolo_arguments *call, size_t element_bytes) {
    return call->count * element_bytes * (descriptor->send == BLOCKS ? comm->size : 1);
}

/* Begins, runs and leaves a call of several ranks whose arguments are legal. */
static inline __attribute__((always_inline)) int run(const struct kolo_descriptor *descriptor, kolo_comm *comm,
                                                     const struct kolo_arguments *call, const kolo_kernel *kernel) {
    begin(descriptor, comm, call);
    const uint32_t callers_fpenv = descriptor->has_op ? kolo_fpenv_enter() : 0;
    int rc;
    if (descriptor->lines &&
        sent_bytes(descriptor, comm, call, kernel->element_bytes) < comm->lines_bytes_end[descriptor->collective]) {
        if (descriptor->has_op)
            comm->stats.calls_by_algorithm[KOLO_ALGORITHM_ONESHOT]++;
        rc = descriptor->lines(comm, descriptor->has_tensors ? call->tensors : call->send, call->recv, call->count,
                               kernel, (uint32_t)call->root);
    } else {
        rc = run_message(descriptor, comm, call, kernel);
    }
    if (descriptor->has_op)
        kolo_fpenv_leave(callers_fpenv);
    leave(comm);
    return rc;
}

/* Copies the block of a rank that is alone. */
static inline void copy_alone(const struct kolo_descriptor *descriptor, const struct kolo_arguments *call,
                              size_t element_bytes) {
    const size_t to = descriptor->recv == COUNTED ? call->recv_blocks.offsets[0] * element_bytes : 0;
    const size_t from = descriptor->send == COUNTED ? call->send_blocks.offsets[0] * element_bytes : 0;
    const size_t count = descriptor->send == COUNTED ? call->send_blocks.counts[0] : call->count;
    if (count && (uint8_t *)call->send + from != (uint8_t *)call->recv + to && !descriptor->leaves_own_out)
        memcpy((uint8_t *)call->recv + to, (const uint8_t *)call->send + from, count * element_bytes);
}

/* Checks all arguments but dtype and op, and fills in the rest of them. */
static inline __attribute__((always_inline)) int check(const struct kolo_descriptor *descriptor, const kolo_comm *comm,
                                                       struct kolo_arguments *call, size_t *const *offsets,
                                                       const kolo_kernel *kernel) {
    if (descriptor->has_tensors)
        return kolo_arguments_count_tensors(descriptor, comm, call);
    if (has_blocks(descriptor))
        return kolo_arguments_resolve(descriptor, comm, call, kernel->element_bytes, offsets);
    if (__builtin_expect(!is_legal(descriptor, comm, call, kernel->element_bytes), 0))
        return kolo_arguments_explain(descriptor, comm, call, kernel->element_bytes);
    return 0;
}

/* Makes a call whose arguments are legal. */
static inline __attribute__((always_inline)) int make(const struct kolo_descriptor *descriptor, kolo_comm *comm,
                                                      const struct kolo_arguments *call, const kolo_kernel *kernel) {
    comm->stats.calls_by_collective[descriptor->collective]++;
    comm->stats.payload_bytes += call->count * kernel->element_bytes;
    if (comm->global_size > 1)
        return run(descriptor, comm, call, kernel);
    if (descriptor->applies)
        kolo_apply_alone(&call->apply, call->send, call->recv, call->count);
    else
        copy_alone(descriptor, call, kernel->element_bytes);
    return 0;
}

/* Makes a call that has been checked; a kolo_carry_out_fn. */
static int carry_out(const struct kolo_descriptor *descriptor, kolo_comm *comm, const struct kolo_arguments *call) {
    return make(descriptor, comm, call, call->kernel);
}

/* Checks and makes a call whose operation is one of kolo_op_create, or none. */
static __attribute__((noinline)) int perform_own(const struct kolo_descriptor *descriptor, kolo_comm *comm,
                                                 struct kolo_arguments *call) {
    call->kernel = kolo_arguments_own_kernel(call);
    const int rc = call->kernel ? check(descriptor, comm, call, comm->call.offsets, call->kernel)
                                : kolo_arguments_explain(descriptor, comm, call, 0);
    return rc < 0 ? rc : carry_out(descriptor, comm, call);
}

/* Checks a call and makes it, in a communicator that is ready. */
static inline __attribute__((always_inline)) int perform(const struct kolo_descriptor *descriptor, kolo_comm *comm,
                                                         struct kolo_arguments *call) {
    int rc = kolo_enter(descriptor->function, comm);
    if (rc < 0)
        return rc;
    const kolo_kernel *kernel = find_kernel(comm, call->dtype, call->op);
    if (__builtin_expect(!kernel, 0)) {
        rc = perform_own(descriptor, comm, call);
    } else {
        rc = check(descriptor, comm, call, comm->call.offsets, kernel);
        if (rc == 0)
            rc = make(descriptor, comm, call, kernel);
    }
    kolo_leave(comm);
    return rc;
}

/* Makes one lane's part of a call whose arguments are legal: nothing in a lane that gets no slice. Where the call is
 * not divided, lane 0 does all of it. All lanes take part in a barrier, and where only a lane's ranks together can tell
 * whether the call is divided. */
static int make_in_lane(const struct kolo_descriptor *descriptor, kolo_comm *lane, const struct kolo_arguments *call,
                        const kolo_kernel *kernel) {
    const kolo_comm *first = lane->first;
    const bool is_first = lane == first;
    size_t longest = call->count;
    if (kolo_lanes_count(first) == 1 || descriptor->collective == KOLO_BARRIER)
        return make(descriptor, lane, call, kernel);
    if (!descriptor->is_unequal)
        find_longest(descriptor, lane, call, &longest);
    const uint32_t slices = kolo_slices_count(descriptor, first, longest, kernel->element_bytes, 0);
    if (first->global_size == 1 || (!descriptor->is_unequal && slices == 1))
        return is_first ? make(descriptor, lane, call, kernel) : 0;
    if (!descriptor->is_unequal && lane->origin.lane >= slices)
        return 0;
    struct divided divided = {descriptor, call, kernel, longest, slices};
    if (is_first) {
        lane->stats.calls_by_collective[descriptor->collective]++;
        lane->stats.payload_bytes += call->count * kernel->element_bytes;
    }
    begin(descriptor, lane, call);
    const uint32_t callers_fpenv = kolo_fpenv_enter();
    kolo_history_begin(lane);
    int rc = 0;
    if (descriptor->is_unequal) {
        rc = find_longest(descriptor, lane, call, &divided.longest);
        divided.lanes = kolo_slices_count(descriptor, first, divided.longest, kernel->element_bytes, 0);
    }
    if (rc == 0 && lane->origin.lane < divided.lanes)
        rc = run_slice(lane, &divided);
    kolo_history_end(lane);
    kolo_fpenv_leave(callers_fpenv);
    leave(lane);
    return rc;
}

/* Makes one lane's part of a call that the program makes by lanes. */
static __attribute__((noinline)) int perform_in_lane(const struct kolo_descriptor *descriptor,
                                                     const kolo_comm *handed_out, struct kolo_arguments *call) {
    kolo_comm *lane;
    call->by_lane = true;
    if (handed_out->token->ours && kolo_queue_is_busy(handed_out->first))
        return kolo_fail(KOLO_ERR_ARG, "rank %u: %s: calls in the background are in flight: wait for them first",
                         handed_out->global_rank, descriptor->function);
    int rc = kolo_lanes_enter(descriptor->function, handed_out, &lane);
    if (rc < 0)
        return rc;
    call->kernel = find_kernel(lane, call->dtype, call->op);
    if (!call->kernel)
        call->kernel = kolo_arguments_own_kernel(call);
    rc = call->kernel ? check(descriptor, lane, call, lane->call.offsets, call->kernel)
                      : kolo_arguments_explain(descriptor, lane, call, 0);
    if (rc == 0)
        rc = make_in_lane(descriptor, lane, call, call->kernel);
    kolo_leave(lane);
    return rc;
}

/* The long way of a call. It does the same where requests may be in flight, or the communicator cannot be used. */
static __attribute__((noinline)) int perform_any(const struct kolo_descriptor *descriptor, kolo_comm *comm,
                                                 struct kolo_arguments *call) {
    if (kolo_is_ready(comm))
        return perform(descriptor, comm, call);
    if (comm && comm->is_lane)
        return perform_in_lane(descriptor, comm, call);
    int rc = kolo_queue_claim(descriptor->function, comm, true);
    if (rc < 0)
        return rc;
    rc = perform(descriptor, comm, call);
    kolo_queue_release(comm, rc);
    return rc;
}

static __attribute__((noinline)) int take_long_way(const struct kolo_descriptor *descriptor, kolo_comm *comm,
                                                   const void *send, void *recv, size_t count, kolo_dtype dtype,
                                                   kolo_op op, int root) {
    return perform_any(descriptor, comm, &WITH_COUNT(send, recv, count, dtype, op, root));
}

/* The path of the collectives whose blocks have one count. It is inlined with a constant descriptor, so that the short
 * way of each has only the parts that it needs. */
static inline __attribute__((always_inline)) int collective(const struct kolo_descriptor *descriptor, kolo_comm *comm,
                                                            const void *send, void *recv, size_t count,
                                                            kolo_dtype dtype, kolo_op op, int root) {
    const kolo_kernel *const kernel = kolo_is_ready(comm) ? find_kernel(comm, dtype, op) : NULL;
    if (__builtin_expect(kernel && kolo_short_fits(descriptor, comm, send, recv, count, root, kernel), 1))
        return kolo_short_make(descriptor, comm, send, recv, count, dtype, op, root, kernel);
    return take_long_way(descriptor, comm, send, recv, count, dtype, op, root);
}

/* Checks what a caller passes to a call in the background. */
static int check_now(const struct kolo_descriptor *descriptor, const kolo_comm *comm, struct kolo_arguments *call,
                     size_t *const *offsets) {
    call->kernel = find_kernel(comm, call->dtype, call->op);
    if (!call->kernel)
        call->kernel = kolo_arguments_own_kernel(call);
    return call->kernel ? check(descriptor, comm, call, offsets, call->kernel)
                        : kolo_arguments_explain(descriptor, comm, call, 0);
}

/* Issues a call for the background by the same path: it is checked now, and made later. */
static int background(const struct kolo_descriptor *descriptor, const char *function, kolo_comm *comm,
                      const struct kolo_arguments *given, kolo_request **request) {
    kolo_request *made;
    if (!request)
        return kolo_fail(KOLO_ERR_ARG, "%s: request is NULL", function);
    int rc = kolo_enter(function, comm);
    if (rc < 0)
        return rc;
    rc = kolo_request_create(&made, function, descriptor, comm, carry_out, given->ntensors);
    if (rc == 0) {
        struct kolo_arguments call = *given;
        if (check_now(descriptor, comm, &call, made->offsets) == 0) {
            rc = kolo_request_issue(made, function, &call);
        } else { /* once more, for a message that begins with the name of this function */
            struct kolo_descriptor named = *descriptor;
            named.function = function;
            call = *given;
            rc = check_now(&named, comm, &call, made->offsets);
            kolo_request_free(made);
        }
    }
    if (rc == 0)
        *request = made;
    kolo_leave(comm);
    return rc;
}

int kolo_collective_make(kolo_collective which, kolo_comm *comm, const struct kolo_arguments *call) {
    struct kolo_arguments own = *call;
    return perform_any(&kolo_registry[which], comm, &own);
}

int kolo_collective_issue(kolo_collective which, const char *function, kolo_comm *comm,
                          const struct kolo_arguments *call, kolo_request **request) {
    return background(&kolo_registry[which], function, comm, call, request);
}

int kolo_allreduce(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op) {
    return collective(&kolo_registry[KOLO_ALLREDUCE], comm, send, recv, count, dtype, op, 0);
}

int kolo_iallreduce(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op,
                    kolo_request **request) {
    return background(&kolo_registry[KOLO_ALLREDUCE], __func__, comm, &WITH_COUNT(send, recv, count, dtype, op, 0),
                      request);
}

int kolo_broadcast(kolo_comm *comm, void *buffer, size_t count, kolo_dtype dtype, int root) {
    return collective(&kolo_registry[KOLO_BROADCAST], comm, buffer, buffer, count, dtype, KOLO_SUM, root);
}

int kolo_ibroadcast(kolo_comm *comm, void *buffer, size_t count, kolo_dtype dtype, int root, kolo_request **request) {
    return background(&kolo_registry[KOLO_BROADCAST], __func__, comm,
                      &WITH_COUNT(buffer, buffer, count, dtype, KOLO_SUM, root), request);
}

int kolo_barrier(kolo_comm *comm) {
    return collective(&kolo_registry[KOLO_BARRIER], comm, NULL, NULL, 0, KOLO_U8, KOLO_SUM, 0);
}

int kolo_ibarrier(kolo_comm *comm, kolo_request **request) {
    return background(&kolo_registry[KOLO_BARRIER], __func__, comm, &WITH_COUNT(NULL, NULL, 0, KOLO_U8, KOLO_SUM, 0),
                      request);
}

int kolo_allgather(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype) {
    return collective(&kolo_registry[KOLO_ALLGATHER], comm, send, recv, count, dtype, KOLO_SUM, 0);
}

int kolo_iallgather(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype,
                    kolo_request **request) {
    return background(&kolo_registry[KOLO_ALLGATHER], __func__, comm,
                      &WITH_COUNT(send, recv, count, dtype, KOLO_SUM, 0), request);
}

int kolo_allgatherv(kolo_comm *comm, const void *send, void *recv, const size_t *counts, const size_t *offsets,
                    kolo_dtype dtype) {
    return perform_any(&kolo_registry[KOLO_ALLGATHERV], comm,
                       &WITH_COUNTS(send, recv, 0, dtype, KOLO_SUM, 0, NULL, NULL, counts, offsets));
}

int kolo_iallgatherv(kolo_comm *comm, const void *send, void *recv, const size_t *counts, const size_t *offsets,
                     kolo_dtype dtype, kolo_request **request) {
    return background(&kolo_registry[KOLO_ALLGATHERV], __func__, comm,
                      &WITH_COUNTS(send, recv, 0, dtype, KOLO_SUM, 0, NULL, NULL, counts, offsets), request);
}

int kolo_reduce(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op, int root) {
    return collective(&kolo_registry[KOLO_REDUCE], comm, send, recv, count, dtype, op, root);
}

int kolo_ireduce(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op, int root,
                 kolo_request **request) {
    return background(&kolo_registry[KOLO_REDUCE], __func__, comm, &WITH_COUNT(send, recv, count, dtype, op, root),
                      request);
}

int kolo_reduce_scatter(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op) {
    return collective(&kolo_registry[KOLO_REDUCE_SCATTER], comm, send, recv, count, dtype, op, 0);
}

int kolo_ireduce_scatter(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op,
                         kolo_request **request) {
    return background(&kolo_registry[KOLO_REDUCE_SCATTER], __func__, comm, &WITH_COUNT(send, recv, count, dtype, op, 0),
                      request);
}

int kolo_reduce_scatterv(kolo_comm *comm, const void *send, void *recv, const size_t *counts, kolo_dtype dtype,
                         kolo_op op) {
    return perform_any(&kolo_registry[KOLO_REDUCE_SCATTERV], comm,
                       &WITH_COUNTS(send, recv, 0, dtype, op, 0, counts, NULL, NULL, NULL));
}

int kolo_ireduce_scatterv(kolo_comm *comm, const void *send, void *recv, const size_t *counts, kolo_dtype dtype,
                          kolo_op op, kolo_request **request) {
    return background(&kolo_registry[KOLO_REDUCE_SCATTERV], __func__, comm,
                      &WITH_COUNTS(send, recv, 0, dtype, op, 0, counts, NULL, NULL, NULL), request);
}

int kolo_gather(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, int root) {
    return collective(&kolo_registry[KOLO_GATHER], comm, send, recv, count, dtype, KOLO_SUM, root);
}

int kolo_igather(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, int root,
                 kolo_request **request) {
    return background(&kolo_registry[KOLO_GATHER], __func__, comm,
                      &WITH_COUNT(send, recv, count, dtype, KOLO_SUM, root), request);
}

int kolo_gatherv(kolo_comm *comm, const void *send, size_t count, void *recv, const size_t *counts,
                 const size_t *offsets, kolo_dtype dtype, int root) {
    return perform_any(&kolo_registry[KOLO_GATHERV], comm,
                       &WITH_COUNTS(send, recv, count, dtype, KOLO_SUM, root, NULL, NULL, counts, offsets));
}

int kolo_igatherv(kolo_comm *comm, const void *send, size_t count, void *recv, const size_t *counts,
                  const size_t *offsets, kolo_dtype dtype, int root, kolo_request **request) {
    return background(&kolo_registry[KOLO_GATHERV], __func__, comm,
                      &WITH_COUNTS(send, recv, count, dtype, KOLO_SUM, root, NULL, NULL, counts, offsets), request);
}

int kolo_scatter(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, int root) {
    return collective(&kolo_registry[KOLO_SCATTER], comm, send, recv, count, dtype, KOLO_SUM, root);
}

int kolo_iscatter(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, int root,
                  kolo_request **request) {
    return background(&kolo_registry[KOLO_SCATTER], __func__, comm,
                      &WITH_COUNT(send, recv, count, dtype, KOLO_SUM, root), request);
}

int kolo_scatterv(kolo_comm *comm, const void *send, const size_t *counts, const size_t *offsets, void *recv,
                  size_t count, kolo_dtype dtype, int root) {
    return perform_any(&kolo_registry[KOLO_SCATTERV], comm,
                       &WITH_COUNTS(send, recv, count, dtype, KOLO_SUM, root, counts, offsets, NULL, NULL));
}

int kolo_iscatterv(kolo_comm *comm, const void *send, const size_t *counts, const size_t *offsets, void *recv,
                   size_t count, kolo_dtype dtype, int root, kolo_request **request) {
    return background(&kolo_registry[KOLO_SCATTERV], __func__, comm,
                      &WITH_COUNTS(send, recv, count, dtype, KOLO_SUM, root, counts, offsets, NULL, NULL), request);
}

int kolo_alltoall(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype) {
    return collective(&kolo_registry[KOLO_ALLTOALL], comm, send, recv, count, dtype, KOLO_SUM, 0);
}

int kolo_ialltoall(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype,
                   kolo_request **request) {
    return background(&kolo_registry[KOLO_ALLTOALL], __func__, comm, &WITH_COUNT(send, recv, count, dtype, KOLO_SUM, 0),
                      request);
}

int kolo_alltoallv(kolo_comm *comm, const void *send, const size_t *send_counts, const size_t *send_offsets, void *recv,
                   const size_t *recv_counts, const size_t *recv_offsets, kolo_dtype dtype) {
    return perform_any(
        &kolo_registry[KOLO_ALLTOALLV], comm,
        &WITH_COUNTS(send, recv, 0, dtype, KOLO_SUM, 0, send_counts, send_offsets, recv_counts, recv_offsets));
}

int kolo_ialltoallv(kolo_comm *comm, const void *send, const size_t *send_counts, const size_t *send_offsets,
                    void *recv, const size_t *recv_counts, const size_t *recv_offsets, kolo_dtype dtype,
                    kolo_request **request) {
    return background(
        &kolo_registry[KOLO_ALLTOALLV], __func__, comm,
        &WITH_COUNTS(send, recv, 0, dtype, KOLO_SUM, 0, send_counts, send_offsets, recv_counts, recv_offsets), request);
}

int kolo_scan(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op) {
    return collective(&kolo_registry[KOLO_SCAN], comm, send, recv, count, dtype, op, 0);
}

int kolo_iscan(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op,
               kolo_request **request) {
    return background(&kolo_registry[KOLO_SCAN], __func__, comm, &WITH_COUNT(send, recv, count, dtype, op, 0), request);
}

int kolo_exscan(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op) {
    return collective(&kolo_registry[KOLO_EXSCAN], comm, send, recv, count, dtype, op, 0);
}

int kolo_iexscan(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op,
                 kolo_request **request) {
    return background(&kolo_registry[KOLO_EXSCAN], __func__, comm, &WITH_COUNT(send, recv, count, dtype, op, 0),
                      request);
}

int kolo_allreduce_many(kolo_comm *comm, const kolo_tensor *tensors, size_t ntensors, kolo_dtype dtype, kolo_op op) {
    return perform_any(&kolo_registry[KOLO_ALLREDUCE_MANY], comm, &WITH_TENSORS(tensors, ntensors, dtype, op));
}

int kolo_iallreduce_many(kolo_comm *comm, const kolo_tensor *tensors, size_t ntensors, kolo_dtype dtype, kolo_op op,
                         kolo_request **request) {
    return background(&kolo_registry[KOLO_ALLREDUCE_MANY], __func__, comm, &WITH_TENSORS(tensors, ntensors, dtype, op),
                      request);
}
