/* Quantities as people say them. */
#ifndef KOLO_TOOLS_QUANTITY_TEXT_H
#define KOLO_TOOLS_QUANTITY_TEXT_H

#include <stdint.h>

typedef struct quantity_text {
    char text[32];
} quantity_text;

/* How long ago something was: "90 s", "45 min", "3 h", "5 d". */
quantity_text age_text(int64_t seconds);

/* "512 B", "1.5 MiB": at most one decimal. */
quantity_text bytes_text(uint64_t bytes);

#endif
