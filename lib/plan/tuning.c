#include "plan/tuning.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "plan/profile.h"
#include "base/environment.h"
#include "base/file.h"
#include "cpu/levels.h"

enum { PATH_BYTES = PATH_MAX + 1 }; /* a path that does not fit is too long for open, too */

/* Times the ranks: direct has all of them meet twice. */
#define DIRECT_BYTES_MIN UINT64_C(512)

static_assert(KOLO_LEVELS_MAX == KOLO_TREE_LEVELS, "the segment keeps all levels");

/* Largest message for one shot. It makes every rank read N - 1 messages and fold N; mesh has each byte cross twice,
 * with a step more between. Two ranks meet at about 1/64 of L2, whether they share an L3 cache or not; from there it is
 * taken to fall with the square of N. Where ranks share cores, a step costs each core as many switches as it has ranks:
 * 3 and 4 ranks on two cores meet near 1/192 of L2, 8 to 16 near 1/64. */
static uint64_t oneshot_bytes_max(uint32_t ranks, const kolo_topology *topology) {
    const uint64_t l2_bytes = topology->l2_bytes ? topology->l2_bytes : UINT64_C(1) << 20;
    const uint32_t cpus = kolo_cpu_set_count(&topology->allowed);
    const uint64_t bytes = ranks <= cpus ? l2_bytes / (16 * (uint64_t)ranks * ranks) : l2_bytes * ranks / cpus / 384;
    return bytes < KOLO_LINES_BYTES_MAX ? KOLO_LINES_BYTES_MAX : bytes;
}

/* From where on results go past the caches: where send and recv of the ranks no longer fit the L3 caches. */
static uint64_t stream_bytes_min(uint32_t ranks, const kolo_topology *topology) {
    return topology->l3_bytes ? topology->l3_bytes * topology->l3_domains / (2 * (uint64_t)ranks) : UINT64_MAX;
}

void kolo_tuning_default(struct kolo_shared_settings *settings, kolo_algorithm algorithm, size_t slot_bytes,
                         uint32_t ranks, const kolo_topology *topology, const kolo_cpu_set *const *rank_cpus) {
    *settings = (struct kolo_shared_settings){
        .algorithm = (uint32_t)algorithm,
        .bands = 2,
        .direct_bytes_min = DIRECT_BYTES_MIN * ranks,
        .stream_bytes_min = stream_bytes_min(ranks, topology),
        .band = {{oneshot_bytes_max(ranks, topology), KOLO_ALGORITHM_ONESHOT, (uint32_t)slot_bytes},
                 {UINT64_MAX, KOLO_ALGORITHM_MESH, (uint32_t)slot_bytes}},
    };
    kolo_levels_choose(settings->tree_sizes, topology, rank_cpus, ranks);
    if (settings->tree_sizes[0]) {
        /* Where ranks run in several cache domains bench/simulate predicts tree to be ahead at every size or, with
         * large messages, not behind; not measured. */
        settings->bands = 1;
        settings->band[0] = (struct kolo_shared_band){UINT64_MAX, KOLO_ALGORITHM_TREE, (uint32_t)slot_bytes};
    }
}

/* Which file to read: false if none. *asked: the user names it, so that it should be there. */
static bool find_file(char path[PATH_BYTES], bool *asked) {
    /* secure_getenv: what a program with borrowed rights says about a file could tell what is in it. */
    const char *named = secure_getenv(kolo_environment_name(KOLO_VARIABLE_TUNE_FILE));
    const char *config = secure_getenv("XDG_CONFIG_HOME"), *home = secure_getenv("HOME");
    int length = 0;
    *asked = named != NULL;
    if (named)
        length = strcmp(named, "none") == 0 ? 0 : snprintf(path, PATH_BYTES, "%s", named);
    else if (config && config[0] == '/')
        length = snprintf(path, PATH_BYTES, "%s/kolo/tune", config);
    else if (home && home[0] == '/')
        length = snprintf(path, PATH_BYTES, "%s/.config/kolo/tune", home);
    return length > 0;
}

/* Reads and checks the profile: false, with the reason in `why`, where it is of no use here. */
static bool load_profile(const char *path, struct kolo_profile *profile, const kolo_topology *topology,
                         char why[KOLO_PROFILE_WHY_BYTES], bool *absent) {
    const size_t room = KOLO_PROFILE_BYTES_MAX + 1; /* one more tells that it is too long */
    char *text = malloc(room);
    const ssize_t bytes = text ? kolo_file_read_own(path, text, room) : -ENOMEM;
    *absent = bytes == -ENOENT || bytes == -ENOTDIR;
    bool fits = false;
    if (bytes < 0) {
        char reason[128];
        snprintf(why, KOLO_PROFILE_WHY_BYTES, "%s",
                 bytes == -EINVAL  ? "not a regular file"
                 : bytes == -EPERM ? "another user could have written it"
                                   : strerror_r((int)-bytes, reason, sizeof reason));
    } else if (kolo_profile_parse(text, (size_t)bytes, profile, why)) {
        struct kolo_profile_machine here;
        kolo_profile_machine_read(&here, topology);
        fits = kolo_profile_fits(profile, &here, why);
    }
    free(text);
    return fits;
}

/* Replaces what a profile knows better than the defaults in `settings`, if there is one; fills *source. */
static void use_profile(struct kolo_shared_settings *settings, uint32_t ranks, const kolo_topology *topology,
                        struct kolo_tuning_source *source) {
    char path[PATH_BYTES], why[KOLO_PROFILE_WHY_BYTES];
    bool asked, absent;
    struct kolo_profile profile;
    *source = (struct kolo_tuning_source){.text = "defaults: no profile"};
    if (!find_file(path, &asked))
        return;
    if (!load_profile(path, &profile, topology, why, &absent)) {
        source->refused = asked || !absent;
        if (source->refused)
            snprintf(source->text, sizeof source->text, "defaults: profile %.100s ignored: %s", path, why);
        return;
    }
    const struct kolo_profile_section *section = kolo_profile_find(&profile, ranks);
    source->tuned = section != NULL;
    if (section) {
        kolo_profile_apply(section, settings);
        snprintf(source->text, sizeof source->text, "profile %.400s", path);
    } else {
        snprintf(source->text, sizeof source->text,
                 "defaults: profile %.300s has no section for %" PRIu32 " ranks: run kolo-tune --ranks %" PRIu32, path,
                 ranks, ranks);
    }
}

void kolo_tuning_make(struct kolo_shared_settings *shared, const struct kolo_settings *settings,
                      const kolo_topology *topology, const kolo_cpu_set *const *rank_cpus,
                      struct kolo_tuning_source *source) {
    const uint32_t ranks = (uint32_t)settings->place.size;
    kolo_tuning_default(shared, settings->algorithm, settings->slot_bytes, ranks, topology, rank_cpus);
    if (settings->tree_levels_given)
        memcpy(shared->tree_sizes, settings->tree_levels, sizeof shared->tree_sizes);
    use_profile(shared, ranks, topology, source);
}

void kolo_tuning_decide(kolo_comm *comm, const struct kolo_settings *settings) {
    const kolo_cpu_set *rank_cpus[KOLO_RANKS_MAX];
    kolo_cpu_set all = {{0}};
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        rank_cpus[rank] = &comm->segment.members[rank].cpus;
        kolo_cpu_set_merge(&all, rank_cpus[rank]);
    }
    kolo_topology topology;
    kolo_topology_read(&topology, &all);
    struct kolo_tuning_source source;
    kolo_tuning_make(&comm->segment.header->settings, settings, &topology, rank_cpus, &source);
    kolo_log(settings->log_level, source.refused ? KOLO_LOG_WARN : KOLO_LOG_INFO, (int)comm->global_rank, "%s",
             source.text);
}
