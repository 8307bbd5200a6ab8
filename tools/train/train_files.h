/* The files of a run, which are rank 0's business alone: the data it reads and the JSON it may write. */
#ifndef KOLO_TRAIN_FILES_H
#define KOLO_TRAIN_FILES_H

#include "kolo.h"

#include "dataset.h"
#include "train_options.h"
#include "train_report.h"

#include <limits.h>
#include <stdio.h>

typedef struct train_files {
    char data_path[PATH_MAX]; /* "" but on rank 0 */
    FILE *json;               /* NULL: none asked for, or closed */
} train_files;

/* Finds the data, and opens the JSON file before the training, so that a path that can't be written doesn't cost a
 * whole run. For the rank that is, or has become, rank 0. Returns 0, or -1 having said why. */
int train_files_open(train_files *files, const kolo_comm *comm, const train_options *options);

/* Reads the data. comm NULL: there is none yet. Returns 0, or -1 having said why. */
int train_files_read(train_files *files, const kolo_comm *comm, const train_options *options, dataset *all);

/* Writes the JSON, if it was asked for. Returns 0, or -1 having said why. */
int train_files_close(train_files *files, const train_report *report);

/* Closes what is still open after a failure. */
void train_files_abandon(train_files *files);

#endif
