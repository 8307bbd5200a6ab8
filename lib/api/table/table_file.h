/* A table's files. */
#ifndef KOLO_API_TABLE_TABLE_FILE_H
#define KOLO_API_TABLE_TABLE_FILE_H

#include "table/table.h"

/* Waits until the last save is written, if there has been one, and returns what became of it. */
int kolo_table_file_wait(struct kolo_table *table);

/* Before the table goes: waits for this rank's thread, if it has one. */
void kolo_table_file_end(struct kolo_table *table);

#endif
