/* SPDX-License-Identifier: Apache-2.0 */
#include "train_settings.h"

#include "complain.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint64_t bits_of(double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof(bits));
    return bits;
}

static double number_of(uint64_t bits) {
    double number;
    memcpy(&number, &bits, sizeof(number));
    return number;
}

train_settings train_settings_of(const train_options *options) {
    return (train_settings){.numbers = {[TRAIN_SETTING_DATA] = options->data_fingerprint,
                                        [TRAIN_SETTING_EPOCHS] = options->epochs,
                                        [TRAIN_SETTING_STEPS] = options->steps_max,
                                        [TRAIN_SETTING_BATCH] = options->batch_rows,
                                        [TRAIN_SETTING_HIDDEN] = options->hidden,
                                        [TRAIN_SETTING_RATE] = bits_of(options->rate),
                                        [TRAIN_SETTING_SEED] = options->seed,
                                        [TRAIN_SETTING_COMPARE] = (uint64_t)options->compare,
                                        [TRAIN_SETTING_ON_FAILURE] = (uint64_t)options->on_failure,
                                        [TRAIN_SETTING_ELASTIC] = (uint64_t)options->elastic}};
}

int train_settings_share(kolo_comm *comm, train_options *options) {
    train_settings shared = train_settings_of(options);
    const uint64_t *numbers = shared.numbers;
    if (kolo_broadcast(comm, shared.numbers, TRAIN_SETTINGS, KOLO_U64, 0) < 0)
        return complain_kolo(comm, "cannot share the options");
    options->data_fingerprint = numbers[TRAIN_SETTING_DATA];
    options->epochs = numbers[TRAIN_SETTING_EPOCHS];
    options->steps_max = numbers[TRAIN_SETTING_STEPS];
    options->batch_rows = numbers[TRAIN_SETTING_BATCH];
    options->hidden = numbers[TRAIN_SETTING_HIDDEN];
    options->rate = number_of(numbers[TRAIN_SETTING_RATE]);
    options->seed = numbers[TRAIN_SETTING_SEED];
    options->compare = numbers[TRAIN_SETTING_COMPARE] != 0;
    options->on_failure = (train_on_failure)numbers[TRAIN_SETTING_ON_FAILURE];
    options->elastic = numbers[TRAIN_SETTING_ELASTIC] != 0;
    return 0;
}

static void describe(int setting, uint64_t asked, uint64_t training, char *text, size_t text_bytes) {
    static const char *const names[TRAIN_SETTINGS_COMPARED] = {
        [TRAIN_SETTING_EPOCHS] = "--epochs", [TRAIN_SETTING_STEPS] = "--steps", [TRAIN_SETTING_BATCH] = "--batch",
        [TRAIN_SETTING_HIDDEN] = "--hidden", [TRAIN_SETTING_RATE] = "--rate",   [TRAIN_SETTING_SEED] = "--seed"};
    if (setting == TRAIN_SETTING_DATA)
        snprintf(text, text_bytes, "--data: the rows are not those of the training");
    else if (setting == TRAIN_SETTING_RATE)
        snprintf(text, text_bytes, "--rate %g: the training has %g", number_of(asked), number_of(training));
    else if (training == SIZE_MAX)
        snprintf(text, text_bytes, "%s %" PRIu64 ": the training has no such limit", names[setting], asked);
    else
        snprintf(text, text_bytes, "%s %" PRIu64 ": the training has %" PRIu64, names[setting], asked, training);
}

int train_settings_agree(const train_settings *asked, uint64_t given, const train_settings *training, char *text,
                         size_t text_bytes) {
    for (int setting = 0; setting < TRAIN_SETTINGS_COMPARED; setting++) {
        if ((given >> setting & 1) == 0 || asked->numbers[setting] == training->numbers[setting])
            continue;
        describe(setting, asked->numbers[setting], training->numbers[setting], text, text_bytes);
        return 0;
    }
    return 1;
}
