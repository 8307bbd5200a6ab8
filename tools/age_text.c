#include "age_text.h"

#include <inttypes.h>
#include <stdio.h>

enum { MINUTE = 60, HOUR = 60 * MINUTE, DAY = 24 * HOUR };

age_text age_text_of(int64_t seconds) {
    age_text age;
    if (seconds < 2 * MINUTE)
        snprintf(age.text, sizeof age.text, "%" PRId64 " s", seconds);
    else if (seconds < 2 * HOUR)
        snprintf(age.text, sizeof age.text, "%" PRId64 " min", seconds / MINUTE);
    else if (seconds < 2 * DAY)
        snprintf(age.text, sizeof age.text, "%" PRId64 " h", seconds / HOUR);
    else
        snprintf(age.text, sizeof age.text, "%" PRId64 " d", seconds / DAY);
    return age;
}
