#include "nearest_name.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { NAME_BYTES_MAX = 48 };

static int least(int a, int b) {
    return a < b ? a : b;
}

/* How many letters to insert, delete, change or swap with their neighbour to get from one word to the other. */
static int distance(const char *from, size_t from_length, const char *to, size_t to_length) {
    int rows[3][NAME_BYTES_MAX + 1]; /* the row for the letters so far, and the two before it */
    int *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= to_length; j++)
        last[j] = (int)j;
    for (size_t i = 1; i <= from_length; i++) {
        row[0] = (int)i;
        for (size_t j = 1; j <= to_length; j++) {
            const bool same = from[i - 1] == to[j - 1];
            row[j] = least(last[j - 1] + !same, least(last[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
        int *const spare = before;
        before = last;
        last = row;
        row = spare;
    }
    return last[to_length];
}

size_t nearest_name_distance(const char *word, size_t length, const char *name) {
    const size_t name_length = strlen(name);
    if (length > NAME_BYTES_MAX || name_length > NAME_BYTES_MAX)
        return SIZE_MAX;
    const size_t apart = (size_t)distance(word, length, name, name_length);
    return 2 * apart <= (length > name_length ? length : name_length) ? apart : SIZE_MAX;
}
