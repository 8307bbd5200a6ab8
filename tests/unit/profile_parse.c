/* Profiles as text: what is read, and that each kind of damage is refused with its line and value. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/plan.h"
#include "plan/profile.h"

#define HEAD                                                                                                           \
    "# a comment\n\nkolo-profile 2\nkolo 0.1.0\n  cpu-model  Some CPU (R) @ 2.0GHz  \ncpus 2\nl2-bytes 1048576\n"      \
    "l3-bytes 0\n"
enum { HEAD_LINES = 8 };

#define SECTION "collective allreduce ranks 2\nrest mesh chunk 262144\n"

static char why[KOLO_PROFILE_WHY_BYTES];
static struct kolo_profile profile;

/* Parses a copy that ends with its last byte, so that a checker of addresses sees any read past it. */
static bool parse_bytes(const char *text, size_t bytes) {
    char *copy = malloc(bytes ? bytes : 1);
    assert_non_null(copy);
    memcpy(copy, text, bytes);
    why[0] = '\0';
    const bool good = kolo_profile_parse(copy, bytes, &profile, why);
    free(copy);
    return good;
}

static bool parse(const char *text) {
    return parse_bytes(text, strlen(text));
}

static void test_good(void **state) {
    (void)state;
    assert_true(parse(HEAD
                      "collective allreduce ranks 4\nstream-from 8388608\nup-to 440 oneshot chunk 1024\n\t# between\n"
                      "up-to 65537 mesh chunk 1073741824\nrest oneshot chunk 65536\n\n" SECTION));
    assert_string_equal(profile.version, "0.1.0");
    assert_string_equal(profile.machine.cpu_model, "Some CPU (R) @ 2.0GHz");
    assert_int_equal(profile.machine.cpus_online, 2);
    assert_int_equal(profile.machine.l2_bytes, 1048576);
    assert_int_equal(profile.machine.l3_bytes, 0);
    assert_int_equal(profile.sections, 2);
    const kolo_profile_section *section = kolo_profile_find(&profile, KOLO_ALLREDUCE, 4);
    assert_non_null(section);
    assert_int_equal(section->stream_bytes_min, 8388608);
    assert_int_equal(section->bands, 3);
    assert_int_equal(section->band[1].bytes_max, 65537);
    assert_int_equal(section->band[1].algorithm, KOLO_ALGORITHM_MESH);
    assert_int_equal(section->band[1].chunk_bytes, 1073741824);
    assert_true(section->band[2].bytes_max == UINT64_MAX);
    assert_int_equal(section->band[2].algorithm, KOLO_ALGORITHM_ONESHOT);
    assert_true(section->has_stream);
    assert_true(!kolo_profile_find(&profile, KOLO_ALLREDUCE, 2)->has_stream);
    assert_null(kolo_profile_find(&profile, KOLO_ALLREDUCE, 3));
    assert_null(kolo_profile_find(&profile, KOLO_BROADCAST, 2));
}

static void test_no_cpu_model(void **state) {
    (void)state;
    assert_true(parse("kolo-profile 2\nkolo 0.1.0\ncpu-model\ncpus 1\nl2-bytes 0\nl3-bytes 0\n" SECTION));
    assert_string_equal(profile.machine.cpu_model, "");
}

/* Behind HEAD; `words` are the line, counted from HEAD's end, and the value at fault. */
static const struct {
    const char *text;
    int line; /* after HEAD's */
    const char *words;
} damaged[] = {
    {"", 1, "'collective' is missing"},
    {"collective allreduce ranks 2\n", 2, "no 'rest'"},
    {"collective allreduce ranks 2\nup-to 5 mesh chunk 1024\n" SECTION, 3, "section before, of allreduce with 2 ranks"},
    {"collective allreduce ranks 1\n", 1, "ranks '1'"},
    {"collective allreduce ranks 1025\n", 1, "ranks '1025'"},
    {"collective allreduce ranks\n", 1, "ranks ''"},
    {"collective allreduce ranks -2\n", 1, "ranks '-2'"},
    {"collective allreduce ranks 2 3\n", 1, "'3'"},
    {"collective allreduce ranks 99999999999999999999999\n", 1, "ranks '99999999999999999999999'"},
    {SECTION SECTION, 3, "ranks 2: there is a section"},
    {"rest mesh chunk 1024\n", 1, "'rest' must come after 'collective'"},
    {SECTION "cpus 2\n", 3, "'cpus' must come once"},
    {"kolo 0.1.0\n", 1, "'kolo' must come once"},
    {"kolo-profile 2\n", 1, "'kolo-profile' must come once"},
    {"speed 9\n", 1, "'speed'"},
    {"ranks 2\n", 1, "'ranks'"},
    {"collective\n", 1, "collective ''"},
    {"collective 2\n", 1, "collective '2': must be one of allreduce"},
    {"collective broadcast ranks 2\n", 1, "collective 'broadcast'"},
    {"collective allreduce\n", 1, "'': 'ranks' and a number"},
    {"collective allreduce 2\n", 1, "'2': 'ranks' and a number"},
    {"collective allreduce ranks 2\nrest default\nrest default\n", 3, "after the section's 'rest'"},
    {"collective allreduce ranks 2\nrest default\nstream-from 5\n", 3, "before the bands"},
    {"collective allreduce ranks 2\nrest defaults\n", 2, "algorithm 'defaults'"},
    {"collective allreduce ranks 2\nrest default 1\n", 2, "'1'"},
    {"collective allreduce ranks 2\nup-to 5 default\n", 2, "algorithm 'default'"},
    {SECTION "up-to 5 mesh chunk 1024\n", 3, "after the section's 'rest'"},
    {"collective allreduce ranks 2\nrest ring chunk 1024\n", 2, "algorithm 'ring': must be one of oneshot, mesh, tree"},
    {"collective allreduce ranks 2\nrest central chunk 1024\n", 2, "algorithm 'central'"},
    {"collective allreduce ranks 2\nrest auto chunk 1024\n", 2, "algorithm 'auto'"},
    {"collective allreduce ranks 2\nrest\n", 2, "algorithm ''"},
    {"collective allreduce ranks 2\nrest mesh\n", 2, "'': 'chunk'"},
    {"collective allreduce ranks 2\nrest mesh 1024\n", 2, "'1024': 'chunk'"},
    {"collective allreduce ranks 2\nrest mesh chunk\n", 2, "chunk ''"},
    {"collective allreduce ranks 2\nrest mesh chunk 896\n", 2, "chunk '896'"},
    {"collective allreduce ranks 2\nrest mesh chunk 1100\n", 2, "chunk '1100': must be a multiple of 128"},
    {"collective allreduce ranks 2\nrest mesh chunk 1073741952\n", 2, "chunk '1073741952'"},
    {"collective allreduce ranks 2\nrest mesh chunk 0x400\n", 2, "chunk '0x400'"},
    {"collective allreduce ranks 2\nrest mesh chunk 1024 k\n", 2, "'k'"},
    {"collective allreduce ranks 2\nup-to 0 mesh chunk 1024\n", 2, "up-to '0'"},
    {"collective allreduce ranks 2\nup-to 18446744073709551615 mesh chunk 1024\n", 2, "up-to '18446744073709551615'"},
    {"collective allreduce ranks 2\nup-to 9 mesh chunk 1024\nup-to 9 oneshot chunk 1024\n", 3, "up-to 9"},
    {"collective allreduce ranks 2\nstream-from soon\n", 2, "'soon'"},
    {"collective allreduce ranks 2\nstream-from 1\nstream-from 1\n", 3, "stream-from '1'"},
    {"collective allreduce ranks 2\nup-to 9 mesh chunk 1024\nstream-from 1\n", 3, "before the bands"},
    {"collective allreduce ranks 2\nrest mesh chunk 262144", 2, "cut off"},
    {"collective allreduce ranks 2\nrest me\rsh chunk 262144\n", 2, "0x0d"},
};

static void assert_refused(const char *text, size_t bytes, const char *place, const char *words) {
    assert_true(!parse_bytes(text, bytes));
    if (strncmp(why, place, strlen(place)) != 0 || !strstr(why, words))
        fail_msg("'%s' and '%s' expected in: %s", place, words, why);
}

static void test_damaged(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        char text[1024], place[32];
        snprintf(text, sizeof text, "%s%s", HEAD, damaged[i].text);
        snprintf(place, sizeof place, "line %d:", HEAD_LINES + damaged[i].line);
        assert_refused(text, strlen(text), place, damaged[i].words);
    }
}

static void test_damaged_head(void **state) {
    (void)state;
    static const struct {
        const char *text, *place, *words;
    } heads[] = {
        {"", "line 1:", "'kolo-profile' is missing"},
        {"\n\n", "line 3:", "'kolo-profile' is missing"},
        {"root:x:0:0\n", "line 1:", "a profile begins with 'kolo-profile 2'"},
        {"kolo 0.1.0\n", "line 1:", "a profile begins with 'kolo-profile 2'"},
        {"kolo-profile 1\n", "line 1:", "format 1: this version reads format 2"},
        {"kolo-profile one\n", "line 1:", "format 'one'"},
        {"kolo-profile 2 2\n", "line 1:", "'2'"},
        {"kolo-profile 2\nkolo 0.1.0-rc\n", "line 2:", "version '0.1.0-rc'"},
        {"kolo-profile 2\nkolo 1234567890.12345\n", "line 2:", "version '1234567890.12345'"},
        {"kolo-profile 2\nkolo 0.1.0\ncpus 0\n", "line 3:", "cpus '0'"},
        {"kolo-profile 2\nkolo 0.1.0\ncpus 2\nl2-bytes 1\nl3-bytes 1\n" SECTION, "line 6:", "'cpu-model' must come"},
        {"kolo-profile 2\ncpu-model 0123456789012345678901234567890123456789012345678901234567890123\n",
         "line 2:", "at most 63"},
    };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        assert_refused(heads[i].text, strlen(heads[i].text), heads[i].place, heads[i].words);
}

static void test_bytes_that_are_no_text(void **state) {
    (void)state;
    assert_refused("kolo-profile 2\n\0\n", 17, "line 2:", "0x00");
    assert_refused("\0", 1, "line 1:", "cut off");
    assert_refused("kolo-profile 2\n\x1b[2J\n", 20, "line 2:", "0x1b");
}

static void test_too_long(void **state) {
    (void)state;
    const size_t bytes = KOLO_PROFILE_BYTES_MAX + 1;
    char *text = malloc(bytes);
    assert_non_null(text);
    memset(text, '\n', bytes);
    assert_true(!parse_bytes(text, bytes));
    assert_non_null(strstr(why, "longer than 65536 bytes"));
    memcpy(text, HEAD SECTION, sizeof HEAD SECTION - 1);
    assert_true(parse_bytes(text, bytes - 1)); /* as long as it may be */
    memset(text, 'x', bytes);
    text[1000] = '\n';
    assert_refused(text, bytes - 1, "line 1:", "1000 bytes long");
    free(text);
}

static void test_too_many(void **state) {
    (void)state;
    char text[8192] = HEAD "collective allreduce ranks 2\n";
    for (int i = 1; i <= KOLO_BANDS; i++)
        snprintf(text + strlen(text), 64, "up-to %d mesh chunk 1024\n", i);
    strcat(text, "rest mesh chunk 1024\n");
    assert_refused(text, strlen(text), "line 26:", "more than 16 bands");
    strcpy(text, HEAD);
    for (int i = 2; i <= KOLO_PROFILE_SECTIONS + 2; i++)
        snprintf(text + strlen(text), 64, "collective allreduce ranks %d\nrest mesh chunk 1024\n", i);
    assert_refused(text, strlen(text), "line 73:", "more than 32 sections");
}

static const struct kolo_shared_table defaults = {
    .stream_bytes_min = 7,
    .bands = 2,
    .band = {{1000, KOLO_ALGORITHM_ONESHOT, 4096}, {UINT64_MAX, KOLO_ALGORITHM_MESH, 8192}},
};

static void assert_usable(const struct kolo_shared_table *table) {
    const struct kolo_shared_table single = {UINT64_MAX, 0, 1, {{UINT64_MAX, KOLO_ALGORITHM_ONESHOT, 4096}}};
    const struct kolo_shared_settings settings = {.tables = {[KOLO_TABLE_SINGLE] = single,
                                                             [KOLO_TABLE_ALLREDUCE] = *table,
                                                             [KOLO_TABLE_REDUCE] = single,
                                                             [KOLO_TABLE_SCAN] = single}};
    assert_true(kolo_plan_settings_valid(&settings));
    assert_true(table->band[table->bands - 1].bytes_max == UINT64_MAX);
}

static void apply(const char *section, struct kolo_shared_table *table) {
    char text[2048];
    snprintf(text, sizeof text, "%scollective allreduce ranks 2\n%s", HEAD, section);
    if (!parse(text))
        fail_msg("%s", why);
    *table = defaults;
    kolo_profile_apply(&profile.section[0], table);
    assert_usable(table);
}

/* What a section says replaces the defaults; what it leaves open stays as they are. */
static void test_apply(void **state) {
    (void)state;
    struct kolo_shared_table table;
    apply("stream-from never\nup-to 5 mesh chunk 1024\nrest oneshot chunk 2048\n", &table);
    assert_int_equal(table.bands, 2);
    assert_true(table.stream_bytes_min == UINT64_MAX);
    assert_int_equal(table.band[0].bytes_max, 5);
    assert_int_equal(table.band[0].algorithm, KOLO_ALGORITHM_MESH);
    assert_int_equal(table.band[1].chunk_bytes, 2048);
    apply("rest default\n", &table);
    assert_memory_equal(&table, &defaults, sizeof table);
    apply("up-to 5 mesh chunk 1024\nrest default\n", &table);
    assert_int_equal(table.bands, 3);
    assert_int_equal(table.band[0].bytes_max, 5);
    assert_memory_equal(&table.band[1], &defaults.band[0], 2 * sizeof table.band[0]);
    assert_int_equal(table.stream_bytes_min, 7);
    apply("stream-from 0\nup-to 1000 oneshot chunk 1024\nrest default\n", &table);
    assert_int_equal(table.bands, 2);
    assert_int_equal(table.band[0].chunk_bytes, 1024);
    assert_memory_equal(&table.band[1], &defaults.band[1], sizeof table.band[1]);
    assert_int_equal(table.stream_bytes_min, 0);
    char full[1024] = "";
    for (int i = 1; i <= KOLO_BANDS; i++)
        snprintf(full + strlen(full), 64, "up-to %d mesh chunk 1024\n", i);
    strcat(full, "rest default\n");
    apply(full, &table);
    assert_int_equal(table.bands, KOLO_BANDS);
    assert_int_equal(table.band[KOLO_BANDS - 1].algorithm, KOLO_ALGORITHM_MESH);
}

/* Whatever single byte is changed or wherever the text is cut: refused with words, or a table that the plan takes. */
static void test_every_change(void **state) {
    (void)state;
    static const char good[] =
        HEAD "collective allreduce ranks 3\nstream-from 4096\nup-to 100 oneshot chunk 2048\nrest mesh chunk 4096\n";
    static const char bytes[] = "\0\n #0179azr-\x7f\xff";
    const size_t length = sizeof good - 1;
    for (size_t i = 0; i < length; i++)
        for (size_t j = 0; j < sizeof bytes; j++) {
            char text[sizeof good];
            memcpy(text, good, sizeof good);
            text[i] = bytes[j];
            if (!parse_bytes(text, length)) {
                assert_true(why[0] != '\0');
                continue;
            }
            struct kolo_shared_table table = defaults;
            kolo_profile_apply(&profile.section[0], &table);
            assert_usable(&table);
        }
    for (size_t cut = 0; cut < length; cut++)
        assert_true(!parse_bytes(good, cut));
    assert_true(parse_bytes(good, length));
}

/* What is read and written again is the same profile. */
static void test_format(void **state) {
    (void)state;
    char text[KOLO_PROFILE_TEXT_BYTES] = "";
    const struct kolo_profile_machine machine = {"Some CPU", 3, 1048576, 0};
    const kolo_profile_section sections[] = {
        {.collective = KOLO_ALLREDUCE, .ranks = 2, .stream_bytes_min = UINT64_MAX},
        {.collective = KOLO_ALLREDUCE, .ranks = 3, .has_stream = 1, .stream_bytes_min = UINT64_MAX},
        {.collective = KOLO_ALLREDUCE,
         .ranks = 1024,
         .has_stream = 1,
         .stream_bytes_min = 8388608,
         .bands = 2,
         .band = {{440, KOLO_ALGORITHM_TREE, 1024}, {UINT64_MAX, KOLO_ALGORITHM_MESH, 1073741824}}},
    };
    enum { SECTIONS = sizeof sections / sizeof *sections };
    kolo_profile_add_head(text, &machine);
    for (int i = 0; i < SECTIONS; i++)
        kolo_profile_add_section(text, &sections[i]);
    if (!parse(text))
        fail_msg("%s\n%s", why, text);
    assert_string_equal(profile.version, kolo_version());
    assert_string_equal(profile.machine.cpu_model, machine.cpu_model);
    assert_int_equal(profile.machine.cpus_online, 3);
    assert_int_equal(profile.machine.l2_bytes, 1048576);
    assert_int_equal(profile.sections, SECTIONS);
    assert_memory_equal(profile.section, sections, sizeof sections);
}

static void test_fits(void **state) {
    (void)state;
    char text[512];
    snprintf(text, sizeof text, "kolo-profile 2\nkolo %s\ncpu-model A\ncpus 2\nl2-bytes 3\nl3-bytes 4\n%s",
             kolo_version(), SECTION);
    assert_true(parse(text));
    const struct kolo_profile_machine same = {"A", 2, 3, 4};
    assert_true(kolo_profile_fits(&profile, &same, why));
    const struct kolo_profile_machine others[] = {{"B", 2, 3, 4}, {"A", 1, 3, 4}, {"A", 2, 2, 4}, {"A", 2, 3, 5}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_true(!kolo_profile_fits(&profile, &others[i], why));
        assert_non_null(strstr(why, "another machine (A, 2 CPUs, L2 3, L3 4"));
    }
    snprintf(profile.version, sizeof profile.version, "%d.%d.%d", KOLO_VERSION_MAJOR, KOLO_VERSION_MINOR,
             KOLO_VERSION_PATCH + 1);
    assert_true(kolo_profile_fits(&profile, &same, why));
    snprintf(profile.version, sizeof profile.version, "%d.%d.0", KOLO_VERSION_MAJOR, KOLO_VERSION_MINOR + 1);
    assert_true(!kolo_profile_fits(&profile, &same, why));
    assert_non_null(strstr(why, profile.version));
    assert_non_null(strstr(why, kolo_version()));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_no_cpu_model),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_damaged_head),
        cmocka_unit_test(test_bytes_that_are_no_text),
        cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_apply),
        cmocka_unit_test(test_every_change),
        cmocka_unit_test(test_format),
        cmocka_unit_test(test_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
