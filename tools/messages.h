/* A program's messages on standard error. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Whether what is written to a descriptor may have colours: on a terminal that shows them, unless NO_COLOR is set. */
bool terminal_has_colour(int fd);

/* Prints "PROGRAM: TEXT\n" in one write, as other processes may print there, too. Returns -1. */
int message_print(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

/* To be called before the process fails where another process of the job prints that line: waits for seconds. A
 * launcher ends all processes once one has failed, and the first is to be the one that tells. */
void message_left_to_another(void);

/* From now on such lines go to put(line). */
void messages_redirect(void (*put)(const char *line));

/* To be called after the last output. Returns 0, or -1 with a message if standard output could not be written. */
int message_unless_written(void);

/* Writes those of `count` ranks, or of what else `noun` calls them, that are `listed`, counted from `first`, in words:
 * "rank 3", "ranks 0-2, 5"; a list that does not fit ends in "...". Returns how many there are. */
int message_list_format(char *text, size_t text_bytes, const char *noun, const bool *listed, int count, int first);
