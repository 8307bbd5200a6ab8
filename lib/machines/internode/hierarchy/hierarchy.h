/* The collectives of communicators of several nodes (comm->internode), and the steps of a ticket that they share:
 * hierarchy.c has the argument. */
#pragma once

#include "algo/registry.h"
#include "comm/step/progress.h"
#include "internode/proxy.h"

typedef int kolo_nodes_run_fn(kolo_comm *comm, const struct kolo_descriptor *descriptor,
                              const struct kolo_message *message);

kolo_nodes_run_fn kolo_hierarchy_run;

/* One function for each way (algo/registry.h). A row of the registry says in what the collectives of a way differ. */
kolo_nodes_run_fn kolo_nodes_reduce; /* all-reduce, also of many, barrier, reduce, reduce-scatter */
kolo_nodes_run_fn kolo_nodes_spread; /* broadcast, all-gather */
kolo_nodes_run_fn kolo_nodes_move;   /* gather, scatter, all-to-all */
kolo_nodes_run_fn kolo_nodes_scan;   /* scan, exclusive scan */
kolo_nodes_run_fn kolo_nodes_apply;  /* all-reduce with a function in its middle */

/* What a collective does in the steps of ticket `ticket` of the call, from 0. `context` is the collective's own. */
struct kolo_ticket_steps {
    void (*show)(void *context, size_t ticket); /* this rank's slot is free */
    void (*fold)(void *context, size_t ticket); /* all ranks of the node have shown; NULL: nothing is folded */
    /* The leader's order, but for what is the same for all. All ranks of the node have folded, or else shown. */
    struct kolo_order (*order)(void *context, size_t ticket);
    int (*take)(void *context, size_t ticket); /* the exchange is over */
};

/* Takes all tickets of the call, at least one, through these steps. has_work: the leader has work beside exchanges. */
int kolo_tickets_run(kolo_comm *comm, const struct kolo_ticket_steps *steps, void *context, size_t tickets,
                     bool has_work);

/* Refuses a call of which slots cannot hold one element of each partial result. All ranks refuse it. */
int kolo_nodes_refuse(const kolo_comm *comm, const kolo_kernel *kernel, size_t slot_bytes);
