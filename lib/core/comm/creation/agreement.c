/* The agreement between the ranks of one node on which of them go on: arriving, deciding, offering, concluding. */
#include "comm/creation/agreement.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

#include "shm/memory_file.h"

#define PAUSE_NS_FIRST 20000
#define PAUSE_NS_MAX   1000000
#define DYING_NS_MAX   (5000 * KOLO_NS_PER_MS)
#define RANK_NOBODY    0xffffu

enum { OFFER_WORDS = sizeof(struct kolo_shrink_offer) / sizeof(uint64_t) };

enum kind { DECIDED, ABORTED, FAILED };

/* The words of the header. */

static uint64_t pack(uint64_t generation, enum kind kind, int status, uint32_t rank) {
    return generation << 32 | (uint64_t)kind << 24 | (uint64_t)-status << 16 | rank;
}

static uint64_t generation_of(uint64_t word) {
    return word >> 32;
}

static enum kind kind_of(uint64_t word) {
    return (enum kind)(word >> 24 & 0xff);
}

static int status_of(uint64_t word) {
    return -(int)(word >> 16 & 0xff);
}

static uint32_t rank_of(uint64_t word) {
    return word & 0xffff;
}

/* Stores `value` in *word unless the word already is of that generation or a later one. Returns what the word says
 * then. The loop ends, because each turn finds another generation. */
static uint64_t settle(kolo_atomic_u64 *word, uint64_t value) {
    for (;;) {
        const uint64_t found = kolo_load_acquire(word);
        if (generation_of(found) >= generation_of(value))
            return found;
        if (kolo_compare_and_swap(word, found, value))
            return value;
    }
}

static uint64_t outcome(const struct kolo_agreement *a) {
    return kolo_load_acquire(&a->comm->segment.header->shrink_outcome);
}

static bool is_over(const struct kolo_agreement *a) {
    return generation_of(outcome(a)) >= a->generation;
}

static uint64_t abort_without(const struct kolo_agreement *a, uint32_t rank) {
    KOLO_POINT("shrink.aborting");
    const uint64_t word =
        settle(&a->comm->segment.header->shrink_outcome, pack(a->generation, ABORTED, 0, rank & RANK_NOBODY));
    KOLO_POINT("shrink.aborted");
    return word;
}

static uint64_t fail_all(const struct kolo_agreement *a, int status, uint32_t rank) {
    KOLO_POINT("shrink.failing");
    const uint64_t word = settle(&a->comm->segment.header->shrink_outcome, pack(a->generation, FAILED, status, rank));
    KOLO_POINT("shrink.failed");
    return word;
}

/* Waiting. */

static bool is_gone(const kolo_comm *comm, uint32_t rank) {
    return kolo_liveness_has_ended(&comm->liveness, rank) ||
           kolo_load_acquire(&comm->segment.members[rank].state) == KOLO_MEMBER_DEPARTED; /* pairs with destroy */
}

static void look(struct kolo_agreement *a) {
    kolo_liveness_look_at(&a->comm->liveness, 0, a->comm->size);
    a->look_ns = kolo_clock_ns() + KOLO_SLICE_NS;
}

static void begin_wait(struct kolo_agreement *a, int64_t ns) {
    a->deadline_ns = kolo_awake_begin(&a->awake, ns) + ns;
    a->pause_ns = PAUSE_NS_FIRST;
}

/* Waits a moment, does the rank's other work, and checks now and then which ranks have ended. Returns false once the
 * deadline has passed. */
static bool wait_briefly(struct kolo_agreement *a) {
    if (kolo_clock_ns() >= a->look_ns)
        look(a);
    if (kolo_awake_ns(&a->awake) >= a->deadline_ns)
        return false;
    KOLO_POINT("shrink.waiting");
    kolo_wait_work(&a->comm->waiter);
    kolo_clock_sleep(a->pause_ns);
    a->pause_ns = a->pause_ns * 2 < PAUSE_NS_MAX ? a->pause_ns * 2 : PAUSE_NS_MAX;
    return true;
}

static int left_out(const kolo_comm *comm) {
    return KOLO_FAIL_IN(comm, "kolo_comm_shrink", KOLO_ERR_TIMEOUT,
                        "the others went on without this rank, which did not come within their %" PRId64
                        " ms (KOLO_TIMEOUT_MS): it cannot join them any more",
                        kolo_waiter_timeout_ns(&comm->waiter) / KOLO_NS_PER_MS);
}

int kolo_agreement_fail_damaged(const struct kolo_agreement *a, uint32_t rank) {
    return KOLO_FAIL_IN(a->comm, "kolo_comm_shrink", KOLO_ERR_VERSION, "what rank %u wrote is damaged", rank);
}

/* 1. Arriving. */

static bool has_come(const struct kolo_agreement *a, uint32_t rank) {
    return kolo_load_acquire(&a->comm->segment.members[rank].shrink_arrived) >= a->generation; /* pairs with come */
}

static bool all_have_come(const struct kolo_agreement *a) {
    const kolo_comm *comm = a->comm;
    for (uint32_t rank = 0; rank < comm->size; rank++)
        if (kolo_ranks_have(comm->survivors, rank) && !has_come(a, rank) && !is_gone(comm, rank))
            return false;
    return true;
}

static void come(struct kolo_agreement *a) {
    const kolo_comm *comm = a->comm;
    begin_wait(a, kolo_waiter_timeout_ns(&comm->waiter));
    KOLO_POINT("shrink.coming");
    kolo_store_release(&comm->segment.members[comm->rank].shrink_arrived, a->generation); /* pairs with has_come */
    KOLO_POINT("shrink.come");
    while (generation_of(kolo_load_acquire(&comm->segment.header->shrink_decision)) < a->generation &&
           !all_have_come(a) && wait_briefly(a))
        ;
}

/* 2. Deciding. */

static struct kolo_shared_proposal *proposal_of(const struct kolo_agreement *a, uint32_t rank) {
    return &a->comm->segment.members[rank].shrink_proposals[a->generation % 2];
}

/* Proposes the ranks that have come; returns the decision. */
static uint64_t propose_view(const struct kolo_agreement *a) {
    const kolo_comm *comm = a->comm;
    uint64_t view[KOLO_RANK_WORDS] = {0};
    for (uint32_t rank = 0; rank < comm->size; rank++)
        if (kolo_ranks_have(comm->survivors, rank) && has_come(a, rank) && !is_gone(comm, rank))
            kolo_ranks_add(view, rank);
    for (uint32_t word = 0; word < KOLO_RANK_WORDS; word++) {
        KOLO_POINT("shrink.proposing");
        kolo_store_release(&proposal_of(a, comm->rank)->view[word], view[word]); /* pairs with adopt_view */
    }
    KOLO_POINT("shrink.proposed");
    const uint64_t decision =
        settle(&comm->segment.header->shrink_decision, pack(a->generation, DECIDED, 0, comm->rank));
    KOLO_POINT("shrink.decided");
    return decision;
}

/* Copies the view of the rank that `decision` names. */
static int adopt_view(struct kolo_agreement *a, uint64_t decision) {
    kolo_comm *comm = a->comm;
    const uint32_t author = rank_of(decision);
    uint64_t view[KOLO_RANK_WORDS];
    if (generation_of(decision) != a->generation)
        return left_out(comm);
    if (author >= comm->size)
        return kolo_agreement_fail_damaged(a, author);
    KOLO_POINT("shrink.copying");
    for (uint32_t word = 0; word < KOLO_RANK_WORDS; word++)
        view[word] = kolo_load_acquire(&proposal_of(a, author)->view[word]); /* pairs with propose_view */
    KOLO_POINT("shrink.copied");
    if (kolo_load_acquire(&comm->segment.header->shrink_decision) != decision)
        return left_out(comm);
    for (uint32_t word = 0; word < KOLO_RANK_WORDS; word++)
        if (view[word] & ~comm->survivors[word])
            return kolo_agreement_fail_damaged(a, author);
    if (!kolo_ranks_have(view, comm->rank))
        return left_out(comm);
    memcpy(comm->survivors, view, sizeof view);
    comm->shrink_generation = a->generation;
    a->leader = kolo_ranks_lowest(view, comm->size);
    KOLO_POINT("shrink.adopted");
    return 0;
}

int kolo_agreement_reach(struct kolo_agreement *a, kolo_comm *comm) {
    *a = (struct kolo_agreement){.comm = comm, .generation = comm->shrink_generation + 1};
    if (!kolo_ranks_have(comm->survivors, comm->rank))
        return left_out(comm);
    come(a);
    return adopt_view(a, propose_view(a));
}

/* 3. Offer. */

void kolo_agreement_offer(const struct kolo_agreement *a, const struct kolo_shrink_offer *offer) {
    struct kolo_shared_proposal *proposal = proposal_of(a, a->comm->rank);
    uint64_t words[OFFER_WORDS];
    memcpy(words, offer, sizeof words);
    for (uint32_t word = 0; word < OFFER_WORDS; word++)
        kolo_store_relaxed(&proposal->offer[word], words[word]);
    KOLO_POINT("shrink.offering");
    kolo_store_release(&proposal->offered, a->generation); /* pairs with await_offer */
    KOLO_POINT("shrink.offered");
}

static int await_offer(struct kolo_agreement *a, int64_t more_ns, struct kolo_shrink_offer *offer) {
    const struct kolo_shared_proposal *proposal = proposal_of(a, a->leader);
    begin_wait(a, kolo_waiter_timeout_ns(&a->comm->waiter) + more_ns);
    while (kolo_load_acquire(&proposal->offered) != a->generation) { /* pairs with kolo_agreement_offer */
        if (is_over(a))
            return KOLO_AGREEMENT_OVER;
        if (is_gone(a->comm, a->leader) || !wait_briefly(a)) {
            abort_without(a, a->leader);
            return KOLO_AGREEMENT_OVER;
        }
    }
    uint64_t words[OFFER_WORDS];
    for (uint32_t word = 0; word < OFFER_WORDS; word++)
        words[word] = kolo_load_relaxed(&proposal->offer[word]);
    memcpy(offer, words, sizeof words);
    return 0;
}

/* Opens the leader's file. Returns a descriptor, or -errno. A process that dies closes its files a moment before others
 * can see that it is dead: if there is nothing to open, this function waits until the leader's death can be seen. */
static int open_offered(struct kolo_agreement *a, const struct kolo_memory_file *file) {
    const kolo_comm *comm = a->comm;
    const struct kolo_shared_member *members = comm->segment.members;
    int fd;
    if (kolo_liveness_is_same(&members[comm->rank].process, &members[a->leader].process)) {
        fd = fcntl((int)file->fd, F_DUPFD_CLOEXEC, 3);
        return fd < 0 ? -errno : fd;
    }
    begin_wait(a, DYING_NS_MAX);
    while ((fd = kolo_memory_file_open(file, O_RDWR)) < 0 && fd != -EMFILE && fd != -ENFILE && fd != -ENOMEM &&
           !is_over(a) && !is_gone(comm, a->leader) && wait_briefly(a))
        ;
    return fd;
}

int kolo_agreement_accept(struct kolo_agreement *a, int64_t more_ns, struct kolo_shrink_offer *offer, int *fd) {
    const int rc = await_offer(a, more_ns, offer);
    if (rc != 0)
        return rc;
    KOLO_POINT("shrink.opening");
    *fd = open_offered(a, &offer->file);
    KOLO_POINT("shrink.opened");
    if (is_over(a)) /* what was read may be of a later generation */
        return KOLO_AGREEMENT_OVER;
    if (*fd < 0 && is_gone(a->comm, a->leader)) {
        abort_without(a, a->leader);
        return KOLO_AGREEMENT_OVER;
    }
    if (*fd < 0)
        return kolo_fail_system(
            -*fd, "rank %u: kolo_comm_shrink: opening rank %u's memory as /proc/%" PRIu64 "/fd/%" PRIu64,
            a->comm->global_rank, kolo_rank_global(a->comm, a->leader), offer->file.pid, offer->file.fd);
    return 0;
}

/* 4. Concluding. */

int kolo_agreement_look(struct kolo_agreement *a, uint32_t *culprit) {
    const kolo_comm *comm = a->comm;
    const uint64_t word = outcome(a);
    KOLO_POINT("shrink.looking");
    *culprit = rank_of(word) < comm->size ? rank_of(word) : KOLO_NOBODY;
    if (generation_of(word) >= a->generation) /* a rank that cannot even come */
        return kolo_fail(kind_of(word) == FAILED ? status_of(word) : KOLO_ERR_PEER_DEAD,
                         "rank %u: kolo_comm_shrink has failed on another rank", comm->global_rank);
    look(a);
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        if (!kolo_ranks_have(comm->survivors, rank) || !is_gone(comm, rank))
            continue;
        *culprit = rank;
        return kolo_fail(KOLO_ERR_PEER_DEAD, "rank %u: rank %u ended during kolo_comm_shrink", comm->global_rank,
                         kolo_rank_global(comm, rank));
    }
    return 0;
}

int kolo_agreement_conclude(const struct kolo_agreement *a, int rc, uint32_t culprit) {
    kolo_comm *comm = a->comm;
    const uint64_t word = rc == KOLO_AGREEMENT_OVER ? abort_without(a, culprit)
                                                    : fail_all(a, rc, culprit == KOLO_NOBODY ? comm->rank : culprit);
    const uint32_t rank = rank_of(word);
    if (generation_of(word) != a->generation)
        return left_out(comm);
    if (kind_of(word) == ABORTED && rank == RANK_NOBODY)
        return KOLO_AGREEMENT_OVER;
    if (rank >= comm->size)
        return kolo_agreement_fail_damaged(a, rank);
    if (kind_of(word) == FAILED)
        return rank == comm->rank || (culprit == KOLO_NOBODY && rc == status_of(word))
                   ? rc
                   : kolo_fail(status_of(word),
                               "rank %u: kolo_comm_shrink failed on rank %u: %s; see that rank's message",
                               comm->global_rank, kolo_rank_global(comm, rank), kolo_strerror(status_of(word)));
    kolo_ranks_remove(comm->survivors, rank);
    return KOLO_AGREEMENT_OVER;
}
