/* The creation of a communicator over a file that its ranks have in common. */
#include "comm/creation/create.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "comm/step/history.h"
#include "comm/step/progress.h"
#include "comm/failure/watchdog.h"
#include "comm/creation/rendezvous.h"
#include "cpu/limits.h"
#include "shm/guard.h"
#include "shm/memory_file.h"

#define DYING_NS_MAX (200 * KOLO_NS_PER_MS)

/* Rank 0: the segment. */

/* Allocates the segment in the job file or, where that file's mount has no room, in a memfd, which no mount limits. */
static int allocate_segment(struct kolo_job *job, struct kolo_segment *segment, const struct kolo_layout *layout,
                            size_t *bytes) {
    segment->offset = kolo_fetch_add(&job->header->file_end, layout->bytes);
    segment->fd = fcntl(job->fd, F_DUPFD_CLOEXEC, 3);
    if (segment->fd < 0)
        return kolo_fail_system(errno, "duplicating the job file's descriptor");
    KOLO_POINT("create.placed");
    int rc = kolo_segment_allocate_all(segment->fd, segment->offset, layout, bytes, &segment->lacks_slots);
    if (rc != KOLO_ERR_NO_SPACE || !job->path[0])
        return rc;
    close(segment->fd);
    segment->offset = 0;
    segment->fd = kolo_memory_file_create("kolo", 0);
    if (segment->fd < 0)
        return rc; /* the message of the attempt that failed first */
    kolo_log(job->settings->log_level, KOLO_LOG_INFO, 0, "%s has no room for %zu bytes: using a memfd", job->path,
             layout->allocated);
    return kolo_segment_allocate_all(segment->fd, 0, layout, bytes, &segment->lacks_slots);
}

/* Returns what kolo_shared_header.internode is to be. */
static uint32_t ranks_of_all(const kolo_comm *comm) {
    return comm->nodes ? comm->nodes->size : 0;
}

/* Lays the segment out over a new mapping of its file. */
static void format_segment(kolo_comm *comm, void *mapping, size_t bytes) {
    struct kolo_segment *segment = &comm->segment;
    kolo_segment_view(segment, mapping, bytes, comm->size, comm->origin.slot_bytes, ranks_of_all(comm));
    segment->counted = true;
    struct kolo_shared_header *shared = segment->header;
    shared->version = KOLO_VERSION_WORD;
    shared->layout = KOLO_LAYOUT;
    shared->ranks = comm->size;
    shared->internode = ranks_of_all(comm);
    shared->slot_bytes = segment->slot_bytes;
    shared->segment_bytes = segment->bytes;
    shared->identity = comm->identity;
    shared->lacks_slots = segment->lacks_slots;
    memcpy(shared->job, comm->origin.title, sizeof shared->job);
    kolo_store_release(&shared->magic, KOLO_SEGMENT_MAGIC); /* for observers */
    kolo_store_relaxed(&shared->occupancy, comm->size * KOLO_OCCUPANCY_RANK + KOLO_OCCUPANCY_USER);
}

static int offer_segment(kolo_comm *comm, struct kolo_job *job) {
    const struct kolo_settings *settings = job->settings;
    struct kolo_segment *segment = &comm->segment;
    const struct kolo_layout layout = kolo_layout_compute(comm->size, settings->slot_bytes, ranks_of_all(comm));
    void *mapping;
    size_t bytes;
    int rc = allocate_segment(job, segment, &layout, &bytes);
    if (rc == 0)
        rc = kolo_segment_map_all(segment->fd, segment->offset, &layout, &bytes, &mapping);
    if (rc < 0)
        return rc;
    KOLO_POINT("create.mapped");
    format_segment(comm, mapping, bytes);

    struct kolo_memory_file file;
    rc = kolo_memory_file_name(segment->fd, &file);
    if (rc < 0)
        return kolo_fail_system(-rc, "looking at the segment's file");
    struct kolo_job_header *header = job->header;
    header->segment = (struct kolo_shared_offer){.offset = segment->offset,
                                                 .bytes = bytes,
                                                 .slot_bytes = settings->slot_bytes,
                                                 .is_apart = segment->offset == 0,
                                                 .mapping = (uint64_t)(uintptr_t)mapping,
                                                 .file = file};
    kolo_fence_threads();
    KOLO_POINT("create.offering");
    kolo_store_release(&header->offer, job->epoch); /* pairs with accept_segment */
    KOLO_POINT("create.offered");
    kolo_bell_ring_slowly(&header->bell);
    return 0;
}

/* The others' part. */

static int open_segment(struct kolo_segment *segment, struct kolo_job *job, const struct kolo_shared_offer *offer) {
    if (!offer->is_apart) {
        segment->fd = fcntl(job->fd, F_DUPFD_CLOEXEC, 3);
        return segment->fd < 0 ? kolo_fail_system(errno, "duplicating the job file's descriptor") : 0;
    }
    /* Where rank 0 has died or given up, its file is gone a moment before that can be seen. */
    const int64_t end_ns = kolo_awake_ns(job->awake) + DYING_NS_MAX;
    int fd;
    while ((fd = kolo_memory_file_open(&offer->file, O_RDWR)) < 0 && fd != -EMFILE && fd != -ENFILE && fd != -ENOMEM &&
           kolo_awake_ns(job->awake) < end_ns) {
        const int rc = kolo_job_wait(job);
        if (rc < 0)
            return rc;
    }
    if (fd < 0)
        return kolo_fail_system(
            -fd,
            "rank %u: opening rank 0's memfd as /proc/%" PRIu64 "/fd/%" PRIu64
            " (/dev/shm had no room for the segment: enlarge it, or run all ranks in one pid namespace)",
            job->global_rank, offer->file.pid, offer->file.fd);
    segment->fd = fd;
    return 0;
}

/* A rank that is a thread of rank 0's own process uses rank 0's mapping: one address for one datum, as thread checkers
 * need. It takes that mapping when the creation is complete: by then rank 0 has counted it as a user, and so does not
 * unmap it. Until then the rank has a mapping of its own. */
static bool shares_rank0s_process(const struct kolo_job *job, uint32_t rank) {
    return kolo_liveness_is_same(&job->members[0].process, &job->members[rank].process);
}

/* *lent: rank 0's mapping, to be used once the creation is complete; NULL: it cannot be. */
static int accept_segment(kolo_comm *comm, struct kolo_job *job, void **lent) {
    struct kolo_job_header *header = job->header;
    while (kolo_load_acquire(&header->offer) < job->epoch) { /* pairs with offer_segment */
        int rc = kolo_job_wait(job);
        if (rc < 0)
            return rc;
    }
    kolo_fence_threads();
    const struct kolo_shared_offer offer = header->segment; /* a copy, which is then checked */
    struct kolo_segment *segment = &comm->segment;
    KOLO_POINT("create.accepting");
    int rc = open_segment(segment, job, &offer);
    if (rc < 0)
        return rc;
    KOLO_POINT("create.opened");
    struct stat found;
    if (fstat(segment->fd, &found) < 0 || (found.st_uid != geteuid() && !job->rejoin) ||
        !kolo_layout_is_legal(&(struct kolo_segment_claim){.ranks = comm->size,
                                                           .slot_bytes = offer.slot_bytes,
                                                           .internode = ranks_of_all(comm),
                                                           .segment_bytes = offer.bytes,
                                                           .offset = offer.offset,
                                                           .file_bytes = (uint64_t)found.st_size}))
        return kolo_fail(KOLO_ERR_VERSION,
                         "rank %u: the segment that rank 0 offers is damaged (%" PRIu64 " bytes at %" PRIu64
                         ", slots of %" PRIu64 ")",
                         comm->rank, offer.bytes, offer.offset, offer.slot_bytes);
    segment->offset = offer.offset;
    *lent = shares_rank0s_process(job, comm->rank) ? (void *)(uintptr_t)offer.mapping : NULL;
    const struct kolo_layout layout = kolo_layout_compute(comm->size, offer.slot_bytes, ranks_of_all(comm));
    void *mapping;
    size_t bytes = offer.bytes;
    rc = kolo_segment_map_all(segment->fd, offer.offset, &layout, &bytes, &mapping);
    if (rc < 0)
        return rc;
    KOLO_POINT("create.accepted");
    kolo_segment_view(segment, mapping, bytes, comm->size, offer.slot_bytes, ranks_of_all(comm));
    return 0;
}

/* The part of all ranks. */

static void introduce(kolo_comm *comm, const struct kolo_job *job) {
    struct kolo_shared_member *self = &comm->segment.members[comm->rank];
    KOLO_POINT("create.introducing");
    const bool guarded = job->guarded && kolo_guard_take(comm->segment.fd, kolo_guard_place(job->epoch, comm->rank));
    kolo_liveness_introduce(&self->process, comm->liveness.own_namespace, guarded);
    kolo_guards_enter(&self->process.guard);
    comm->liveness.guard = self->process.guard;
    self->membarrier = kolo_fence_register() == 0;
    kolo_cpu_set_allowed(&self->cpus);
    kolo_store_relaxed(&self->state, KOLO_MEMBER_PRESENT);
    KOLO_POINT("create.present");
    comm->segment.lacks_slots = comm->segment.header->lacks_slots;
    kolo_segment_settle(&comm->segment, comm->rank);
    KOLO_POINT("create.settled");
}

/* Sets how long this rank spins and yields. Where every rank has a processor, spinning costs nobody anything, and a
 * wake-up from the kernel would cost more than most waits last. Where ranks outnumber processors, a rank that spins may
 * keep its peer from running. There a rank yields almost at once (50 looks instead of 4 cost 40 % of 8 bytes between
 * four ranks on two processors, and 75 % between sixteen), unless all ranks that share the processor are as far
 * (comm/step/progress.h); but it sleeps only after many others have had their turn. */
static void set_waiting(kolo_comm *comm, kolo_wait_mode mode) {
    enum { SPINS_AS_FAR = 100 };
    static const struct {
        uint32_t spins, yields;
    } budgets[] = {
        [KOLO_WAIT_AUTO] = {20000, 200}, /* with a processor for each rank */
        [KOLO_WAIT_SPIN] = {200000, 0},
        [KOLO_WAIT_YIELD] = {KOLO_SPINS_MIN, 200},
        [KOLO_WAIT_SLEEP] = {50, 0},
    };
    kolo_cpu_set all = {{0}};
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        kolo_cpu_set_merge(&all, &comm->segment.members[rank].cpus);
        comm->waiter.publisher_fences |= !comm->segment.members[rank].membarrier;
    }
    const uint32_t cpus = kolo_cpu_set_count(&all), quota = kolo_quota_read();
    /* Small calls take lane 0 alone, while the other lanes sleep. */
    const uint32_t threads = comm->size * (comm->origin.lane ? comm->origin.threads : 1);
    const uint32_t quota_used = 1000 * (threads < cpus ? threads : cpus);
    const bool is_oversubscribed = threads > cpus, is_limited = quota > 0 && quota < quota_used;
    const bool is_auto = mode == KOLO_WAIT_AUTO;
    if (is_auto && (is_oversubscribed || is_limited))
        mode = KOLO_WAIT_YIELD;
    comm->waiter.spins = budgets[mode].spins;
    comm->waiter.yields = budgets[mode].yields;
    /* No such spinning with a quota, since it takes the others' share, nor with proxies, which need processors. */
    if (is_auto && is_oversubscribed && !is_limited && !comm->nodes) {
        comm->waiter.spins = SPINS_AS_FAR;
        comm->waiter.neighbours = kolo_oversubscription_look;
    }
    comm->waiter.spins_max = comm->waiter.spins;
    comm->waiter.check = kolo_failure_check;
    comm->waiter.note = kolo_history_note_wait;
    comm->waiter.owner = comm;
    kolo_log(comm->log_level, KOLO_LOG_INFO, (int)comm->global_rank, "%u ranks on %u processors%s", comm->size, cpus,
             quota ? " with a quota" : "");
}

/* Says that this rank is ready. */
static void attach(const kolo_comm *comm, struct kolo_job *job) {
    kolo_fence_threads();
    kolo_store_release(&job->members[comm->rank].attached, job->epoch); /* pairs with complete */
    KOLO_POINT("create.attached");
    if (comm->rank != 0)
        kolo_job_arrive(job);
}

/* Sets by which guards this rank sees whether the others live. */
static void use_guards(kolo_comm *comm, const struct kolo_job *job) {
    struct kolo_segment *segment = &comm->segment;
    struct stat found;
    comm->liveness.members = segment->members;
    if (!segment->header->guards_anew)
        kolo_liveness_use_guards(&comm->liveness);
    else if (fstat(segment->fd, &found) == 0)
        kolo_liveness_use_locks(&comm->liveness, found.st_dev, found.st_ino, job->epoch);
}

/* Rank 0's part: waits until all ranks are ready, and decides the settings of all. */
static int complete(kolo_comm *comm, struct kolo_job *job) {
    int32_t borrowers = 0;
    for (uint32_t rank = 1; rank < comm->size; rank++) {
        while (kolo_load_acquire(&job->members[rank].attached) < job->epoch) {
            const int waited = kolo_job_wait(job);
            if (waited < 0)
                return waited;
        }
        borrowers += shares_rank0s_process(job, rank);
    }
    kolo_fence_threads(); /* decide looks at what the others wrote */
    comm->segment.header->guards_anew = !kolo_liveness_guards_agree(comm->segment.members, comm->size);
    use_guards(comm, job); /* before connect, as the relay copies them */
    struct kolo_remote_ranks *remote = job->remote;
    if (remote)
        set_waiting(comm, comm->origin.wait);
    int rc = remote ? remote->calls->connect(remote, comm) : 0;
    if (rc < 0)
        return rc;
    KOLO_POINT("create.deciding");
    comm->above->decide(comm, job->settings);
    KOLO_POINT("create.decided");
    kolo_job_unlink(job);
    kolo_segment_lend(&comm->segment, borrowers);
    kolo_fence_threads();
    rc = remote ? kolo_job_agree(job) : 0;
    KOLO_POINT("create.completing");
    if (rc == 0 && remote)
        rc = remote->calls->agree(remote, comm);
    if (rc == 0)
        rc = kolo_job_complete(job);
    if (rc < 0) {
        kolo_segment_lend(&comm->segment, -borrowers);
        return rc;
    }
    KOLO_POINT("create.completed");
    return 0;
}

/* The other ranks' part. */
static int await_completion(kolo_comm *comm, struct kolo_job *job, void *lent) {
    KOLO_POINT("create.awaiting");
    while (!kolo_job_is_complete(job)) {
        int rc = kolo_job_wait(job);
        if (rc < 0 && !kolo_job_is_complete(job)) /* otherwise it was complete before this rank could give up */
            return rc;
    }
    KOLO_POINT("create.complete");
    kolo_fence_threads();
    if (lent) {
        kolo_segment_borrow(&comm->segment, lent);
        kolo_segment_settle(&comm->segment, comm->rank);
    }
    use_guards(comm, job);
    return 0;
}

/* Returns the bytes of a call's scratch memory where all ranks are on one node. */
static size_t call_bytes(uint32_t ranks) {
    const struct kolo_call_state *call = NULL;
    return ranks * (sizeof *call->peer_steps + sizeof *call->sources + 2 * sizeof *call->offsets[0] +
                    sizeof *call->targets + kolo_unpacked_bytes(ranks)) +
           KOLO_STREAMED_PIECE_BYTES + KOLO_PACKED_BYTES_MAX;
}

static int allocate_call(struct kolo_call_state *call, uint32_t ranks, uint32_t global_ranks) {
    const size_t unpacked_bytes = ranks * kolo_unpacked_bytes(ranks);
    call->peer_steps = calloc(ranks, sizeof *call->peer_steps);
    call->sources = calloc(ranks, sizeof *call->sources);
    for (int i = 0; i < 2; i++)
        call->offsets[i] = calloc(global_ranks, sizeof *call->offsets[i]);
    call->targets = calloc(ranks, sizeof *call->targets);
    call->unpacked = aligned_alloc(KOLO_LINE_BYTES, unpacked_bytes);
    call->stage = aligned_alloc(KOLO_PAGE_BYTES, KOLO_STREAMED_PIECE_BYTES);
    call->packed = aligned_alloc(KOLO_PAGE_BYTES, KOLO_PACKED_BYTES_MAX);
    if (!call->offsets[0] || !call->offsets[1] || !call->peer_steps || !call->sources || !call->targets ||
        !call->unpacked || !call->stage || !call->packed)
        return kolo_fail(KOLO_ERR_SYSTEM, "out of memory for %u ranks", ranks);
    memset(call->unpacked, 0, unpacked_bytes);
    return 0;
}

/* Frees it, also if only a part was allocated. */
static void free_call(struct kolo_call_state *call) {
    free(call->peer_steps);
    free(call->sources);
    free(call->offsets[0]);
    free(call->offsets[1]);
    free(call->targets);
    free(call->unpacked);
    free(call->stage);
    free(call->packed);
}

static int allocate_own(kolo_comm *comm) {
    comm->token = mmap(NULL, KOLO_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (comm->token == MAP_FAILED) {
        comm->token = NULL;
        return kolo_fail_system(errno, "mapping a page");
    }
    if (madvise(comm->token, KOLO_PAGE_BYTES, MADV_WIPEONFORK) < 0)
        return kolo_fail_system(errno, "madvise(MADV_WIPEONFORK)");
    comm->token->ours = true;
    kolo_store_relaxed(&comm->token->usable, 1);
    kolo_store_relaxed(&comm->token->ready, 1);
    const int rc = allocate_call(&comm->call, comm->size, comm->global_size);
    return rc < 0 ? rc : kolo_liveness_create(&comm->liveness, comm->size, comm->rank);
}

size_t kolo_comm_bytes(uint32_t ranks) {
    return sizeof(kolo_comm) + KOLO_PAGE_BYTES + call_bytes(ranks) + ranks * sizeof(struct kolo_watched);
}

/* The last part of all ranks, once all are attached and rank 0 has decided the settings. */
static void finish(kolo_comm *comm) {
    comm->settings = comm->segment.header->settings;
    comm->identity = comm->segment.header->identity;
    comm->signal = &comm->segment.signals[comm->rank];
    comm->history = &comm->segment.histories[comm->rank];
    comm->waiter.spun_shown = &comm->history->spun_ns; /* pairs with kolo_watch_rank */
    comm->stats.segment_bytes = comm->segment.allocated;
    set_waiting(comm, comm->origin.wait);
    kolo_watchdog_look_at_wards(comm);
}

/* Guards tell from now on which ranks live, and the segment needs no descriptor. */
static void close_segment(kolo_comm *comm, const struct kolo_job *job) {
    struct kolo_segment *segment = &comm->segment;
    const bool guarded = segment->members[comm->rank].process.guarded, anew = segment->header->guards_anew;
    const uint64_t place = kolo_guard_place(job->epoch, comm->rank);
    if (guarded && !anew)
        kolo_guard_drop(segment->fd, place);
    kolo_segment_close(segment, guarded && anew && !kolo_guards_add(segment->fd, place, &comm->liveness.guard));
}

static int join(kolo_comm *comm, struct kolo_job *job) {
    void *lent = NULL;
    int rc = comm->rank == 0 ? offer_segment(comm, job) : accept_segment(comm, job, &lent);
    if (rc < 0)
        return rc;
    introduce(comm, job);
    attach(comm, job);
    rc = comm->rank == 0 ? complete(comm, job) : await_completion(comm, job, lent);
    if (rc < 0)
        return rc;
    close_segment(comm, job);
    finish(comm);
    return 0;
}

void kolo_comm_free(kolo_comm *comm) {
    const bool forked = comm->token && !comm->token->ours;
    if (comm->above->internode)
        comm->above->internode->free(comm, forked);
    kolo_heap_destroy(&comm->heap, forked || !comm->token || !kolo_comm_is_usable(comm));
    kolo_channels_destroy(&comm->channels);
    if (comm->segment.header && forked)
        kolo_segment_forget(&comm->segment);
    else if (comm->segment.header)
        kolo_segment_leave(&comm->segment);
    else if (comm->segment.fd >= 0)
        close(comm->segment.fd);
    KOLO_POINT("destroy.left");
    kolo_liveness_destroy(&comm->liveness, forked);
    free_call(&comm->call);
    if (comm->token)
        munmap(comm->token, KOLO_PAGE_BYTES);
    KOLO_POINT("destroy.freeing");
    free(comm);
}

int kolo_comm_begin(kolo_comm **result, const struct kolo_settings *settings, const struct kolo_place *place,
                    const struct kolo_layer_above *above) {
    kolo_comm *comm = calloc(1, sizeof *comm);
    if (!comm)
        return kolo_fail(KOLO_ERR_SYSTEM, "out of memory");
    comm->origin = *settings;
    comm->first = settings->first ? settings->first : comm;
    comm->above = above;
    comm->rank = (uint32_t)settings->place.rank;
    comm->size = (uint32_t)settings->place.size;
    comm->global_rank = (uint32_t)place->rank;
    comm->global_size = (uint32_t)place->size;
    comm->identity = comm->rank == 0 ? kolo_random_number() : 0;
    comm->segment.fd = -1;
    comm->log_level = settings->log_level;
    comm->waiter.elsewhere = above->elsewhere;
    kolo_store_relaxed(&comm->waiter.timeout_ns, (uint64_t)settings->timeout_ns);
    comm->stall.warn_ns = settings->stall_warn_ns;
    comm->reducer = kolo_reducer_select(settings->features);
    for (uint32_t rank = 0; rank < comm->size; rank++)
        kolo_ranks_add(comm->survivors, rank);
    const int rc = allocate_own(comm);
    if (rc < 0)
        kolo_comm_free(comm);
    else
        *result = comm;
    return rc;
}

/* Meets the ranks of all nodes. *local becomes the settings with which the ranks of this node go on. */
static int meet_all(struct kolo_job *job, struct kolo_settings *local, const struct kolo_internode_calls *calls) {
    if (!local->net.rendezvous[0] || local->place.size == 1)
        return 0;
    if (calls)
        return calls->meet(&job->remote, local, job->rejoin);
    return kolo_fail(KOLO_ERR_UNSUPPORTED,
                     "rank %" PRId64
                     ": the ranks are to meet at %s, but this library is for one machine only (built with "
                     "KOLO_MACHINES=OFF): use another one, or start all ranks here, without KOLO_RENDEZVOUS",
                     local->place.rank, local->net.rendezvous);
}

/* Puts a new communicator into the trace. */
static void trace_comm(kolo_comm *comm, const struct kolo_job *job, const struct kolo_settings *settings) {
    struct kolo_trace_comm traced = {.file = comm->segment.inode,
                                     .offset = comm->segment.offset,
                                     .identity = comm->identity,
                                     .rank = (int32_t)comm->rank,
                                     .size = (int32_t)comm->size,
                                     .global_rank = (int32_t)comm->global_rank,
                                     .global_size = (int32_t)comm->global_size,
                                     .node = (int32_t)comm->node,
                                     .nodes = comm->nodes ? (int32_t)comm->nodes->nodes : 1,
                                     .lane = (int32_t)settings->lane};
    strcpy(traced.made_by, settings->lane ? "lane" : job->rejoin ? "group" : "create");
    kolo_trace_set_node(traced.node, traced.nodes);
    comm->waiter.trace = kolo_trace_add_comm(&traced);
}

/* Begins the trace of the process, if there is to be one. */
static int begin_trace(const struct kolo_settings *settings) {
    return kolo_trace_start(&(struct kolo_trace_process){.rank = (int32_t)settings->place.rank,
                                                         .ranks = (int32_t)settings->place.size,
                                                         .local_rank = (int32_t)settings->place.local_rank,
                                                         .job = settings->title});
}

static int make(kolo_comm **comm, struct kolo_job *job, const struct kolo_settings *settings,
                const struct kolo_layer_above *above) {
    struct kolo_settings local = *settings;
    int rc = meet_all(job, &local, above->internode);
    if (rc < 0)
        return rc;
    struct kolo_remote_ranks *remote = job->remote;
    const bool meets = local.place.size > 1 || remote;
    if (meets)
        rc = kolo_job_open(job, &local); /* comes first: from here on the others are told of a failure */
    if (rc == 0) {
        rc = kolo_comm_begin(comm, &local, &settings->place, above);
        if (rc == 0 && remote)
            rc = remote->calls->extend(remote, *comm);
        if (rc == 0 && meets)
            rc = join(*comm, job);
        if (rc < 0 && meets)
            kolo_job_fail(job, rc);
    }
    if (rc < 0 && meets && job->rejoin)
        job->rejoin->culprit = kolo_job_culprit(job);
    if (meets)
        kolo_job_close(job);
    return rc;
}

void kolo_settings_inherit(struct kolo_settings *settings, const kolo_comm *comm, uint32_t rank, uint32_t size) {
    *settings = comm->origin;
    settings->timeout_ns = kolo_waiter_timeout_ns(&comm->waiter);
    settings->place.rank = rank;
    settings->place.size = size;
    settings->place.job[0] = settings->place.job_everywhere[0] = '\0';
    settings->shm_fd = -1;
    settings->net.rendezvous[0] = '\0';
    settings->lane = 0;
    settings->first = NULL;
    if (comm->segment.header) { /* otherwise there is one rank, and the settings are its own */
        settings->algorithm = (kolo_algorithm)comm->settings.algorithm;
        settings->slot_bytes = comm->segment.slot_bytes;
        settings->single_copy_bytes = comm->settings.single_copy_bytes;
        settings->tree_levels_given = comm->settings.tree_sizes_given;
        memcpy(settings->tree_levels, comm->settings.tree_sizes, sizeof settings->tree_levels);
    }
    if (settings->create_timeout_ns > kolo_waiter_timeout_ns(&comm->waiter))
        settings->create_timeout_ns = kolo_waiter_timeout_ns(&comm->waiter);
}

int kolo_comm_make(kolo_comm **result, const struct kolo_settings *settings, const struct kolo_layer_above *above,
                   struct kolo_rejoin *rejoin) {
    struct kolo_job job = {.rejoin = rejoin};
    kolo_comm *comm = NULL;
    int rc = begin_trace(settings);
    kolo_trace_span_begin(KOLO_TRACE_CREATE, 0, 0, (uint64_t)settings->place.size, 0);
    rc = rc < 0 ? rc : make(&comm, &job, settings, above);
    if (rc == 0)
        trace_comm(comm, &job, settings);
    kolo_trace_span_end(KOLO_TRACE_CREATE, rc);
    if (rc < 0)
        kolo_log(settings->log_level, KOLO_LOG_ERROR, (int)settings->place.rank, "%s", kolo_error_message());
    if (job.remote)
        job.remote->calls->end(job.remote, rc);
    if (rc < 0 && comm && comm->listener && rejoin) { /* the listener belongs to the broken communicator again */
        rejoin->listener = comm->listener;
        comm->listener = NULL;
    }
    if (rc == 0 && rejoin && rejoin->listener) { /* not needed with one node, but ranks that come late find it open */
        comm->listener = rejoin->listener;
        rejoin->listener = NULL;
    }
    if (rc < 0 && comm)
        kolo_comm_free(comm);
    else if (rc == 0)
        *result = comm;
    return rc;
}
