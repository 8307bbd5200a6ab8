/* A profile is what kolo-tune measured on a machine, as text that people can read. For each collective and number of
 * ranks that was measured it gives a struct kolo_shared_table. A line is a comment that begins with '#', or empty, or
 * words:
 *
 *     kolo-profile 2                     the format; the first line that is no comment
 *     kolo 0.1.0                         the version that measured; major and minor must be this one's
 *     cpu-model AMD EPYC 9R14            the machine, each line once; all must be as they are here
 *     cpus 2                             online
 *     l2-bytes 1048576
 *     l3-bytes 33554432                  0: unknown, as for l2-bytes
 *     collective allreduce ranks 2       a section, up to the next one, in any order
 *     stream-from 8388608                bytes of a message, or `never`; before the bands; without it: the default
 *     up-to 4096 oneshot chunk 262144    a band: bytes of a message, ascending; algorithm; bytes of a chunk
 *     rest mesh chunk 131072             the last band of each section; or `rest default`, for what was not measured
 *
 * The text may come from anywhere: it can only choose among algorithms that give the same bits. */
#pragma once

#include <stdbool.h>

#include "kolo_tools.h"
#include "shm/layout.h"

#define KOLO_PROFILE_FORMAT    2 /* changes with what the words mean */
#define KOLO_PROFILE_BYTES_MAX ((size_t)64 << 10)
#define KOLO_PROFILE_WHY_BYTES 384 /* of a complaint */
#define KOLO_CHUNK_BYTES_MIN   1024
#define KOLO_CHUNK_BYTES_MAX   (UINT64_C(1) << 30)

/* The machine that a profile is for. */
struct kolo_profile_machine {
    char cpu_model[64];
    uint64_t cpus_online;
    uint64_t l2_bytes;
    uint64_t l3_bytes;
};

struct kolo_profile {
    char version[16];
    struct kolo_profile_machine machine;
    uint32_t sections;
    kolo_profile_section section[KOLO_PROFILE_SECTIONS]; /* without their section_bytes */
};

/* Reads `bytes` of `text`, which need not end in a NUL. Returns false, with the line and the value at fault in `why`,
 * where the text is no complete profile; *profile is then unspecified. */
bool kolo_profile_parse(const char *text, size_t bytes, struct kolo_profile *profile, char why[KOLO_PROFILE_WHY_BYTES]);

/* Fills in the machine as this process sees it. */
void kolo_profile_machine_read(struct kolo_profile_machine *machine, const kolo_topology *topology);

/* Returns false, with the difference in `why`, for a profile of another version or machine. */
bool kolo_profile_fits(const struct kolo_profile *profile, const struct kolo_profile_machine *here,
                       char why[KOLO_PROFILE_WHY_BYTES]);

/* Puts the section's values into `table`, which holds the defaults. */
void kolo_profile_apply(const kolo_profile_section *section, struct kolo_shared_table *table);

/* Returns the section for a collective of `ranks` ranks; NULL if none was measured. */
const kolo_profile_section *kolo_profile_find(const struct kolo_profile *profile, kolo_collective collective,
                                              uint32_t ranks);

/* These two append to `text` the lines before the first section, and a section. */
void kolo_profile_add_head(char text[KOLO_PROFILE_TEXT_BYTES], const struct kolo_profile_machine *machine);
void kolo_profile_add_section(char text[KOLO_PROFILE_TEXT_BYTES], const kolo_profile_section *section);
