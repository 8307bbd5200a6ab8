/* What all ranks of a training must have in common, whoever of them was told so on the command line. */
#ifndef KOLO_TRAIN_SETTINGS_H
#define KOLO_TRAIN_SETTINGS_H

#include "kolo.h"

#include "train_options.h"

#include <stddef.h>
#include <stdint.h>

/* They travel between processes as numbers, in the order of enum train_setting. */
typedef struct train_settings {
    uint64_t numbers[TRAIN_SETTINGS];
} train_settings;

train_settings train_settings_of(const train_options *options);

/* Rank 0's settings become everybody's: ranks that took their rows in different orders would go wrong unnoticed. */
int train_settings_share(kolo_comm *comm, train_options *options);

/* Whether what was asked for, as far as `given` (bits by enum train_setting) says, is what the training has. If not,
 * `text` says in words what is different. */
int train_settings_agree(const train_settings *asked, uint64_t given, const train_settings *training, char *text,
                         size_t text_bytes);

#endif
