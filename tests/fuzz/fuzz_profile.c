/* The tune profile (plan/profile.h): a complaint is text, and what is let through leaves settings that every message
 * can be planned with. */
#include <string.h>

#include "plan/plan.h"
#include "plan/profile.h"
#include "fuzz_target.h"

enum { SLOT_BYTES = 65536 };

static const kolo_kernel eight = {.element_bytes = 8, .acc_bytes = 8};

static void require_usable(const kolo_profile_section *section) {
    const struct kolo_shared_table any = {UINT64_MAX, 0, 1, {{UINT64_MAX, KOLO_ALGORITHM_ONESHOT, SLOT_BYTES}}};
    struct kolo_shared_settings settings = {.algorithm = KOLO_ALGORITHM_AUTO};
    for (int i = 0; i < KOLO_TABLES; i++)
        settings.tables[i] = any;
    struct kolo_shared_table *table = &settings.tables[kolo_descriptor_of(section->collective)->table];
    REQUIRE(section->ranks >= 2 && section->ranks <= KOLO_RANKS_MAX);
    kolo_profile_apply(section, table);
    REQUIRE(kolo_plan_settings_valid(&settings));
    REQUIRE(table->band[table->bands - 1].bytes_max == UINT64_MAX);
    for (unsigned shift = 0; shift < 40; shift++) {
        const struct kolo_question question = {.descriptor = kolo_descriptor_of(section->collective),
                                               .count = (size_t)1 << shift,
                                               .ranks = 2,
                                               .kernel = &eight};
        struct kolo_answer answer;
        kolo_plan_make(&question, &settings, SLOT_BYTES, &answer);
        REQUIRE(answer.chunk_count > 0);
        REQUIRE(answer.lines ||
                (answer.chunk_count * 8 <= SLOT_BYTES && answer.chunks * answer.chunk_count >= question.count));
    }
}

/* What has been read can be written, and is read the same. */
static void require_written_alike(const struct kolo_profile *profile, const kolo_profile_section *section) {
    static struct kolo_profile again;
    char text[KOLO_PROFILE_TEXT_BYTES] = "", why[KOLO_PROFILE_WHY_BYTES];
    kolo_profile_add_head(text, &profile->machine);
    kolo_profile_add_section(text, section);
    REQUIRE(kolo_profile_parse(text, strlen(text), &again, why));
    REQUIRE(memcmp(&again.machine, &profile->machine, sizeof again.machine) == 0);
    REQUIRE(memcmp(again.section, section, sizeof *section) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static struct kolo_profile profile;
    char why[KOLO_PROFILE_WHY_BYTES];
    memset(why, 'x', sizeof why);
    if (!kolo_profile_parse((const char *)data, bytes, &profile, why)) {
        REQUIRE(memchr(why, '\0', sizeof why));
        return 0;
    }
    REQUIRE(profile.sections >= 1 && profile.sections <= KOLO_PROFILE_SECTIONS);
    for (uint32_t i = 0; i < profile.sections; i++) {
        require_usable(&profile.section[i]);
        require_written_alike(&profile, &profile.section[i]);
    }
    const struct kolo_profile_machine here = profile.machine;
    if (!kolo_profile_fits(&profile, &here, why))
        REQUIRE(memchr(why, '\0', sizeof why));
    return 0;
}
