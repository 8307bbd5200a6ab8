/* Lines on standard error, as KOLO_LOG asks for them. */
#include "base/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void kolo_log(kolo_log_level limit, kolo_log_level level, int rank, const char *format, ...) {
    if (level > limit)
        return;
    char text[1160] = "", line[1200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    char prefix[32];
    const int prefix_bytes = snprintf(prefix, sizeof prefix, "rank %d: ", rank);
    const bool is_named = strncmp(text, prefix, (size_t)prefix_bytes) == 0; /* as most messages of failures */
    const int length = snprintf(line, sizeof line, "kolo: %s%s\n", is_named ? "" : prefix, text);
    /* A log that cannot be written is ignored: nothing can be done about it. */
    ssize_t ignored = write(STDERR_FILENO, line, (size_t)length);
    (void)ignored;
}
