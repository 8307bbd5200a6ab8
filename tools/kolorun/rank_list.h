/* Ranks in words: "rank 3", "ranks 0-2, 5".
 */
#ifndef KOLORUN_RANK_LIST_H
#define KOLORUN_RANK_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* Writes those of `count` ranks that are `listed`, counted from `first_rank`; a list that does not fit ends in "...".
 * Returns how many there are. */
int rank_list_format(char *text, size_t text_bytes, const bool *listed, int count, int first_rank);

#endif
