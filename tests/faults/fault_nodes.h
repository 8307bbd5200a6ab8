/* Cases of several nodes, which are ranks of one machine that inherit different files. */
#pragma once

#include "fault_run.h"

/* How long ranks wait for one that is stopped; a leader that is stopped is given up earlier, for its silence. */
enum { NODES_SILENCE_MS = 400 };
int64_t nodes_deadline_ms(const struct fault_case *what);

/* Longest time from a death to the last survivor's error, the machine's own delays not counted. */
#define NODES_NOTICED_NS INT64_C(1000000000)

/* Gives the nodes of a case their files, an address to meet at, and their settings; nothing where it has none.
 * patient: nobody is to be given up for silence. quorum: "any" or "majority". */
void nodes_prepare(struct run_mode *mode, bool patient, const char *quorum);
void nodes_finish(const struct run_mode *mode);

/* Whether this machine lets programs use io_uring: where it does not all cases go by poll. */
bool nodes_have_uring(void);

/* Judges the survivors of a case that has nodes. */
void nodes_find(struct run *run, int64_t held_ns);
