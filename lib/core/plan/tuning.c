/* Tuning: the settings that rank 0 decides for all ranks, from a profile that fits the machine or by its caches. */
#include "plan/tuning.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "plan/plan.h"
#include "base/environment.h"
#include "base/file.h"
#include "base/minimum.h"
#include "base/status.h"
#include "cpu/levels.h"
#include "sync/racing.h"

/* The least message, per rank, that is reduced directly: in direct all ranks wait for each other twice. */
#define DIRECT_BYTES_MIN UINT64_C(512)

/* Returns the largest message for one shot. One shot makes every rank read N - 1 messages and fold N; in mesh each byte
 * crosses twice, with one more step between. With two ranks both take the same time at about 1/64 of L2, whether they
 * share an L3 cache or not; from there the limit is assumed to fall with the square of N. Where ranks share cores, a
 * step costs as many switches as a core has ranks: with 3 and 4 on two cores the limit is near 1/192 of L2, 8 to 16
 * 1/64. Where the CPUs are not known, each rank is taken to have one. */
static uint64_t oneshot_bytes_max(uint32_t ranks, const kolo_topology *topology) {
    const uint64_t l2_bytes = topology->l2_bytes ? topology->l2_bytes : UINT64_C(1) << 20;
    const uint32_t cpus = kolo_cpu_set_count(&topology->allowed);
    const bool shares = cpus > 0 && ranks > cpus;
    const uint64_t bytes = shares ? l2_bytes * ranks / cpus / 384 : l2_bytes / (16 * (uint64_t)ranks * ranks);
    const uint64_t least = kolo_lines_bytes_max(ranks);
    return bytes < least ? least : bytes;
}

/* Returns the size from which on results go past the caches: send and recv of the ranks no longer fit the L3 caches. */
static uint64_t stream_bytes_min(uint32_t ranks, const kolo_topology *topology) {
    return topology->l3_bytes ? topology->l3_bytes * topology->l3_domains / (2 * (uint64_t)ranks) : UINT64_MAX;
}

/* Returns the chunk of collectives whose ranks each copy what another one has put into its slot: the two ranks do so at
 * the same time if the message has several chunks. An Intel keeps lines in the writer's L2, where slots of 256 KiB
 * displace the message: with 64 KiB between two ranks (Emerald Rapids) a broadcast of 256 KiB took 0.7 of the time, one
 * of 1 MiB and a reduction 0.8 to 0.9; 32 KiB were as fast, or slower. On a Zen 5, which takes lines over
 * (reduce/copy.h), larger ones are faster above 512 KiB. It was not measured with more ranks, each of which has its
 * part of a chunk where they exchange blocks. */
static uint32_t copied_chunk_bytes(const struct kolo_tuning_question *question) {
    enum { INTEL_BYTES = 32 << 10 }; /* for each rank */
    const uint64_t bytes = (uint64_t)question->ranks * INTEL_BYTES;
    const bool is_less = question->topology->is_intel && bytes < question->slot_bytes &&
                         question->ranks <= kolo_cpu_set_count(&question->topology->allowed);
    return (uint32_t)(is_less ? bytes : question->slot_bytes);
}

/* Returns whether several of the ranks share each of two cores that pass modified lines on, as an AMD's do. No more
 * cores were measured. */
static bool share_two_cores(const struct kolo_tuning_question *question) {
    return !question->topology->is_intel && question->ranks > 2 &&
           kolo_cpu_set_count(&question->topology->allowed) == 2;
}

/* Two ranks a core. */
enum { FEW_RANKS = 4 };

/* Returns the largest message with a root that the plan cuts into chunks (split_bytes in plan.c). With eight ranks on
 * two cores a broadcast took 0.83 to 1.1 of the time. It was not measured between more than two, each on a CPU. */
static uint64_t split_bytes_max(const struct kolo_tuning_question *question) {
    enum { BYTES_MAX = 512 << 10 };
    const bool is_pair =
        question->ranks == 2 && !question->topology->is_intel && kolo_cpu_set_count(&question->topology->allowed) > 1;
    return is_pair || (share_two_cores(question) && question->ranks <= FEW_RANKS) ? BYTES_MAX : 0;
}

static struct kolo_shared_table oneshot_then_mesh(const struct kolo_tuning_question *question, uint64_t oneshot_max) {
    const uint32_t slot_bytes = (uint32_t)question->slot_bytes;
    return (struct kolo_shared_table){
        .stream_bytes_min = stream_bytes_min(question->ranks, question->topology),
        .bands = 2,
        .band = {{oneshot_max, KOLO_ALGORITHM_ONESHOT, slot_bytes}, {UINT64_MAX, KOLO_ALGORITHM_MESH, slot_bytes}},
    };
}

/* All-reduce. Where ranks run in several cache domains, bench/simulate predicts tree to be ahead at every size or, with
 * large messages, not behind. That was not measured. */
static struct kolo_shared_table default_allreduce(const struct kolo_tuning_question *question, bool has_levels) {
    struct kolo_shared_table table =
        oneshot_then_mesh(question, oneshot_bytes_max(question->ranks, question->topology));
    if (has_levels) {
        table.bands = 1;
        table.band[0].bytes_max = UINT64_MAX;
        table.band[0].algorithm = KOLO_ALGORITHM_TREE;
    }
    return table;
}

/* Reduce. With two ranks the root touches as many bytes if it folds all; sharing the folding is faster, by 0.9, only in
 * memory, past the caches. With more ranks mesh is faster from the same size on as for an all-reduce. */
static struct kolo_shared_table default_reduce(const struct kolo_tuning_question *question) {
    const uint32_t ranks = question->ranks;
    struct kolo_shared_table table =
        oneshot_then_mesh(question, ranks > 2 ? oneshot_bytes_max(ranks, question->topology)
                                              : stream_bytes_min(ranks, question->topology) - 1);
    table.split_bytes_max = split_bytes_max(question);
    table.band[0].chunk_bytes = copied_chunk_bytes(question);
    return table;
}

/* Chooses the blocks that ranks read out of each other's memory, by the kernel. A block crosses once, not twice, and in
 * a scatter all ranks copy at once, not the root alone; but it costs a system call, pages to pin, and a wait for each
 * other at both ends. Measured on an Emerald Rapids, with buffers that stay as they are and with such as are rewritten
 * before each call, between 2, 4, 8 and 16 ranks, each on a core. A scatter takes 0.45 to 0.65 of the time with 4 MiB,
 * 0.1 to 0.4 with 64 MiB among more than two, but up to 1.8 with 1 MiB; between two 0.5 to 1.1 from 256 KiB on.
 * All-to-all takes 0.6 to 1.0 from blocks of 256 KiB on. Allgather takes 0.6 to 1.0 from blocks of 64 KiB on while all
 * results fit the caches; between two nothing is gained. A broadcast takes up to ten times as long, since all pin the
 * same pages; between two it takes half the time if the root's buffer stays in the other's cache, but 1.1 to 2 times as
 * long if the root rewrites it. On an EPYC, between two ranks that share a cache, all three take 1.0 to 2.3 times as
 * long from 64 KiB to 16 MiB. Other processors were not measured. */
static void choose_reads(struct kolo_shared_range reads[KOLO_COLLECTIVES],
                         const struct kolo_tuning_question *question) {
    enum {
        SCATTERED_BYTES = 4 << 20, /* of all blocks, among more than two */
        SCATTERED_LEAST = 128 << 10,
        EXCHANGED_BYTES = 256 << 10,
        GATHERED_BYTES = 64 << 10,
        RESULTS_BYTES = 64 << 20 /* of all ranks */
    };
    const uint64_t ranks = question->ranks, given = question->single_copy_bytes;
    const uint64_t scattered =
        ranks > 2 && SCATTERED_BYTES / ranks > SCATTERED_LEAST ? SCATTERED_BYTES / ranks : SCATTERED_LEAST;
    if (given == UINT64_MAX || (!given && (!question->topology->is_intel ||
                                           ranks > (uint64_t)kolo_cpu_set_count(&question->topology->allowed))))
        return;
    reads[KOLO_SCATTER] = (struct kolo_shared_range){given ? given : scattered, UINT64_MAX};
    reads[KOLO_ALLTOALL] = (struct kolo_shared_range){given ? given : EXCHANGED_BYTES, UINT64_MAX};
    if (given)
        reads[KOLO_ALLGATHER] = (struct kolo_shared_range){given, UINT64_MAX};
    else if (ranks > 2)
        reads[KOLO_ALLGATHER] = (struct kolo_shared_range){GATHERED_BYTES, RESULTS_BYTES / (ranks * ranks)};
}

/* Scan. One shot has one wait for all where mesh has two. Between two to eight ranks on two cores of a Zen 5 it took
 * 0.5 to 0.8 of the time up to 4 KiB, but 1.1 to 2.5 from 16 KiB on. */
static struct kolo_shared_table default_scan(const struct kolo_tuning_question *question) {
    enum { BYTES_MAX = 8 << 10 };
    return oneshot_then_mesh(question, kolo_minimum(oneshot_bytes_max(question->ranks, question->topology), BYTES_MAX));
}

/* Returns the least result of which all ranks that read one slot take the lines over. Those are to stay modified ones,
 * which move from core to core along with the right to change them. Between two cores of a Zen 5 that pays for up to
 * two ranks a core: a broadcast of 16 KiB to 4 MiB among three or four took 0.6 to 0.9 of the time near, 0.2 to 0.8
 * far, an allgather 0.7 to 0.9 and 0.4 to 0.8. With eight the lines move more often: from 1 MiB on 0.95 to 1.15 near,
 * 0.45 to 0.75 far, but below up to 1.3 and 1.7. */
static uint64_t take_bytes_min(const struct kolo_tuning_question *question) {
    enum { RANKS_MAX = 8, MANY_BYTES = 1 << 20 };
    if (KOLO_THREAD_CHECKER || !share_two_cores(question) || question->ranks > RANKS_MAX)
        return UINT64_MAX;
    return question->ranks <= FEW_RANKS ? 0 : MANY_BYTES;
}

void kolo_tuning_default(struct kolo_shared_settings *settings, const struct kolo_tuning_question *question) {
    const struct kolo_shared_table single = {
        .stream_bytes_min = stream_bytes_min(question->ranks, question->topology),
        .split_bytes_max = split_bytes_max(question),
        .bands = 1,
        .band = {{UINT64_MAX, KOLO_ALGORITHM_ONESHOT, copied_chunk_bytes(question)}},
    };
    *settings = (struct kolo_shared_settings){
        .algorithm = (uint32_t)question->algorithm,
        .direct_bytes_min = DIRECT_BYTES_MIN * question->ranks,
        .take_bytes_min = take_bytes_min(question),
        .tables[KOLO_TABLE_SINGLE] = single,
    };
    choose_reads(settings->reads, question);
    kolo_levels_choose(settings->tree_sizes, question->topology, question->rank_cpus, question->ranks);
    settings->tables[KOLO_TABLE_ALLREDUCE] = default_allreduce(question, settings->tree_sizes[0] != 0);
    settings->tables[KOLO_TABLE_REDUCE] = default_reduce(question);
    settings->tables[KOLO_TABLE_SCAN] = default_scan(question);
    if (question->tree_sizes)
        memcpy(settings->tree_sizes, question->tree_sizes, sizeof settings->tree_sizes);
}

/* Finds where a profile is by default. Returns false if there is no such place. secure_getenv: a set-user-ID program
 * that complains about a file could reveal what is in it. */
static bool default_path(char path[KOLO_PROFILE_PATH_BYTES]) {
    const char *config = secure_getenv("XDG_CONFIG_HOME"), *home = secure_getenv("HOME");
    int length = 0;
    if (config && config[0] == '/')
        length = snprintf(path, KOLO_PROFILE_PATH_BYTES, "%s/kolo/tune", config);
    else if (home && home[0] == '/')
        length = snprintf(path, KOLO_PROFILE_PATH_BYTES, "%s/.config/kolo/tune", home);
    return length > 0 && length < KOLO_PROFILE_PATH_BYTES;
}

int kolo_profile_default_path(char path[KOLO_PROFILE_PATH_BYTES]) {
    if (!path || !default_path(path))
        return kolo_fail(KOLO_ERR_ARG, "no directory for a profile: set HOME or XDG_CONFIG_HOME");
    return 0;
}

/* Finds the file to read. Returns false if there is none. *asked: the user has named it, so it should exist. */
static bool find_file(char path[KOLO_PROFILE_PATH_BYTES], bool *asked) {
    const char *named = secure_getenv(kolo_environment_name(KOLO_VARIABLE_TUNE_FILE));
    *asked = named != NULL;
    if (!named)
        return default_path(path);
    snprintf(path, KOLO_PROFILE_PATH_BYTES, "%s", named);
    return *named && strcmp(named, "none") != 0;
}

bool kolo_tuning_load(const char *path, const kolo_topology *topology, struct kolo_profile *profile,
                      char why[KOLO_PROFILE_WHY_BYTES], bool *absent) {
    const size_t room = KOLO_PROFILE_BYTES_MAX + 1; /* one byte more shows that the file is too long */
    char *text = malloc(room);
    const ssize_t bytes = text ? kolo_file_read_own(path, text, room) : -ENOMEM;
    *absent = bytes == -ENOENT || bytes == -ENOTDIR;
    bool fits = false;
    if (bytes < 0) {
        snprintf(why, KOLO_PROFILE_WHY_BYTES, "%s",
                 bytes == -EINVAL  ? "not a regular file"
                 : bytes == -EPERM ? "another user could have written it"
                                   : strerror((int)-bytes));
    } else if (kolo_profile_parse(text, (size_t)bytes, profile, why)) {
        struct kolo_profile_machine here;
        kolo_profile_machine_read(&here, topology);
        fits = kolo_profile_fits(profile, &here, why);
    }
    free(text);
    return fits;
}

/* Puts the profile's sections for `ranks` ranks into `settings`; fills *source. */
static void use_sections(struct kolo_shared_settings *settings, uint32_t ranks, const struct kolo_profile *profile,
                         const char *path, struct kolo_tuning_source *source) {
    snprintf(source->text, sizeof source->text, "profile %.300s:", path);
    for (int i = 0; i < KOLO_COLLECTIVES; i++) {
        const kolo_collective collective = (kolo_collective)i;
        const kolo_profile_section *section = kolo_profile_find(profile, collective, ranks);
        if (!section)
            continue;
        kolo_profile_apply(section, &settings->tables[kolo_descriptor_of(collective)->table]);
        kolo_text_add(source->text, sizeof source->text, "%s %s", source->tuned ? "," : "",
                      kolo_name(KOLO_NAME_COLLECTIVE, collective));
        source->tuned |= 1u << i;
    }
    if (!source->tuned)
        snprintf(source->text, sizeof source->text,
                 "defaults: profile %.300s has no section for %u ranks: run kolo-tune --ranks %u", path, ranks, ranks);
}

void kolo_tuning_make(struct kolo_shared_settings *settings, const struct kolo_tuning_question *question,
                      struct kolo_tuning_source *source) {
    char path[KOLO_PROFILE_PATH_BYTES], why[KOLO_PROFILE_WHY_BYTES];
    bool asked, absent;
    struct kolo_profile profile;
    kolo_tuning_default(settings, question);
    *source = (struct kolo_tuning_source){.text = "defaults: no profile"};
    if (!find_file(path, &asked))
        return;
    if (kolo_tuning_load(path, question->topology, &profile, why, &absent)) {
        use_sections(settings, question->ranks, &profile, path, source);
        return;
    }
    source->refused = asked || !absent;
    if (source->refused)
        snprintf(source->text, sizeof source->text, "defaults: profile %.100s ignored: %s", path, why);
}
