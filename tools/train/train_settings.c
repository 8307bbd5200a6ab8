/* SPDX-License-Identifier: Apache-2.0 */
#include "train_settings.h"

#include "complain.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FIELD(name) offsetof(train_options, name), sizeof(((train_options *)0)->name)

/* Where each is; as a number it is its bytes. */
static const struct field {
    const char *option;
    size_t offset;
    size_t bytes;
} fields[TRAIN_SETTINGS] = {
    [TRAIN_SETTING_DATA] = {"--data", FIELD(data_fingerprint)},
    [TRAIN_SETTING_EPOCHS] = {"--epochs", FIELD(epochs)},
    [TRAIN_SETTING_STEPS] = {"--steps", FIELD(steps_max)},
    [TRAIN_SETTING_BATCH] = {"--batch", FIELD(batch_rows)},
    [TRAIN_SETTING_HIDDEN] = {"--hidden", FIELD(hidden)},
    [TRAIN_SETTING_RATE] = {"--rate", FIELD(rate)},
    [TRAIN_SETTING_SEED] = {"--seed", FIELD(seed)},
    [TRAIN_SETTING_COMPARE] = {"--no-compare", FIELD(compare)},
    [TRAIN_SETTING_ON_FAILURE] = {"--on-failure", FIELD(on_failure)},
    [TRAIN_SETTING_ELASTIC] = {"--elastic", FIELD(elastic)},
};

train_settings train_settings_of(const train_options *options) {
    train_settings settings = {.numbers = {0}};
    for (int i = 0; i < TRAIN_SETTINGS; i++)
        memcpy(&settings.numbers[i], (const char *)options + fields[i].offset, fields[i].bytes);
    return settings;
}

int train_settings_share(kolo_comm *comm, train_options *options) {
    train_settings shared = train_settings_of(options);
    if (kolo_broadcast(comm, shared.numbers, TRAIN_SETTINGS, KOLO_U64, 0) < 0)
        return complain_kolo(comm, "cannot share the options");
    for (int i = 0; i < TRAIN_SETTINGS; i++)
        memcpy((char *)options + fields[i].offset, &shared.numbers[i], fields[i].bytes);
    return 0;
}

static double number_of(uint64_t bits) {
    double number;
    memcpy(&number, &bits, sizeof(number));
    return number;
}

static void describe(int setting, uint64_t asked, uint64_t training, char *text, size_t text_bytes) {
    const char *option = fields[setting].option;
    if (setting == TRAIN_SETTING_DATA)
        snprintf(text, text_bytes, "%s: the rows are not those of the training", option);
    else if (setting == TRAIN_SETTING_RATE)
        snprintf(text, text_bytes, "%s %g: the training has %g", option, number_of(asked), number_of(training));
    else if (training == SIZE_MAX)
        snprintf(text, text_bytes, "%s %" PRIu64 ": the training has no such limit", option, asked);
    else
        snprintf(text, text_bytes, "%s %" PRIu64 ": the training has %" PRIu64, option, asked, training);
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
