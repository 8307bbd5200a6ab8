/* A comparison of ways to take a step (--ways). Each is a training of its own, from the same first weights, with a
 * communicator of its own. They take turns, an epoch each, so that whatever else the machine does meets all of them. */
#pragma once

#include <stdio.h>

#include "dataset.h"
#include "kolo.h"
#include "train_options.h"

/* Trains in all ways that the options name, prints and, where *json is not NULL, writes what came of it, and closes
 * that. Collective; the data are the same on all ranks. Returns the exit code: EXIT_FAILURE if ranks differ, or a way
 * that must keep the plain one's bits does not. */
int ways_run(kolo_comm *comm, const train_options *options, const dataset *train, const dataset *test, FILE **json);
