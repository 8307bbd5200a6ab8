/* kolorun's own messages on standard error.
 */
#ifndef KOLORUN_MESSAGES_H
#define KOLORUN_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>

#define MESSAGE_COLUMNS 80

/* Whether what is written to `fd` may be coloured: a terminal, and NO_COLOR is not set. */
bool message_is_coloured(int fd);

/* Makes a line of `text`: "kolorun: TEXT\n". */
void message_format(char *line, size_t line_bytes, const char *text);

/* Prints such a line. */
void message_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
