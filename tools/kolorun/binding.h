/* Binding the ranks to CPUs. */
#ifndef KOLORUN_BINDING_H
#define KOLORUN_BINDING_H

#include <stdint.h>

#include "cpu/topology.h"

enum bind_mode {
    BIND_AUTO, /* divide the CPUs among the ranks; none if there are more ranks */
    BIND_CORE, /* one CPU each */
    BIND_NONE
};

struct binding {
    kolo_cpu_set *ranks; /* the CPUs of each rank; NULL: the ranks are not bound */
    uint32_t cpus;       /* how many CPUs this process may use */
    int lock_fd;         /* keeps other jobs from choosing CPUs; -1: none */
};

/* Chooses CPUs for the ranks. Returns 0, -ERANGE if with BIND_CORE they are more than the CPUs, or -ENOMEM. */
int binding_choose(struct binding *binding, int ranks, enum bind_mode mode);

/* To be called when all ranks have been started: lets other jobs choose as soon as these ranks are bound. */
void binding_settle(struct binding *binding);

void binding_close(struct binding *binding);

/* Binds the calling process. Returns 0 or a negative errno. */
int binding_apply(const kolo_cpu_set *cpus);

#endif
