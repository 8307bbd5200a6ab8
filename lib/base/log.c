/* Lines on standard error, as KOLO_LOG asks for them. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

void kolo_log(kolo_log_level limit, kolo_log_level level, int rank, const char *format, ...) {
    if (level > limit)
        return;
    char line[1200];
    int used = snprintf(line, sizeof line, "kolo: rank %d: ", rank);
    va_list arguments;
    va_start(arguments, format);
    int more = vsnprintf(line + used, sizeof line - (size_t)used - 1, format, arguments);
    va_end(arguments);
    if (more < 0)
        return;
    size_t length = (size_t)used + (size_t)more;
    if (length > sizeof line - 2)
        length = sizeof line - 2;
    line[length++] = '\n';
    /* Nothing can be done about a log that cannot be written. */
    ssize_t ignored = write(STDERR_FILENO, line, length);
    (void)ignored;
}
