/* kolorun's own messages on standard error.
 */
#ifndef KOLORUN_MESSAGES_H
#define KOLORUN_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>

struct tagged_output;

/* From now on messages stand between the lines of the ranks' standard error. */
void messages_join(struct tagged_output *output);

/* Prints "kolorun: TEXT\n". */
void message_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Writes those of `count` ranks that are `listed`, counted from `first_rank`, in words: "rank 3", "ranks 0-2, 5"; a
 * list that does not fit ends in "...". Returns how many there are. */
int message_ranks_format(char *text, size_t text_bytes, const bool *listed, int count, int first_rank);

#endif
