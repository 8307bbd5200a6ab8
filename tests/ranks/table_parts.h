/* Parts of the tests of tables, on one node and on several. */
#pragma once

#include "kolo_table.h"
#include "harness.h"

struct table_setup {
    void (*part)(struct rank *rank, const kolo_table_options *options);
    kolo_table_options options;
    bool differ; /* rows have lengths of their own */
};

/* Options of a table of small pieces and queues, which are full all the time. */
kolo_table_options table_options_of(uint64_t rows, size_t columns, int64_t staleness);

/* Makes the table; NULL: the rank has failed. */
kolo_table *table_make(struct rank *rank, const kolo_table_options *options);

/* Does the setup's part; the rank has a communicator. */
void table_run_part(struct rank *rank, const struct table_setup *setup);

/* The parts. Workers push the whole table, and parts of it by rows, some of them twice; in the end all is there. */
void table_push_all(struct rank *rank, const kolo_table_options *options);

/* What a worker pulls in clock c contains all pushes of clocks up to c - s - 1, and its own. */
void table_keep_bound(struct rank *rank, const kolo_table_options *options);

/* All push to the same rows, and pull them: every element of a row is the same. */
void table_tear(struct rank *rank, const kolo_table_options *options);

/* Rank 0 pulls rows while all others push to them as fast as they can: no row is torn, and none goes back. */
void table_read_under_load(struct rank *rank, const kolo_table_options *options);

/* The same rule by an all-reduce and a local step. */
void table_same_bits(struct rank *rank, const kolo_table_options *options);
