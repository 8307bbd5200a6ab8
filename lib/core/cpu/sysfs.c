/* The parsers of numbers and lists of CPUs in files below /sys. */
#include "cpu/sysfs.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

enum { PATH_BYTES = 1024, LIST_BYTES = 8192, LIST_VALUE_MAX = 65535 };

bool kolo_sysfs_line(const char *root, const char *path, char *text, size_t text_bytes) {
    char whole[PATH_BYTES];
    if (snprintf(whole, sizeof whole, "%s/%s", root, path) >= (int)sizeof whole)
        return false;
    const ssize_t length = kolo_file_read(whole, text, text_bytes);
    if (length <= 0 || (size_t)length == text_bytes) /* one more might be cut off */
        return false;
    text[length] = '\0';
    size_t end = strcspn(text, "\n");
    while (end > 0 && isspace((unsigned char)text[end - 1]))
        end--;
    text[end] = '\0';
    return end > 0;
}

/* Reads a decimal number. Returns false unless there is one, of at most LIST_VALUE_MAX. */
static bool take_number(const char **text, uint32_t *number) {
    uint32_t value = 0;
    const char *at = *text;
    while (isdigit((unsigned char)*at) && value <= LIST_VALUE_MAX)
        value = value * 10 + (uint32_t)(*at++ - '0');
    const bool ok = at > *text && value <= LIST_VALUE_MAX;
    *text = at;
    *number = value;
    return ok;
}

static bool take_list(const char *text, kolo_cpu_set *set, uint32_t *count) {
    for (;;) {
        uint32_t first, last;
        if (!take_number(&text, &first))
            return false;
        last = first;
        if (*text == '-') {
            text++;
            if (!take_number(&text, &last) || last < first)
                return false;
        }
        *count += last - first + 1;
        for (uint32_t cpu = first; cpu <= last && cpu < KOLO_CPUS_MAX; cpu++)
            kolo_cpu_set_add(set, cpu);
        if (*text == '\0')
            return true;
        if (*text++ != ',')
            return false;
    }
}

bool kolo_sysfs_list_parse(const char *text, kolo_cpu_set *set, uint32_t *count) {
    uint32_t named = 0;
    memset(set, 0, sizeof *set);
    const bool ok = take_list(text, set, &named);
    if (!ok)
        memset(set, 0, sizeof *set);
    if (count)
        *count = ok ? named : 0;
    return ok;
}

bool kolo_sysfs_list(const char *root, const char *path, kolo_cpu_set *set, uint32_t *count) {
    char text[LIST_BYTES];
    if (!kolo_sysfs_line(root, path, text, sizeof text))
        *text = '\0'; /* which is no list */
    return kolo_sysfs_list_parse(text, set, count);
}

bool kolo_sysfs_number(const char *root, const char *path, uint64_t *number) {
    char text[32], *end;
    if (!kolo_sysfs_line(root, path, text, sizeof text) || !isdigit((unsigned char)*text))
        return false;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    const unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    if (errno || end[shift != 0] != '\0' || value > UINT64_MAX >> shift)
        return false;
    *number = (uint64_t)value << shift;
    return true;
}
