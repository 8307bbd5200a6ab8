/* The plan of each collective, as a pure function of what is asked and of the settings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plan/plan.h"
#include "plan/tuning.h"
#include "sync/racing.h"

enum { SLOT_BYTES = 8192, DEFAULT_SLOT_BYTES = 256 << 10, CHUNK_BYTES = 2048, ONESHOT_BYTES_MAX = 5000 };

static const kolo_kernel four = {.element_bytes = 4, .acc_bytes = 4}, eight = {.element_bytes = 8, .acc_bytes = 8};

static const struct kolo_shared_settings by_band = {
    .tables = {{UINT64_MAX, 0, 1, {{UINT64_MAX, KOLO_ALGORITHM_ONESHOT, SLOT_BYTES}}},
               {20000,
                0,
                2,
                {{ONESHOT_BYTES_MAX, KOLO_ALGORITHM_ONESHOT, SLOT_BYTES},
                 {UINT64_MAX, KOLO_ALGORITHM_MESH, CHUNK_BYTES}}},
               {UINT64_MAX, 0, 1, {{UINT64_MAX, KOLO_ALGORITHM_MESH, SLOT_BYTES}}},
               {UINT64_MAX, 0, 1, {{UINT64_MAX, KOLO_ALGORITHM_MESH, SLOT_BYTES}}}},
};

static struct kolo_shared_settings forced(kolo_algorithm algorithm) {
    struct kolo_shared_settings settings = by_band;
    settings.algorithm = (uint32_t)algorithm;
    return settings;
}

static struct kolo_answer plan(kolo_collective collective, size_t count, const struct kolo_shared_settings *settings) {
    const struct kolo_question question = {
        .descriptor = kolo_descriptor_of(collective), .count = count, .ranks = 4, .kernel = &four};
    struct kolo_answer answer;
    kolo_plan_make(&question, settings, SLOT_BYTES, &answer);
    return answer;
}

static void test_allreduce(void **state) {
    (void)state;
    struct kolo_answer answer = plan(KOLO_ALLREDUCE, kolo_lines_bytes_max(4) / 4, &by_band);
    assert_true(answer.lines && answer.algorithm == KOLO_ALGORITHM_ONESHOT);
    answer = plan(KOLO_ALLREDUCE, kolo_lines_bytes_max(4) / 4 + 1, &by_band);
    assert_true(!answer.lines && answer.algorithm == KOLO_ALGORITHM_ONESHOT && answer.chunks == 1);
    answer = plan(KOLO_ALLREDUCE, ONESHOT_BYTES_MAX / 4 + 1, &by_band);
    assert_true(answer.algorithm == KOLO_ALGORITHM_MESH && !answer.stream);
    assert_int_equal(answer.chunk_count, CHUNK_BYTES / 4);
    assert_int_equal(answer.chunks, 3);
    assert_true(plan(KOLO_ALLREDUCE, 5000, &by_band).stream);
}

static void test_forced(void **state) {
    (void)state;
    for (int i = KOLO_ALGORITHM_ONESHOT; i < KOLO_ALGORITHMS; i++) {
        const kolo_algorithm algorithm = (kolo_algorithm)i;
        const struct kolo_shared_settings settings = forced(algorithm);
        const bool has_slots = algorithm != KOLO_ALGORITHM_DIRECT;
        assert_true(kolo_plan_settings_valid(&settings));
        const struct kolo_answer answer = plan(KOLO_ALLREDUCE, 100000, &settings);
        assert_int_equal(answer.algorithm, has_slots ? algorithm : KOLO_ALGORITHM_MESH);
        assert_true(answer.chunks * answer.chunk_count >= 100000);
        /* What has one algorithm keeps it. */
        assert_int_equal(plan(KOLO_BROADCAST, 100000, &settings).algorithm, KOLO_ALGORITHM_ONESHOT);
        assert_true(plan(KOLO_BARRIER, 0, &settings).lines);
    }
}

static void test_single(void **state) {
    (void)state;
    assert_int_equal(kolo_descriptor_of(KOLO_BROADCAST)->table, KOLO_TABLE_SINGLE);
    assert_int_equal(kolo_descriptor_of(KOLO_BARRIER)->table, KOLO_TABLE_SINGLE);
    struct kolo_answer answer = plan(KOLO_BARRIER, 0, &by_band);
    assert_true(answer.lines && answer.algorithm == KOLO_ALGORITHM_ONESHOT && answer.chunk_count > 0);
    for (size_t count = 0; count < 10000; count += 999) {
        answer = plan(KOLO_BROADCAST, count, &by_band);
        assert_true(!answer.stream && answer.algorithm == KOLO_ALGORITHM_ONESHOT);
        assert_int_equal(answer.lines, count == 0);
        if (count > 0)
            assert_int_equal(answer.chunk_count, SLOT_BYTES / 4);
        assert_int_equal(answer.chunks, count ? (count * 4 + SLOT_BYTES - 1) / SLOT_BYTES : 1);
    }
}

/* Blocks share a slot, each in a region of whole lines, and take turns where it is too small. */
static void test_blocks(void **state) {
    (void)state;
    struct kolo_answer answer = plan(KOLO_ALLTOALL, kolo_lines_bytes_max(4) / 4 / 4, &by_band);
    assert_true(answer.lines); /* four blocks */
    answer = plan(KOLO_ALLTOALL, kolo_lines_bytes_max(4) / 4 / 4 + 1, &by_band);
    assert_true(!answer.lines && answer.blocks == 4 && answer.head_bytes == 0);
    assert_int_equal(answer.chunk_count * 4, SLOT_BYTES / 4);
    answer = plan(KOLO_ALLTOALLV, 100000, &by_band);
    assert_true(answer.blocks == 4 && answer.head_bytes == KOLO_REGION_HEAD_BYTES);
    assert_int_equal(answer.chunk_count * 4, SLOT_BYTES / 4 - KOLO_REGION_HEAD_BYTES);
    answer = plan(KOLO_GATHERV, 100000, &by_band);
    assert_true(answer.blocks == 1 && answer.chunk_count * 4 == SLOT_BYTES - KOLO_REGION_HEAD_BYTES);
    const struct kolo_question many = {
        .descriptor = kolo_descriptor_of(KOLO_REDUCE_SCATTERV), .count = 100, .ranks = 1000, .kernel = &eight};
    kolo_plan_make(&many, &by_band, SLOT_BYTES, &answer);
    assert_int_equal(answer.blocks, SLOT_BYTES / KOLO_LINE_BYTES);
    assert_int_equal(answer.chunk_count * 8, KOLO_LINE_BYTES);
    assert_true(answer.chunks * answer.chunk_count >= 100);
}

/* Elements of any size: a chunk has some, and with its partial results, or in all its regions, fits a slot; slices make
 * up the chunk. */
static void check_elements(kolo_collective collective, uint32_t element_bytes, uint32_t ranks,
                           const struct kolo_shared_settings *settings) {
    const kolo_kernel kernel = {.element_bytes = element_bytes,
                                .acc_bytes = element_bytes,
                                .keeps_order = element_bytes % 2,
                                .is_whole = element_bytes % 3 == 0};
    const struct kolo_question question = {
        .descriptor = kolo_descriptor_of(collective), .count = 5000, .ranks = ranks, .kernel = &kernel};
    struct kolo_answer answer;
    kolo_plan_make(&question, settings, KOLO_PAGE_BYTES, &answer);
    const bool has_partials = answer.algorithm == KOLO_ALGORITHM_RING || answer.algorithm == KOLO_ALGORITHM_TREE;
    const size_t chunk_bytes = answer.chunk_count * element_bytes * (has_partials ? 2 : 1);
    const size_t region_bytes = (chunk_bytes + KOLO_LINE_BYTES - 1) / KOLO_LINE_BYTES * KOLO_LINE_BYTES;
    size_t first, end = 0;
    assert_true(!answer.lines && answer.chunk_count > 0 && answer.blocks > 0);
    assert_true(answer.chunks * answer.chunk_count >= 5000 && (answer.chunks - 1) * answer.chunk_count < 5000);
    assert_true((answer.blocks == 1 ? chunk_bytes : answer.blocks * region_bytes) <= KOLO_PAGE_BYTES);
    assert_false(kernel.keeps_order && answer.algorithm == KOLO_ALGORITHM_RING);
    assert_false(kernel.is_whole && has_partials);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const size_t count = kolo_plan_slice(answer.chunk_count, element_bytes, ranks, rank, &first);
        assert_int_equal(first, end);
        end = first + count;
    }
    assert_int_equal(end, answer.chunk_count);
}

static void test_elements(void **state) {
    static const kolo_collective collectives[] = {KOLO_ALLREDUCE, KOLO_REDUCE, KOLO_REDUCE_SCATTERV, KOLO_SCAN};
    static const uint32_t ranks[] = {2, 3, 33, 1024};
    (void)state;
    for (uint32_t bytes = 1; bytes <= KOLO_OP_ELEMENT_BYTES_MAX; bytes += bytes < 300 || bytes > 2000 ? 1 : 7)
        for (uint32_t i = 0; i < 4 * 4 * KOLO_ALGORITHMS; i++) {
            struct kolo_shared_settings settings = forced((kolo_algorithm)(i / 16));
            for (int table = 0; table < KOLO_TABLES; table++)
                for (uint32_t band = 0; band < settings.tables[table].bands; band++)
                    settings.tables[table].band[band].chunk_bytes = bytes % 3 ? KOLO_LINE_BYTES : KOLO_PAGE_BYTES;
            check_elements(collectives[i % 4], bytes, ranks[i / 4 % 4], &settings);
        }
}

static void test_lines_bytes_end(void **state) {
    (void)state;
    size_t bytes_end[KOLO_COLLECTIVES];
    struct kolo_shared_settings few = by_band;
    few.tables[KOLO_TABLE_ALLREDUCE].band[0].bytes_max = 100;
    kolo_plan_lines(&by_band, 2, bytes_end);
    assert_int_equal(bytes_end[KOLO_ALLREDUCE], KOLO_LINES_BYTES_MAX + 1);
    assert_int_equal(bytes_end[KOLO_ALLGATHERV], 0);
    assert_true(bytes_end[KOLO_BARRIER] > 0 && bytes_end[KOLO_BROADCAST] > 0);
    kolo_plan_lines(&few, 2, bytes_end);
    assert_int_equal(bytes_end[KOLO_ALLREDUCE], 101);
    few = forced(KOLO_ALGORITHM_MESH);
    kolo_plan_lines(&few, 2, bytes_end);
    assert_int_equal(bytes_end[KOLO_ALLREDUCE], 0);
    assert_true(bytes_end[KOLO_BARRIER] > 0);
}

/* What rank 0 may not have written. */
static void test_damaged(void **state) {
    (void)state;
    struct kolo_shared_settings settings = by_band;
    assert_true(kolo_plan_settings_valid(&settings));
    for (int table = 0; table < KOLO_TABLES; table++) {
        struct kolo_shared_table *damaged = &settings.tables[table];
        const struct kolo_shared_table good = *damaged;
        for (int i = 0; i < 6; i++) {
            damaged->bands = i == 0 ? 0 : i == 1 ? KOLO_BANDS + 1 : good.bands;
            damaged->band[0].algorithm = i == 2   ? KOLO_ALGORITHM_AUTO
                                         : i == 3 ? KOLO_ALGORITHM_DIRECT
                                         : i == 4 ? 77
                                                  : 1;
            damaged->band[0].chunk_bytes = i == 5 ? 0 : SLOT_BYTES;
            assert_true(!kolo_plan_settings_valid(&settings));
            *damaged = good;
        }
    }
    settings.tables[KOLO_TABLE_SINGLE].band[0].algorithm = KOLO_ALGORITHM_MESH;
    assert_true(!kolo_plan_settings_valid(&settings));
    settings = forced(KOLO_ALGORITHMS);
    assert_true(!kolo_plan_settings_valid(&settings));
}

static bool may_choose(kolo_collective collective, kolo_algorithm algorithm) {
    return kolo_descriptor_of(collective)->choices >> algorithm & 1;
}

static void test_choices(void **state) {
    (void)state;
    assert_true(may_choose(KOLO_ALLREDUCE, KOLO_ALGORITHM_TREE));
    assert_true(!may_choose(KOLO_ALLREDUCE, KOLO_ALGORITHM_RING));
    assert_true(!may_choose(KOLO_ALLREDUCE, KOLO_ALGORITHM_CENTRAL));
    assert_true(!may_choose(KOLO_ALLREDUCE, KOLO_ALGORITHM_AUTO));
    assert_true(!may_choose(KOLO_BROADCAST, KOLO_ALGORITHM_MESH));
}

static struct kolo_shared_settings settings_on(uint32_t cpus, uint32_t ranks, bool is_intel,
                                               uint64_t single_copy_bytes) {
    kolo_topology topology = {.is_intel = is_intel, .l2_bytes = 2 << 20, .l3_bytes = 256 << 20, .l3_domains = 1};
    for (uint32_t cpu = 0; cpu < cpus; cpu++)
        kolo_cpu_set_add(&topology.allowed, cpu);
    const struct kolo_tuning_question question = {.slot_bytes = DEFAULT_SLOT_BYTES,
                                                  .ranks = ranks,
                                                  .single_copy_bytes = single_copy_bytes,
                                                  .topology = &topology};
    struct kolo_shared_settings settings;
    kolo_tuning_default(&settings, &question);
    return settings;
}

static struct kolo_shared_settings settings_for(uint32_t ranks, bool is_intel, uint64_t single_copy_bytes) {
    return settings_on(8, ranks, is_intel, single_copy_bytes);
}

/* A rank that may not ask for its CPUs, or has none of the first 1024, tunes as if there were enough. */
static void test_unknown_cpus(void **state) {
    (void)state;
    for (uint32_t ranks = 2; ranks <= 1024; ranks *= 2) {
        const struct kolo_shared_settings unknown = settings_on(0, ranks, false, 0),
                                          enough = settings_on(1024, ranks, false, 0);
        assert_int_equal(unknown.tables[KOLO_TABLE_REDUCE].band[0].bytes_max,
                         enough.tables[KOLO_TABLE_REDUCE].band[0].bytes_max);
        assert_true(kolo_plan_settings_valid(&unknown));
    }
}

static size_t chunk_bytes(kolo_collective collective, uint32_t ranks, size_t bytes,
                          const struct kolo_shared_settings *settings) {
    const struct kolo_question question = {
        .descriptor = kolo_descriptor_of(collective), .count = bytes / 4, .ranks = ranks, .kernel = &four};
    struct kolo_answer answer;
    kolo_plan_make(&question, settings, DEFAULT_SLOT_BYTES, &answer);
    return answer.chunk_count * 4 * answer.blocks;
}

/* Which messages with a root are cut into chunks. */
static void test_split(void **state) {
    (void)state;
    const struct kolo_shared_settings two = settings_on(2, 2, false, 0), intel = settings_on(2, 2, true, 0),
                                      one_cpu = settings_on(1, 2, false, 0), three = settings_on(4, 3, false, 0);
    const struct kolo_shared_settings *whole[] = {&intel, &one_cpu, &three};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        assert_int_equal(chunk_bytes(KOLO_BROADCAST, whole[i] == &three ? 3 : 2, 64 << 10, whole[i]),
                         whole[i] == &intel ? 64 << 10 : DEFAULT_SLOT_BYTES);
    static const kolo_collective collectives[] = {KOLO_BROADCAST, KOLO_REDUCE, KOLO_GATHER, KOLO_SCATTER};
    for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++) {
        const size_t ranks = collectives[i] == KOLO_SCATTER ? 2 : 1; /* blocks in a message */
        assert_int_equal(chunk_bytes(collectives[i], 2, (32 << 10) / ranks - 4, &two), DEFAULT_SLOT_BYTES);
        assert_int_equal(chunk_bytes(collectives[i], 2, (32 << 10) / ranks, &two), 16 << 10);
        assert_int_equal(chunk_bytes(collectives[i], 2, (256 << 10) / ranks, &two), 32 << 10);
        assert_int_equal(chunk_bytes(collectives[i], 2, (512 << 10) / ranks, &two), 64 << 10);
        assert_int_equal(chunk_bytes(collectives[i], 2, (512 << 10) / ranks + 4, &two), DEFAULT_SLOT_BYTES);
    }
    assert_int_equal(chunk_bytes(KOLO_ALLGATHER, 2, 256 << 10, &two), DEFAULT_SLOT_BYTES);
    assert_int_equal(chunk_bytes(KOLO_ALLTOALL, 2, 256 << 10, &two), DEFAULT_SLOT_BYTES);
    for (uint32_t ranks = 3; ranks <= 5; ranks++) { /* of two cores */
        const struct kolo_shared_settings shared = settings_on(2, ranks, false, 0);
        const bool are_few = ranks <= 4;
        assert_int_equal(chunk_bytes(KOLO_BROADCAST, ranks, (64 << 10) - 4, &shared), DEFAULT_SLOT_BYTES);
        assert_int_equal(chunk_bytes(KOLO_BROADCAST, ranks, 64 << 10, &shared),
                         are_few ? 32 << 10 : DEFAULT_SLOT_BYTES);
        assert_int_equal(chunk_bytes(KOLO_BROADCAST, ranks, 512 << 10, &shared),
                         are_few ? 128 << 10 : DEFAULT_SLOT_BYTES);
        assert_int_equal(chunk_bytes(KOLO_BROADCAST, ranks, (512 << 10) + 4, &shared), DEFAULT_SLOT_BYTES);
        assert_int_equal(chunk_bytes(KOLO_REDUCE, ranks, 256 << 10, &shared), DEFAULT_SLOT_BYTES);
        assert_int_equal(chunk_bytes(KOLO_GATHER, ranks, 256 << 10, &shared), DEFAULT_SLOT_BYTES);
    }
}

static void test_takes(void **state) {
    (void)state;
    for (uint32_t cpus = 1; cpus <= 4; cpus++)
        for (uint32_t ranks = 2; ranks <= 9; ranks++) {
            const struct kolo_shared_settings settings = settings_on(cpus, ranks, false, 0),
                                              intel = settings_on(cpus, ranks, true, 0);
            const bool may = !KOLO_THREAD_CHECKER && cpus == 2 && ranks > 2;
            assert_int_equal(plan(KOLO_BROADCAST, 10000, &settings).takes, may && ranks <= 4);
            assert_int_equal(plan(KOLO_BROADCAST, 1 << 18, &settings).takes, may && ranks <= 8);
            assert_int_equal(plan(KOLO_ALLGATHER, 1 << 16, &settings).takes, may && ranks <= 8); /* four blocks */
            assert_false(plan(KOLO_BROADCAST, 1 << 18, &intel).takes);
        }
}

static void test_scan(void **state) {
    (void)state;
    for (uint32_t ranks = 2; ranks <= 1024; ranks *= 2) {
        const struct kolo_shared_settings settings = settings_on(2, ranks, false, 0);
        for (kolo_collective scan = KOLO_SCAN; scan <= KOLO_EXSCAN; scan++) {
            assert_true(plan(scan, 1, &settings).lines);
            assert_int_equal(plan(scan, 300, &settings).algorithm, KOLO_ALGORITHM_ONESHOT);
            assert_int_equal(plan(scan, 4096, &settings).algorithm, KOLO_ALGORITHM_MESH);
        }
    }
}

static bool reads(kolo_collective collective, uint32_t ranks, size_t bytes,
                  const struct kolo_shared_settings *settings) {
    const struct kolo_question question = {
        .descriptor = kolo_descriptor_of(collective), .count = bytes / 4, .ranks = ranks, .kernel = &four};
    struct kolo_answer answer;
    kolo_plan_make(&question, settings, SLOT_BYTES, &answer);
    return answer.reads;
}

/* Which blocks ranks read out of each other's memory. */
static void test_reads(void **state) {
    (void)state;
    for (uint32_t ranks = 2; ranks <= 8; ranks *= 2) {
        const struct kolo_shared_settings intel = settings_for(ranks, true, 0), other = settings_for(ranks, false, 0),
                                          none = settings_for(ranks, true, UINT64_MAX),
                                          all = settings_for(ranks, false, 4);
        const size_t scattered = (ranks > 2 ? 4 << 20 : 256 << 10) / ranks;
        assert_true(reads(KOLO_SCATTER, ranks, scattered, &intel));
        assert_false(reads(KOLO_SCATTER, ranks, scattered - 4, &intel));
        assert_true(reads(KOLO_ALLTOALL, ranks, 256 << 10, &intel));
        assert_false(reads(KOLO_ALLTOALL, ranks, (256 << 10) - 4, &intel));
        assert_int_equal(reads(KOLO_ALLGATHER, ranks, 64 << 10, &intel), ranks > 2);
        assert_int_equal(reads(KOLO_ALLGATHER, ranks, (64 << 20) / ranks / ranks, &intel), ranks > 2);
        assert_false(reads(KOLO_ALLGATHER, ranks, (64 << 20) / ranks / ranks + 4, &intel));
        for (int i = 0; i < KOLO_COLLECTIVES; i++) {
            const kolo_collective collective = (kolo_collective)i;
            const bool can = collective == KOLO_SCATTER || collective == KOLO_ALLGATHER || collective == KOLO_ALLTOALL;
            assert_false(reads(collective, ranks, 0, &intel));
            assert_false(reads(collective, ranks, 0, &all));
            assert_int_equal(reads(collective, ranks, 1 << 20, &all), can);
            assert_false(reads(collective, ranks, 16 << 20, &other) || reads(collective, ranks, 16 << 20, &none));
        }
    }
    const struct kolo_shared_settings crowded = settings_for(9, true, 0); /* more ranks than processors */
    assert_false(reads(KOLO_SCATTER, 9, 16 << 20, &crowded));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allreduce),    cmocka_unit_test(test_forced),          cmocka_unit_test(test_single),
        cmocka_unit_test(test_blocks),       cmocka_unit_test(test_lines_bytes_end), cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_choices),      cmocka_unit_test(test_elements),        cmocka_unit_test(test_reads),
        cmocka_unit_test(test_unknown_cpus), cmocka_unit_test(test_split),           cmocka_unit_test(test_takes),
        cmocka_unit_test(test_scan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
