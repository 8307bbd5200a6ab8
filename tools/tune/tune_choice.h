/* From times to a table: which way for which messages. */
#ifndef KOLO_TUNE_CHOICE_H
#define KOLO_TUNE_CHOICE_H

#include "tune_space.h"

enum { TUNE_BANDS_MAX = 12 }; /* a profile's section may have 16, those of the defaults included */

typedef struct tune_choice {
    kolo_profile_section section;
    int candidate[TUNE_SIZES_MAX]; /* what that means at each size */
} tune_choice;

/* Picks the bands that make the sizes together fastest, where each further band must gain 3 %. */
void tune_choose(const tune_space *space, const tune_times *times, tune_choice *choice);

#endif
