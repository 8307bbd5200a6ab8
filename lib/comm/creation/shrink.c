/* How survivors agree. On one node, all of it happens in the broken communicator's segment, which each of them has
 * mapped.
 *
 * It goes in generations, 1, 2, ...; each is one attempt. In one, a rank
 *   1. comes: stores the generation in its `shrink_arrived`, and waits until every rank that was left has come, or has
 *      ended or departed, or the deadline has passed. Who lives but has not come by then is left out.
 *   2. decides: writes its view, the set of ranks that it saw come, into its own proposal, then tries to write its name
 *      into the header's `shrink_decision` by compare-and-swap. The first one wins, and its view is everybody's. Views
 *      lie in the segment, so that it holds even if its author is dead by now.
 *   3. attaches: the lowest rank of the view, the leader, makes the segment, complete with all members and what binds
 *      all, and only then offers it; the others open and map it and check it. Each stores the generation in its
 *      `shrink_attached`.
 *   4. concludes: `shrink_outcome` becomes, by compare-and-swap once a generation,
 *        COMMITTED  by whoever sees that all of the view have attached (that is no one's task in particular),
 *        ABORTED    by whoever sees one of the view that has not attached and is gone, or is not ready in time,
 *        FAILED     by a rank that lacks memory, a descriptor or the like: then the call fails on all.
 *      After ABORTED the next generation begins, without the rank that it names.
 *
 * Both words of the header hold the generation above all else, and only grow. A rank is in generation g + 1 only if it
 * has read g's outcome, and there is one only after g's decision. So whoever finds a later generation than its own
 * in either word knows that the others went on without it: to be in a view one has to have come.
 *
 * Who reads what while another writes: a rank's proposals alternate. That of generation g is written again in g + 2,
 * after the decision of g + 1. Who copies a view and then still finds g's decision has copied g's view.
 *
 * A death leaves: before (1) or in it, a rank that is not in the view. Before attaching, an outcome of ABORTED, as one
 * that is in the view is missing. After attaching, a member of the new communicator that its first call finds dead,
 * as it would at any other time; nobody needs the leader then, since what it had to write was there before its offer.
 * Each generation that is aborted has one rank less, so that there are no more of them than ranks. Each wait ends by
 * the communicator's timeout.
 *
 * Memory. The segment is a nameless file of its own, not one more piece of the job's file: the kernel takes it back
 * with the last descriptor, however its holders ended, while a piece that a dead rank should have given back would stay
 * for as long as the job. Before the commit only the leader writes into it, and only into what it has just made. Ranks
 * that are threads of its process take its mapping after the commit, never before, so that it can unmap it when there
 * is none; the mapping is counted for them from the start (header.occupancy). The leader's descriptor is that of the
 * file until it closes it, which it does not before there is an outcome: who has opened it, or failed to, looks once
 * more for one, and whether the leader lives.
 *
 * Several nodes. Each node's ranks come and decide (1, 2) in the segment of their own, with generations of their own.
 * Then
 *   3. the lowest rank of the view, the leader, confers with those of the other nodes (shrink_nodes.c), and offers what
 *      came of it, in its proposal, to the ranks of its node: which ranks of all go on, where they meet, and an empty
 *      file. `shrink_outcome` becomes ABORTED where the leader is gone before that, or FAILED where it could not agree
 *      with the others; else there is none.
 *   4. All that go on make a communicator as any other is made: they meet at that address, each node's in the new file.
 *      That ends alike on all of them, or nearly so (shrink_nodes.c). Where it fails as somebody has ended or is not
 *      heard of, each goes on with the next generation; where it lacks memory or the like, the call fails on all.
 * So there can be a later generation without an outcome of this one: who still waits for the leader's file finds it
 * in the leader's `shrink_arrived` or in the decision. A leader that dies leaves its node an outcome or a creation that
 * fails, and another leader in the next generation. */
#include "comm/creation/shrink.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/awake.h"
#include "base/clock.h"
#include "base/status.h"
#include "comm/creation/create.h"
#include "comm/ranks.h"
#include "shm/guard.h"
#include "shm/memory_file.h"
#include "sync/point.h"

#define PAUSE_NS_FIRST 20000
#define PAUSE_NS_MAX   1000000
#define DYING_NS_MAX   (5000 * KOLO_NS_PER_MS)

enum outcome { COMMITTED = 1, ABORTED, FAILED };

enum { AGAIN = 1 };

/* One generation. */
struct shrink {
    kolo_comm *comm; /* the broken one */
    uint64_t generation;
    uint32_t leader;         /* lowest rank of the view */
    kolo_comm *made;         /* NULL: not yet */
    uint64_t mapping;        /* the leader's, for its threads; 0: this rank has its own */
    struct kolo_awake awake; /* the present wait's */
    int64_t deadline_ns;     /* likewise */
    int64_t look_ns;         /* when to look next who lives */
    int64_t pause_ns;
    struct kolo_nodes_agreement met; /* where there are several nodes */
};

/* A word of the header. */

static uint64_t pack(uint64_t generation, enum outcome outcome, int status, uint32_t rank) {
    return generation << 32 | (uint64_t)outcome << 24 | (uint64_t)-status << 16 | rank;
}

static uint64_t generation_of(uint64_t word) {
    return word >> 32;
}

static enum outcome outcome_of(uint64_t word) {
    return (enum outcome)(word >> 24 & 0xff);
}

static int status_of(uint64_t word) {
    return -(int)(word >> 16 & 0xff);
}

static uint32_t rank_of(uint64_t word) {
    return word & 0xffff;
}

/* Makes *word `value` unless it says something of that generation, or a later one, already. Returns what it says. The
 * loop ends, because each turn finds another generation. */
static uint64_t settle(kolo_atomic_u64 *word, uint64_t value) {
    for (;;) {
        const uint64_t found = kolo_load_acquire(word);
        if (generation_of(found) >= generation_of(value))
            return found;
        if (kolo_compare_and_swap(word, found, value))
            return value;
    }
}

/* Waiting. */

static bool is_gone(const kolo_comm *comm, uint32_t rank) {
    return comm->liveness.ended[rank] ||
           kolo_load_acquire(&comm->segment.members[rank].state) == KOLO_MEMBER_DEPARTED; /* pairs with destroy */
}

static void look(struct shrink *s) {
    kolo_liveness_look(&s->comm->liveness, s->comm->segment.members, s->comm->rank);
    s->look_ns = kolo_clock_ns() + KOLO_SLICE_NS;
}

static void begin_wait(struct shrink *s) {
    s->deadline_ns = kolo_awake_begin(&s->awake, s->comm->waiter.timeout_ns) + s->comm->waiter.timeout_ns;
    s->pause_ns = PAUSE_NS_FIRST;
}

/* Waits a moment, and looks now and then who has ended. False once the deadline has passed. */
static bool wait_briefly(struct shrink *s) {
    if (kolo_clock_ns() >= s->look_ns)
        look(s);
    if (kolo_awake_ns(&s->awake) >= s->deadline_ns)
        return false;
    KOLO_POINT("shrink.waiting");
    kolo_clock_sleep(s->pause_ns);
    s->pause_ns = s->pause_ns * 2 < PAUSE_NS_MAX ? s->pause_ns * 2 : PAUSE_NS_MAX;
    return true;
}

static int left_out(const kolo_comm *comm) {
    return kolo_fail(KOLO_ERR_TIMEOUT,
                     "rank %" PRIu32 ": kolo_comm_shrink: the others went on without this rank, which did not come"
                     " within their %" PRId64 " ms (KOLO_TIMEOUT_MS): it cannot join them any more",
                     comm->global_rank, comm->waiter.timeout_ns / KOLO_NS_PER_MS);
}

static int damaged(const kolo_comm *comm, uint32_t rank) {
    return kolo_fail(KOLO_ERR_VERSION, "rank %" PRIu32 ": kolo_comm_shrink: what rank %" PRIu32 " wrote is damaged",
                     comm->global_rank, rank);
}

/* 1. Coming. */

static bool has_come(const struct shrink *s, uint32_t rank) {
    return kolo_load_acquire(&s->comm->segment.members[rank].shrink_arrived) >= s->generation; /* pairs with come */
}

static bool all_have_come(const struct shrink *s) {
    const kolo_comm *comm = s->comm;
    for (uint32_t rank = 0; rank < comm->size; rank++)
        if (kolo_ranks_have(comm->survivors, rank) && !has_come(s, rank) && !is_gone(comm, rank))
            return false;
    return true;
}

static void come(struct shrink *s) {
    const kolo_comm *comm = s->comm;
    begin_wait(s);
    KOLO_POINT("shrink.coming");
    kolo_store_release(&comm->segment.members[comm->rank].shrink_arrived, s->generation); /* pairs with has_come */
    KOLO_POINT("shrink.come");
    while (generation_of(kolo_load_acquire(&comm->segment.header->shrink_decision)) < s->generation &&
           !all_have_come(s) && wait_briefly(s))
        ;
}

/* 2. Deciding. */

static struct kolo_shared_proposal *proposal_of(const struct shrink *s, uint32_t rank) {
    return &s->comm->segment.members[rank].shrink_proposals[s->generation % 2];
}

/* Takes over the view of whom `decision` names. */
static int adopt_view(struct shrink *s, uint64_t decision) {
    kolo_comm *comm = s->comm;
    const uint32_t author = rank_of(decision);
    uint64_t view[KOLO_RANK_WORDS];
    if (generation_of(decision) != s->generation)
        return left_out(comm);
    if (author >= comm->size)
        return damaged(comm, author);
    KOLO_POINT("shrink.copying");
    for (uint32_t word = 0; word < KOLO_RANK_WORDS; word++)
        view[word] = kolo_load_acquire(&proposal_of(s, author)->view[word]); /* pairs with propose_view */
    KOLO_POINT("shrink.copied");
    if (kolo_load_acquire(&comm->segment.header->shrink_decision) != decision)
        return left_out(comm);
    for (uint32_t word = 0; word < KOLO_RANK_WORDS; word++)
        if (view[word] & ~comm->survivors[word])
            return damaged(comm, author);
    if (!kolo_ranks_have(view, comm->rank))
        return left_out(comm);
    memcpy(comm->survivors, view, sizeof view);
    comm->shrink_generation = s->generation;
    s->leader = kolo_ranks_lowest(view, comm->size);
    KOLO_POINT("shrink.adopted");
    return 0;
}

/* Proposes whoever has come; returns the decision. */
static uint64_t propose_view(const struct shrink *s) {
    const kolo_comm *comm = s->comm;
    uint64_t view[KOLO_RANK_WORDS] = {0};
    for (uint32_t rank = 0; rank < comm->size; rank++)
        if (kolo_ranks_have(comm->survivors, rank) && has_come(s, rank) && !is_gone(comm, rank))
            view[rank / 64] |= UINT64_C(1) << rank % 64;
    for (uint32_t word = 0; word < KOLO_RANK_WORDS; word++) {
        KOLO_POINT("shrink.proposing");
        kolo_store_release(&proposal_of(s, comm->rank)->view[word], view[word]); /* pairs with adopt_view */
    }
    KOLO_POINT("shrink.proposed");
    const uint64_t decision = settle(&comm->segment.header->shrink_decision, pack(s->generation, 0, 0, comm->rank));
    KOLO_POINT("shrink.decided");
    return decision;
}

/* 3. Attaching. */

static bool is_settled(const struct shrink *s) {
    return generation_of(kolo_load_acquire(&s->comm->segment.header->shrink_outcome)) >= s->generation;
}

static uint64_t abort_without(const struct shrink *s, uint32_t rank) {
    KOLO_POINT("shrink.aborting");
    const uint64_t outcome = settle(&s->comm->segment.header->shrink_outcome, pack(s->generation, ABORTED, 0, rank));
    KOLO_POINT("shrink.aborted");
    return outcome;
}

static bool shares_leaders_process(const struct shrink *s, uint32_t rank) {
    const struct kolo_shared_member *members = s->comm->segment.members;
    return kolo_liveness_is_same(&members[rank].process, &members[s->leader].process);
}

/* Writes the new segment's members; returns how many are of the leader's process. */
static uint32_t fill_members(const struct shrink *s, struct kolo_shared_member *members) {
    const kolo_comm *comm = s->comm;
    uint32_t users = 0, next = 0;
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        if (!kolo_ranks_have(comm->survivors, rank))
            continue;
        const struct kolo_shared_member *before = &comm->segment.members[rank];
        struct kolo_shared_member *after = &members[next++];
        after->process = before->process;
        after->process.guarded = 0; /* the locks of that creation are gone; the guards go on */
        after->membarrier = before->membarrier;
        after->cpus = before->cpus;
        kolo_store_relaxed(&after->state, KOLO_MEMBER_PRESENT);
        users += rank == s->leader || shares_leaders_process(s, rank);
    }
    return users;
}

/* The leader's part. */
static int offer(struct shrink *s) {
    kolo_comm *made = s->made;
    struct kolo_segment *segment = &made->segment;
    const struct kolo_layout layout = kolo_layout_compute(made->size, made->origin.slot_bytes, false);
    struct kolo_memory_file file;
    KOLO_POINT("shrink.creating");
    const int fd = kolo_memory_file_create("kolo", 0);
    segment->fd = fd < 0 ? -1 : fd;
    KOLO_POINT("shrink.created");
    int rc = fd < 0 ? fd : kolo_memory_file_name(fd, &file);
    if (rc < 0)
        return kolo_fail_system(-rc, "rank %" PRIu32 ": kolo_comm_shrink: creating a memfd", s->comm->rank);
    void *mapping;
    rc = kolo_segment_allocate(segment->fd, 0, layout.bytes);
    KOLO_POINT("shrink.allocated");
    if (rc == 0)
        rc = kolo_segment_map(segment->fd, 0, layout.bytes, &mapping);
    if (rc < 0)
        return rc;
    KOLO_POINT("shrink.mapped");
    kolo_comm_format_segment(made, mapping, fill_members(s, (void *)((uint8_t *)mapping + layout.members)));
    KOLO_POINT("shrink.filled");
    made->above->decide(made, &made->origin);
    struct kolo_shared_proposal *proposal = proposal_of(s, s->comm->rank);
    kolo_store_relaxed(&proposal->pid, file.pid);
    kolo_store_relaxed(&proposal->fd, file.fd);
    kolo_store_relaxed(&proposal->device, file.device);
    kolo_store_relaxed(&proposal->inode, file.inode);
    kolo_store_relaxed(&proposal->mapping, (uint64_t)(uintptr_t)mapping);
    KOLO_POINT("shrink.offering");
    kolo_store_release(&proposal->offered, s->generation); /* pairs with accept_offer */
    KOLO_POINT("shrink.offered");
    return 0;
}

/* Checks the file, then maps it and checks what is in it. */
static int map_offered(struct shrink *s) {
    kolo_comm *made = s->made;
    struct kolo_segment *segment = &made->segment;
    const size_t slot_bytes = made->origin.slot_bytes, bytes = kolo_layout_compute(made->size, slot_bytes, false).bytes;
    struct stat found;
    if (fstat(segment->fd, &found) < 0 || !S_ISREG(found.st_mode) || found.st_uid != geteuid() ||
        !kolo_layout_is_legal(&(struct kolo_segment_claim){.ranks = made->size,
                                                           .slot_bytes = slot_bytes,
                                                           .segment_bytes = bytes,
                                                           .file_bytes = (uint64_t)found.st_size}))
        return damaged(s->comm, s->leader);
    if (s->mapping)
        return 0;
    KOLO_POINT("shrink.mapping");
    void *mapping;
    int rc = kolo_segment_map(segment->fd, 0, bytes, &mapping);
    if (rc < 0)
        return rc;
    kolo_segment_view(segment, mapping, made->size, slot_bytes, false);
    const struct kolo_shared_header *header = segment->header;
    if (header->layout != KOLO_LAYOUT || header->ranks != made->size || header->slot_bytes != slot_bytes ||
        header->segment_bytes != bytes)
        return damaged(s->comm, s->leader);
    KOLO_POINT("shrink.accepted");
    return 0;
}

/* Where there are several nodes, an attempt also ends without an outcome: see go_on_with_nodes. */
static bool leader_has_moved_on(const struct shrink *s) {
    return kolo_load_acquire(&s->comm->segment.members[s->leader].shrink_arrived) > s->generation; /* pairs with come */
}

/* Opens the leader's file: a descriptor, or -errno. A process that dies closes its files a moment before others can see
 * that it is dead: where there is nothing to open, it is given time to be found so. */
static int open_offered(struct shrink *s, const struct kolo_memory_file *file, bool same_process) {
    int fd = same_process ? fcntl((int)file->fd, F_DUPFD_CLOEXEC, 3) : -1;
    if (same_process)
        return fd < 0 ? -errno : fd;
    begin_wait(s);
    s->deadline_ns = kolo_awake_ns(&s->awake) + DYING_NS_MAX;
    while ((fd = kolo_memory_file_open(file, O_RDWR)) < 0 && fd != -EMFILE && fd != -ENFILE && fd != -ENOMEM &&
           !is_settled(s) && !leader_has_moved_on(s) && !is_gone(s->comm, s->leader) && wait_briefly(s))
        ;
    return fd;
}

/* The others' part. Returns 0, too, where there is an outcome instead of an offer. */
static int accept_offer(struct shrink *s) {
    const kolo_comm *comm = s->comm;
    const struct kolo_shared_proposal *proposal = proposal_of(s, s->leader);
    begin_wait(s);
    while (kolo_load_acquire(&proposal->offered) != s->generation) { /* pairs with offer */
        if (is_settled(s))
            return 0;
        if (is_gone(comm, s->leader) || !wait_briefly(s)) {
            abort_without(s, s->leader);
            return 0;
        }
    }
    const struct kolo_memory_file file = {.pid = kolo_load_relaxed(&proposal->pid),
                                          .fd = kolo_load_relaxed(&proposal->fd),
                                          .device = kolo_load_relaxed(&proposal->device),
                                          .inode = kolo_load_relaxed(&proposal->inode)};
    KOLO_POINT("shrink.opening");
    const bool same_process = shares_leaders_process(s, comm->rank);
    s->mapping = same_process ? kolo_load_relaxed(&proposal->mapping) : 0;
    const int fd = open_offered(s, &file, same_process);
    s->made->segment.fd = fd < 0 ? -1 : fd;
    KOLO_POINT("shrink.opened");
    look(s);
    KOLO_POINT("shrink.looked");
    if (is_gone(comm, s->leader))
        abort_without(s, s->leader);
    if (is_settled(s))
        return 0;
    if (fd < 0)
        return kolo_fail_system(-fd,
                                "rank %" PRIu32 ": kolo_comm_shrink: opening rank %" PRIu32
                                "'s memory as /proc/%" PRIu64 "/fd/%" PRIu64,
                                comm->rank, s->leader, file.pid, file.fd);
    return map_offered(s);
}

static int attach(struct shrink *s) {
    kolo_comm *comm = s->comm;
    struct kolo_settings settings = comm->origin;
    settings.place.rank = kolo_ranks_count_below(comm->survivors, comm->rank);
    settings.place.size = kolo_ranks_count_below(comm->survivors, comm->size);
    settings.algorithm = (kolo_algorithm)comm->settings.algorithm;
    settings.slot_bytes = comm->segment.slot_bytes;
    int rc = kolo_comm_begin(&s->made, &settings, comm->above);
    if (rc == 0 && s->made->size > 1)
        rc = comm->rank == s->leader ? offer(s) : accept_offer(s);
    if (rc < 0)
        return rc;
    KOLO_POINT("shrink.attaching");
    kolo_store_release(&comm->segment.members[comm->rank].shrink_attached, s->generation); /* pairs with missing */
    KOLO_POINT("shrink.attached");
    return 0;
}

/* 4. Concluding. */

/* A rank of the view that has not attached, one that is gone before others; comm->size if there is none. */
static uint32_t missing(const struct shrink *s, bool *gone) {
    const kolo_comm *comm = s->comm;
    uint32_t found = comm->size;
    *gone = false;
    for (uint32_t rank = 0; rank < comm->size && !*gone; rank++) {
        const kolo_atomic_u64 *attached = &comm->segment.members[rank].shrink_attached;
        if (!kolo_ranks_have(comm->survivors, rank) ||
            kolo_load_acquire(attached) >= s->generation) /* pairs with attach */
            continue;
        *gone = is_gone(comm, rank);
        if (*gone || found == comm->size)
            found = rank;
    }
    return found;
}

static uint64_t fail_all(const struct shrink *s, int status) {
    kolo_atomic_u64 *outcome = &s->comm->segment.header->shrink_outcome;
    KOLO_POINT("shrink.failing");
    const uint64_t word = settle(outcome, pack(s->generation, FAILED, status, s->comm->rank));
    KOLO_POINT("shrink.failed");
    return word;
}

static uint64_t await_outcome(struct shrink *s) {
    kolo_atomic_u64 *outcome = &s->comm->segment.header->shrink_outcome;
    begin_wait(s);
    while (!is_settled(s)) {
        bool gone;
        const uint32_t rank = missing(s, &gone);
        if (rank == s->comm->size) {
            KOLO_POINT("shrink.committing");
            const uint64_t word = settle(outcome, pack(s->generation, COMMITTED, 0, 0));
            KOLO_POINT("shrink.committed");
            return word;
        }
        if (gone || !wait_briefly(s))
            return abort_without(s, rank);
    }
    return kolo_load_acquire(outcome);
}

static void take_into_use(struct shrink *s) {
    kolo_comm *made = s->made;
    KOLO_POINT("shrink.taking");
    if (s->mapping) {
        kolo_segment_view(&made->segment, (void *)(uintptr_t)s->mapping, made->size, made->origin.slot_bytes, false);
        made->segment.counted = true;
    }
    if (made->size > 1) {
        struct kolo_shared_guard newest;
        kolo_guards_enter(&newest);
        made->liveness.guarded = true;
        kolo_liveness_use_guards(&made->liveness, made->segment.members);
        kolo_segment_close(&made->segment, false);
        kolo_comm_finish(made);
        kolo_segment_settle(&made->segment, made->rank);
    }
    kolo_log(made->log_level, KOLO_LOG_INFO, (int)made->rank,
             "was rank %" PRIu32 "; %" PRIu32 " of %" PRIu32 " ranks are left", s->comm->rank, made->size,
             s->comm->size);
    KOLO_POINT("shrink.taken");
}

/* What `word` comes to for this rank, whose own part ended with `rc`: 0, AGAIN or an error. */
static int conclude(struct shrink *s, uint64_t word, int rc) {
    kolo_comm *comm = s->comm;
    const uint32_t rank = rank_of(word);
    if (generation_of(word) == s->generation && outcome_of(word) == COMMITTED && s->made) {
        take_into_use(s);
        return 0;
    }
    KOLO_POINT("shrink.dropping");
    if (s->made && s->made->segment.header)
        kolo_segment_drop(&s->made->segment);
    if (s->made)
        kolo_comm_free(s->made);
    s->made = NULL;
    KOLO_POINT("shrink.dropped");
    if (generation_of(word) != s->generation)
        return left_out(comm);
    if (rank >= comm->size)
        return damaged(comm, rank);
    if (outcome_of(word) == FAILED)
        return rank == comm->rank
                   ? rc
                   : kolo_fail(status_of(word),
                               "rank %" PRIu32 ": kolo_comm_shrink failed on rank %" PRIu32
                               ": %s; see that rank's message",
                               comm->global_rank, kolo_rank_global(comm, rank), kolo_strerror(status_of(word)));
    kolo_ranks_remove(comm->survivors, rank);
    return AGAIN;
}

/* Several nodes. */

/* The leader's part: the other nodes are asked, and the answer is offered to this one's ranks. */
static int convene(struct shrink *s, int *fd) {
    struct kolo_nodes_agreement *met = &s->met;
    struct kolo_shared_proposal *proposal = proposal_of(s, s->comm->rank);
    struct kolo_memory_file file;
    uint64_t words[KOLO_MEETING_WORDS];
    int rc = s->comm->above->internode->agree_on_survivors(met, s->comm, s->comm->survivors);
    KOLO_POINT("rejoin.agreed");
    if (rc < 0)
        return rc;
    *fd = kolo_memory_file_create("kolo", 0);
    rc = *fd < 0 ? *fd : kolo_memory_file_name(*fd, &file);
    if (rc < 0)
        return kolo_fail_system(-rc, "rank %" PRIu32 ": kolo_comm_shrink: creating a memfd", s->comm->global_rank);
    memcpy(words, met->meeting, sizeof words);
    for (uint32_t word = 0; word < KOLO_MEETING_WORDS; word++)
        kolo_store_relaxed(&proposal->meeting[word], words[word]);
    for (uint32_t word = 0; word < KOLO_RANK_WORDS; word++)
        kolo_store_relaxed(&proposal->left[word], met->left[word]);
    kolo_store_relaxed(&proposal->pid, file.pid);
    kolo_store_relaxed(&proposal->fd, file.fd);
    kolo_store_relaxed(&proposal->device, file.device);
    kolo_store_relaxed(&proposal->inode, file.inode);
    KOLO_POINT("rejoin.offering");
    kolo_store_release(&proposal->offered, s->generation); /* pairs with await_leader */
    KOLO_POINT("rejoin.offered");
    return 0;
}

static bool is_over(const struct shrink *s) {
    return generation_of(kolo_load_acquire(&s->comm->segment.header->shrink_decision)) > s->generation;
}

/* The others wait for it: false where there is an outcome instead. */
static bool await_leader(struct shrink *s) {
    const struct kolo_shared_proposal *proposal = proposal_of(s, s->leader);
    begin_wait(s);
    s->deadline_ns += s->comm->above->internode->agreement_ns_max(s->comm->waiter.timeout_ns);
    while (kolo_load_acquire(&proposal->offered) != s->generation) { /* pairs with convene */
        if (is_settled(s) || is_over(s))
            return false;
        if (is_gone(s->comm, s->leader) || !wait_briefly(s)) {
            abort_without(s, s->leader);
            return false;
        }
    }
    return true;
}

/* The others' part: takes what the leader has offered. 1: the attempt has ended already. */
static int follow(struct shrink *s, int *fd) {
    const kolo_comm *comm = s->comm;
    const struct kolo_shared_proposal *proposal = proposal_of(s, s->leader);
    uint64_t words[KOLO_MEETING_WORDS];
    if (!await_leader(s))
        return 1;
    for (uint32_t word = 0; word < KOLO_MEETING_WORDS; word++)
        words[word] = kolo_load_relaxed(&proposal->meeting[word]);
    for (uint32_t word = 0; word < KOLO_RANK_WORDS; word++)
        s->met.left[word] = kolo_load_relaxed(&proposal->left[word]);
    const struct kolo_memory_file file = {.pid = kolo_load_relaxed(&proposal->pid),
                                          .fd = kolo_load_relaxed(&proposal->fd),
                                          .device = kolo_load_relaxed(&proposal->device),
                                          .inode = kolo_load_relaxed(&proposal->inode)};
    KOLO_POINT("rejoin.opening");
    *fd = open_offered(s, &file, shares_leaders_process(s, comm->rank));
    KOLO_POINT("rejoin.opened");
    if (is_over(s)) /* what was read may be of a later generation */
        return left_out(comm);
    if (is_settled(s) || (*fd < 0 && leader_has_moved_on(s)))
        return 1;
    if (*fd < 0 && is_gone(comm, s->leader)) {
        abort_without(s, s->leader);
        return 1;
    }
    if (*fd < 0)
        return kolo_fail_system(-*fd, "rank %" PRIu32 ": kolo_comm_shrink: opening rank %" PRIu32 "'s memory",
                                comm->global_rank, kolo_rank_global(comm, s->leader));
    memcpy(s->met.meeting, words, sizeof words);
    if (!memchr(s->met.meeting, '\0', sizeof s->met.meeting) || !kolo_ranks_have(s->met.left, comm->global_rank))
        return damaged(comm, s->leader);
    return 0;
}

/* Whether all those that are to meet still live, as far as can be seen from here. */
static int look_at_others(struct kolo_rejoin *rejoin) {
    struct shrink *s = rejoin->owner;
    const kolo_comm *comm = s->comm;
    const uint64_t outcome = kolo_load_acquire(&comm->segment.header->shrink_outcome);
    KOLO_POINT("rejoin.looking");
    if (generation_of(outcome) == s->generation && outcome_of(outcome) == FAILED) /* one that cannot even come */
        return kolo_fail(status_of(outcome), "rank %" PRIu32 ": kolo_comm_shrink failed on rank %" PRIu32 ": %s",
                         comm->global_rank, kolo_rank_global(comm, rank_of(outcome) % comm->size),
                         kolo_strerror(status_of(outcome)));
    look(s);
    for (uint32_t rank = 0; rank < comm->size; rank++)
        if (kolo_ranks_have(comm->survivors, rank) && comm->liveness.ended[rank])
            return kolo_fail(KOLO_ERR_PEER_DEAD, "rank %" PRIu32 ": rank %" PRIu32 " ended during kolo_comm_shrink",
                             comm->global_rank, kolo_rank_global(comm, rank));
    if (comm->above->internode->agreement_lives(&s->met))
        return 0;
    return kolo_fail(KOLO_ERR_PEER_DEAD, "rank %" PRIu32 ": another node's leader ended during kolo_comm_shrink",
                     comm->global_rank);
}

/* Makes the new communicator with those that are left, as any other is made. */
static int meet(struct shrink *s, int fd) {
    kolo_comm *comm = s->comm;
    const bool keeps = comm->listener;
    struct kolo_settings settings = comm->origin;
    struct kolo_rejoin rejoin = {
        .rendezvous = s->met.rendezvous, .listener = comm->listener, .look = look_at_others, .owner = s};
    settings.place.rank = (int)kolo_ranks_count_below(s->met.left, comm->global_rank);
    settings.place.size = (int)kolo_ranks_count_below(s->met.left, comm->global_size);
    settings.place.job[0] = '\0';
    settings.shm_fd = fd;
    settings.algorithm = (kolo_algorithm)comm->settings.algorithm;
    settings.slot_bytes = comm->segment.slot_bytes;
    snprintf(settings.net.rendezvous, sizeof settings.net.rendezvous, "%s", s->met.meeting);
    if (settings.create_timeout_ns > comm->waiter.timeout_ns)
        settings.create_timeout_ns = comm->waiter.timeout_ns;
    comm->listener = s->met.rendezvous = NULL;
    KOLO_POINT("rejoin.meeting");
    const int rc = kolo_comm_make(&s->made, &settings, comm->above, &rejoin);
    KOLO_POINT("rejoin.met");
    comm->above->internode->close_listener(rejoin.rendezvous);
    if (keeps)
        comm->listener = rejoin.listener;
    else
        comm->above->internode->close_listener(rejoin.listener);
    if (rc == 0)
        kolo_log(s->made->log_level, KOLO_LOG_INFO, (int)s->made->global_rank,
                 "was rank %" PRIu32 "; %" PRIu32 " of %" PRIu32 " ranks are left", comm->global_rank,
                 s->made->global_size, comm->global_size);
    return rc;
}

/* One generation, once the view of this node is adopted. */
static int go_on_with_nodes(struct shrink *s) {
    int fd = -1;
    const bool leads = s->comm->rank == s->leader;
    s->met = (struct kolo_nodes_agreement){.rendezvous = NULL};
    int rc = leads ? convene(s, &fd) : follow(s, &fd);
    if (rc < 0 && generation_of(kolo_load_acquire(&s->comm->segment.header->shrink_decision)) == s->generation)
        rc = conclude(s, fail_all(s, rc), rc);
    else if (rc == 1 && is_settled(s))
        rc = conclude(s, kolo_load_acquire(&s->comm->segment.header->shrink_outcome), rc);
    else if (rc == 1)
        rc = is_over(s) ? left_out(s->comm) : AGAIN;
    else if (rc == 0) {
        rc = meet(s, fd);
        if (rc == KOLO_ERR_PEER_DEAD || rc == KOLO_ERR_TIMEOUT) /* on all: somebody has ended meanwhile */
            rc = AGAIN;
    }
    if (leads)
        s->comm->above->internode->end_agreement(&s->met, rc == 0);
    if (fd >= 0)
        close(fd);
    return rc;
}

/* One generation. */
static int attempt(struct shrink *s) {
    kolo_comm *comm = s->comm;
    if (!kolo_ranks_have(comm->survivors, comm->rank))
        return left_out(comm);
    s->generation = comm->shrink_generation + 1;
    s->mapping = 0;
    come(s);
    int rc = adopt_view(s, propose_view(s));
    if (rc < 0)
        return rc;
    if (comm->nodes)
        return go_on_with_nodes(s);
    rc = attach(s);
    return conclude(s, rc < 0 ? fail_all(s, rc) : await_outcome(s), rc);
}

int kolo_shrink_run(kolo_comm *comm, kolo_comm **shrunk) {
    struct shrink s = {.comm = comm};
    int rc = comm->global_size == 1 ? kolo_comm_begin(&s.made, &comm->origin, comm->above) : AGAIN;
    /* Each has one rank less. */
    for (uint32_t attempts = 0; rc == AGAIN && attempts <= comm->global_size; attempts++)
        rc = attempt(&s);
    if (rc == AGAIN)
        rc = kolo_fail(KOLO_ERR_TIMEOUT,
                       "rank %" PRIu32 ": kolo_comm_shrink: the ranks that are left do not come to"
                       " terms",
                       comm->global_rank);
    comm->shrunk = rc == 0;
    if (rc == 0)
        *shrunk = s.made;
    else
        kolo_log(comm->log_level, KOLO_LOG_ERROR, (int)comm->global_rank, "%s", kolo_error_message());
    return rc;
}

void kolo_shrink_mark_dead(kolo_comm *comm) {
    kolo_liveness_look(&comm->liveness, comm->segment.members, comm->rank);
    for (uint32_t rank = 0; rank < comm->size; rank++)
        if (comm->liveness.ended[rank])
            kolo_segment_mark_dead(&comm->segment, rank);
}
