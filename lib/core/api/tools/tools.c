/* What kolo_tools.h has: the machine as kolo sees it; the plan that kolo would make for a call, and the profiles from
 * which it takes it; the names that jobs have in /dev/shm while they are created; and variables of the environment that
 * begin with KOLO_ but that nothing reads, probably misspellings. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kolo_tools.h"
#include "algo/fusion/apply.h"
#include "api/arguments.h"
#include "api/groups/derive.h"
#include "base/file.h"
#include "base/name_distance.h"
#include "base/sized.h"
#include "comm/creation/rendezvous.h"
#include "cpu/features.h"
#include "cpu/limits.h"
#include "plan/tuning.h"

static void read_topology(kolo_topology *topology) {
    kolo_cpu_set allowed;
    kolo_cpu_set_allowed(&allowed);
    kolo_topology_read(topology, &allowed);
}

static void read_shm(kolo_machine *machine) {
    struct statvfs mount;
    if (statvfs("/dev/shm", &mount) < 0)
        return;
    machine->shm_total_bytes = (uint64_t)mount.f_blocks * mount.f_frsize;
    machine->shm_free_bytes = (uint64_t)mount.f_bavail * mount.f_frsize;
}

static int probe_pidfd(void) {
    int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (fd < 0)
        return -errno;
    close(fd);
    return 0;
}

int kolo_machine_query(kolo_machine *machine) {
    static const struct kolo_sized sized = KOLO_SIZED(kolo_machine, machine_bytes, pidfd);
    const struct kolo_internode_calls *internode = kolo_layers.internode;
    uint32_t mask;
    const int rc = kolo_cpu_mask_read(&mask);
    if (rc < 0)
        return rc;
    kolo_topology topology;
    read_topology(&topology);
    kolo_machine found;
    memset(&found, 0, sizeof found);
    found.cpus_online = topology.cpus_online;
    found.cpus_allowed = kolo_cpu_set_count(&topology.allowed);
    found.quota_millicpus = kolo_quota_read();
    found.numa_nodes = topology.numa_nodes;
    found.l3_domains = topology.l3_domains;
    found.l1d_bytes = topology.l1d_bytes;
    found.l2_bytes = topology.l2_bytes;
    found.l3_bytes = topology.l3_bytes;
    found.memory_bytes = kolo_memory_total();
    found.io_uring = internode ? internode->probe_uring() : -ENOSYS;
    found.membarrier = kolo_fence_register();
    found.pidfd = probe_pidfd();
    found.several_machines = internode != NULL;
    const uint32_t features = kolo_cpu_features();
    kolo_cpu_model(found.cpu_model, sizeof found.cpu_model);
    kolo_cpu_features_format(features, found.isa, sizeof found.isa);
    snprintf(found.kernels, sizeof found.kernels, "%s", kolo_reducer_select(features & mask)->name);
    read_shm(&found);
    return kolo_sized_give(&sized, "kolo_machine_query", machine, &found);
}

/* Plans. */

static_assert(KOLO_PROFILE_BANDS == KOLO_BANDS, "kolo_tools.h says how many there are");

/* The settings that ranks of this machine would have under `options`. */
static int resolve(struct kolo_settings *settings, const kolo_options *options, int ranks) {
    kolo_options hypothetical;
    const int rc = kolo_options_read(&hypothetical, options);
    if (rc < 0)
        return rc;
    hypothetical.rank = 0;
    hypothetical.size = ranks < 0 ? 0 : ranks; /* a negative number would mean: from the environment */
    hypothetical.job = "plan";
    return kolo_settings_resolve(settings, &hypothetical);
}

int kolo_plan_query(kolo_plan *plan, const kolo_options *options, int ranks, kolo_collective collective, size_t count,
                    kolo_dtype dtype, kolo_op op) {
    static const struct kolo_sized sized = KOLO_SIZED(kolo_plan, plan_bytes, segment_bytes);
    struct kolo_settings settings;
    const kolo_op used = kolo_collective_has(collective) & KOLO_HAS_OP ? op : KOLO_SUM;
    const int rc = resolve(&settings, options, ranks);
    if (rc < 0)
        return rc;
    if ((unsigned)collective >= KOLO_COLLECTIVES || kolo_registry[collective].way == KOLO_NO_WAY ||
        !kolo_op_supports(used, dtype) || count > KOLO_COUNT_MAX / (size_t)ranks)
        return kolo_fail(KOLO_ERR_ARG, "kolo_plan_query: collective %d, count %zu, dtype %d, op %d: no such call",
                         (int)collective, count, (int)dtype, (int)op);
    kolo_topology topology;
    struct kolo_shared_settings shared;
    struct kolo_tuning_source source;
    read_topology(&topology);
    kolo_tuning_make(
        &shared,
        &(struct kolo_tuning_question){.algorithm = settings.algorithm,
                                       .slot_bytes = settings.slot_bytes,
                                       .single_copy_bytes = settings.single_copy_bytes,
                                       .ranks = (uint32_t)ranks,
                                       .topology = &topology,
                                       .tree_sizes = settings.tree_levels_given ? settings.tree_levels : NULL},
        &source);
    const kolo_kernel *kernel = &kolo_reducer_select(settings.features)->kernels[dtype][used];
    const struct kolo_question question = {
        .descriptor = &kolo_registry[collective],
        .count = kolo_registry[collective].applies ? kolo_plan_longest(count, kernel->element_bytes, (uint32_t)ranks)
                                                   : count,
        .ranks = (uint32_t)ranks,
        .kernel = kernel,
        .packed_bytes_max = KOLO_PACKED_BYTES_MAX};
    struct kolo_answer answer;
    kolo_plan_make(&question, &shared, settings.slot_bytes, &answer);
    kolo_plan made;
    memset(&made, 0, sizeof made);
    made.algorithm = answer.reads ? KOLO_ALGORITHM_DIRECT : answer.algorithm;
    made.chunk_bytes = answer.chunk_count * kernel->element_bytes;
    made.chunks = answer.chunks;
    made.slot_bytes = settings.slot_bytes;
    made.rank_bytes = settings.threads * kolo_comm_bytes((uint32_t)ranks);
    if (ranks > 1) {
        made.segment_bytes =
            settings.threads * kolo_layout_compute((uint32_t)ranks, settings.slot_bytes, false).allocated;
        made.descriptors = ranks + KOLO_SEGMENTS_KEPT_MAX; /* pidfds, guards, segments */
    }
    made.stream = answer.stream;
    made.tuned = source.tuned >> collective & 1;
    snprintf(made.tuning, sizeof made.tuning, "%s", source.text);
    return kolo_sized_give(&sized, "kolo_plan_query", plan, &made);
}

/* Profiles. */

static const struct kolo_sized sized_section = KOLO_SIZED(kolo_profile_section, section_bytes, band);

int kolo_profile_section_get(const char *path, size_t index, kolo_profile_section *section) {
    struct kolo_profile profile;
    kolo_topology topology;
    char why[KOLO_PROFILE_WHY_BYTES];
    bool absent;
    if (!path)
        return kolo_fail(KOLO_ERR_ARG, "kolo_profile_section_get: path is NULL");
    read_topology(&topology);
    if (!kolo_tuning_load(path, &topology, &profile, why, &absent))
        return kolo_fail(KOLO_ERR_ARG, "profile %.100s ignored: %s", path, why);
    if (index >= profile.sections)
        return kolo_fail(KOLO_ERR_ARG, "profile %.100s: it has only %u sections", path, (unsigned)profile.sections);
    return kolo_sized_give(&sized_section, "kolo_profile_section_get", section, &profile.section[index]);
}

/* kolo_profile_format refuses a text that the parser would refuse. */
int kolo_profile_format(const kolo_profile_section *section, char text[KOLO_PROFILE_TEXT_BYTES]) {
    kolo_profile_section given = {.bands = 0};
    struct kolo_profile_machine machine = {.cpus_online = 1};
    struct kolo_profile profile;
    char whole[KOLO_PROFILE_TEXT_BYTES] = "", why[KOLO_PROFILE_WHY_BYTES];
    if (!text)
        return kolo_fail(KOLO_ERR_ARG, "kolo_profile_format: text is NULL");
    if (!section) {
        kolo_topology topology;
        read_topology(&topology);
        kolo_profile_machine_read(&machine, &topology);
        *text = '\0';
        kolo_profile_add_head(text, &machine);
        return 0;
    }
    const int rc = kolo_sized_read(&sized_section, "kolo_profile_format", &given, section);
    if (rc < 0)
        return rc;
    if (given.bands > KOLO_BANDS)
        return kolo_fail(KOLO_ERR_ARG, "kolo_profile_format: %d bands: at most %d", given.bands, KOLO_BANDS);
    kolo_profile_add_head(whole, &machine);
    const size_t head_bytes = strlen(whole);
    kolo_profile_add_section(whole, &given);
    if (!kolo_profile_parse(whole, strlen(whole), &profile, why))
        return kolo_fail(KOLO_ERR_ARG, "kolo_profile_format: %s", why);
    strcpy(text, whole + head_bytes);
    return 0;
}

/* Names of jobs. */

static void describe(int fd, const struct stat *found, kolo_job_name *name) {
    struct kolo_job_header header;
    const int64_t now_s = kolo_clock_utc_ns() / 1000 / KOLO_NS_PER_MS;
    const bool complete = kolo_job_header_read(fd, &header);
    name->pid = complete ? header.creator.pid : 0;
    name->stale = !complete || !kolo_job_creator_alive(kolo_process_own_namespace(), fd, &header);
    name->age_s = now_s > found->st_ctim.tv_sec ? now_s - found->st_ctim.tv_sec : 0;
}

int kolo_job_name_get(size_t index, kolo_job_name *name) {
    static const struct kolo_sized sized = KOLO_SIZED(kolo_job_name, job_name_bytes, age_s);
    kolo_job_name seen = {0};
    DIR *directory = opendir(KOLO_JOB_DIRECTORY);
    if (!directory)
        return kolo_fail_system(errno, "reading " KOLO_JOB_DIRECTORY);
    bool reached = false;
    struct stat found;
    for (int fd; !reached && (fd = kolo_job_names_next(directory, seen.path, sizeof seen.path, &found)) >= 0;) {
        reached = index-- == 0;
        if (reached)
            describe(fd, &found, &seen);
        close(fd);
    }
    closedir(directory);
    if (!reached)
        return kolo_fail(KOLO_ERR_ARG, "kolo_job_name_get: index past the last name");
    return kolo_sized_give(&sized, "kolo_job_name_get", name, &seen);
}

int kolo_job_name_remove(const char *path) {
    char prefix[64];
    struct stat found;
    kolo_job_name name;
    snprintf(prefix, sizeof prefix, KOLO_JOB_PATH, (unsigned)geteuid());
    if (!path || strncmp(path, prefix, strlen(prefix)) != 0 || strchr(path + strlen(prefix), '/'))
        return kolo_fail(KOLO_ERR_ARG, "kolo_job_name_remove: %.200s is not the name of a job of this user",
                         path ? path : "NULL");
    const int fd = kolo_file_open_own(path, &found);
    if (fd < 0)
        return kolo_fail(KOLO_ERR_ARG, "kolo_job_name_remove: %.200s is not a file of this user", path);
    describe(fd, &found, &name);
    int rc = name.stale ? kolo_job_name_remove_of(path, fd)
                        : kolo_fail(KOLO_ERR_STATE, "%.200s is in use by process %u", path, (unsigned)name.pid);
    if (name.stale && rc < 0)
        rc = kolo_fail_system(-rc, "removing %.200s", path);
    close(fd);
    return rc;
}

/* Unknown variables. */

#define PREFIX "KOLO_"

enum { PREFIX_BYTES = sizeof PREFIX - 1, NAME_BYTES = sizeof((kolo_variable *)0)->name, LIKE_MIN = 3 };

/* These belong to the tests and the bindings. */
static const char *const left_alone[] = {"KOLO_TEST_", "KOLO_MPI_", "KOLO_TORCH_", "KOLO_LIBRARY"};

static bool is_known(const char *name) {
    for (size_t i = 0; i < sizeof left_alone / sizeof *left_alone; i++)
        if (strncmp(name, left_alone[i], strlen(left_alone[i])) == 0)
            return true;
    for (int i = 0; i < KOLO_VARIABLES; i++)
        if (strcmp(name, kolo_environment_name((kolo_variable_index)i)) == 0)
            return true;
    return false;
}

/* The name before the '='. Characters that a terminal cannot show become '?'. */
static void copy_name(const char *entry, char *name) {
    size_t length = 0;
    for (; length + 1 < NAME_BYTES && entry[length] && entry[length] != '='; length++)
        name[length] = isgraph((unsigned char)entry[length]) ? entry[length] : '?';
    name[length] = '\0';
}

/* The known name that is most similar, or NULL. A name that contains the other is more similar than others. */
static const char *find_nearest(const char *name) {
    const char *given = name + PREFIX_BYTES, *nearest = NULL;
    size_t least = SIZE_MAX;
    for (int i = 0; i < KOLO_VARIABLES; i++) {
        const char *known = kolo_environment_name((kolo_variable_index)i), *rest = known + PREFIX_BYTES;
        const size_t longer = strlen(given) > strlen(rest) ? strlen(given) : strlen(rest);
        const size_t shorter = strlen(given) + strlen(rest) - longer;
        const size_t apart = kolo_name_distance(given, strlen(given), rest, strlen(rest));
        const bool contained = shorter >= LIKE_MIN && (strcasestr(rest, given) || strcasestr(given, rest));
        if (!contained && 2 * apart > longer)
            continue;
        const size_t score = (contained ? 0 : NAME_BYTES) + apart;
        if (score < least) {
            least = score;
            nearest = known;
        }
    }
    return nearest;
}

/* Describes the one at `index` of those that nothing reads. Returns false if there are no more than that. */
static bool describe_unknown(size_t index, kolo_variable *found) {
    bool reached = false;
    for (char **entry = environ; entry && *entry && !reached; entry++) {
        if (strncmp(*entry, PREFIX, PREFIX_BYTES) != 0)
            continue;
        copy_name(*entry, found->name);
        reached = !is_known(found->name) && index-- == 0;
    }
    if (!reached)
        return false;
    found->nearest = find_nearest(found->name);
    snprintf(found->mistake, sizeof found->mistake, "%s is not a variable of kolo%s%s%s", found->name,
             found->nearest ? "; did you mean " : ", and nothing reads it", found->nearest ? found->nearest : "",
             found->nearest ? "?" : "");
    return true;
}

int kolo_variable_get(size_t index, kolo_variable *variable) {
    static const struct kolo_sized sized = KOLO_SIZED(kolo_variable, variable_bytes, mistake);
    kolo_variable found;
    memset(&found, 0, sizeof found);
    if (index < KOLO_VARIABLES)
        kolo_environment_describe((kolo_variable_index)index, &found);
    else if (!describe_unknown(index - KOLO_VARIABLES, &found))
        return kolo_fail(KOLO_ERR_ARG, "kolo_variable_get: index %zu: past the last one", index);
    return kolo_sized_give(&sized, "kolo_variable_get", variable, &found);
}
