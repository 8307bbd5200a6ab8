/* kolo_comm_shrink: the ranks of a node agree which of them go on (comm/creation/agreement.h). They make a communicator
 * as any other is made (comm/creation/create.h), over an empty memory file that their leader has made for it.
 *
 * The file has no name, and is not one more piece of the job's file. The kernel takes it back with the last descriptor,
 * however its holders ended, while a piece that a dead rank should have given back would stay as long as the job. The
 * leader keeps its descriptor, by which the others find the file, until its own creation is over; the creation is over
 * only when all have opened the file, or when it has failed.
 *
 * One word, the same for all ranks of the node, says whether the creation succeeds (comm/creation/outcome.h). Where it
 * fails, the agreement's outcome says, alike on all, whether the call fails or the next generation begins. While they
 * wait in the creation, ranks look at that outcome, and at the broken communicator's ranks: the creation alone does not
 * show the end of a rank that has not registered in it yet.
 *
 * Several nodes. Each node's ranks agree in the segment of their own, with generations of their own. Then the leader
 * agrees with those of the other nodes (comm/creation/other_nodes.h), and offers, with the file, which ranks of all go
 * on and where they meet. The creation ends alike on all nodes, or nearly so (internode/assembly/shrink_nodes.c). Where
 * no rank has ended, nothing tells which one was late: the same ranks try twice. All nodes count that alike, by the
 * ranks that they were offered, while a rank's late creation may show to others as another rank's end. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "comm/creation/agreement.h"
#include "comm/creation/create.h"
#include "shm/memory_file.h"

enum { TRIES_MAX = 2 };

/* One generation. */
struct shrink {
    kolo_comm *comm; /* the broken one */
    struct kolo_agreement agreement;
    struct kolo_nodes_agreement met; /* with one node, only the offer */
    kolo_comm *made;                 /* NULL: not yet */
    int fd;                          /* of the file in which the ranks meet; -1: none */
    uint32_t left;                   /* how many ranks were offered last */
    uint32_t tries;                  /* how often these have been */
};

/* The leader's part: makes the file and, where there are several nodes, asks the others. */
static int convene(struct shrink *s) {
    kolo_comm *comm = s->comm;
    int rc = 0;
    if (comm->nodes)
        rc = comm->above->internode->agree_on_survivors(&s->met, comm, comm->survivors);
    else
        memcpy(s->met.offer.left, comm->survivors, sizeof s->met.offer.left);
    KOLO_POINT("shrink.agreed");
    if (rc < 0)
        return rc;
    s->fd = rc = kolo_memory_file_create("kolo", 0);
    KOLO_POINT("shrink.created");
    if (rc >= 0)
        rc = kolo_memory_file_name(s->fd, &s->met.offer.file);
    if (rc < 0)
        return kolo_fail_system(-rc, "rank %u: kolo_comm_shrink: creating a memfd", comm->global_rank);
    kolo_agreement_offer(&s->agreement, &s->met.offer);
    return 0;
}

/* The others' part: takes the leader's offer. */
static int follow(struct shrink *s) {
    const kolo_comm *comm = s->comm;
    const int64_t more_ns =
        comm->nodes ? comm->above->internode->agreement_ns_max(kolo_waiter_timeout_ns(&comm->waiter)) : 0;
    const int rc = kolo_agreement_accept(&s->agreement, more_ns, &s->met.offer, &s->fd);
    if (rc != 0)
        return rc;
    if (!memchr(s->met.offer.meeting, '\0', sizeof s->met.offer.meeting) ||
        !kolo_ranks_have(s->met.offer.left, comm->global_rank))
        return kolo_agreement_fail_damaged(&s->agreement, s->agreement.leader);
    return 0;
}

/* Returns whether waiting in the creation can still succeed; see kolo_rejoin. */
static int look_at_others(struct kolo_rejoin *rejoin) {
    struct shrink *s = rejoin->owner;
    uint32_t culprit;
    const int rc = kolo_agreement_look(&s->agreement, &culprit);
    if (rc < 0 && culprit != KOLO_NOBODY)
        rejoin->culprit = kolo_ranks_count_below(s->comm->survivors, culprit);
    if (rc < 0 || !s->comm->nodes || s->comm->above->internode->agreement_lives(&s->met))
        return rc;
    return kolo_fail(KOLO_ERR_PEER_DEAD,
                     "rank %u: another node's leader has closed its connection during kolo_comm_shrink",
                     s->comm->global_rank);
}

/* Returns the rank of this communicator that is number `index` of the survivors. */
static uint32_t survivor(const kolo_comm *comm, uint32_t index) {
    for (uint32_t rank = 0; rank < comm->size; rank++)
        if (kolo_ranks_have(comm->survivors, rank) && index-- == 0)
            return rank;
    return KOLO_NOBODY;
}

/* Closes the listeners that were not used; the one that this rank keeps belongs to the broken communicator again. */
static void close_listeners(kolo_comm *comm, struct kolo_rejoin *rejoin, bool keeps) {
    comm->above->internode->close_listener(rejoin->rendezvous);
    if (keeps)
        comm->listener = rejoin->listener;
    else
        comm->above->internode->close_listener(rejoin->listener);
}

/* With several nodes, looks whether the ranks that are left may try. KOLO_ERR_TIMEOUT: they have failed too often. */
static int check_tries(struct shrink *s) {
    const uint32_t left = kolo_ranks_count_below(s->met.offer.left, s->comm->global_size);
    s->tries = left == s->left ? s->tries + 1 : 1;
    s->left = left;
    return !s->comm->nodes || s->tries <= TRIES_MAX
               ? 0
               : KOLO_FAIL_IN(s->comm, "kolo_comm_shrink", KOLO_ERR_TIMEOUT,
                              "%u ranks are left, and do not come to terms: %s", left, kolo_error_message());
}

/* Makes the new communicator with the ranks that are left, as any other is made. If one ends or is late, they try
 * again. */
static int make(struct shrink *s, uint32_t *culprit) {
    kolo_comm *comm = s->comm;
    const bool keeps = comm->listener;
    struct kolo_settings settings;
    struct kolo_rejoin rejoin = {.rendezvous = s->met.rendezvous,
                                 .listener = comm->listener,
                                 .look = look_at_others,
                                 .culprit = KOLO_NOBODY,
                                 .owner = s};
    kolo_settings_inherit(&settings, comm, kolo_ranks_count_below(s->met.offer.left, comm->global_rank),
                          kolo_ranks_count_below(s->met.offer.left, comm->global_size));
    settings.shm_fd = s->fd;
    snprintf(settings.net.rendezvous, sizeof settings.net.rendezvous, "%s", s->met.offer.meeting);
    comm->listener = s->met.rendezvous = NULL;
    KOLO_POINT("shrink.meeting");
    const int rc = kolo_comm_make(&s->made, &settings, comm->above, &rejoin);
    KOLO_POINT("shrink.met");
    if (comm->nodes || keeps) /* a node that is left alone has kept its listener */
        close_listeners(comm, &rejoin, keeps);
    if (!comm->nodes && rejoin.culprit != KOLO_NOBODY)
        *culprit = survivor(comm, rejoin.culprit);
    if (rc == 0)
        kolo_log(s->made->log_level, KOLO_LOG_INFO, (int)s->made->global_rank, "was rank %u; %u of %u ranks are left",
                 comm->global_rank, s->made->global_size, comm->global_size);
    return rc == KOLO_ERR_PEER_DEAD || rc == KOLO_ERR_TIMEOUT ? KOLO_AGREEMENT_OVER : rc;
}

/* One generation. */
static int attempt(struct shrink *s) {
    kolo_comm *comm = s->comm;
    uint32_t culprit = KOLO_NOBODY;
    int rc = kolo_agreement_reach(&s->agreement, comm);
    if (rc < 0)
        return rc;
    s->met = (struct kolo_nodes_agreement){.rendezvous = NULL};
    s->fd = -1;
    rc = comm->rank == s->agreement.leader ? convene(s) : follow(s);
    if (rc == 0)
        rc = check_tries(s);
    if (rc == 0)
        rc = make(s, &culprit);
    if (rc != 0)
        rc = kolo_agreement_conclude(&s->agreement, rc, culprit);
    if (comm->nodes)
        comm->above->internode->end_agreement(&s->met, comm, rc == 0);
    if (s->fd >= 0)
        close(s->fd);
    return rc;
}

int kolo_shrink_run(kolo_comm *comm, kolo_comm **shrunk) {
    struct shrink s = {.comm = comm};
    struct kolo_settings settings;
    int rc = KOLO_AGREEMENT_OVER;
    if (comm->global_size == 1) {
        kolo_settings_inherit(&settings, comm, 0, 1);
        rc = kolo_comm_make(&s.made, &settings, comm->above, NULL);
    }
    /* The loop is bounded: each attempt has at least one rank less, or with several nodes every second one. */
    for (uint32_t attempts = 0; rc == KOLO_AGREEMENT_OVER && attempts <= comm->global_size; attempts++)
        rc = attempt(&s);
    if (rc == KOLO_AGREEMENT_OVER)
        rc = KOLO_FAIL_IN(comm, "kolo_comm_shrink", KOLO_ERR_TIMEOUT, "the ranks that are left do not come to terms");
    comm->shrunk = rc == 0;
    if (rc == 0)
        *shrunk = s.made;
    else
        kolo_log(comm->log_level, KOLO_LOG_ERROR, (int)comm->global_rank, "%s", kolo_error_message());
    return rc;
}

void kolo_shrink_mark_dead(kolo_comm *comm) {
    kolo_liveness_look_at(&comm->liveness, 0, comm->size);
    for (uint32_t rank = 0; rank < comm->size; rank++)
        if (kolo_liveness_has_ended(&comm->liveness, rank))
            kolo_segment_mark_dead(&comm->segment, rank);
}
