/* The tables of kolo_watch.h: all files that its observer finds beside segments are tables. */
#include <string.h>

#include "api/tools/watch.h"
#include "base/sized.h"
#include "base/status.h"
#include "table/observed_tables.h"

static bool is_index(const kolo_watch *watch, int index) {
    return watch && index >= 0 && (size_t)index < watch->observer.files_count;
}

int kolo_watch_table_read(kolo_watch *watch, int index, kolo_watched_table *table) {
    static const struct kolo_sized sized = KOLO_SIZED(kolo_watched_table, table_bytes, waiting);
    if (!is_index(watch, index))
        return kolo_fail(KOLO_ERR_ARG, "kolo_watch_table_read: no such table");
    const int rc = kolo_sized_check(&sized, "kolo_watch_table_read", table);
    if (rc < 0)
        return rc;
    kolo_watched_table now;
    struct kolo_observed_table *read = (struct kolo_observed_table *)watch->observer.files[index];
    kolo_observed_table_read(read);
    kolo_observed_table_tell(read, &now);
    kolo_sized_fill(&sized, table, &now);
    return 0;
}

int kolo_watch_table_rank(const kolo_watch *watch, int index, int rank, kolo_watched_table_rank *seen) {
    static const struct kolo_sized sized = KOLO_SIZED(kolo_watched_table_rank, rank_bytes, waited_ns);
    const struct kolo_observed_table *table =
        is_index(watch, index) ? (const struct kolo_observed_table *)watch->observer.files[index] : NULL;
    if (!table || table->status < 0 || rank < 0 || (uint32_t)rank >= table->header.ranks)
        return kolo_fail(KOLO_ERR_ARG, "kolo_watch_table_rank: no such table or rank");
    const int rc = kolo_sized_check(&sized, "kolo_watch_table_rank", seen);
    if (rc < 0)
        return rc;
    kolo_watched_table_rank now;
    kolo_observed_table_tell_rank(table, (uint32_t)rank, &now);
    kolo_sized_fill(&sized, seen, &now);
    return 0;
}
