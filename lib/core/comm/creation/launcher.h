/* The place of this process in a job, from kolo's own variables, else from those of the innermost launcher. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/environment.h"
#include "shm/layout.h"

struct kolo_place {
    int64_t rank; /* -1: not known, as are the next three */
    int64_t size;
    int64_t local_rank;
    int64_t local_size;
    int64_t machines;                         /* with ranks on them; -1: not known */
    char job[KOLO_JOB_NAME_BYTES];            /* unique to the job on this machine; "": none */
    char job_everywhere[KOLO_JOB_NAME_BYTES]; /* what ranks on other machines have of it, too; "": nothing */
    const char *launcher;                     /* "Open MPI", ...; NULL: none, or kolo's own */
    bool is_spawned;                          /* by a program, in a job for which the launcher has no name */
    char dispute[256];       /* the place that another launcher around this one has given it, in words; "": none */
    bool is_unclear;         /* nothing tells which of the two is the inner one */
    unsigned outer_distance; /* processes up to the first whose KOLO_ variables are not for this job; 0: all are */
};

/* Fills *place from the environment; without kolo's own variables unless `with_own`. KOLO_ERR_ARG with a message that
 * quotes the variable. */
int kolo_launcher_place(struct kolo_place *place, bool with_own);

/* Like kolo_environment_text, but returns NULL for a variable that comes from a kolorun which is not the innermost
 * launcher, from outside of that kolorun, or from a launcher whose program has spawned this process. */
const char *kolo_launcher_own_text(const struct kolo_place *place, kolo_variable_index variable);

/* Writes into `text` where ranks of several machines can meet, "HOST:PORT", as tools/MACHINES.md says; "" if the
 * launcher does not tell: another launcher's variables do not count. KOLO_ERR_ARG with a message that quotes the
 * variable. */
int kolo_launcher_rendezvous(const struct kolo_place *place, char *text, size_t text_bytes);

/* Returns whether kolorun says that *rank or, if that is -1, any rank of the job of `place` has ended. *rank becomes
 * that rank; `why` says, in words, why the others need not wait for it. fd: of the file at which the ranks meet. */
bool kolo_launcher_ended(const struct kolo_place *place, int fd, int64_t *rank, char *why, size_t why_bytes);
