/* Parts of the tests of tables that only several nodes have, by ranks of one machine and in network namespaces. */
#pragma once

#include "kolo_table.h"
#include "harness.h"

/* The last rank's values are everybody's. */
void nodes_begin_with_values(struct rank *rank, const kolo_table_options *options);

/* Staleness 0 and SGD: in clock 1 the rate is the one that rank 0 has set, on all nodes. */
void nodes_set_rate(struct rank *rank, const kolo_table_options *options);

/* SGD: ranks set rates in one clock, and rank 0 sets another two there: the same one counts on all nodes. */
void nodes_agree_on_rate(struct rank *rank, const kolo_table_options *options);

/* Each rank pushes every second row, several times: what a clock sends is what lib/table/nodes/rounds.h says. */
void nodes_count_bytes(struct rank *rank, const kolo_table_options *options);

/* Each rank pushes every second row, for --calls clocks, and prints "bytes|RANK|NODE|BYTES": what its node sends in
 * each clock by that formula. */
void nodes_push_clocks(struct rank *rank, const kolo_table_options *options);

/* A table is saved between two clocks, and another one, of other shards, has that afterwards. */
void nodes_save_and_load(struct rank *rank, const kolo_table_options *options);

/* The first node's workers leave; those of the others go on, and save. */
void nodes_save_without_first(struct rank *rank, const kolo_table_options *options);

/* The nodes' files of one name differ, or one has none: no rank loads. */
void nodes_load_differently(struct rank *rank, const kolo_table_options *options);

/* Rank 0 leaves two tables early, whose rounds its node needs, and may destroy its communicator: the others go on in
 * both by turns, and get all that was pushed. */
void nodes_leave_first(struct rank *rank, const kolo_table_options *options);

/* Staleness 0: result 0 is a hash of the table after some clocks. */
void nodes_record_bits(struct rank *rank, const kolo_table_options *options);
