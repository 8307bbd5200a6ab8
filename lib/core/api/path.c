/* The stages of a call. */
#include "api/path.h"

#include "algo/fusion/apply.h"
#include "api/lanes/helpers.h"
#include "api/lanes/slices.h"
#include "api/requests/queue.h"
#include "api/sharing.h"
#include "comm/creation/create.h"
#include "comm/failure/failure.h"
#include "comm/step/history.h"

/* A call that has been checked, on its way. */
struct path {
    const struct kolo_descriptor *descriptor;
    const struct kolo_arguments *call;
    size_t bytes;    /* of the message; of an alltoallv, all that this rank sends */
    size_t longest;  /* block of all ranks, in elements; set with `slices` */
    uint32_t slices; /* into which the call is divided; 0: not known yet */
};

/* What an alltoallv sends differs by rank. So it stands beside call->count, which decides between ways. */
static size_t message_bytes(const struct kolo_descriptor *descriptor, const kolo_comm *comm,
                            const struct kolo_arguments *call) {
    size_t count = 0;
    if (descriptor->send != COUNTED || descriptor->recv != COUNTED)
        return call->count * call->kernel->element_bytes;
    for (uint32_t rank = 0; rank < comm->global_size; rank++)
        count += call->send_blocks.counts[rank];
    return count * call->kernel->element_bytes;
}

/* Divide. */

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

/* Finds the longest block and the number of slices, which are the same on all ranks. Where blocks are unequal the ranks
 * agree on them, within the call. */
static int divide(struct path *path, kolo_comm *lane) {
    const struct kolo_arguments *call = path->call;
    const uint32_t element_bytes = call->kernel->element_bytes;
    int rc = 0;
    path->longest = call->send_blocks.counts || call->recv_blocks.counts ? longest_block(lane, call) : call->count;
    if (path->descriptor->applies)
        path->longest = kolo_plan_longest(call->count, element_bytes, lane->global_size);
    if (path->descriptor->is_unequal) {
        const uint64_t own = path->longest;
        uint64_t of_all = 0;
        rc = kolo_words_reduce(lane, KOLO_MAX, &own, &of_all, 1);
        path->longest = of_all;
    }
    path->slices = lane->first->lanes ? kolo_slices_count(path->descriptor, lane->first, path->longest, element_bytes,
                                                          call->flags & KOLO_CALL_BY_LANES ? 0 : KOLO_HELPED_BYTES_MIN)
                                      : 1;
    return rc;
}

/* Plan and run. */

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

/* Gives this rank's slots their memory, within the first call that passes through them: a communicator that makes none
 * needs none. Nobody touches a rank's slots before it publishes a step of such a call, but for two ranks, which swap
 * them (algo/phases.h), and give memory to both. */
static __attribute__((noinline, cold)) int provide_slots(kolo_comm *comm) {
    const int rc = kolo_segment_provide_slots(&comm->segment, comm->rank);
    KOLO_POINT("slots.provided");
    if (rc == 0)
        return 0;
    kolo_log(comm->log_level, KOLO_LOG_ERROR, (int)comm->global_rank, "%s", kolo_error_message());
    return kolo_failure_publish(comm, rc, 0);
}

static inline int ready_slots(kolo_comm *comm) {
    return __builtin_expect(comm->segment.lacks_slots, 0) ? provide_slots(comm) : 0;
}

/* Plans and runs a message. lanes: the message is a slice of one that so many lanes share; 0: it is whole. */
static inline __attribute__((always_inline)) int plan_and_run(const struct kolo_descriptor *descriptor, kolo_comm *comm,
                                                              struct kolo_message *message, size_t longest,
                                                              uint32_t lanes) {
    const kolo_kernel *kernel = message->kernel;
    const struct kolo_question question = {.descriptor = descriptor,
                                           .count = longest,
                                           .ranks = comm->size,
                                           .kernel = kernel,
                                           .lanes = lanes,
                                           .packed_bytes_max = KOLO_PACKED_BYTES_MAX};
    const size_t bytes = message->count * kernel->element_bytes;
    if (comm->nodes) {
        message->longest = longest;
        if (descriptor->has_op)
            comm->stats.calls_by_algorithm[KOLO_ALGORITHM_MESH]++;
        kolo_call_trace_plan(comm, KOLO_ALGORITHM_MESH);
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
        kolo_call_trace_plan(comm, KOLO_ALGORITHM_DIRECT);
        int rc = descriptor->applies ? ready_slots(comm) : 0; /* some of its buffers may not be mapped */
        rc = rc < 0 ? rc : descriptor->direct(comm, message);
        if (rc != KOLO_DIRECT_IMPOSSIBLE) {
            comm->stats.calls_by_algorithm[KOLO_ALGORITHM_DIRECT]++;
            return rc;
        }
    }
    const int rc = message->plan.lines ? 0 : ready_slots(comm);
    if (rc < 0)
        return rc;
    if (descriptor->has_op)
        comm->stats.calls_by_algorithm[message->plan.algorithm]++;
    kolo_call_trace_plan(comm, message->plan.algorithm);
    return descriptor->algorithms[message->plan.algorithm](comm, message);
}

static inline int run_whole(const struct path *path, kolo_comm *comm) {
    const struct kolo_descriptor *descriptor = path->descriptor;
    const struct kolo_arguments *call = path->call;
    struct kolo_message message; /* only the fields that are needed are initialized: small messages come here, too */
    message.send = kolo_buffer_at(call->send, 0);
    message.recv = kolo_buffer_at(call->recv, 0);
    message.count = call->count;
    message.gap = 0;
    if (descriptor->send != WHOLE || descriptor->recv != WHOLE) {
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
    message.kernel = call->kernel;
    message.root = (uint32_t)call->root;
    return plan_and_run(descriptor, comm, &message, path->longest, 0);
}

static int run_slice(const struct path *path, kolo_comm *lane) {
    struct kolo_message slice;
    const uint32_t element_bytes = path->call->kernel->element_bytes;
    kolo_slice_make(&slice, path->descriptor, lane->first, path->call, path->call->kernel, lane->origin.lane,
                    path->slices);
    return plan_and_run(path->descriptor, lane, &slice, kolo_plan_longest(path->longest, element_bytes, path->slices),
                        path->slices);
}

static int begin_to_end(struct path *path, kolo_comm *comm);

/* A kolo_lane_fn. In lane 0, where the call has begun, it runs the slice; in another lane with a slice, the call. */
static int help(kolo_comm *lane, const void *argument) {
    struct path path = *(const struct path *)argument;
    if (lane->origin.lane == 0)
        return run_slice(&path, lane);
    if (lane->origin.lane >= path.slices)
        return 0;
    int rc = kolo_enter(path.descriptor->function, lane);
    if (rc < 0)
        return rc;
    rc = begin_to_end(&path, lane);
    kolo_leave(lane);
    return rc;
}

/* Whether a lane takes part in a call that has been divided. All lanes take part in a barrier. */
static bool takes_part(const struct path *path, const kolo_comm *lane) {
    return lane->origin.lane < path->slices || path->descriptor->collective == KOLO_BARRIER;
}

/* Divides, plans and runs what a call does in one lane. */
static int divide_and_run(struct path *path, kolo_comm *lane) {
    const int rc = path->slices ? 0 : divide(path, lane);
    if (rc < 0 || !takes_part(path, lane))
        return rc;
    if (path->slices == 1)
        return run_whole(path, lane);
    if (path->call->flags & KOLO_CALL_BY_LANES || lane != lane->first)
        return run_slice(path, lane);
    return kolo_helpers_run(lane->lanes->helpers, lane->lanes->lane, kolo_lanes_count(lane), help, path);
}

/* Begin and end. */

/* Bytes that a rank sends at most, where no block has a count of its own. */
static size_t sent_bytes(const struct path *path, const kolo_comm *comm) {
    return path->bytes * (path->descriptor->send == BLOCKS ? comm->size : 1);
}

static bool has_list(const struct kolo_descriptor *descriptor) {
    return descriptor->has_tensors ||
           (!descriptor->is_unequal && (descriptor->send == COUNTED || descriptor->recv == COUNTED));
}

static int begin_to_end(struct path *path, kolo_comm *comm) {
    const struct kolo_descriptor *descriptor = path->descriptor;
    const struct kolo_arguments *call = path->call;
    int rc;
    comm->call.items =
        has_list(descriptor) && !call->items.item ? kolo_arguments_items(descriptor, comm, call) : call->items;
    const uint32_t callers_fpenv = kolo_path_begin(descriptor, comm, kolo_arguments_key(descriptor, call));
    if (descriptor->lines && sent_bytes(path, comm) < comm->lines_bytes_end[descriptor->collective]) {
        if (descriptor->has_op)
            comm->stats.calls_by_algorithm[KOLO_ALGORITHM_ONESHOT]++;
        rc = descriptor->lines(comm, descriptor->has_tensors ? call->tensors : call->send, call->recv, call->count,
                               call->kernel, (uint32_t)call->root);
    } else {
        /* Such messages take long enough to afford two looks at the clock. */
        const bool is_timed = path->bytes >= KOLO_TIMED_BYTES_MIN;
        comm->call.traces_stages = is_timed && kolo_traces();
        if (is_timed)
            kolo_history_begin(comm);
        rc = divide_and_run(path, comm);
        if (is_timed)
            kolo_history_end(comm);
    }
    comm->call.items.item = NULL; /* the caller's lists are the caller's again */
    kolo_path_end(descriptor, comm, callers_fpenv);
    return rc;
}

/* Copies the block of a rank that is alone. */
static void copy_alone(const struct kolo_descriptor *descriptor, const struct kolo_arguments *call) {
    const size_t element_bytes = call->kernel->element_bytes;
    const size_t to = descriptor->recv == COUNTED ? call->recv_blocks.offsets[0] * element_bytes : 0;
    const size_t from = descriptor->send == COUNTED ? call->send_blocks.offsets[0] * element_bytes : 0;
    const size_t count = descriptor->send == COUNTED ? call->send_blocks.counts[0] : call->count;
    if (count && (uint8_t *)call->send + from != (uint8_t *)call->recv + to && !descriptor->leaves_own_out)
        memcpy((uint8_t *)call->recv + to, (const uint8_t *)call->send + from, count * element_bytes);
}

/* Makes a call that has been checked: in a lane of a call by lanes its part of it, elsewhere all of it. A
 * kolo_carry_out_fn. Where only a lane's ranks together can tell how the call is divided, all lanes begin it. */
static int make_checked(const struct kolo_descriptor *descriptor, kolo_comm *comm, const struct kolo_arguments *call) {
    struct path path = {.descriptor = descriptor, .call = call, .bytes = message_bytes(descriptor, comm, call)};
    const bool is_first = comm == comm->first;
    if (!comm->first->lanes && descriptor->send != COUNTED && descriptor->recv != COUNTED && !descriptor->applies) {
        path.longest = call->count;
        path.slices = 1;
    }
    if (call->flags & KOLO_CALL_BY_LANES && !descriptor->is_unequal)
        divide(&path, comm);
    if (!is_first && (comm->global_size == 1 || (path.slices && !takes_part(&path, comm))))
        return 0;
    if (is_first) {
        comm->stats.calls_by_collective[descriptor->collective]++;
        comm->stats.payload_bytes += path.bytes;
    }
    if (comm->global_size > 1)
        return begin_to_end(&path, comm);
    if (descriptor->applies)
        kolo_apply_alone(&call->apply, call->send, call->recv, call->count);
    else
        copy_alone(descriptor, call);
    return 0;
}

/* The ways to make a call. */

/* The caller has entered the communicator, which this leaves. */
static int check_and_make(const struct kolo_descriptor *descriptor, const char *function, kolo_comm *comm,
                          struct kolo_arguments *call) {
    int rc = kolo_arguments_check(descriptor, function, comm, call, comm->call.offsets);
    if (rc == 0)
        rc = make_checked(descriptor, comm, call);
    kolo_leave(comm);
    return rc;
}

/* Makes one lane's part of a call that the program makes by lanes. */
static int check_and_make_in_lane(const struct kolo_descriptor *descriptor, const char *function,
                                  const kolo_comm *handed_out, struct kolo_arguments *call) {
    kolo_comm *lane;
    call->flags |= KOLO_CALL_BY_LANES;
    if (handed_out->token->ours && kolo_queue_is_busy(handed_out->first))
        return KOLO_REFUSE(handed_out, function, "calls in the background are in flight: wait for them first");
    const int rc = kolo_lanes_enter(function, handed_out, &lane);
    return rc < 0 ? rc : check_and_make(descriptor, function, lane, call);
}

int kolo_path_make(kolo_collective collective, const char *function, kolo_comm *comm, struct kolo_arguments *call) {
    const struct kolo_descriptor *descriptor = &kolo_registry[collective];
    const bool is_ready = kolo_is_ready(comm);
    if (!is_ready && comm && comm->is_lane)
        return check_and_make_in_lane(descriptor, function, comm, call);
    int rc = is_ready ? 0 : kolo_queue_claim(function, comm, true);
    if (rc < 0)
        return rc;
    rc = kolo_enter(function, comm);
    if (rc == 0)
        rc = check_and_make(descriptor, function, comm, call);
    if (!is_ready)
        kolo_queue_release(comm, rc);
    return rc;
}

int kolo_path_issue(kolo_collective collective, const char *function, kolo_comm *comm, struct kolo_arguments *call,
                    kolo_request **request) {
    const struct kolo_descriptor *descriptor = &kolo_registry[collective];
    kolo_request *made;
    if (!request)
        return kolo_fail(KOLO_ERR_ARG, "%s: request is NULL", function);
    int rc = kolo_enter(function, comm);
    if (rc < 0)
        return rc;
    rc = kolo_request_create(&made, function, descriptor, comm, make_checked, call->ntensors);
    if (rc == 0) {
        rc = kolo_arguments_check(descriptor, function, comm, call, made->offsets);
        if (rc == 0)
            rc = kolo_request_issue(made, function, call);
        else
            kolo_request_free(made);
    }
    if (rc == 0)
        *request = made;
    kolo_leave(comm);
    return rc;
}
