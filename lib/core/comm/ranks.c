/* Sets of ranks, as text. */
#include "comm/ranks.h"

#include <stdio.h>

void kolo_ranks_list(const uint64_t *set, char *text, size_t text_bytes) {
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t first = 0; first < KOLO_RANKS_MAX && used < text_bytes - 1; first++) {
        if (!kolo_ranks_have(set, first))
            continue;
        uint32_t last = first;
        while (last + 1 < KOLO_RANKS_MAX && kolo_ranks_have(set, last + 1))
            last++;
        const char *comma = used ? ", " : "";
        if (first == last)
            used += (size_t)snprintf(text + used, text_bytes - used, "%s%u", comma, first);
        else
            used += (size_t)snprintf(text + used, text_bytes - used, "%s%u-%u", comma, first, last);
        first = last;
    }
}
