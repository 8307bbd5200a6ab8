/* Tables: what lies between two readings. */
#include <stdlib.h>

#include "top_sample.h"

#define NS 1e-9

const char *top_table_rank_state(const top_table_rank *rank) {
    const kolo_watched_table_rank *seen = &rank->seen;
    if (seen->state == KOLO_WATCHED_TABLE_LEFT)
        return "left";
    if (seen->state == KOLO_WATCHED_TABLE_DEAD || seen->process == '\0')
        return "ended";
    if (seen->process == 'T' || seen->process == 't')
        return "stopped";
    if (seen->waits_for >= 0)
        return "waiting";
    return seen->server ? "serving" : "working";
}

#if KOLO_HAVE_TABLE
/* In all. */
static double waited_ns(const top_table *table, const kolo_watched_table_rank *seen) {
    return (double)seen->waited_ns +
           (seen->waits_for >= 0 ? (double)table->seen.read_ns - (double)seen->waits_since_ns : 0);
}

static void compare(top_table *table, const top_table *before) {
    table->interval_s = ((double)table->seen.read_ns - (double)before->seen.read_ns) * NS;
    for (int i = 0; i < table->seen.ranks && table->interval_s > 0; i++) {
        top_table_rank *rank = &table->ranks[i];
        const kolo_watched_table_rank *now = &rank->seen, *then = &before->ranks[i].seen;
        const double share = (waited_ns(table, now) - waited_ns(before, then)) * NS / table->interval_s;
        rank->pulled_per_s = top_rate(now->pulled, then->pulled, table->interval_s);
        rank->pushed_per_s = top_rate(now->pushed, then->pushed, table->interval_s);
        rank->applied_per_s = top_rate(now->applied, then->applied, table->interval_s);
        rank->waiting_share = share < 0 ? 0 : share > 1 ? 1 : share;
    }
}

static const top_table *find_before(const top_sample *before, const kolo_watched_table *seen) {
    for (int i = 0; i < before->tables_count; i++)
        if (before->tables[i].seen.table_file == seen->table_file && before->tables[i].seen.ranks == seen->ranks)
            return &before->tables[i];
    return NULL;
}

static bool take_table(top_table *table, kolo_watch *watch, int index, const top_sample *before) {
    *table = (top_table){.seen.table_bytes = sizeof table->seen};
    if (kolo_watch_table_read(watch, index, &table->seen) < 0)
        return false;
    table->ranks = calloc((size_t)table->seen.ranks + 1, sizeof *table->ranks);
    bool good = table->ranks != NULL;
    for (int i = 0; good && i < table->seen.ranks; i++) {
        table->ranks[i].seen.rank_bytes = sizeof table->ranks[i].seen;
        good = kolo_watch_table_rank(watch, index, i, &table->ranks[i].seen) == 0;
    }
    const top_table *then = find_before(before, &table->seen);
    if (good && then)
        compare(table, then);
    return good;
}

bool top_tables_take(top_sample *sample, const top_watch *watched, const top_sample *before) {
    const int count = watched->tables;
    sample->tables = calloc((size_t)count + 1, sizeof *sample->tables);
    bool good = sample->tables != NULL;
    while (good && sample->tables_count < count) {
        const int index = sample->tables_count++; /* counted as soon as there may be something to free */
        good = take_table(&sample->tables[index], watched->watch, index, before);
    }
    return good;
}

#else
bool top_tables_take(top_sample *sample, const top_watch *watched, const top_sample *before) {
    (void)sample, (void)watched, (void)before;
    return true;
}
#endif

void top_tables_free(top_sample *sample) {
    for (int i = 0; i < sample->tables_count; i++)
        free(sample->tables[i].ranks);
    free(sample->tables);
}
