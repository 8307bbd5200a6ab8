#include "messages.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "tagged_output.h"
#include "terminal_colour.h"

#define TEXT_BYTES (PATH_MAX + 1024)

static struct tagged_output *joined;

void messages_join(struct tagged_output *output) {
    joined = output;
}

void message_print(const char *format, ...) {
    const bool bold = terminal_has_colour(STDERR_FILENO);
    char text[TEXT_BYTES], line[TEXT_BYTES + 32];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    snprintf(line, sizeof line, "%skolorun:%s %s\n", bold ? "\033[1m" : "", bold ? "\033[0m" : "", text);
    if (joined != NULL)
        tagged_output_message(joined, line);
    else
        fputs(line, stderr);
}

int message_ranks_format(char *text, size_t text_bytes, const bool *listed, int count, int first_rank) {
    int found = 0;
    for (int rank = 0; rank < count; rank++)
        found += listed[rank];
    size_t used = (size_t)snprintf(text, text_bytes, found == 1 ? "rank" : "ranks");
    const char *separator = " ";
    for (int first = 0, last; first < count; first = last + 1) {
        last = first;
        if (!listed[first])
            continue;
        while (last + 1 < count && listed[last + 1])
            last++;
        if (text_bytes - used < 32) {
            snprintf(text + used, text_bytes - used, "%s...", separator);
            break;
        }
        used += (size_t)snprintf(text + used, text_bytes - used, "%s%d", separator, first_rank + first);
        if (last > first)
            used += (size_t)snprintf(text + used, text_bytes - used, "-%d", first_rank + last);
        separator = ", ";
    }
    return found;
}
