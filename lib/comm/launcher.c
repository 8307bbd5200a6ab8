#include "comm/launcher.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/status.h"
#include "comm/process.h"

enum { JOB_PARTS = 4, ANCESTORS_MAX = 64 };

/* The most specific first: a job of one launcher may run inside an allocation of another (mpirun under Slurm). */
static const struct launcher {
    const char *name;
    const char *rank;
    const char *size;
    const char *local_rank;
    const char *local_size;
    const char *witness;        /* also set by this launcher, where rank and size alone could be somebody else's */
    const char *job[JOB_PARTS]; /* variables that together name the job; the unset ones are left out */
    const char *job_ancestor;   /* instead: the process of this name above us, one a job */
} launchers[] = {
    {"Open MPI",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     NULL,
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"},
     NULL},
    {"MPICH",
     "PMI_RANK",
     "PMI_SIZE",
     "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS",
     "HYDI_CONTROL_FD",
     {NULL},
     "hydra_pmi_proxy"},
    {"Slurm's PMI",
     "PMI_RANK",
     "PMI_SIZE",
     "SLURM_LOCALID",
     NULL,
     "SLURM_STEP_ID",
     {"SLURM_JOB_ID", "SLURM_STEP_ID"},
     NULL},
    {"Hydra", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL, {NULL}, "hydra_pmi_proxy"},
    {"torchrun",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     "MASTER_PORT",
     {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT"},
     NULL},
    {"Slurm",
     "SLURM_PROCID",
     "SLURM_NTASKS",
     "SLURM_LOCALID",
     NULL,
     "SLURM_STEP_ID",
     {"SLURM_JOB_ID", "SLURM_STEP_ID"},
     NULL},
};

static const char *text_of(const char *variable) {
    const char *text = variable ? getenv(variable) : NULL;
    return text && *text ? text : NULL;
}

/* Reads a launcher's variable; leaves *value alone where it is not set. */
static int read_integer(const char *variable, int64_t low, int64_t high, int64_t *value) {
    const char *text = text_of(variable);
    return text ? kolo_integer_parse(variable, text, low, high, value) : 0;
}

/* Appends what may stand in a file name of `text`, and a hash of all of it where that does not fit. */
static void append_job(char *job, const char *text) {
    size_t used = strlen(job);
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    bool fits = used + strlen(text) + 2 < KOLO_JOB_NAME_BYTES - 20;
    if (used)
        job[used++] = '-';
    for (; *text; text++) {
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
        if (fits)
            job[used++] = isalnum((unsigned char)*text) ? *text : '_';
    }
    job[used] = '\0';
    if (!fits && used + 17 < KOLO_JOB_NAME_BYTES)
        snprintf(job + used, KOLO_JOB_NAME_BYTES - used, "%016" PRIx64, hash);
}

/* Names the job by the nearest ancestor process called `name`: pid and start time are unique on the machine. */
static void job_from_ancestor(const char *name, char *job) {
    uint32_t pid = (uint32_t)getppid();
    for (int i = 0; i < ANCESTORS_MAX && pid > 1; i++) {
        struct kolo_process process;
        if (kolo_process_read(pid, &process) < 0)
            return;
        if (strcmp(process.name, name) == 0) {
            char text[64];
            snprintf(text, sizeof text, "%" PRIu32 ".%" PRIu64, pid, process.start);
            append_job(job, "pid");
            append_job(job, text);
            return;
        }
        pid = process.parent;
    }
}

static int read_launcher(const struct launcher *from, struct kolo_place *place) {
    int rc = read_integer(from->size, 1, INT32_MAX, &place->size);
    if (rc == 0)
        rc = read_integer(from->rank, 0, place->size - 1, &place->rank);
    if (rc == 0)
        rc = read_integer(from->local_size, 1, place->size, &place->local_size);
    if (rc == 0)
        rc = read_integer(from->local_rank, 0, place->size - 1, &place->local_rank);
    if (rc < 0)
        return rc;
    place->launcher = from->name;
    for (int i = 0; i < JOB_PARTS; i++)
        if (text_of(from->job[i]))
            append_job(place->job, text_of(from->job[i]));
    if (from->job_ancestor)
        job_from_ancestor(from->job_ancestor, place->job);
    return 0;
}

static int read_own(struct kolo_place *place) {
    int rc = kolo_environment_integer(KOLO_VARIABLE_SIZE, 1, KOLO_RANKS_MAX, &place->size);
    if (rc == 0)
        rc = kolo_environment_integer(KOLO_VARIABLE_RANK, 0, place->size > 0 ? place->size - 1 : KOLO_RANKS_MAX - 1,
                                      &place->rank);
    if (rc == 0)
        rc = kolo_environment_integer(KOLO_VARIABLE_LOCAL_SIZE, 1, KOLO_RANKS_MAX, &place->local_size);
    if (rc == 0)
        rc = kolo_environment_integer(KOLO_VARIABLE_LOCAL_RANK, 0, KOLO_RANKS_MAX - 1, &place->local_rank);
    if (rc < 0)
        return rc;
    if ((place->rank < 0) != (place->size < 0))
        return kolo_fail(KOLO_ERR_ARG, "%s is set but %s is not: set both or neither",
                         kolo_environment_name(place->rank < 0 ? KOLO_VARIABLE_SIZE : KOLO_VARIABLE_RANK),
                         kolo_environment_name(place->rank < 0 ? KOLO_VARIABLE_RANK : KOLO_VARIABLE_SIZE));
    return 0;
}

int kolo_launcher_place(struct kolo_place *place) {
    *place = (struct kolo_place){.rank = -1, .size = -1, .local_rank = -1, .local_size = -1};
    int rc = read_own(place);
    if (rc < 0 || place->rank >= 0)
        return rc;
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        const struct launcher *launcher = &launchers[i];
        if (text_of(launcher->rank) && text_of(launcher->size) && (!launcher->witness || text_of(launcher->witness)))
            return read_launcher(launcher, place);
    }
    return 0;
}
