#include "messages.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool terminal_has_colour(int fd) {
    const char *none = getenv("NO_COLOR"), *kind = getenv("TERM");
    return isatty(fd) && !(none && *none) && kind && strcmp(kind, "dumb") != 0;
}

#define TEXT_BYTES (PATH_MAX + 1024)

static void (*redirected)(const char *line);

void messages_redirect(void (*put)(const char *line)) {
    redirected = put;
}

int message_print(const char *format, ...) {
    const bool bold = terminal_has_colour(STDERR_FILENO);
    char text[TEXT_BYTES], line[TEXT_BYTES + 64];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    snprintf(line, sizeof line, "%s%.32s:%s %s\n", bold ? "\033[1m" : "", program_invocation_short_name,
             bold ? "\033[0m" : "", text);
    if (redirected)
        redirected(line);
    else
        fputs(line, stderr);
    return -1;
}

void message_left_to_another(void) {
    enum { TELLING_S = 3 };
    sleep(TELLING_S);
}

int message_unless_written(void) {
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    return message_print("cannot write to standard output: %s", strerror(errno));
}

int message_list_format(char *text, size_t text_bytes, const char *noun, const bool *listed, int count, int first) {
    int found = 0;
    for (int i = 0; i < count; i++)
        found += listed[i];
    size_t used = (size_t)snprintf(text, text_bytes, "%s%s", noun, found == 1 ? "" : "s");
    const char *separator = " ";
    for (int begin = 0, last; begin < count; begin = last + 1) {
        last = begin;
        if (!listed[begin])
            continue;
        while (last + 1 < count && listed[last + 1])
            last++;
        if (text_bytes - used < 32) {
            snprintf(text + used, text_bytes - used, "%s...", separator);
            break;
        }
        used += (size_t)snprintf(text + used, text_bytes - used, "%s%d", separator, first + begin);
        if (last > begin)
            used += (size_t)snprintf(text + used, text_bytes - used, "-%d", first + last);
        separator = ", ";
    }
    return found;
}
