/* The plan that kolo would make for a call, and the profiles from which it takes it: for tools. */
#include <stdio.h>
#include <string.h>

#include "kolo_tools.h"
#include "algo/fusion/apply.h"
#include "algo/registry.h"
#include "base/sized.h"
#include "base/status.h"
#include "comm/creation/create.h"
#include "comm/creation/options.h"
#include "cpu/topology.h"
#include "plan/plan.h"
#include "plan/tuning.h"
#include "reduce/reducer.h"

static_assert(KOLO_PROFILE_BANDS == KOLO_BANDS, "kolo_tools.h says how many there are");

static void read_topology(kolo_topology *topology) {
    kolo_cpu_set allowed;
    kolo_cpu_set_allowed(&allowed);
    kolo_topology_read(topology, &allowed);
}

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
    const kolo_op used = kolo_collective_has_op(collective) ? op : KOLO_SUM;
    int rc = kolo_sized_check(&sized, "kolo_plan_query", plan);
    if (rc < 0)
        return rc;
    if ((unsigned)collective >= KOLO_COLLECTIVES || kolo_registry[collective].way == KOLO_NO_WAY ||
        !kolo_op_supports(used, dtype) || count > SIZE_MAX / 2 / kolo_dtype_bytes(dtype))
        return kolo_fail(KOLO_ERR_ARG, "kolo_plan_query: collective %d, count %zu, dtype %d, op %d: no such call",
                         (int)collective, count, (int)dtype, (int)op);
    rc = resolve(&settings, options, ranks);
    if (rc < 0)
        return rc;
    kolo_topology topology;
    struct kolo_shared_settings shared;
    struct kolo_tuning_source source;
    read_topology(&topology);
    kolo_tuning_make(
        &shared,
        &(struct kolo_tuning_question){.algorithm = settings.algorithm,
                                       .slot_bytes = settings.slot_bytes,
                                       .ranks = (uint32_t)ranks,
                                       .topology = &topology,
                                       .tree_sizes = settings.tree_levels_given ? settings.tree_levels : NULL},
        &source);
    const kolo_kernel *kernel = &kolo_reducer_select(settings.features)->kernels[dtype][used];
    const struct kolo_question question = {
        .descriptor = &kolo_registry[collective],
        .count = kolo_registry[collective].applies ? kolo_apply_longest(count, kernel->element_bytes, (uint32_t)ranks)
                                                   : count,
        .ranks = (uint32_t)ranks,
        .element_bytes = kernel->element_bytes,
        .acc_bytes = kernel->acc_bytes,
        .is_whole = kernel->is_whole};
    struct kolo_answer answer;
    kolo_plan_make(&question, &shared, settings.slot_bytes, &answer);
    kolo_plan made;
    memset(&made, 0, sizeof made);
    made.algorithm = answer.algorithm;
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
    kolo_sized_fill(&sized, plan, &made);
    return 0;
}

/* Profiles. */

static const struct kolo_sized sized_section = KOLO_SIZED(kolo_profile_section, section_bytes, band);

int kolo_profile_may_choose(kolo_collective collective, kolo_algorithm algorithm) {
    return (unsigned)collective < KOLO_COLLECTIVES && (unsigned)algorithm < KOLO_ALGORITHMS &&
           kolo_descriptor_of(collective)->choices >> algorithm & 1;
}

int kolo_profile_section_get(const char *path, size_t index, kolo_profile_section *section) {
    struct kolo_profile profile;
    kolo_topology topology;
    char why[KOLO_PROFILE_WHY_BYTES];
    bool absent;
    const int rc = kolo_sized_check(&sized_section, "kolo_profile_section_get", section);
    if (rc < 0)
        return rc;
    if (!path)
        return kolo_fail(KOLO_ERR_ARG, "kolo_profile_section_get: path is NULL");
    read_topology(&topology);
    if (!kolo_tuning_load(path, &topology, &profile, why, &absent))
        return kolo_fail(KOLO_ERR_ARG, "profile %.100s ignored: %s", path, why);
    if (index >= profile.sections)
        return kolo_fail(KOLO_ERR_ARG, "profile %.100s: it has only %u sections", path, (unsigned)profile.sections);
    kolo_sized_fill(&sized_section, section, &profile.section[index]);
    return 0;
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
