/* The launcher of this process: its variables, or kolo's own, say which rank the process is.
 *
 * Launchers run inside launchers: mpirun inside an allocation of Slurm, torchrun inside `srun -n 1`. A process then
 * inherits the variables of all of them. Its place is the one that the innermost launcher has given it: numbers, job
 * and rendezvous. Each launcher starts its ranks from a process that does not have their variables itself, so that the
 * origin of these can be found; /proc shows what variables a process was started with. tools/README.md ("Launchers in
 * launchers") says what an origin is, and whose place holds. */
#include "comm/creation/launcher.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/status.h"
#include "comm/failure/process.h"

enum { ANCESTORS_MAX = 64, NAME_BYTES = 64 };
enum { ENVIRONMENT_BYTES_MIN = 1 << 14, ENVIRONMENT_BYTES_MAX = 1 << 24 };
enum { TORCHRUN_PORT_MIN = 10000, SLURM_PORT_MIN = 20000, PORTS = 10000 }; /* below ports that systems give away */
enum { KOLORUN, TORCHRUN, OPEN_MPI, SLURM, MPICH, LAUNCHERS };

static const struct launcher {
    const char *name;
    const char *rank, *size, *local_rank, *local_size;
    const char *witness;  /* also set by this launcher, where something else could set rank and size alone */
    const char *seal;     /* set by this launcher only, where scripts may set all of the above; NULL: no scripts do */
    const char *machines; /* variables; the first that is set says on how many machines the ranks are */
    const char *job;      /* variables that together name the job; those not set are left out */
    const char *programs; /* prefixes of the names of processes that start its ranks */
    const char *spawned;  /* NULL: variables name the job; else the nearest such process does, of which there is one for
                             each job and machine, but for jobs that a program spawns, whose ranks have this variable */
    const char *server;   /* the address of a process that serves the job's ranks, on this machine or on one of them */
} launchers[LAUNCHERS] = {
    [KOLORUN] = {"kolorun", "KOLO_RANK", "KOLO_SIZE", "KOLO_LOCAL_RANK", "KOLO_LOCAL_SIZE", "KOLO_RESTARTS", NULL, "",
                 "KOLO_SHM_FD", "kolorun", NULL, NULL},
    [TORCHRUN] = {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT",
                  "TORCHELASTIC_RUN_ID", "GROUP_WORLD_SIZE",
                  "TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT MASTER_ADDR MASTER_PORT", "torchrun pt_elastic", NULL,
                  "MASTER_ADDR"},
    [OPEN_MPI] = {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                  "OMPI_COMM_WORLD_LOCAL_SIZE", NULL, NULL, "", "PMIX_NAMESPACE OMPI_MCA_ess_base_jobid",
                  "mpirun mpiexec orterun orted prterun prte", NULL, "PMIX_SERVER_URI2"},
    [SLURM] = {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", NULL, "SLURM_STEP_ID", NULL,
               "SLURM_STEP_NUM_NODES SLURM_JOB_NUM_NODES SLURM_NNODES", "SLURM_JOB_ID SLURM_STEP_ID", "slurmstepd",
               NULL, NULL},
    [MPICH] = {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL, NULL, "", "",
               "hydra_pmi_proxy", "PMI_SPAWNED", NULL},
};

static const char *text_of(const char *variable) {
    const char *text = variable ? getenv(variable) : NULL;
    return text && *text ? text : NULL;
}

/* Cuts the next name off a list of names. Returns false at the list's end. */
static bool next_name(const char **names, char name[NAME_BYTES]) {
    int length;
    if (sscanf(*names, "%63s%n", name, &length) != 1)
        return false;
    *names += length;
    return true;
}

/* Reads a launcher's variable. Leaves *value alone where it is not set, or once *rc says that a variable was wrong. */
static void read_integer(int *rc, const char *variable, int64_t low, int64_t high, int64_t *value) {
    const char *text = text_of(variable);
    if (text && *rc == 0)
        *rc = kolo_integer_parse(variable, text, low, high, value);
}

static uint64_t hash_after(uint64_t hash, const char *text) { /* FNV-1a */
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

/* Appends those characters of `text` that may be in a file name, or a hash of it if they do not fit. A job that has no
 * room for one more hash ends in a hash, in place of which comes that of the job and `text`. */
static void append_job(char *job, const char *text) {
    size_t used = strlen(job);
    const bool fits = used + strlen(text) + 2 < KOLO_JOB_NAME_BYTES - 20, is_full = used + 18 >= KOLO_JOB_NAME_BYTES;
    const uint64_t hash = hash_after(hash_after(UINT64_C(0xcbf29ce484222325), is_full ? job : ""), text);
    if (is_full)
        used -= 16;
    else if (used)
        job[used++] = '-';
    for (; fits && *text; text++)
        job[used++] = isalnum((unsigned char)*text) ? *text : '_';
    job[used] = '\0';
    if (!fits)
        snprintf(job + used, KOLO_JOB_NAME_BYTES - used, "%016" PRIx64, hash);
}

/* Returns the number of this process's namespace of that kind, which no other has; 0: not known. */
static uint64_t find_namespace(const char *path) {
    struct stat found;
    return stat(path, &found) == 0 ? found.st_ino : 0;
}

/* Appends a server's address, if it is a URI, and the network namespace where it leads to the host itself: ports of
 * such an address are those of one namespace. Containers with a common /dev/shm may have one host name and the same
 * pids: then two jobs differ in the port or, where each has a namespace, in that alone. */
static void append_server(char *job, const char *address) {
    const char *scheme = strstr(address, "://"), *host = scheme ? scheme + 3 : address;
    char text[48];
    if (scheme)
        append_job(job, host);
    if (strncmp(host, "127.", 4) != 0 && strcmp(host, "localhost") != 0 && strcmp(host, "::1") != 0)
        return;
    snprintf(text, sizeof text, "net%" PRIu64, find_namespace("/proc/self/ns/net"));
    append_job(job, text);
}

/* Returns true if a process of that name starts the launcher's ranks. */
static bool is_program(const struct launcher *from, const char *process_name) {
    char program[NAME_BYTES];
    for (const char *names = from->programs; next_name(&names, program);)
        if (strncmp(process_name, program, strlen(program)) == 0)
            return true;
    return false;
}

/* Names the job by the nearest process above that starts ranks: pid, start time and pid namespace tell it from all. */
static void job_from_process(const struct launcher *from, char *job) {
    uint32_t pid = (uint32_t)getppid();
    for (int i = 0; i < ANCESTORS_MAX && pid > 1; i++) {
        struct kolo_process process;
        if (kolo_process_read(pid, &process) < 0)
            return;
        if (is_program(from, process.name)) {
            char text[80];
            snprintf(text, sizeof text, "%u.%" PRIu64 ".%" PRIu64, pid, process.start,
                     find_namespace("/proc/self/ns/pid"));
            append_job(job, "pid");
            append_job(job, text);
            return;
        }
        pid = process.parent;
    }
}

/* Returns the variables that a process was started with, one NUL-terminated after the other, and an empty one at the
 * end; NULL: they cannot be read. The caller frees them. */
static char *read_started_with(uint32_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/environ", pid);
    for (size_t room = ENVIRONMENT_BYTES_MIN; room <= ENVIRONMENT_BYTES_MAX; room *= 2) {
        char *text = malloc(room + 2);
        const ssize_t bytes = text ? kolo_file_read(path, text, room) : -1;
        if (bytes >= 0 && (size_t)bytes < room) {
            text[bytes] = text[bytes + 1] = '\0';
            return text;
        }
        free(text);
        if (bytes < 0)
            return NULL;
    }
    return NULL;
}

/* Returns a variable of `started_with`; NULL: it is not there, or empty. */
static const char *find_text(const char *started_with, const char *variable) {
    const size_t length = strlen(variable);
    for (const char *entry = started_with; *entry; entry += strlen(entry) + 1)
        if (strncmp(entry, variable, length) == 0 && entry[length] == '=')
            return entry[length + 1] ? entry + length + 1 : NULL;
    return NULL;
}

static bool is_same_text(const char *a, const char *b) {
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Returns true if a process was started with the launcher's variables as they are in `own`, this process's own. */
static bool is_inherited(const struct launcher *from, const char *own, const char *started_with) {
    char name[NAME_BYTES];
    bool is_same = is_same_text(find_text(own, from->rank), find_text(started_with, from->rank)) &&
                   is_same_text(find_text(own, from->size), find_text(started_with, from->size));
    for (const char *names = from->seal ? from->seal : from->job; is_same && next_name(&names, name);)
        is_same = is_same_text(find_text(own, name), find_text(started_with, name));
    return is_same;
}

/* The origin of a launcher's variables. */
struct origin {
    unsigned distance; /* 0: this process, which has set them itself; 1: its parent; ...; ANCESTORS_MAX: not known */
    bool is_known;     /* false also where another process may have been in between */
    char name[32];     /* of that process; "": not known, or this one */
};

/* Follows the launcher's variables up from this process, which was started with `own`, to their origin. */
static void find_origin_above(const struct launcher *from, const char *own, uint32_t parent, struct origin *origin) {
    for (unsigned distance = 1; distance < ANCESTORS_MAX && parent > 0; distance++) {
        struct kolo_process process;
        const uint32_t pid = parent;
        if (kolo_process_read(pid, &process) < 0)
            return;
        char *theirs = read_started_with(pid);
        const bool is_the_launcher = is_program(from, process.name);
        const bool is_told = theirs && pid != 1; /* pid 1 may have adopted a process whose parent has ended */
        const bool goes_on = theirs && !is_the_launcher && is_inherited(from, own, theirs);
        free(theirs);
        if (!goes_on) {
            origin->distance = distance;
            origin->is_known = is_told || is_the_launcher;
            strcpy(origin->name, process.name);
            return;
        }
        parent = process.parent;
    }
}

static struct origin find_origin(const struct launcher *from) {
    struct origin origin = {.distance = ANCESTORS_MAX};
    struct kolo_process self;
    const uint32_t pid = (uint32_t)getpid();
    char *own = kolo_process_read(pid, &self) == 0 ? read_started_with(pid) : NULL;
    if (own && is_same_text(find_text(own, from->rank), text_of(from->rank)) &&
        is_same_text(find_text(own, from->size), text_of(from->size)))
        find_origin_above(from, own, self.parent, &origin);
    else if (own)
        origin = (struct origin){.distance = 0, .is_known = true};
    free(own);
    return origin;
}

static bool is_present(const struct launcher *from) {
    return text_of(from->rank) && text_of(from->size) && (!from->witness || text_of(from->witness));
}

static bool agrees(const struct launcher *a, const struct launcher *b) {
    return is_same_text(text_of(a->rank), text_of(b->rank)) && is_same_text(text_of(a->size), text_of(b->size));
}

/* Returns, of launchers that have one origin, the launcher whose name the origin has, else the first. */
static size_t first_of_origin(const struct origin origins[LAUNCHERS], unsigned distance) {
    size_t first = LAUNCHERS;
    for (size_t i = 0; i < LAUNCHERS; i++)
        if (is_present(&launchers[i]) && origins[i].distance == distance) {
            if (is_program(&launchers[i], origins[i].name))
                return i;
            first = first < i ? first : i;
        }
    return first;
}

/* Returns true if two launchers with one origin differ and nothing tells which of them is the inner one: see above. */
static bool is_unclear(const struct launcher *chosen, const struct launcher *other, const struct origin *origin) {
    return is_program(chosen, origin->name) ? other->seal && !text_of(other->seal) : !origin->is_known;
}

/* Finds the innermost of several launchers; fills in what another one says that differs. */
static const struct launcher *find_innermost(struct kolo_place *place) {
    struct origin origins[LAUNCHERS] = {{0}};
    unsigned nearest = ANCESTORS_MAX;
    for (size_t i = 0; i < LAUNCHERS; i++)
        if (is_present(&launchers[i])) {
            origins[i] = find_origin(&launchers[i]);
            nearest = origins[i].distance < nearest ? origins[i].distance : nearest;
        }
    const struct launcher *chosen = &launchers[first_of_origin(origins, nearest)];
    for (size_t i = 0; i < LAUNCHERS && !place->is_unclear; i++) {
        const struct launcher *other = &launchers[i];
        if (!is_present(other) || agrees(chosen, other))
            continue;
        place->is_unclear = origins[i].distance == nearest && is_unclear(chosen, other, &origins[i]);
        snprintf(place->dispute, sizeof place->dispute,
                 "%s says rank %.20s of %.20s (%s, %s), %s rank %.20s of %.20s (%s, %s)", chosen->name,
                 text_of(chosen->rank), text_of(chosen->size), chosen->rank, chosen->size, other->name,
                 text_of(other->rank), text_of(other->size), other->rank, other->size);
    }
    if (chosen != &launchers[KOLORUN] && is_present(&launchers[KOLORUN]))
        place->outer_distance = origins[KOLORUN].distance;
    return chosen;
}

/* Reads how many of the ranks are on this machine, or on how many machines they are. */
static int read_machines(const struct launcher *from, struct kolo_place *place) {
    int rc = 0;
    char name[NAME_BYTES];
    if (place->local_size < 0)
        read_integer(&rc, from->local_size, 1, place->size, &place->local_size);
    for (const char *names = from->machines; place->machines < 0 && next_name(&names, name);)
        read_integer(&rc, name, 1, INT32_MAX, &place->machines);
    return rc;
}

static int read_launcher(const struct launcher *from, struct kolo_place *place) {
    int rc = 0;
    place->rank = place->size = place->local_rank = place->local_size = -1;
    read_integer(&rc, from->size, 1, INT32_MAX, &place->size);
    read_integer(&rc, from->rank, 0, place->size - 1, &place->rank);
    read_integer(&rc, from->local_rank, 0, place->size - 1, &place->local_rank);
    if (rc == 0)
        rc = read_machines(from, place);
    /* A script that sets torchrun's variables in ranks of srun may leave it to Slurm to say where they are. */
    const bool is_script = from->seal && !text_of(from->seal);
    for (size_t i = 0; is_script && rc == 0 && place->local_size < 0 && place->machines < 0 && i < LAUNCHERS; i++)
        if (is_present(&launchers[i]) && is_same_text(text_of(launchers[i].size), text_of(from->size)))
            rc = read_machines(&launchers[i], place);
    if (rc < 0)
        return rc;
    place->launcher = from->name;
    place->is_spawned = text_of(from->spawned) != NULL;
    char name[NAME_BYTES];
    for (const char *names = from->job; next_name(&names, name);)
        if (text_of(name))
            append_job(place->job, text_of(name));
    strcpy(place->job_everywhere, place->job); /* what follows holds for one machine */
    if (place->is_spawned) /* what the launcher was started with, or told to set, all its jobs may have */
        place->outer_distance = find_origin(from).distance;
    else if (from->spawned)
        job_from_process(from, place->job);
    if (text_of(from->server))
        append_server(place->job, text_of(from->server));
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

int kolo_launcher_place(struct kolo_place *place, bool with_own) {
    *place = (struct kolo_place){.machines = -1};
    const struct launcher *from = NULL;
    size_t present = 0;
    const int rc = with_own ? read_own(place) : 0;
    if (rc < 0 || (with_own && place->rank >= 0 && !is_present(&launchers[KOLORUN])))
        return rc;
    for (size_t i = 0; i < LAUNCHERS; i++)
        if (is_present(&launchers[i]) && ++present)
            from = &launchers[i];
    if (present > 1)
        from = find_innermost(place);
    return !from || from == &launchers[KOLORUN] ? 0 : read_launcher(from, place);
}

const char *kolo_launcher_own_text(const struct kolo_place *place, kolo_variable_index variable) {
    const char *name = kolo_environment_name(variable), *text = kolo_environment_text(variable);
    if (!text || !place->outer_distance)
        return text;
    const struct launcher alone = {.rank = name, .size = name, .job = "", .programs = launchers[KOLORUN].programs};
    return find_origin(&alone).distance < place->outer_distance ? text : NULL;
}

/* Finds the first host of a list as Slurm writes it: "node[07-12,15],gpu1" begins with node07. */
static bool first_of_list(const char *list, char *host, size_t host_bytes) {
    size_t used = 0;
    bool inside = false, taken = false; /* inside: within brackets; taken: their first number has been taken */
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
    const bool is_torchrun = place->launcher == launchers[TORCHRUN].name;
    const char *host = is_torchrun || !is_present(&launchers[TORCHRUN]) ? text_of("MASTER_ADDR") : NULL;
    int64_t port = -1;
    text[0] = '\0';
    int rc = 0;
    if (host)
        read_integer(&rc, "MASTER_PORT", 1, UINT16_MAX, &port);
    if (rc < 0)
        return rc;
    if (port < 0)
        return place->launcher == launchers[SLURM].name ? slurm_rendezvous(text, text_bytes) : 0;
    if (is_torchrun)
        port = TORCHRUN_PORT_MIN + (port + 1) % PORTS;
    const char *format = strchr(host, ':') && host[0] != '[' ? "[%s]:%" PRId64 : "%s:%" PRId64;
    if ((size_t)snprintf(text, text_bytes, format, host, port) >= text_bytes)
        return kolo_fail(KOLO_ERR_ARG, "MASTER_ADDR=%.64s...: is too long", host);
    return 0;
}

bool kolo_launcher_ended(const struct kolo_place *place, int fd, int64_t *rank, char *why, size_t why_bytes) {
    const int64_t before = place->rank - place->local_rank; /* ranks on the machines before this one */
    const int64_t first = *rank >= 0 ? *rank : before > 0 ? before : 0, count = *rank >= 0 ? 1 : place->size - first;
    int status;
    if (place->local_rank < 0 || first < before || !kolo_file_end_find(fd, first - before, count, rank, &status))
        return false;
    *rank += before;
    snprintf(why, why_bytes,
             "rank %d %s %d before it joined: each of the %d ranks has to create the communicator, or none", (int)*rank,
             WIFEXITED(status) ? "has ended with status" : "was killed by signal",
             WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), (int)place->size);
    return true;
}
