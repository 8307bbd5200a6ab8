/* From times to a table: which way for which messages. */
#ifndef KOLO_TUNE_CHOICE_H
#define KOLO_TUNE_CHOICE_H

#include <stdint.h>

#include "tune_space.h"

enum { TUNE_BANDS_MAX = 12 }; /* a profile's section may have 16, those of the defaults included */

typedef struct tune_band {
    uint64_t bytes_max; /* of a message; in the last band UINT64_MAX if the choice is settled */
    int way;
} tune_band;

typedef struct tune_choice {
    bool settled; /* messages larger than those measured need no others */
    int bands;
    tune_band band[TUNE_BANDS_MAX];
    uint64_t stream_bytes_min;     /* UINT64_MAX: never */
    int candidate[TUNE_SIZES_MAX]; /* what that means at each size */
} tune_choice;

/* Picks the bands that make the sizes together fastest, where each further band must gain 3 %. */
void tune_choose(const tune_space *space, const tune_times *times, tune_choice *choice);

#endif
