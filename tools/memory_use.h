/* What ranks take of memory. */
#pragma once

#include <stdbool.h>

/* Measures and prints it for so many ranks, or with 0 for 2, 16, 64 and 256. Returns 0, or -1 after a message. */
int memory_use_report(int ranks, bool json);
