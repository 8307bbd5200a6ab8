/* What is checked of messages between two ranks, on one machine and between machines: each part is run by all ranks,
 * with a communicator. */
#ifndef KOLO_TESTS_CHANNEL_PARTS_H
#define KOLO_TESTS_CHANNEL_PARTS_H

#include "harness.h"

enum { CHANNEL_PARTS = 6 };

extern void (*const channel_parts[CHANNEL_PARTS])(struct rank *rank);

#endif
