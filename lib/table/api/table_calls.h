/* What the files of the calls share: whether a table can be used, and how ranks agree on a call. */
#pragma once

#include "comm/step/call_key.h"
#include "table/table.h"

/* Says why `function` cannot use the table, and returns the status. */
__attribute__((cold)) int kolo_table_unusable(const char *function, const kolo_table *table);

static inline bool kolo_table_is_usable(const kolo_table *table) {
    return __builtin_expect(table && table->comm->token->ours && !table->is_broken, 1);
}

static inline int kolo_table_check(const char *function, const kolo_table *table) {
    return kolo_table_is_usable(table) ? 0 : kolo_table_unusable(function, table);
}

/* Agrees on the status of a part of `function`, among all ranks of the communicator: 0 if all have succeeded, else the
 * same status on all. The communicator stays usable. `what`: KOLO_CALL_TABLE_*. Ranks that name different tables (NULL:
 * one that is being made), calls or roots get KOLO_ERR_MISMATCH. */
int kolo_table_agree(const char *function, kolo_comm *comm, const kolo_table *table, unsigned what, int root, int rc);

/* Ends the making of a table, whose status on this rank is `rc`. Returns 0 if this node has the table. */
int kolo_table_conclude(struct kolo_table *table, int rc);

/* Waits until the last save is written, and returns the status of the first that has failed since the last call. */
int kolo_table_file_wait(struct kolo_table *table);

/* Waits for this rank's thread, if it has one, before the table goes. */
void kolo_table_file_end(struct kolo_table *table);
