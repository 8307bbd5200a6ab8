/* The settings of a communicator: options, else environment, else defaults. */
#include "comm/creation/options.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "kolo_tools.h"
#include "kolo.h"
#include "base/clock.h"
#include "base/sized.h"
#include "cpu/features.h"

#define SLOT_BYTES_DEFAULT (UINT64_C(256) << 10)
#define SLOTS_TOTAL_BYTES  (UINT64_C(256) << 20) /* of all ranks together: the default slot shrinks to fit */
#define TIMEOUT_MS_DEFAULT 300000
#define CREATE_MS_DEFAULT  60000
#define STALL_MS_DEFAULT   10000
#define SILENCE_MS_MIN     100
#define SILENCE_MS_DEFAULT 10000
#define STREAMS_DEFAULT    4

size_t kolo_settings_slot_bytes(uint32_t ranks, uint32_t threads) {
    const size_t share = SLOTS_TOTAL_BYTES / KOLO_SLOTS / ranks / threads / KOLO_PAGE_BYTES * KOLO_PAGE_BYTES;
    return share < KOLO_PAGE_BYTES ? KOLO_PAGE_BYTES : share < SLOT_BYTES_DEFAULT ? share : SLOT_BYTES_DEFAULT;
}

bool kolo_settings_job_is_legal(const char *job) {
    const size_t length = strnlen(job, KOLO_JOB_NAME_BYTES);
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)job[i]) && !strchr("._-", job[i]))
            return false;
    return length > 0 && length < KOLO_JOB_NAME_BYTES;
}

/* Finds where ranks of several machines meet: at the options' rendezvous; else at KOLO_RENDEZVOUS, unless the options
 * have a descriptor, which means that all ranks are here; else where the launcher says, if it has ranks elsewhere. */
static int resolve_rendezvous(struct kolo_settings *settings, const kolo_options *options) {
    const struct kolo_place *place = &settings->place;
    char *rendezvous = settings->net.rendezvous;
    const size_t room = sizeof settings->net.rendezvous;
    const char *text = options->rendezvous;
    if (place->size == 1)
        return 0;
    if (!text && options->shm_fd < 0)
        text = kolo_launcher_own_text(place, KOLO_VARIABLE_RENDEZVOUS);
    if (text) {
        if ((size_t)snprintf(rendezvous, room, "%s", text) >= room)
            return kolo_fail(KOLO_ERR_ARG, "%s=%.64s...: is too long for HOST:PORT",
                             kolo_environment_name(KOLO_VARIABLE_RENDEZVOUS), text);
        return 0;
    }
    const bool elsewhere = place->local_size >= 0 ? place->local_size != place->size : place->machines > 1;
    if (!elsewhere)
        return 0;
    int rc = kolo_launcher_rendezvous(place, rendezvous, room);
    if (rc == 0 && rendezvous[0] == '\0')
        rc =
            kolo_fail(KOLO_ERR_ARG,
                      "%s tells of %" PRId64 " ranks, not all of them on this machine: set KOLO_RENDEZVOUS=HOST:PORT on"
                      " all of them, an address of rank 0's machine and a free port there",
                      place->launcher ? place->launcher : "KOLO_LOCAL_SIZE", place->size);
    return rc;
}

/* Finds where the ranks of this machine meet: by the first of the options' job, the options' descriptor, KOLO_SHM_FD,
 * KOLO_JOB, the launcher's job. */
static int resolve_meeting(struct kolo_settings *settings, const kolo_options *options) {
    struct kolo_place *place = &settings->place;
    const char *job = options->job;
    int64_t fd = options->shm_fd;
    if (!job && fd < 0) {
        job = kolo_launcher_own_text(place, KOLO_VARIABLE_JOB);
        int rc = 0;
        if (kolo_launcher_own_text(place, KOLO_VARIABLE_SHM_FD))
            fd = kolo_environment_integer(&rc, KOLO_VARIABLE_SHM_FD, 0, INT_MAX, -1);
        if (rc < 0)
            return rc;
        if (fd >= 0)
            job = NULL; /* kolorun's, which has no name */
    }
    settings->shm_fd = job ? -1 : (int)fd;
    if (job) {
        if (!kolo_settings_job_is_legal(job))
            return kolo_fail(KOLO_ERR_ARG,
                             "job name '%.64s': must be 1 to %d letters, digits, '.', '_' and '-', no other characters",
                             job, KOLO_JOB_NAME_BYTES - 1);
        strcpy(place->job, job);
        strcpy(place->job_everywhere, job);
    }
    if (place->size > 1 && settings->shm_fd < 0 && !place->job[0] && !settings->net.rendezvous[0])
        return kolo_fail(KOLO_ERR_ARG,
                         "%" PRId64 " ranks%s, but no name under which to meet: set KOLO_JOB (or options.job)"
                         " to the same new name on all of them, %s",
                         place->size, place->is_spawned ? " that MPI_Comm_spawn has started" : "",
                         place->is_spawned ? "from within the program" : "or start them with kolorun");
    return 0;
}

/* Finds the name that tools show: that by which the ranks meet or, with a descriptor, KOLO_JOB or the launcher's. */
static void resolve_title(struct kolo_settings *settings) {
    const char *job = settings->shm_fd >= 0 ? kolo_launcher_own_text(&settings->place, KOLO_VARIABLE_JOB) : NULL;
    strcpy(settings->title, job && kolo_settings_job_is_legal(job) ? job : settings->place.job);
}

static int resolve_place(struct kolo_settings *settings, const kolo_options *options) {
    struct kolo_place *place = &settings->place;
    if (options->rank < -1 || options->size < -1 || options->shm_fd < -1)
        return kolo_fail(KOLO_ERR_ARG,
                         "kolo_options: rank %d, size %d, shm_fd %d: below -1, which stands for the environment",
                         options->rank, options->size, options->shm_fd);
    int rc = kolo_launcher_place(place, true);
    if (rc < 0)
        return rc;
    if (options->rank >= 0 || options->size >= 0) {
        /* The caller defines the group: what the launcher says about the machine does not apply to it. */
        place->rank = options->rank >= 0 ? options->rank : place->rank;
        place->size = options->size >= 0 ? options->size : place->size;
        place->local_rank = place->local_size = place->machines = -1;
    }
    const bool is_given = options->rank >= 0 && options->size >= 0;
    if (place->is_unclear && !is_given)
        return kolo_fail(KOLO_ERR_ARG,
                         "%s, and which of the two started this process cannot be told: unset the variables of the"
                         " other one, or set KOLO_RANK, KOLO_SIZE and KOLO_JOB",
                         place->dispute);
    if (is_given)
        place->dispute[0] = '\0';
    if (place->size < 0 && place->rank < 0)
        place->rank = 0, place->size = 1;
    if (place->size < 1 || place->size > KOLO_RANKS_MAX)
        return kolo_fail(KOLO_ERR_ARG, "size %" PRId64 ": must be from 1 to %d", place->size, KOLO_RANKS_MAX);
    if (place->rank < 0 || place->rank >= place->size)
        return kolo_fail(KOLO_ERR_ARG, "rank %" PRId64 ": must be from 0 to %" PRId64 " (size %" PRId64 ")",
                         place->rank, place->size - 1, place->size);
    rc = resolve_rendezvous(settings, options);
    if (rc == 0)
        rc = resolve_meeting(settings, options);
    if (rc == 0)
        resolve_title(settings);
    return rc;
}

/* The algorithm, and the levels of a tree, which KOLO_ALGO gives also where the options name the algorithm. */
static int resolve_algorithm(struct kolo_settings *settings, const kolo_options *options) {
    const char *names[KOLO_ALGORITHMS + 3] = {NULL};
    for (int i = 0; i < KOLO_ALGORITHMS; i++)
        names[i] = kolo_name(KOLO_NAME_ALGORITHM, i);
    names[KOLO_ALGORITHMS] = "auto:LEVELS";
    names[KOLO_ALGORITHMS + 1] = "tree:LEVELS";
    if ((unsigned)options->algorithm >= KOLO_ALGORITHMS)
        return kolo_fail(KOLO_ERR_ARG, "options.algorithm %d: there is no such algorithm", (int)options->algorithm);
    int rc = 0, named = kolo_environment_choice(&rc, KOLO_VARIABLE_ALGO, names, KOLO_ALGORITHM_AUTO);
    settings->tree_levels_given = named >= KOLO_ALGORITHMS;
    if (settings->tree_levels_given) {
        rc = kolo_levels_parse(settings->tree_levels, kolo_environment_name(KOLO_VARIABLE_ALGO),
                               kolo_environment_text(KOLO_VARIABLE_ALGO));
        named = named == KOLO_ALGORITHMS ? KOLO_ALGORITHM_AUTO : KOLO_ALGORITHM_TREE;
    }
    settings->algorithm = options->algorithm == KOLO_ALGORITHM_AUTO ? (kolo_algorithm)named : options->algorithm;
    return rc;
}

static int resolve_slot_bytes(struct kolo_settings *settings, const kolo_options *options) {
    size_t bytes = options->slot_bytes;
    int rc = 0;
    if (bytes > KOLO_SLOT_BYTES_MAX)
        return kolo_fail(KOLO_ERR_ARG, "options.slot_bytes %zu: must be at most %" PRIu64, bytes, KOLO_SLOT_BYTES_MAX);
    if (!bytes)
        bytes = (size_t)kolo_environment_integer(&rc, KOLO_VARIABLE_SLOT_BYTES, 1, KOLO_SLOT_BYTES_MAX, 0);
    settings->slot_bytes =
        bytes ? kolo_whole_pages(bytes) : kolo_settings_slot_bytes((uint32_t)settings->place.size, settings->threads);
    return rc;
}

static int resolve_single_copy(struct kolo_settings *settings) {
    const char *text = kolo_environment_text(KOLO_VARIABLE_SINGLE_COPY);
    int64_t bytes = 0;
    int rc = 0;
    if (text && strcmp(text, "off") == 0)
        bytes = -1;
    else if (text && strcmp(text, "auto") != 0)
        rc = kolo_integer_parse(kolo_environment_name(KOLO_VARIABLE_SINGLE_COPY), text, 1, INT64_MAX, &bytes);
    if (rc < 0)
        return kolo_fail(KOLO_ERR_ARG, "%s=%.64s: must be auto, off, or a whole number of bytes from 1 on",
                         kolo_environment_name(KOLO_VARIABLE_SINGLE_COPY), text);
    settings->single_copy_bytes = bytes < 0 ? UINT64_MAX : (uint64_t)bytes;
    return rc;
}

static int resolve_threads(struct kolo_settings *settings, const kolo_options *options) {
    int rc = 0;
    if (options->threads < 0 || options->threads > KOLO_THREADS_MAX)
        return kolo_fail(KOLO_ERR_ARG, "options.threads %d: must be from 1 to %d, or 0 (%s)", options->threads,
                         KOLO_THREADS_MAX, kolo_environment_name(KOLO_VARIABLE_THREADS));
    settings->threads = options->threads
                            ? (uint32_t)options->threads
                            : (uint32_t)kolo_environment_integer(&rc, KOLO_VARIABLE_THREADS, 1, KOLO_THREADS_MAX, 1);
    return rc;
}

/* Returns a limit on waiting, in nanoseconds: the option, else the variable, else the default; KOLO_NEVER_NS for 0. */
static int64_t resolve_limit(int *rc, const char *field, int64_t option_ms, kolo_variable_index variable,
                             int64_t default_ms) {
    if (*rc == 0 && (option_ms < -1 || option_ms > KOLO_TIMEOUT_MS_MAX))
        *rc = kolo_fail(KOLO_ERR_ARG, "options.%s %" PRId64 ": must be from 0 to %" PRId64 " ms", field, option_ms,
                        KOLO_TIMEOUT_MS_MAX);
    const int64_t ms =
        option_ms < 0 ? kolo_environment_integer(rc, variable, 0, KOLO_TIMEOUT_MS_MAX, default_ms) : option_ms;
    return *rc == 0 && ms ? ms * KOLO_NS_PER_MS : KOLO_NEVER_NS;
}

/* Refuses settings that cannot keep the order of ranks. */
static int check_rank_order(const struct kolo_net_settings *net) {
    const char *order = kolo_environment_name(KOLO_VARIABLE_NET_ORDER);
    if (net->rank_order && net->exchange == KOLO_EXCHANGE_RING)
        return kolo_fail(KOLO_ERR_ARG,
                         "%s=rank with %s=ring: a ring adds in an order of its own: choose auto, mesh, tree or central",
                         order, kolo_environment_name(KOLO_VARIABLE_NET_ALGO));
    if (net->rank_order && net->half_on_wire)
        return kolo_fail(
            KOLO_ERR_ARG,
            "%s=rank with %s=wire:bf16: each machine's part is rounded then, and the result depends on which"
            " ranks it has: choose one of the two",
            order, kolo_environment_name(KOLO_VARIABLE_NET));
    return 0;
}

/* Reads KOLO_NET. */
static void resolve_links(int *rc, struct kolo_net_settings *net) {
    int64_t engine = KOLO_NET_ENGINE_AUTO, zero_copy = 0, threads = 1, streams = STREAMS_DEFAULT, servers = 1;
    int64_t half = 0, any_part = 0;
    const struct kolo_list_item items[] = {
        {"auto", KOLO_NET_ENGINE_AUTO, 0, &engine},
        {"uring", KOLO_NET_ENGINE_URING, 0, &engine},
        {"poll", KOLO_NET_ENGINE_POLL, 0, &engine},
        {"zero_copy", 1, 0, &zero_copy},
        {"threads:", 1, KOLO_LANES_MAX, &threads},
        {"streams:", 1, KOLO_STREAMS_MAX, &streams},
        {"servers:", 1, KOLO_RANKS_MAX, &servers},
        {"wire:none", 0, 0, &half},
        {"wire:bf16", 1, 0, &half},
        {"quorum:majority", 0, 0, &any_part},
        {"quorum:any", 1, 0, &any_part},
        {NULL, 0, 0, NULL},
    };
    kolo_environment_list(rc, KOLO_VARIABLE_NET, items);
    net->engine = (kolo_net_engine)engine;
    net->zero_copy = zero_copy == 1;
    net->lanes = (uint32_t)threads;
    net->streams = (uint32_t)streams;
    net->servers = (uint32_t)servers;
    net->half_on_wire = half == 1;
    net->any_part = any_part == 1;
}

static int resolve_net(struct kolo_net_settings *net) {
    static const char *const exchanges[] = {"auto", "mesh", "ring", "tree", "central", NULL};
    static const char *const orders[] = {"node", "rank", NULL};
    static_assert(sizeof exchanges / sizeof *exchanges == KOLO_EXCHANGES + 1, "a name each");
    int rc = 0;
    resolve_links(&rc, net);
    net->exchange = (kolo_exchange)kolo_environment_choice(&rc, KOLO_VARIABLE_NET_ALGO, exchanges, KOLO_EXCHANGE_AUTO);
    net->rank_order = kolo_environment_choice(&rc, KOLO_VARIABLE_NET_ORDER, orders, 0) == 1;
    net->silence_ns = KOLO_NS_PER_MS * kolo_environment_integer(&rc, KOLO_VARIABLE_NET_SILENCE_MS, SILENCE_MS_MIN,
                                                                KOLO_TIMEOUT_MS_MAX, SILENCE_MS_DEFAULT);
    return rc == 0 ? check_rank_order(net) : rc;
}

/* Reads KOLO_LOG, which means warn where it names no level. */
static void resolve_log(int *rc, struct kolo_settings *settings) {
    int64_t level = kolo_environment_text(KOLO_VARIABLE_LOG) ? KOLO_LOG_WARN : KOLO_LOG_OFF;
    int64_t stall_ms = STALL_MS_DEFAULT;
    const struct kolo_list_item items[] = {
        {"off", KOLO_LOG_OFF, 0, &level},
        {"error", KOLO_LOG_ERROR, 0, &level},
        {"warn", KOLO_LOG_WARN, 0, &level},
        {"info", KOLO_LOG_INFO, 0, &level},
        {"stall:", 0, KOLO_TIMEOUT_MS_MAX, &stall_ms},
        {NULL, 0, 0, NULL},
    };
    kolo_environment_list(rc, KOLO_VARIABLE_LOG, items);
    settings->log_level = (kolo_log_level)level;
    settings->stall_warn_ns = stall_ms * KOLO_NS_PER_MS;
}

/* Resolves the settings of this rank alone: how it waits, what it logs, which instructions it uses. */
static int resolve_own(struct kolo_settings *settings, const kolo_options *options) {
    static const char *const waits[] = {"auto", "spin", "yield", "sleep", NULL};
    uint32_t mask = 0;
    int rc = 0;
    settings->timeout_ns =
        resolve_limit(&rc, "timeout_ms", options->timeout_ms, KOLO_VARIABLE_TIMEOUT_MS, TIMEOUT_MS_DEFAULT);
    settings->create_timeout_ns = resolve_limit(&rc, "create_timeout_ms", options->create_timeout_ms,
                                                KOLO_VARIABLE_CREATE_TIMEOUT_MS, CREATE_MS_DEFAULT);
    if (options->progress < -1 || options->progress > 1)
        return kolo_fail(KOLO_ERR_ARG, "options.progress %d: must be 1 (yes), -1 (no) or 0 (%s)", options->progress,
                         kolo_environment_name(KOLO_VARIABLE_PROGRESS));
    settings->progress =
        options->progress ? options->progress > 0 : kolo_environment_integer(&rc, KOLO_VARIABLE_PROGRESS, 0, 1, 0) == 1;
    settings->wait = (kolo_wait_mode)kolo_environment_choice(&rc, KOLO_VARIABLE_WAIT, waits, KOLO_WAIT_AUTO);
    resolve_log(&rc, settings);
    if (rc == 0)
        rc = kolo_cpu_mask_read(&mask);
    settings->features = kolo_cpu_features() & mask;
    return rc;
}

int kolo_options_read(kolo_options *options, const kolo_options *theirs) {
    static const struct kolo_sized sized = KOLO_SIZED(kolo_options, options_bytes, slot_bytes);
    *options = (kolo_options)KOLO_OPTIONS_INIT;
    return theirs ? kolo_sized_read(&sized, "options, which begin with KOLO_OPTIONS_INIT", options, theirs) : 0;
}

int kolo_settings_resolve(struct kolo_settings *settings, const kolo_options *theirs) {
    kolo_options options;
    memset(settings, 0, sizeof *settings);
    int rc = kolo_options_read(&options, theirs);
    if (rc == 0)
        rc = resolve_place(settings, &options);
    if (rc == 0)
        rc = resolve_algorithm(settings, &options);
    if (rc == 0)
        rc = resolve_threads(settings, &options);
    if (rc == 0)
        rc = resolve_slot_bytes(settings, &options);
    if (rc == 0)
        rc = resolve_single_copy(settings);
    if (rc == 0)
        rc = resolve_net(&settings->net);
    if (rc == 0)
        rc = resolve_own(settings, &options);
    return rc;
}
