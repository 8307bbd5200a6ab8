/* kolo-info --stale: the names of jobs in /dev/shm. */
#ifndef KOLO_TOOLS_INFO_STALE_H
#define KOLO_TOOLS_INFO_STALE_H

#include <stdbool.h>

/* Prints the names of jobs that are there, stale or being created, and removes the stale ones if asked to; -1, with a
 * message, where that fails. */
int info_stale_print(bool json, bool remove);

#endif
