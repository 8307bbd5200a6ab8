/* What a communicator may leave behind in its process, and in /dev/shm. */
#pragma once

#include <stdbool.h>

#include "fault_board.h"

/* Counts open descriptors, mappings of shared memory files, and memory blocks that code of this program has allocated
 * and not freed: its link wraps malloc and its like. */
struct leftovers leftovers_count(void);

/* Path of the file that `job` has while it is being created; in a static buffer. */
const char *leftovers_path(const char *job);

/* Whether it is there. */
bool leftovers_named(const char *job);
