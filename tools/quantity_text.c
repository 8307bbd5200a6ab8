#include "quantity_text.h"

#include <inttypes.h>
#include <stdio.h>

enum { MINUTE = 60, HOUR = 60 * MINUTE, DAY = 24 * HOUR };

quantity_text age_text(int64_t seconds) {
    quantity_text age;
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

quantity_text bytes_text(uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    quantity_text size;
    int unit = 0;
    double value = (double)bytes;
    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    const uint64_t tenths = (uint64_t)(value * 10 + 0.5);
    snprintf(size.text, sizeof size.text, "%.*f %s", tenths % 10 != 0, (double)tenths / 10, units[unit]);
    return size;
}
