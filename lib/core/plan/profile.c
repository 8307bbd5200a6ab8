/* The grammar of profiles: reading and writing them. */
#include "plan/profile.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "kolo.h"
#include "base/status.h"
#include "cpu/features.h"
#include "plan/plan.h"

enum { LINE_BYTES = 256, QUOTE_CHARS = 40, LIST_BYTES = 160 };

/* The reader of a profile, at the place that parsing has come to. */
struct reader {
    const char *text;
    size_t bytes;
    size_t at;
    unsigned line;
    unsigned seen; /* a bit for each directive */
    bool has_rest; /* in the present section */
    struct kolo_profile *profile;
    char *why;
};

static bool __attribute__((format(printf, 2, 3))) refuse(struct reader *reader, const char *format, ...) {
    int used = snprintf(reader->why, KOLO_PROFILE_WHY_BYTES, "line %u: ", reader->line);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reader->why + used, KOLO_PROFILE_WHY_BYTES - (size_t)used, format, arguments);
    va_end(arguments);
    return false;
}

/* Copies the next line, without its newline. Returns false if it is no line of text. */
static bool next_line(struct reader *reader, char line[LINE_BYTES]) {
    const char *begin = reader->text + reader->at;
    const char *end = memchr(begin, '\n', reader->bytes - reader->at);
    reader->line++;
    if (!end)
        return refuse(reader, "cut off: the last line does not end in a newline");
    const size_t length = (size_t)(end - begin);
    if (length >= LINE_BYTES)
        return refuse(reader, "%zu bytes long: at most %d are allowed", length, LINE_BYTES - 1);
    for (size_t i = 0; i < length; i++)
        if (((unsigned char)begin[i] < ' ' && begin[i] != '\t') || begin[i] == 0x7f)
            return refuse(reader, "byte 0x%02x at column %zu: only text is allowed", (unsigned char)begin[i], i + 1);
    memcpy(line, begin, length);
    line[length] = '\0';
    reader->at += length + 1;
    return true;
}

/* Cuts the next word off *rest; "" at the end of the line. */
static char *next_word(char **rest) {
    char *word = *rest + strspn(*rest, " \t");
    char *end = word + strcspn(word, " \t");
    *rest = *end ? end + 1 : end;
    *end = '\0';
    return word;
}

static bool end_line(struct reader *reader, char *rest) {
    const char *word = next_word(&rest);
    return *word ? refuse(reader, "'%.*s': the line should end before it", QUOTE_CHARS, word) : true;
}

/* Reads a word that must stand between two values. */
static bool expect_word(struct reader *reader, const char *wanted, char **rest) {
    const char *word = next_word(rest);
    return strcmp(word, wanted) == 0 ||
           refuse(reader, "'%.*s': '%s' and a number should stand there", QUOTE_CHARS, word, wanted);
}

static bool parse_number(struct reader *reader, const char *what, const char *word, uint64_t low, uint64_t high,
                         uint64_t *number) {
    uint64_t value = 0;
    bool good = *word != '\0';
    for (const char *digit = word; good && *digit; digit++) {
        good = *digit >= '0' && *digit <= '9' && !__builtin_mul_overflow(value, 10, &value) &&
               !__builtin_add_overflow(value, (uint64_t)(*digit - '0'), &value);
    }
    if (!good || value < low || value > high)
        return refuse(reader, "%s '%.*s': must be a whole number from %" PRIu64 " to %" PRIu64, what, QUOTE_CHARS, word,
                      low, high);
    *number = value;
    return true;
}

static kolo_profile_section *section_of(const struct reader *reader) {
    return &reader->profile->section[reader->profile->sections - 1];
}

/* Directives. Each function reads what follows the directive's name. */

static bool parse_format(struct reader *reader, char *rest) {
    uint64_t format = 0;
    if (!parse_number(reader, "format", next_word(&rest), 0, UINT32_MAX, &format))
        return false;
    if (format != KOLO_PROFILE_FORMAT)
        return refuse(reader, "format %" PRIu64 ": this version reads format %d: run kolo-tune again", format,
                      KOLO_PROFILE_FORMAT);
    return end_line(reader, rest);
}

static bool parse_version(struct reader *reader, char *rest) {
    const char *word = next_word(&rest);
    if (!*word || strlen(word) >= sizeof reader->profile->version || strspn(word, "0123456789.") != strlen(word))
        return refuse(reader, "version '%.*s': must be as in %s", QUOTE_CHARS, word, kolo_version());
    strcpy(reader->profile->version, word);
    return end_line(reader, rest);
}

static bool parse_cpu_model(struct reader *reader, char *rest) {
    char *model = reader->profile->machine.cpu_model;
    rest += strspn(rest, " \t");
    for (size_t length = strlen(rest); length > 0 && strchr(" \t", rest[length - 1]); length--)
        rest[length - 1] = '\0';
    if (strlen(rest) >= sizeof reader->profile->machine.cpu_model)
        return refuse(reader, "cpu-model '%.*s...': must have at most %zu characters", QUOTE_CHARS, rest,
                      sizeof reader->profile->machine.cpu_model - 1);
    strcpy(model, rest);
    return true;
}

/* Reads the rest of a line, which must be a number. */
static bool parse_last(struct reader *reader, const char *what, char *rest, uint64_t low, uint64_t high,
                       uint64_t *number) {
    return parse_number(reader, what, next_word(&rest), low, high, number) && end_line(reader, rest);
}

static bool parse_cpus(struct reader *reader, char *rest) {
    return parse_last(reader, "cpus", rest, 1, UINT32_MAX, &reader->profile->machine.cpus_online);
}

static bool parse_l2_bytes(struct reader *reader, char *rest) {
    return parse_last(reader, "l2-bytes", rest, 0, UINT64_MAX, &reader->profile->machine.l2_bytes);
}

static bool parse_l3_bytes(struct reader *reader, char *rest) {
    return parse_last(reader, "l3-bytes", rest, 0, UINT64_MAX, &reader->profile->machine.l3_bytes);
}

static bool section_is_complete(struct reader *reader) {
    const struct kolo_profile *profile = reader->profile;
    if (profile->sections > 0 && !reader->has_rest)
        return refuse(reader, "the section before, of %s with %d ranks, has no 'rest' band",
                      kolo_name(KOLO_NAME_COLLECTIVE, section_of(reader)->collective), section_of(reader)->ranks);
    return true;
}

/* Parses a word as one of the names whose bit is set in `allowed`. */
static bool parse_name(struct reader *reader, kolo_named kind, const char *word, uint64_t allowed, int *value) {
    char list[LIST_BYTES] = "";
    for (*value = 0; allowed >> *value; ++*value) {
        const char *name = kolo_name(kind, *value);
        if (!(allowed >> *value & 1))
            continue;
        if (strcmp(word, name) == 0)
            return true;
        kolo_text_add(list, LIST_BYTES, "%s%s", *list ? ", " : "", name);
    }
    return refuse(reader, "%s '%.*s': must be one of %s", kind == KOLO_NAME_COLLECTIVE ? "collective" : "algorithm",
                  QUOTE_CHARS, word, list);
}

/* Parses "COLLECTIVE ranks NUMBER". */
static bool parse_section(struct reader *reader, char *rest) {
    struct kolo_profile *profile = reader->profile;
    int collective;
    uint64_t ranks = 0, tuned = 0;
    for (int i = 0; i < KOLO_COLLECTIVES; i++)
        tuned |= (uint64_t)(kolo_descriptor_of((kolo_collective)i)->choices != 0) << i;
    if (!section_is_complete(reader) ||
        !parse_name(reader, KOLO_NAME_COLLECTIVE, next_word(&rest), tuned, &collective) ||
        !expect_word(reader, "ranks", &rest) || !parse_last(reader, "ranks", rest, 2, KOLO_RANKS_MAX, &ranks))
        return false;
    if (kolo_profile_find(profile, (kolo_collective)collective, (uint32_t)ranks))
        return refuse(reader, "ranks %" PRIu64 ": there is a section for them already", ranks);
    if (profile->sections == KOLO_PROFILE_SECTIONS)
        return refuse(reader, "ranks %" PRIu64 ": more than %d sections", ranks, KOLO_PROFILE_SECTIONS);
    profile->section[profile->sections++] = (kolo_profile_section){
        .collective = (kolo_collective)collective, .ranks = (int)ranks, .stream_bytes_min = UINT64_MAX};
    reader->has_rest = false;
    return true;
}

static bool parse_stream(struct reader *reader, char *rest) {
    kolo_profile_section *section = section_of(reader);
    const char *word = next_word(&rest);
    if (section->has_stream || section->bands > 0 || reader->has_rest)
        return refuse(reader, "stream-from '%.*s': must come once, before the bands", QUOTE_CHARS, word);
    section->has_stream = 1;
    if (strcmp(word, "never") != 0 &&
        !parse_number(reader, "stream-from (or never)", word, 0, UINT64_MAX - 1, &section->stream_bytes_min))
        return false;
    return end_line(reader, rest);
}

/* Parses "ALGORITHM chunk BYTES", after the band's bytes_max; or, in the last band, "default". */
static bool parse_band(struct reader *reader, uint64_t bytes_max, char *rest) {
    kolo_profile_section *section = section_of(reader);
    kolo_profile_band *band = &section->band[section->bands];
    if (reader->has_rest)
        return refuse(reader, "a band after the section's 'rest'");
    const char *word = next_word(&rest);
    if (bytes_max == UINT64_MAX && strcmp(word, "default") == 0) {
        reader->has_rest = true;
        return end_line(reader, rest);
    }
    if (section->bands == KOLO_BANDS)
        return refuse(reader, "more than %d bands", KOLO_BANDS);
    if (section->bands > 0 && bytes_max <= band[-1].bytes_max)
        return refuse(reader, "up-to %" PRIu64 ": must be more than %" PRIu64 ", the band's before", bytes_max,
                      band[-1].bytes_max);
    uint64_t chunk_bytes = 0;
    int algorithm;
    if (!parse_name(reader, KOLO_NAME_ALGORITHM, word, kolo_descriptor_of(section->collective)->choices, &algorithm) ||
        !expect_word(reader, "chunk", &rest) ||
        !parse_last(reader, "chunk", rest, KOLO_CHUNK_BYTES_MIN, KOLO_CHUNK_BYTES_MAX, &chunk_bytes))
        return false;
    if (chunk_bytes % KOLO_LINE_BYTES != 0)
        return refuse(reader, "chunk '%" PRIu64 "': must be a multiple of %d", chunk_bytes, KOLO_LINE_BYTES);
    band->algorithm = (kolo_algorithm)algorithm;
    band->bytes_max = bytes_max;
    band->chunk_bytes = (uint32_t)chunk_bytes;
    section->bands++;
    reader->has_rest = bytes_max == UINT64_MAX;
    return true;
}

static bool parse_up_to(struct reader *reader, char *rest) {
    uint64_t bytes_max = 0;
    return parse_number(reader, "up-to", next_word(&rest), 1, UINT64_MAX - 1, &bytes_max) &&
           parse_band(reader, bytes_max, rest);
}

static bool parse_rest(struct reader *reader, char *rest) {
    return parse_band(reader, UINT64_MAX, rest);
}

/* The part of a profile in which a directive may stand. */
enum part { PART_FORMAT, PART_MACHINE, PART_SECTIONS, PART_SECTION };

static const struct directive {
    const char *name;
    enum part part;
    bool (*parse)(struct reader *reader, char *rest);
} directives[] = {
    {"kolo-profile", PART_FORMAT, parse_format},  {"kolo", PART_MACHINE, parse_version},
    {"cpu-model", PART_MACHINE, parse_cpu_model}, {"cpus", PART_MACHINE, parse_cpus},
    {"l2-bytes", PART_MACHINE, parse_l2_bytes},   {"l3-bytes", PART_MACHINE, parse_l3_bytes},
    {"collective", PART_SECTIONS, parse_section}, {"stream-from", PART_SECTION, parse_stream},
    {"up-to", PART_SECTION, parse_up_to},         {"rest", PART_SECTION, parse_rest},
};

enum { DIRECTIVES = sizeof directives / sizeof *directives };

/* Returns the first directive before the sections that has not been read; NULL if all have. */
static const char *missing(const struct reader *reader) {
    for (unsigned i = 0; i < DIRECTIVES; i++)
        if (directives[i].part <= PART_MACHINE && !(reader->seen >> i & 1))
            return directives[i].name;
    return NULL;
}

/* Checks whether directive `index` may stand here. */
static bool check_place(struct reader *reader, unsigned index) {
    const struct directive *directive = &directives[index];
    const bool in_sections = reader->profile->sections > 0;
    if (directive->part <= PART_MACHINE && (in_sections || reader->seen >> index & 1))
        return refuse(reader, "'%s' must come once, before the first 'collective'", directive->name);
    if (directive->part == PART_SECTIONS && missing(reader))
        return refuse(reader, "'%s' must come before the first 'collective'", missing(reader));
    if (directive->part == PART_SECTION && !in_sections)
        return refuse(reader, "'%s' must come after 'collective'", directive->name);
    reader->seen |= 1u << index;
    return true;
}

static bool parse_line(struct reader *reader, char *line) {
    char *rest = line;
    const char *name = next_word(&rest);
    if (*name == '\0' || *name == '#')
        return true;
    if (!reader->seen && strcmp(name, directives[0].name) != 0)
        return refuse(reader, "'%.*s': a profile begins with '%s %d'", QUOTE_CHARS, name, directives[0].name,
                      KOLO_PROFILE_FORMAT);
    for (unsigned i = 0; i < DIRECTIVES; i++)
        if (strcmp(name, directives[i].name) == 0)
            return check_place(reader, i) && directives[i].parse(reader, rest);
    return refuse(reader, "'%.*s': not a word that a line can begin with", QUOTE_CHARS, name);
}

bool kolo_profile_parse(const char *text, size_t bytes, struct kolo_profile *profile,
                        char why[KOLO_PROFILE_WHY_BYTES]) {
    struct reader reader = {.text = text, .bytes = bytes, .profile = profile, .why = why};
    *profile = (struct kolo_profile){.sections = 0};
    if (bytes > KOLO_PROFILE_BYTES_MAX) {
        snprintf(why, KOLO_PROFILE_WHY_BYTES, "longer than %zu bytes", KOLO_PROFILE_BYTES_MAX);
        return false;
    }
    while (reader.at < bytes) {
        char line[LINE_BYTES];
        if (!next_line(&reader, line) || !parse_line(&reader, line))
            return false;
    }
    reader.line++;
    if (profile->sections == 0)
        return refuse(&reader, "the end, but '%s' is missing", missing(&reader) ? missing(&reader) : "collective");
    return section_is_complete(&reader);
}

void kolo_profile_machine_read(struct kolo_profile_machine *machine, const kolo_topology *topology) {
    *machine = (struct kolo_profile_machine){
        .cpus_online = topology->cpus_online, .l2_bytes = topology->l2_bytes, .l3_bytes = topology->l3_bytes};
    kolo_cpu_model(machine->cpu_model, sizeof machine->cpu_model);
}

bool kolo_profile_fits(const struct kolo_profile *profile, const struct kolo_profile_machine *here,
                       char why[KOLO_PROFILE_WHY_BYTES]) {
    const struct kolo_profile_machine *there = &profile->machine;
    const char *version = kolo_version();
    const size_t series = (size_t)(strrchr(version, '.') - version) + 1; /* "0.1." of "0.1.0" */
    if (strncmp(profile->version, version, series) != 0) {
        snprintf(why, KOLO_PROFILE_WHY_BYTES, "measured with kolo %s, this is %s: run kolo-tune again",
                 profile->version, version);
        return false;
    }
    if (strcmp(there->cpu_model, here->cpu_model) == 0 && there->cpus_online == here->cpus_online &&
        there->l2_bytes == here->l2_bytes && there->l3_bytes == here->l3_bytes)
        return true;
    snprintf(why, KOLO_PROFILE_WHY_BYTES,
             "measured on another machine (%s, %" PRIu64 " CPUs, L2 %" PRIu64 ", L3 %" PRIu64 "; here %s, %" PRIu64
             ", %" PRIu64 ", %" PRIu64 "): run kolo-tune",
             there->cpu_model, there->cpus_online, there->l2_bytes, there->l3_bytes, here->cpu_model, here->cpus_online,
             here->l2_bytes, here->l3_bytes);
    return false;
}

void kolo_profile_apply(const kolo_profile_section *section, struct kolo_shared_table *table) {
    const struct kolo_shared_table defaults = *table;
    table->split_bytes_max = 0; /* chunks were measured */
    if (section->has_stream)
        table->stream_bytes_min = section->stream_bytes_min;
    for (table->bands = 0; table->bands < (uint32_t)section->bands; table->bands++) {
        const kolo_profile_band *band = &section->band[table->bands];
        table->band[table->bands] =
            (struct kolo_shared_band){band->bytes_max, (uint32_t)band->algorithm, band->chunk_bytes};
    }
    for (uint32_t i = 0; i < defaults.bands; i++) {
        struct kolo_shared_band *next = &table->band[table->bands];
        if (table->bands > 0 && next[-1].bytes_max >= defaults.band[i].bytes_max)
            continue;
        if (table->bands == KOLO_BANDS) { /* no room: the last measured band reaches further */
            next[-1].bytes_max = defaults.band[i].bytes_max;
        } else {
            *next = defaults.band[i];
            table->bands++;
        }
    }
}

const kolo_profile_section *kolo_profile_find(const struct kolo_profile *profile, kolo_collective collective,
                                              uint32_t ranks) {
    for (uint32_t i = 0; i < profile->sections; i++)
        if (profile->section[i].collective == collective && profile->section[i].ranks == (int)ranks)
            return &profile->section[i];
    return NULL;
}

#define ADD(text, ...) kolo_text_add(text, KOLO_PROFILE_TEXT_BYTES, __VA_ARGS__)

void kolo_profile_add_head(char text[KOLO_PROFILE_TEXT_BYTES], const struct kolo_profile_machine *machine) {
    ADD(text, "kolo-profile %d\nkolo %s\ncpu-model %s\n", KOLO_PROFILE_FORMAT, kolo_version(), machine->cpu_model);
    ADD(text, "cpus %" PRIu64 "\nl2-bytes %" PRIu64 "\nl3-bytes %" PRIu64 "\n", machine->cpus_online, machine->l2_bytes,
        machine->l3_bytes);
}

/* Returns the name of a value; for an invalid value a name that the parser refuses. */
static const char *name_or_none(const char *name) {
    return name ? name : "none";
}

void kolo_profile_add_section(char text[KOLO_PROFILE_TEXT_BYTES], const kolo_profile_section *section) {
    bool has_rest = false;
    ADD(text, "\ncollective %s ranks %d\n", name_or_none(kolo_name(KOLO_NAME_COLLECTIVE, section->collective)),
        section->ranks);
    if (section->has_stream && section->stream_bytes_min == UINT64_MAX)
        ADD(text, "stream-from never\n");
    else if (section->has_stream)
        ADD(text, "stream-from %" PRIu64 "\n", section->stream_bytes_min);
    for (int i = 0; i < section->bands; i++) {
        const kolo_profile_band *band = &section->band[i];
        has_rest = band->bytes_max == UINT64_MAX;
        if (has_rest)
            ADD(text, "rest");
        else
            ADD(text, "up-to %" PRIu64, band->bytes_max);
        ADD(text, " %s chunk %u\n", name_or_none(kolo_name(KOLO_NAME_ALGORITHM, band->algorithm)), band->chunk_bytes);
    }
    if (!has_rest)
        ADD(text, "rest default\n");
}
