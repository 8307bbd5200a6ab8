/* Observed tables: tables (kolo_table.h) of running jobs, as observers read them.
 *
 * A table is a file without a name, in memory, that all of its ranks have mapped and keep open. An observer opens the
 * file for each reading and closes it at once: it must not keep the memory of a table that its ranks have destroyed.
 * Where the process in which the file was found has ended, the observer looks for it in the others, which the table
 * names.
 *
 * The contents are not trusted: they are copied, then checked. Of a table that is not legal only the name and the
 * communicator are used, which say which table it is. */
#pragma once

#include "kolo_watch.h"
#include "api/other_parts.h"
#include "table/table_layout.h"

struct kolo_observed_table {
    struct kolo_observed_file file;
    /* The last reading; the ranks are behind it. If `status` is below 0, only magic, layout, segment_* and name are
     * valid. */
    struct kolo_shared_table_header header;
    uint32_t ranks_max; /* ranks that there is room for */
    int status;         /* KOLO_ERR_VERSION: of another layout; KOLO_ERR_SYSTEM: damaged */
    int64_t read_ns;
    char processes[KOLO_RANKS_MAX]; /* states, as kolo_watched_table_rank.process */
    struct kolo_shared_table_rank ranks[];
};

/* Reads the table anew. */
void kolo_observed_table_read(struct kolo_observed_table *table);

/* Fill in what kolo_watch.h says, from the last reading; `rank` is a rank of the table, whose status is 0. */
void kolo_observed_table_tell(const struct kolo_observed_table *table, kolo_watched_table *seen);
void kolo_observed_table_tell_rank(const struct kolo_observed_table *table, uint32_t rank,
                                   kolo_watched_table_rank *seen);
