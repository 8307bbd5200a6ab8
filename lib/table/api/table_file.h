/* The saving of a table to a file. */
#ifndef KOLO_TABLE_API_TABLE_FILE_H
#define KOLO_TABLE_API_TABLE_FILE_H

#include "table/table.h"

/* Waits until the last save is written, if there has been one, and returns its status. */
int kolo_table_file_wait(struct kolo_table *table);

/* Waits for this rank's thread, if it has one, before the table goes. */
void kolo_table_file_end(struct kolo_table *table);

#endif
