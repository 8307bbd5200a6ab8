/* What is checked of messages between two ranks, on one machine and between machines: each part is run by all ranks,
 * with a communicator. */
#pragma once

#include "harness.h"

enum { CHANNEL_PARTS = 6 };

extern void (*const channel_parts[CHANNEL_PARTS])(struct rank *rank);

/* What is checked of sends and receives in the background, on one machine and between machines: each part is run by all
 * ranks, on a communicator of its own. */

struct in_flight_part {
    void (*run)(const struct rank *rank, kolo_comm *comm);
    int ranks_min;
    bool breaks, dies; /* the communicator is broken in the end; the last rank dies */
};

enum { IN_FLIGHT_PARTS = 22 };

extern const struct in_flight_part in_flight_parts[IN_FLIGHT_PARTS];

/* The team's argument. */
struct in_flight {
    const struct in_flight_part *part;
    int progress;                               /* as in kolo_options */
    void (*place)(struct rank *rank, int node); /* puts a rank's options on a node; NULL: there is one machine */
    const int *node_of;
};

/* Runs the part. */
void in_flight_run(struct rank *rank);
