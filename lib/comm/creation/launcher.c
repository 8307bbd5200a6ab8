/* Finds out which rank this process is, from the variables of kolo and of other launchers. */
#include "comm/creation/launcher.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/status.h"
#include "comm/failure/process.h"

enum { ANCESTORS_MAX = 64, NAME_BYTES = 64 };
enum { TORCHRUN_PORT_MIN = 10000, SLURM_PORT_MIN = 20000, PORTS = 10000 }; /* below those that systems give to anyone */

/* The most specific first: a job of one launcher may run inside an allocation of another (mpirun under Slurm). */
static const struct launcher {
    const char *name;
    const char *rank, *size, *local_rank, *local_size;
    const char *witness;      /* also set by this launcher, if rank and size alone could be set by something else */
    const char *machines;     /* variables, the first of which that is set says on how many machines the ranks are */
    const char *job;          /* variables that together name the job; the unset ones are left out */
    const char *job_ancestor; /* instead: the process of this name above us, one a job and machine */
} launchers[] = {
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", NULL, "", "PMIX_NAMESPACE OMPI_MCA_ess_base_jobid", NULL},
    {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "HYDI_CONTROL_FD", "", "",
     "hydra_pmi_proxy"},
    {"Slurm's PMI", "PMI_RANK", "PMI_SIZE", "SLURM_LOCALID", NULL, "SLURM_STEP_ID",
     "SLURM_STEP_NUM_NODES SLURM_JOB_NUM_NODES SLURM_NNODES", "SLURM_JOB_ID SLURM_STEP_ID", NULL},
    {"Hydra", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL, "", "", "hydra_pmi_proxy"},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT",
     "GROUP_WORLD_SIZE SLURM_STEP_NUM_NODES", "TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT MASTER_ADDR MASTER_PORT",
     NULL},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", NULL, "SLURM_STEP_ID",
     "SLURM_STEP_NUM_NODES SLURM_JOB_NUM_NODES SLURM_NNODES", "SLURM_JOB_ID SLURM_STEP_ID", NULL},
};

static const char *text_of(const char *variable) {
    const char *text = variable ? getenv(variable) : NULL;
    return text && *text ? text : NULL;
}

/* Cuts the next name off a list of them; false at its end. */
static bool next_name(const char **names, char name[NAME_BYTES]) {
    int length;
    if (sscanf(*names, "%63s%n", name, &length) != 1)
        return false;
    *names += length;
    return true;
}

/* Reads a launcher's variable; leaves *value alone where it is not set, or once *rc says that one was wrong. */
static void read_integer(int *rc, const char *variable, int64_t low, int64_t high, int64_t *value) {
    const char *text = text_of(variable);
    if (text && *rc == 0)
        *rc = kolo_integer_parse(variable, text, low, high, value);
}

/* Appends those characters of `text` that may be in a file name, and a hash of all of it if that does not fit. */
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
            snprintf(text, sizeof text, "%u.%" PRIu64, pid, process.start);
            append_job(job, "pid");
            append_job(job, text);
            return;
        }
        pid = process.parent;
    }
}

static int read_launcher(const struct launcher *from, struct kolo_place *place) {
    int rc = 0;
    read_integer(&rc, from->size, 1, INT32_MAX, &place->size);
    read_integer(&rc, from->rank, 0, place->size - 1, &place->rank);
    read_integer(&rc, from->local_size, 1, place->size, &place->local_size);
    read_integer(&rc, from->local_rank, 0, place->size - 1, &place->local_rank);
    char name[NAME_BYTES];
    for (const char *names = from->machines; place->machines < 0 && next_name(&names, name);)
        read_integer(&rc, name, 1, INT32_MAX, &place->machines);
    if (rc < 0)
        return rc;
    place->launcher = from->name;
    place->job_is_local = from->job_ancestor != NULL;
    for (const char *names = from->job; next_name(&names, name);)
        if (text_of(name))
            append_job(place->job, text_of(name));
    if (from->job_ancestor)
        job_from_ancestor(from->job_ancestor, place->job);
    return 0;
}

static int read_own(struct kolo_place *place) {
    int rc = 0;
    place->size = kolo_environment_integer(&rc, KOLO_VARIABLE_SIZE, 1, KOLO_RANKS_MAX, -1);
    place->rank =
        kolo_environment_integer(&rc, KOLO_VARIABLE_RANK, 0, (place->size > 0 ? place->size : KOLO_RANKS_MAX) - 1, -1);
    place->local_size = kolo_environment_integer(&rc, KOLO_VARIABLE_LOCAL_SIZE, 1, KOLO_RANKS_MAX, -1);
    place->local_rank = kolo_environment_integer(&rc, KOLO_VARIABLE_LOCAL_RANK, 0, KOLO_RANKS_MAX - 1, -1);
    if (rc < 0)
        return rc;
    if ((place->rank < 0) != (place->size < 0))
        return kolo_fail(KOLO_ERR_ARG, "%s is set but %s is not: set both or neither",
                         kolo_environment_name(place->rank < 0 ? KOLO_VARIABLE_SIZE : KOLO_VARIABLE_RANK),
                         kolo_environment_name(place->rank < 0 ? KOLO_VARIABLE_RANK : KOLO_VARIABLE_SIZE));
    return 0;
}

int kolo_launcher_place(struct kolo_place *place) {
    *place = (struct kolo_place){.machines = -1};
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

/* The first of a list as Slurm writes them: "node[07-12,15],gpu1" begins with node07. */
static bool first_of_list(const char *list, char *host, size_t host_bytes) {
    size_t used = 0;
    bool inside = false, taken = false; /* of brackets, whose first number has been taken */
    for (const char *c = list; *c && (inside || *c != ','); c++) {
        if (*c == '[' || *c == ']') {
            inside = *c == '[';
            taken = false;
        } else if (inside && (*c == ',' || *c == '-')) {
            taken = true;
        } else if (!taken) {
            if (used + 1 >= host_bytes || !(isalnum((unsigned char)*c) || strchr("._-", *c)))
                return false;
            host[used++] = *c;
        }
    }
    host[used] = '\0';
    return used > 0 && !inside;
}

static int slurm_rendezvous(char *text, size_t text_bytes) {
    static const char *const lists[] = {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"};
    const char *variable = NULL;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0] && !variable; i++)
        variable = text_of(lists[i]) ? lists[i] : NULL;
    int64_t job = -1, step = 0;
    int rc = 0;
    read_integer(&rc, "SLURM_JOB_ID", 0, UINT32_MAX, &job);
    read_integer(&rc, "SLURM_STEP_ID", 0, UINT32_MAX, &step);
    if (rc < 0 || !variable || job < 0)
        return rc;
    char host[160];
    if (!first_of_list(text_of(variable), host, sizeof host))
        return kolo_fail(KOLO_ERR_ARG, "%s=%.64s: is not a list of machines such as node[01-04]", variable,
                         text_of(variable));
    snprintf(text, text_bytes, "%s:%" PRId64, host, SLURM_PORT_MIN + (job * 37 + step) % PORTS);
    return 0;
}

int kolo_launcher_rendezvous(const struct kolo_place *place, char *text, size_t text_bytes) {
    const char *host = text_of("MASTER_ADDR");
    int64_t port = -1;
    text[0] = '\0';
    int rc = 0;
    if (host)
        read_integer(&rc, "MASTER_PORT", 1, UINT16_MAX, &port);
    if (rc < 0)
        return rc;
    if (port < 0)
        return slurm_rendezvous(text, text_bytes);
    if (place->launcher && strcmp(place->launcher, "torchrun") == 0)
        port = TORCHRUN_PORT_MIN + (port + 1) % PORTS;
    const char *format = strchr(host, ':') && host[0] != '[' ? "[%s]:%" PRId64 : "%s:%" PRId64;
    if ((size_t)snprintf(text, text_bytes, format, host, port) >= text_bytes)
        return kolo_fail(KOLO_ERR_ARG, "MASTER_ADDR=%.64s...: is too long", host);
    return 0;
}
