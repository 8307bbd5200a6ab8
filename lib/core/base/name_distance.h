/* The distance between two names, by which a message guesses the name that was meant. The tools' command lines use it,
 * too; this is the only file of lib/ that they include. */
#pragma once

#include <ctype.h>
#include <stdint.h>

#include "base/minimum.h"

enum { KOLO_NAME_BYTES_MAX = 64 };

/* Returns how many letters must be inserted, deleted, changed or swapped with their neighbour to turn one name into the
 * other; case does not count. SIZE_MAX if a name is too long. */
static inline size_t kolo_name_distance(const char *from, size_t from_length, const char *to, size_t to_length) {
    size_t rows[3][KOLO_NAME_BYTES_MAX + 1]; /* of the letters so far, of one less, of two less */
    if (from_length > KOLO_NAME_BYTES_MAX || to_length > KOLO_NAME_BYTES_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= to_length; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= from_length; i++) {
        size_t *const row = rows[i % 3], *const last = rows[(i + 2) % 3], *const before = rows[(i + 1) % 3];
        const int letter = tolower((unsigned char)from[i - 1]);
        row[0] = i;
        for (size_t j = 1; j <= to_length; j++) {
            const int other = tolower((unsigned char)to[j - 1]);
            row[j] = kolo_minimum(last[j - 1] + (letter != other), kolo_minimum(last[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && letter == tolower((unsigned char)to[j - 2]) &&
                tolower((unsigned char)from[i - 2]) == other)
                row[j] = kolo_minimum(row[j], before[j - 2] + 1);
        }
    }
    return rows[from_length % 3][to_length];
}
