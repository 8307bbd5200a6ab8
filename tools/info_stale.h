/* kolo-info --stale: the names of jobs in /dev/shm. */
#ifndef KOLO_TOOLS_INFO_STALE_H
#define KOLO_TOOLS_INFO_STALE_H

#include <stdbool.h>

enum { INFO_STALE_NAMES_MAX = 10000 };

typedef struct info_stale_request {
    bool remove;
    bool all;           /* remove whatever is stale */
    char *const *names; /* to remove, jobs' names or paths; ended by NULL; none and not all: ask */
    bool json;
} info_stale_request;

/* True if somebody can answer a question. */
bool info_stale_can_ask(void);

/* Prints the names of jobs that are there, stale or being created, and removes what is asked for; -1, with a message,
 * where that fails. With names to remove it prints those alone. */
int info_stale_print(const info_stale_request *request);

#endif
