/* Reading the record of a failure. */
#include "crash_record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(fields) ((int)(sizeof(fields) / sizeof *(fields)))

/* Where a value is in the file, and to whom it belongs. */
typedef struct part {
    crash_record *record;
    crash_rank *rank;
} part;

/* Makes room for one more item. */
static bool grow(json_reader *reader, void **items, size_t count, size_t item_bytes) {
    if (count & (count + 1)) /* room for 0, 1, 3, 7, ... others */
        return true;
    void *more = realloc(*items, (2 * count + 1) * item_bytes);
    if (!more)
        return json_refuse(reader, "there is not enough memory for it", "");
    *items = more;
    return true;
}

static bool read_call(json_reader *reader, void *context) {
    const part *part = context;
    crash_record *record = part->record;
    crash_call call = {0};
    uint32_t seen;
    const json_field fields[] = {
        {.name = "number", .count = &call.number},
        {.name = "call", .text = call.text, .text_bytes = sizeof call.text},
        {.name = "digest", .count = &call.digest},
        {.name = "ended", .flag = &call.ended},
    };
    if (!json_object_read(reader, fields, COUNT(fields), &seen))
        return false;
    if (part->rank->count == CRASH_CALLS_MAX)
        return json_refuse(reader, "a rank has too many calls", "");
    if (call.number == 0 || (part->rank->count && call.number <= record->calls[record->call_count - 1].number))
        return json_refuse(reader, "the calls are not in order", "");
    if (!grow(reader, (void **)&record->calls, record->call_count, sizeof call))
        return false;
    record->calls[record->call_count++] = call;
    part->rank->count++;
    return true;
}

static bool read_calls(json_reader *reader, void *context) {
    return json_list_read(reader, read_call, context);
}

static crash_state state_of(const char *name) {
    static const char *const names[] = {
        [CRASH_RUNNING] = "running", [CRASH_LEFT] = "left", [CRASH_STOPPED] = "stopped", [CRASH_ENDED] = "ended"};
    for (int state = CRASH_RUNNING; state <= CRASH_ENDED; state++)
        if (strcmp(names[state], name) == 0)
            return (crash_state)state;
    return CRASH_UNKNOWN;
}

static bool read_rank(json_reader *reader, void *context) {
    crash_record *record = context;
    crash_rank rank = {.waits_for = CRASH_NOBODY, .first = record->call_count};
    part part = {record, &rank};
    char state[16];
    uint32_t seen;
    const json_field fields[] = {
        {.name = "rank", .number = &rank.rank, .max = CRASH_RANKS_MAX - 1},
        {.name = "pid", .number = &rank.pid, .max = UINT32_MAX},
        {.name = "state", .text = state, .text_bytes = sizeof state},
        {.name = "calls", .count = &rank.calls},
        {.name = "ended", .count = &rank.ended},
        {.name = "waits_for", .optional = true, .number = &rank.waits_for, .min = -1, .max = CRASH_RANKS_MAX - 1},
        {.name = "waits_since_ns", .optional = true, .number = &rank.waits_since_ns, .max = INT64_MAX},
        {.name = "last_calls", .read = read_calls, .context = &part},
    };
    if (!json_object_read(reader, fields, COUNT(fields), &seen))
        return false;
    rank.state = state_of(state);
    if (rank.state == CRASH_UNKNOWN)
        return json_refuse(reader, "there is no such state:", state);
    for (int i = 0; i < record->here_count; i++)
        if (record->here[i].rank == rank.rank)
            return json_refuse(reader, "a rank comes twice", "");
    if (!grow(reader, (void **)&record->here, (size_t)record->here_count, sizeof rank))
        return false;
    record->here[record->here_count++] = rank;
    return true;
}

static bool read_ranks(json_reader *reader, void *context) {
    return json_list_read(reader, read_rank, context);
}

static bool read_failure(json_reader *reader, void *context) {
    crash_record *record = context;
    uint32_t seen;
    const json_field fields[] = {
        {.name = "status", .number = &record->status, .min = -255, .max = 0},
        {.name = "rank", .number = &record->failed_rank, .min = -1, .max = CRASH_RANKS_MAX - 1},
        {.name = "message", .text = record->message, .text_bytes = sizeof record->message},
    };
    return json_object_read(reader, fields, COUNT(fields), &seen);
}

/* Whether the ranks' numbers fit into the communicator. */
static bool fits(const crash_record *record) {
    bool good = record->rank < record->ranks && record->failed_rank < record->ranks && record->node < record->ranks;
    for (int i = 0; i < record->here_count; i++)
        good = good && record->here[i].rank < record->ranks && record->here[i].waits_for < record->ranks;
    return good;
}

bool crash_record_read(crash_record *record, const char *text, size_t bytes, char why[CRASH_WHY_BYTES]) {
    json_reader reader;
    int64_t format;
    uint32_t seen;
    char *path = record->path;
    const json_field fields[] = {
        {.name = "format", .number = &format, .min = 1, .max = 1},
        {.name = "job", .text = record->job, .text_bytes = sizeof record->job},
        {.name = "communicator", .count = &record->communicator},
        {.name = "rank", .number = &record->rank, .max = CRASH_RANKS_MAX - 1},
        {.name = "ranks", .number = &record->ranks, .min = 1, .max = CRASH_RANKS_MAX},
        {.name = "node", .number = &record->node, .max = CRASH_RANKS_MAX - 1},
        {.name = "lane", .number = &record->lane, .max = CRASH_RANKS_MAX - 1},
        {.name = "pid", .number = &record->pid, .max = UINT32_MAX},
        {.name = "utc_ns", .number = &record->utc_ns, .max = INT64_MAX},
        {.name = "now_ns", .number = &record->now_ns, .max = INT64_MAX},
        {.name = "failure", .read = read_failure, .context = record},
        {.name = "ranks_here", .read = read_ranks, .context = record},
    };
    *record = (crash_record){.path = path};
    json_reader_begin(&reader, text, bytes);
    if (json_object_read(&reader, fields, COUNT(fields), &seen))
        json_reader_finish(&reader);
    const bool has_head = (seen | UINT32_C(1) << (COUNT(fields) - 1)) == (UINT32_C(1) << COUNT(fields)) - 1;
    const bool good = has_head && fits(record);
    why[0] = '\0';
    if (has_head && !good)
        json_refuse(&reader, "the ranks do not fit together", "");
    if (reader.why[0])
        snprintf(why, CRASH_WHY_BYTES, "is damaged or cut off at byte %zu of %zu: %s",
                 (size_t)(reader.at - reader.begin), bytes, reader.why);
    if (!good)
        crash_record_free(record);
    return good;
}

void crash_record_free(crash_record *record) {
    free(record->here);
    free(record->calls);
    record->here = NULL;
    record->calls = NULL;
    record->here_count = 0;
    record->call_count = 0;
}
