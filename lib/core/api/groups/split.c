/* kolo_comm_split and kolo_comm_dup.
 *
 * Roles. The ranks with the same color are a group. Its first rank, in the order of the group, is its rank 0. On each
 * node a group's first rank is its host there; a group of one rank needs none.
 *
 * Steps:
 *   1. All ranks tell each other their color and key, so that each knows all groups. (kolo_comm_dup has one group,
 *      which all know.)
 *   2. The hosts make memory files, and the other ranks of their groups on that node get them. Where some group has
 *      ranks on several nodes, the rank 0 of each such group opens a listener, and all ranks tell each other the ports.
 *      All agree that all have what they need.
 *   3. Each group makes a communicator over its files, as in any creation (comm/creation/create.h); one with ranks on
 *      several nodes as any of several nodes (internode/assembly/assembly.h), at its rank 0's listener.
 *   4. All agree that all have their communicator. If one has not, the others drop theirs.
 * Steps 1, 2 and 4 are exchanges within one call on the parent, so that a rank that makes another call is found in step
 * 1. A rank that waits in step 3 looks at the parent: whether the parent has failed on any node, or lost the connection
 * to one, and whether other ranks of this node and group are in step 4 already. Over several nodes step 3 takes at most
 * half of the parent's timeout. So if a rank is stopped there, all others are in step 4 before one of them gives up,
 * and those of its node see which one is missing.
 *
 * Invariants. A rank that fails in step 2 does so before any rank begins step 3, and all return the same status. A
 * creation succeeds on all ranks of a group or on none; or, over several nodes, on all of some nodes, where a leader
 * ends or is stopped at the last moment (internode/assembly/assembly.h). A rank without a communicator says so in step
 * 4 or does not come to it. So after step 4 either all groups have a communicator or none has. If none has because a
 * rank lacks something, the parent stays usable for all ranks; after any other failure the parent is broken for all
 * ranks.
 *
 *   death of a rank in       leaves
 *   1, 2                     a parent that is broken; files and listeners that go with their descriptors
 *   3                        a creation that fails on its group, or, had it attached, a communicator that is dropped in
 *                            4; the parent is broken, on all nodes
 *   4                        a parent that is broken; some ranks may have succeeded, and their groups' first call finds
 *                            the death, or that others have dropped theirs
 *
 * A rank that cannot even begin step 3, for want of memory or descriptors, goes to step 4. The creation fails on its
 * group, and the parent stays usable. But where it is its group's only rank on its node no other rank sees that: the
 * creation fails when its time is over.
 *
 * tests/models/groups.pml is a model of steps 2 to 4, on one node. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/groups/derive.h"
#include "api/requests/queue.h"
#include "api/sharing.h"
#include "comm/step/progress.h"
#include "shm/memory_file.h"

enum { WHY_BYTES = 512 }; /* of a message */

/* The word that a rank tells the others: color, then key, so that a group's words sort by key. 0: in no group. */
static uint64_t word_of(int color, int key) {
    return color < 0 ? 0 : (uint64_t)((uint32_t)color + 1) << 32 | ((uint32_t)key ^ UINT32_C(0x80000000));
}

/* A split under way, as one rank sees it. */
struct split {
    kolo_comm *comm;
    const char *function;
    uint32_t lane;                  /* that is made; 0: a communicator of its own */
    uint64_t words[KOLO_RANKS_MAX]; /* what each rank has told in step 1; then in step 2, its listener's port */
    uint32_t ranks[KOLO_RANKS_MAX]; /* this rank's group on this node, in its order, by their numbers on this node */
    uint32_t local_size;
    uint32_t rank;                    /* in the group */
    uint32_t size;                    /* of the group, on all nodes; 0: in none */
    uint32_t first;                   /* global rank of its rank 0 */
    struct kolo_listener *rendezvous; /* this rank's, if it is that and the group has ranks on several nodes */
    char meeting[KOLO_MEETING_WORDS * sizeof(uint64_t)]; /* where those meet; "": not on several */
};

static bool is_before(const struct split *s, uint32_t a, uint32_t b) {
    return s->words[a] < s->words[b] || (s->words[a] == s->words[b] && a < b);
}

static bool are_together(const struct split *s, uint32_t a, uint32_t b) {
    return s->words[a] >> 32 == s->words[b] >> 32 && s->words[a];
}

/* Returns the ranks in the group of `rank`, on all nodes or on this one; *before is how many come before it. */
static uint32_t count_group(const struct split *s, uint32_t rank, bool on_node, uint32_t *before) {
    const kolo_comm *comm = s->comm;
    uint32_t size = 0;
    *before = 0;
    for (uint32_t i = 0; i < (on_node ? comm->size : comm->global_size); i++) {
        const uint32_t other = on_node ? kolo_rank_global(comm, i) : i;
        size += are_together(s, other, rank);
        *before += are_together(s, other, rank) && is_before(s, other, rank);
    }
    return size;
}

/* Returns the rank 0 of the group of `rank`. */
static uint32_t first_of_group(const struct split *s, uint32_t rank) {
    uint32_t first = rank;
    for (uint32_t other = 0; other < s->comm->global_size; other++)
        if (are_together(s, other, rank) && is_before(s, other, first))
            first = other;
    return first;
}

/* Whether some group has ranks on several nodes. All ranks find the same. */
static bool spans_nodes(const struct split *s) {
    const struct kolo_nodes *nodes = s->comm->nodes;
    for (uint32_t a = 0; nodes && a < s->comm->global_size; a++)
        for (uint32_t b = 0; b < a; b++)
            if (are_together(s, a, b) && nodes->node_of[a] != nodes->node_of[b])
                return true;
    return false;
}

/* Lists this rank's group, and finds which rank gives a file to which. A group of one rank needs no file. */
static void find_group(struct split *s, struct kolo_handing *handing, uint64_t *takers) {
    const kolo_comm *comm = s->comm;
    s->size = count_group(s, comm->global_rank, false, &s->rank);
    s->first = first_of_group(s, comm->global_rank);
    *handing = (struct kolo_handing){.function = s->function, .giver = KOLO_NO_GIVER, .takers = takers};
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        uint32_t before, ignored;
        const uint32_t global = kolo_rank_global(comm, rank), size = count_group(s, global, true, &before);
        const bool is_mine = are_together(s, global, comm->global_rank),
                   hosts = !before && count_group(s, global, false, &ignored) > 1;
        if (is_mine) {
            s->ranks[before] = rank;
            s->local_size = size;
            kolo_ranks_add(takers, rank);
        }
        if (is_mine && hosts)
            handing->giver = handing->givers;
        if (is_mine && hosts && rank == comm->rank)
            handing->gives = true;
        handing->givers += hosts;
    }
}

/* Makes the rendezvous of groups with ranks on several nodes. `*rc` is this rank's status so far in step 2, and becomes
 * its status after this. Returns the status of the exchange on the parent. */
static int share_rendezvous(struct split *s, int *rc) {
    const struct kolo_nodes *nodes = s->comm->nodes;
    const struct kolo_internode_calls *calls = s->comm->above->internode;
    const bool is_mine = s->size > s->local_size;
    uint64_t port = 0;
    if (is_mine && s->rank == 0 && *rc == 0)
        *rc = calls->open_rendezvous(s->comm, &s->rendezvous, &port);
    KOLO_POINT("split.listening");
    const int gathered = kolo_words_gather(s->comm, &port, s->words);
    KOLO_POINT("split.placed");
    if (gathered == 0 && is_mine && *rc == 0)
        *rc = calls->name_rendezvous(s->comm, nodes->node_of[s->first], s->words[s->first], s->meeting);
    return gathered;
}

/* Ends a step, at which this rank has arrived with `rc`. A lack of resources leaves the parent usable, as kolo_comm.h
 * says. Any other failure breaks the parent, on every rank: rank 0 publishes the failure in place of one more exchange,
 * for which the others wait. Where a lane is made, the ranks drop their whole communicator if that fails. */
static int agree(const struct split *s, int rc) {
    kolo_comm *comm = s->comm;
    uint64_t word = 0;
    char why[WHY_BYTES];
    const int status = kolo_status_agree(comm, s->function, rc);
    if (status == 0 || status == KOLO_ERR_SYSTEM || status == KOLO_ERR_NO_SPACE || s->lane ||
        !kolo_comm_is_usable(comm))
        return status;
    snprintf(why, sizeof why, "%s", kolo_error_message());
    rc = comm->global_rank == 0 ? kolo_failure_publish(comm, status, 0)
                                : kolo_words_reduce(comm, KOLO_MAX, &word, &word, 1);
    return rc == status ? kolo_fail(status, "%s", why) : rc;
}

/* Step 2. *fd is -1 for a rank that needs no file. */
static int share(struct split *s, int *fd) {
    struct kolo_handing handing;
    uint64_t takers[KOLO_RANK_WORDS] = {0};
    find_group(s, &handing, takers);
    *fd = -1;
    if (handing.gives) {
        const int made = kolo_memory_file_create("kolo", 0);
        *fd = made >= 0 ? made
                        : kolo_fail_system(-made, "rank %u: %s: creating a memfd", s->comm->global_rank, s->function);
    }
    KOLO_POINT("split.created");
    const bool spans = spans_nodes(s);
    int rc = handing.givers ? kolo_file_hand_out(s->comm, &handing, fd) : 0;
    KOLO_POINT("split.shared");
    int own = handing.giver != KOLO_NO_GIVER && *fd < 0 ? *fd : 0;
    if (rc == 0 && spans)
        rc = share_rendezvous(s, &own);
    if (rc == 0)
        rc = agree(s, own);
    KOLO_POINT("split.agreed");
    return rc;
}

/* Steps 3 and 4. */
static int make(struct split *s, int fd, kolo_comm **sub) {
    kolo_comm *made = NULL;
    const struct kolo_derivation derivation = {.parent = s->comm,
                                               .function = s->function,
                                               .rank = s->rank,
                                               .size = s->size,
                                               .ranks = s->ranks,
                                               .ranks_count = s->local_size,
                                               .fd = fd,
                                               .meeting = s->meeting[0] ? s->meeting : NULL,
                                               .rendezvous = s->rendezvous,
                                               .timeout_ns = kolo_waiter_timeout_ns(&s->comm->waiter),
                                               .lane = s->lane};
    int rc = s->size ? kolo_comm_derive(&derivation, &made) : 0;
    s->rendezvous = NULL;
    KOLO_POINT("split.made");
    if (rc == KOLO_ERR_PEER_DEAD) /* if it is dead, the next exchange does not end, but breaks the parent */
        rc = KOLO_ERR_SYSTEM;
    rc = kolo_comm_is_usable(s->comm)
             ? agree(s, rc)
             : kolo_failure_look(s->comm, s->comm->rank, 0); /* which this rank found in step 3 */
    KOLO_POINT("split.ending");
    if (rc == 0)
        *sub = made;
    else
        kolo_comm_destroy(made);
    return rc;
}

static int split_by_words(struct split *s, kolo_comm **sub) {
    int fd = -1;
    int rc = share(s, &fd);
    if (rc == 0)
        rc = make(s, fd, sub);
    if (s->rendezvous)
        s->comm->above->internode->close_listener(s->rendezvous);
    if (fd >= 0)
        close(fd);
    return rc;
}

/* Takes all steps, once the call has begun. color NULL: all ranks are in one group, in their order. */
static int run(kolo_comm *comm, const char *function, const int *color, int key, uint32_t lane, kolo_comm **sub) {
    struct split s = {.comm = comm, .function = function, .lane = lane};
    const uint64_t own = color ? word_of(*color, key) : word_of(0, 0);
    const int rc = color ? kolo_words_gather(comm, &own, s.words) : 0;
    for (uint32_t rank = 0; !color && rank < comm->global_size; rank++)
        s.words[rank] = own;
    KOLO_POINT("split.told");
    return rc < 0 ? rc : split_by_words(&s, sub);
}

static int call(kolo_collective collective, kolo_comm *comm, const int *color, int key, kolo_comm **sub) {
    const char *const function = collective == KOLO_SPLIT ? "kolo_comm_split" : "kolo_comm_dup";
    int rc = kolo_get_ready(function, comm);
    if (rc < 0)
        return rc;
    if (!sub)
        return KOLO_REFUSE(comm, function, "the pointer for the new communicator is NULL");
    rc = kolo_shared_call_begin(function, comm, kolo_call_key_of(collective, 0));
    if (rc < 0)
        return rc;
    rc = run(comm, function, color, key, 0, sub);
    kolo_shared_call_leave(comm);
    return rc;
}

int kolo_comm_make_lane(kolo_comm *comm, uint32_t lane, kolo_comm **made) {
    const int entered = kolo_enter("kolo_comm_create", comm);
    if (entered < 0)
        return entered;
    kolo_call_note(comm, KOLO_DUP, lane); /* it is none of the program's calls, which are counted */
    const int rc = run(comm, "making a lane", NULL, 0, lane, made);
    kolo_leave(comm);
    return rc;
}

int kolo_comm_split(kolo_comm *comm, int color, int key, kolo_comm **sub) {
    return call(KOLO_SPLIT, comm, &color, key, sub);
}

int kolo_comm_dup(kolo_comm *comm, kolo_comm **copy) {
    return call(KOLO_DUP, comm, NULL, 0, copy);
}
