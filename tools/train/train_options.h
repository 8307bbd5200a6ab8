/* The command line of kolo-train, and the settings in it that all ranks share. */
#ifndef KOLO_TRAIN_OPTIONS_H
#define KOLO_TRAIN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kolo.h"

typedef enum train_on_failure { TRAIN_STOP, TRAIN_SHRINK } train_on_failure;

enum { TRAIN_SETTINGS = 10 };

typedef struct train_options {
    const char *data_path;     /* NULL: the digits beside the program */
    uint64_t data_fingerprint; /* of what was read from there; 0: not read */
    const char *json_path;     /* NULL: none */
    size_t epochs;
    size_t steps_max;  /* SIZE_MAX: as many as the epochs have */
    size_t batch_rows; /* of all ranks together */
    size_t hidden;     /* width of both hidden layers */
    double rate;
    uint64_t seed;
    bool quiet;
    bool compare; /* with one process */
    train_on_failure on_failure;
    bool elastic;         /* others may join */
    const char *job;      /* the name under which they do; NULL: none */
    const char *join_job; /* the training that this process is to join; NULL: none, it starts with the others */
    uint64_t given;       /* bits by setting: what the command line has told */
} train_options;

/* Reads the command line. Ends the program at --help, at --version and at a mistake, of which rank 0 tells for all. */
train_options train_options_read(int argc, char **argv);

/* What all ranks of a training must have in common, whoever of them was told so on the command line: as numbers, which
 * travel between processes. */
typedef struct train_settings {
    uint64_t numbers[TRAIN_SETTINGS];
} train_settings;

train_settings train_settings_of(const train_options *options);

/* Rank 0's settings become everybody's: ranks that took their rows in different orders would go wrong unnoticed. */
int train_settings_share(kolo_comm *comm, train_options *options);

/* Whether what was asked for, as far as `given` (bits by setting) says, is what the training has. If not,
 * `text` says in words what is different. */
int train_settings_agree(const train_settings *asked, uint64_t given, const train_settings *training, char *text,
                         size_t text_bytes);

#endif
