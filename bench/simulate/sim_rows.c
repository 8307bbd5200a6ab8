#include "sim_options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROW_BYTES_MAX = 2048, ROWS_MAX = 100000 };

/* Without what is blank at its end; false: it is no object. */
static bool end_row(char *text) {
    size_t length = strlen(text);
    const bool whole = length > 0 && (text[length - 1] == '\n' || length < ROW_BYTES_MAX - 1);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        text[--length] = '\0';
    return length == 0 || (whole && text[0] == '{' && text[length - 1] == '}');
}

void sim_rows_read(const char *option, const char *path, void (*take)(const char *row)) {
    char row[ROW_BYTES_MAX];
    FILE *file = fopen(path, "re");
    if (file == NULL)
        sim_refuse("--%s '%s': cannot be opened: %s", option, path, strerror(errno));
    for (int number = 1; fgets(row, sizeof row, file) != NULL; number++) {
        if (number > ROWS_MAX || !end_row(row))
            sim_refuse("--%s %s:%d: not a row of kolo-perf's --json", option, path, number);
        if (row[0] != '\0')
            take(row);
    }
    fclose(file);
}

/* What follows "key": in the row, or NULL. */
static const char *value_of(const char *text, const char *key) {
    char quoted[64];
    const int length = snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *found = length < (int)sizeof quoted ? strstr(text, quoted) : NULL;
    return found != NULL ? found + length + strspn(found + length, " ") : NULL;
}

bool sim_row_number(const char *text, const char *key, double *value) {
    const char *start = value_of(text, key);
    if (start == NULL)
        return false;
    char *end;
    *value = strtod(start, &end);
    return end != start && isfinite(*value);
}

bool sim_row_text(const char *text, const char *key, char *value, size_t value_bytes) {
    const char *start = value_of(text, key);
    if (start == NULL || *start != '"')
        return false;
    const size_t length = strcspn(++start, "\"");
    if (start[length] != '"' || length >= value_bytes)
        return false;
    memcpy(value, start, length);
    value[length] = '\0';
    return true;
}

bool sim_row_true(const char *text, const char *key) {
    const char *start = value_of(text, key);
    return start != NULL && strncmp(start, "true", 4) == 0;
}
