/* How long ago something was, as people say it. */
#ifndef KOLO_TOOLS_AGE_TEXT_H
#define KOLO_TOOLS_AGE_TEXT_H

#include <stdint.h>

typedef struct age_text {
    char text[32];
} age_text;

/* "90 s", "45 min", "3 h", "5 d". */
age_text age_text_of(int64_t seconds);

#endif
