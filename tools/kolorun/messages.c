#include "messages.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_BYTES (PATH_MAX + 1024)

bool message_is_coloured(int fd) {
    const char *no_color = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return (no_color == NULL || *no_color == '\0') && terminal != NULL && strcmp(terminal, "dumb") != 0 && isatty(fd);
}

void message_format(char *line, size_t line_bytes, const char *text) {
    const bool coloured = message_is_coloured(STDERR_FILENO);
    snprintf(line, line_bytes, "%skolorun:%s %s\n", coloured ? "\033[1m" : "", coloured ? "\033[0m" : "", text);
}

void message_print(const char *format, ...) {
    char text[TEXT_BYTES], line[TEXT_BYTES + 32];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    message_format(line, sizeof line, text);
    fputs(line, stderr);
}
