/* The command line of kolo-train. */
#ifndef KOLO_TRAIN_OPTIONS_H
#define KOLO_TRAIN_OPTIONS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef enum train_on_failure { TRAIN_STOP, TRAIN_SHRINK } train_on_failure;

typedef struct train_options {
    const char *data_path; /* NULL: the digits beside the program */
    const char *json_path; /* NULL: none */
    size_t epochs;
    size_t steps_max;  /* SIZE_MAX: as many as the epochs have */
    size_t batch_rows; /* of all ranks together */
    size_t hidden;     /* width of both hidden layers */
    double rate;
    uint64_t seed;
    int quiet;
    int compare; /* with one process */
    train_on_failure on_failure;
} train_options;

typedef enum train_request { TRAIN_RUN, TRAIN_HELP, TRAIN_VERSION, TRAIN_MISTAKE } train_request;

/* What the command line asks for. On TRAIN_MISTAKE, `reason` holds it in words. */
train_request train_options_parse(train_options *options, int argc, char **argv, char *reason, size_t reason_bytes);

void train_options_help(FILE *to);

#endif
