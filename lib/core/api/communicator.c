/* Creates, shrinks, aborts and destroys communicators, and answers the queries about them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kolo_lanes.h"
#include "kolo_tools.h"
#include "plan/tuning.h"
#include "api/groups/derive.h"
#include "api/lanes/lanes.h"
#include "api/other_parts.h"
#include "api/requests/queue.h"
#include "base/sized.h"
#include "comm/failure/failure.h"
#include "sync/thread.h"

/* A kolo_decide_fn: decides the settings that bind all ranks, by the CPUs on which they run. */
static void decide(kolo_comm *comm, const struct kolo_settings *settings) {
    const kolo_cpu_set *rank_cpus[KOLO_RANKS_MAX];
    kolo_cpu_set all = {{0}};
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        rank_cpus[rank] = &comm->segment.members[rank].cpus;
        kolo_cpu_set_merge(&all, rank_cpus[rank]);
    }
    kolo_topology topology;
    kolo_topology_read(&topology, &all);
    const struct kolo_tuning_question question = {
        .algorithm = settings->algorithm,
        .slot_bytes = settings->slot_bytes,
        .single_copy_bytes = settings->single_copy_bytes,
        .ranks = comm->size,
        .topology = &topology,
        .rank_cpus = rank_cpus,
        .tree_sizes = settings->tree_levels_given ? settings->tree_levels : NULL,
    };
    struct kolo_tuning_source source;
    kolo_tuning_make(&comm->segment.header->settings, &question, &source);
    comm->segment.header->settings.threads = settings->threads;
    comm->segment.header->settings.single_copy_bytes = settings->single_copy_bytes;
    comm->segment.header->settings.tree_sizes_given = settings->tree_levels_given;
    kolo_log(settings->log_level, source.refused ? KOLO_LOG_WARN : KOLO_LOG_INFO, (int)comm->global_rank, "%s",
             source.text);
}

const struct kolo_layer_above kolo_layers = {
    .decide = decide,
    .complete = kolo_lanes_make,
    .elsewhere = kolo_queue_elsewhere,
#if KOLO_HAVE_MACHINES
    .internode = &kolo_internode_calls,
#endif
};

/* Warns once per process and job: only rank 0 does. kolorun, which passes a descriptor, has warned already. */
static void warn_of_environment(const struct kolo_settings *settings) {
    static kolo_atomic_u64 warned;
    const char *dispute = settings->place.dispute;
    if (settings->log_level < KOLO_LOG_WARN || settings->place.rank != 0 ||
        (kolo_environment_text(KOLO_VARIABLE_SHM_FD) && !dispute[0]) || !kolo_compare_and_swap(&warned, 0, 1))
        return;
    if (dispute[0])
        kolo_log(settings->log_level, KOLO_LOG_WARN, 0, "%s: the first of the two holds, which is the inner one",
                 dispute);
    kolo_variable unknown = {.variable_bytes = sizeof unknown};
    for (size_t i = KOLO_VARIABLES; kolo_variable_get(i, &unknown) == 0; i++)
        kolo_log(settings->log_level, KOLO_LOG_WARN, 0, "%s", unknown.mistake);
}

int kolo_comm_create(kolo_comm **comm, const kolo_options *options) {
    struct kolo_settings settings;
    if (!comm)
        return kolo_fail(KOLO_ERR_ARG, "kolo_comm_create: comm is NULL");
    int rc = kolo_settings_resolve(&settings, options);
    kolo_comm *made;
    if (rc == 0)
        warn_of_environment(&settings);
    if (rc == 0)
        rc = kolo_comm_make(&made, &settings, &kolo_layers, NULL);
    if (rc < 0)
        return rc;
    rc = kolo_comm_prepare(made);
    if (rc < 0)
        kolo_comm_destroy(made);
    else
        *comm = made;
    return rc;
}

int kolo_comm_shrink(kolo_comm *comm, kolo_comm **shrunk) {
    if (comm && !shrunk)
        return kolo_fail(KOLO_ERR_ARG, "kolo_comm_shrink: shrunk is NULL");
    int rc = kolo_check_whole("kolo_comm_shrink", comm);
    if (rc < 0)
        return rc;
    kolo_failure failure;
    kolo_failure_describe(comm, &failure);
    if (comm->shrunk || (!failure.status && kolo_comm_is_usable(comm)))
        return KOLO_FAIL_IN(comm, __func__, KOLO_ERR_STATE, "the communicator %s",
                            comm->shrunk ? "has been shrunk already: use the communicator that came of it"
                                         : "is not broken: no rank has to be left out");
    kolo_queue_end(comm, failure.status, failure.message);
    kolo_queue_join(comm);
    kolo_comm_break(comm);
    kolo_lanes_break(comm);
    kolo_comm *made = NULL, *broken = comm;
    /* A rank that ends while the new communicator is prepared breaks it. The loop tries again, with one rank fewer. */
    do {
        rc = kolo_shrink_run(broken, &made);
        if (broken != comm)
            kolo_comm_destroy(broken);
        broken = made;
        if (rc == 0)
            rc = kolo_comm_prepare(made);
        else
            made = NULL;
    } while (rc < 0 && made && !kolo_comm_is_usable(made));
    if (rc < 0) {
        comm->shrunk = false;
        kolo_comm_destroy(made);
    } else {
        *shrunk = made;
    }
    return rc;
}

void kolo_comm_end(kolo_comm *comm) {
    KOLO_POINT("destroy.beginning");
    kolo_trace_span_begin(KOLO_TRACE_DESTROY, comm->waiter.trace, 0, 0, 0);
    while (comm->remnants) {
        const struct kolo_remnant *first = comm->remnants;
        comm->remnants = first->next;
        first->end(first->owner);
    }
    kolo_queue_end(comm, KOLO_ERR_STATE, "the communicator was destroyed before the request was carried out");
    kolo_queue_join(comm);
    kolo_lanes_end(comm);
    if (comm->segment.header && comm->token->ours) {
        if (!kolo_comm_is_usable(comm))
            kolo_shrink_mark_dead(comm);
        kolo_store_release(&comm->segment.members[comm->rank].state, KOLO_MEMBER_DEPARTED); /* pairs with failure.c */
    }
    KOLO_POINT("destroy.departed");
    kolo_queue_free(comm);
    kolo_comm_free(comm);
    kolo_trace_span_end(KOLO_TRACE_DESTROY, 0);
}

int kolo_comm_destroy(kolo_comm *comm) {
    if (comm && comm->is_lane)
        return kolo_unusable("kolo_comm_destroy", comm);
    if (comm)
        kolo_comm_end(comm);
    return 0;
}

/* Publishes the abort, and completes the requests of all lanes with it. */
static void abort_by(kolo_comm *comm, int code) {
    char message[KOLO_QUEUE_WHY_BYTES];
    const int status = kolo_failure_publish(comm, KOLO_ERR_ABORTED, code); /* or what was first */
    snprintf(message, sizeof message, "%s", kolo_error_message());
    kolo_queue_end(comm->first, status, message);
}

/* Aborts by the thread of one lane, while others may be in a call. */
static int abort_in_lane(const kolo_comm *handed_out, int code) {
    kolo_comm *lane;
    const int rc = kolo_lanes_enter("kolo_comm_abort", handed_out, &lane);
    if (rc < 0)
        return rc;
    abort_by(lane, code);
    kolo_leave(lane);
    return 0;
}

int kolo_comm_abort(kolo_comm *comm, int code) {
    if (!comm)
        return kolo_fail(KOLO_ERR_ARG, "kolo_comm_abort: comm is NULL");
    if (comm->is_lane)
        return abort_in_lane(comm, code);
    if (!kolo_comm_is_usable(comm))
        return KOLO_FAIL_IN(comm, __func__, KOLO_ERR_STATE, "the communicator is broken already");
    KOLO_POINT("abort.beginning");
    abort_by(comm, code);
    kolo_lanes_break(comm);
    return 0;
}

int kolo_comm_set_hooks(kolo_comm *comm, const kolo_hooks *hooks) {
    static const struct kolo_sized sized = KOLO_SIZED(kolo_hooks, hooks_bytes, context);
    kolo_hooks own = {.interrupt = NULL};
    if (!comm)
        return kolo_fail(KOLO_ERR_ARG, "kolo_comm_set_hooks: comm is NULL");
    if (comm->is_lane)
        return kolo_unusable("kolo_comm_set_hooks", comm);
    const int rc = hooks ? kolo_sized_read(&sized, "kolo_comm_set_hooks", &own, hooks) : 0;
    if (rc < 0)
        return rc;
    kolo_common_lock(); /* see kolo_queue_forget_answers */
    comm->interrupt = (struct kolo_interrupt){.check = own.interrupt, .context = own.context, .thread = gettid()};
    kolo_common_unlock();
    comm->waiter.idle = own.idle;
    comm->waiter.idle_context = own.context;
    return 0;
}

int kolo_comm_set_timeout(kolo_comm *comm, int64_t timeout_ms) {
    const int rc = kolo_check_whole("kolo_comm_set_timeout", comm);
    if (rc < 0)
        return rc;
    if (timeout_ms < 0 || timeout_ms > KOLO_TIMEOUT_MS_MAX)
        return KOLO_REFUSE(comm, __func__, "timeout_ms %" PRId64 ": must be from 0 to %" PRId64 " ms; 0 is no limit",
                           timeout_ms, KOLO_TIMEOUT_MS_MAX);
    const int64_t timeout_ns = timeout_ms ? timeout_ms * KOLO_NS_PER_MS : KOLO_NEVER_NS;
    for (uint32_t lane = 0; lane < kolo_lanes_count(comm); lane++)
        kolo_store_relaxed(&(lane ? comm->lanes->lane[lane] : comm)->waiter.timeout_ns, (uint64_t)timeout_ns);
    return 0;
}

int kolo_comm_rank(const kolo_comm *comm) {
    return (int)comm->global_rank;
}

int kolo_comm_size(const kolo_comm *comm) {
    return (int)comm->global_size;
}

int kolo_comm_nodes(const kolo_comm *comm) {
    return comm->nodes ? (int)comm->nodes->nodes : 1;
}

int kolo_comm_query(const kolo_comm *comm, kolo_comm_info *info) {
    static const struct kolo_sized sized = KOLO_SIZED(kolo_comm_info, info_bytes, timeout_ms);
    if (!comm)
        return kolo_fail(KOLO_ERR_ARG, "kolo_comm_query: comm is NULL");
    const int64_t timeout_ns = kolo_waiter_timeout_ns(&comm->first->waiter); /* of all lanes */
    kolo_comm_info found;
    memset(&found, 0, sizeof found);
    found.rank = kolo_comm_rank(comm);
    found.size = kolo_comm_size(comm);
    found.local_rank = (int)comm->rank;
    found.local_size = (int)comm->size;
    found.node = comm->nodes ? (int)comm->node : 0;
    found.nodes = kolo_comm_nodes(comm);
    found.lanes = (int)kolo_lanes_count(comm->first);
    found.timeout_ms = timeout_ns == KOLO_NEVER_NS ? 0 : timeout_ns / KOLO_NS_PER_MS;
    return kolo_sized_give(&sized, "kolo_comm_query", info, &found);
}

int kolo_comm_failure(const kolo_comm *comm, kolo_failure *failure) {
    static const struct kolo_sized sized = KOLO_SIZED(kolo_failure, failure_bytes, message);
    kolo_failure found;
    if (!comm)
        return kolo_fail(KOLO_ERR_ARG, "kolo_comm_failure: comm is NULL");
    kolo_failure_describe(comm, &found);
    return kolo_sized_give(&sized, "kolo_comm_failure", failure, &found);
}

int kolo_comm_stats(const kolo_comm *comm, kolo_stats *stats) {
    static const struct kolo_sized sized = KOLO_SIZED(kolo_stats, stats_bytes, segment_bytes);
    if (!comm)
        return kolo_fail(KOLO_ERR_ARG, "kolo_comm_stats: comm is NULL");
    kolo_stats now;
    comm = comm->origin.lane ? comm : comm->first;
    kolo_queue_stats(comm, &now);
    static_assert(sizeof now.calls_by_collective / 8 >= KOLO_COLLECTIVES &&
                      sizeof now.calls_by_algorithm / 8 >= KOLO_ALGORITHMS,
                  "each has its number");
    now.buffer_bytes = comm->heap.bytes;
    for (uint32_t of_rank = 0; comm->nodes && comm->token->ours && of_rank < kolo_lanes_count(comm); of_rank++) {
        const kolo_comm *one = of_rank ? comm->lanes->lane[of_rank] : comm;
        for (uint32_t i = 0; i < KOLO_LANES_MAX; i++) {
            const struct kolo_shared_lane *lane = &one->segment.internode->lanes[i];
            now.net_sent_bytes += kolo_load_relaxed(&lane->sent_bytes);
            now.net_received_bytes += kolo_load_relaxed(&lane->received_bytes);
            now.net_system_calls += kolo_load_relaxed(&lane->system_calls);
        }
    }
    for (int i = 0; i < KOLO_COLLECTIVES; i++)
        now.calls += now.calls_by_collective[i];
    return kolo_sized_give(&sized, "kolo_comm_stats", stats, &now);
}
