#include "rank_list.h"

#include <stdio.h>

int rank_list_format(char *text, size_t text_bytes, const bool *listed, int count, int first_rank) {
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
