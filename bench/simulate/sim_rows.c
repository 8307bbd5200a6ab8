#include "sim_rows.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int sim_row_next(FILE *file, char text[SIM_ROW_BYTES_MAX], int *number) {
    while (*number < SIM_ROWS_MAX && fgets(text, SIM_ROW_BYTES_MAX, file) != NULL) {
        ++*number;
        size_t length = strlen(text);
        const bool whole = length > 0 && (text[length - 1] == '\n' || length < SIM_ROW_BYTES_MAX - 1);
        while (length > 0 && isspace((unsigned char)text[length - 1]))
            text[--length] = '\0';
        if (length == 0)
            continue;
        return whole && text[0] == '{' && text[length - 1] == '}' ? 1 : -1;
    }
    return *number < SIM_ROWS_MAX ? 0 : -1;
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
