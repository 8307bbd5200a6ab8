/* Which option is meant by one that is none. */
#ifndef KOLO_TOOLS_NEAREST_NAME_H
#define KOLO_TOOLS_NEAREST_NAME_H

#include <stddef.h>

/* How many letters to insert, delete, change or swap with their neighbour to get from the first `length` letters of
 * `word` to `name`; SIZE_MAX where that is more than half of them. */
size_t nearest_name_distance(const char *word, size_t length, const char *name);

#endif
