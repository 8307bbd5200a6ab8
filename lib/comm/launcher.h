/* This process's place in a job: from kolo's own variables, else from those of the launcher that started it. */
#ifndef KOLO_COMM_LAUNCHER_H
#define KOLO_COMM_LAUNCHER_H

#include <stdint.h>

#include "shm/layout.h"

struct kolo_place {
    int64_t rank; /* -1: not known, as are the next three */
    int64_t size;
    int64_t local_rank;
    int64_t local_size;
    char job[KOLO_JOB_NAME_BYTES]; /* unique to the job on this machine; "": none */
    const char *launcher;          /* "Open MPI", ...; NULL: none */
};

/* Fills *place from the environment. KOLO_ERR_ARG with a message that quotes the variable. */
int kolo_launcher_place(struct kolo_place *place);

#endif
