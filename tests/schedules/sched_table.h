/* Tables (kolo_table.h) under one schedule: what ranks push and pull is drawn from the seed, and each pull is checked
 * for what the bound on staleness promises. They are made by kolo_table_create; what it gets its memory from is
 * replaced by a part of the arena (sched_wrapped.c). */
#pragma once

#include "sched_plan.h"

/* Before a run: draws what ranks do, and clears the table's part of the arena, behind the team's. */
void sched_table_begin(const sched_plan *plan, bool synchronous, uint64_t seed);

/* All that a rank does with a table, from making it to leaving it. A status. */
int sched_table_work(kolo_comm *comm);

/* After the run: what is wrong with the table's rows, or NULL. */
const char *sched_table_judge(void);

/* Shared memory for a table: each rank gets the same for its first request, and for its second. */
void *sched_table_allocate(uint32_t rank, size_t bytes);
bool sched_table_has_allocated(const void *address);

sched_word sched_table_word(const void *address);

/* The number of the worker whose queue the address, of a queue's word, belongs to. */
uint32_t sched_table_queue_worker(const void *address);

/* True if the running rank has the role to write some pieces. */
bool sched_table_writes(void);

/* What lies at an address of the arena, in words: of a table or of a team. */
void sched_describe(const void *address, size_t bytes, char *text, size_t text_bytes);
