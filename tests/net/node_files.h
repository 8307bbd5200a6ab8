/* Nodes for tests: ranks of one machine are on the same one where they have inherited the same file. */
#pragma once

#include "harness.h"

enum { NODES_MAX = 8 };

/* Makes the files, for all teams to come. */
void nodes_open(void);

/* Puts counts[i] ranks on node i, one node after another up to a 0: node_of[rank] is the node. Empties the files.
 * Returns how many ranks there are. */
int nodes_lay_out(const int *counts, int *node_of);

/* Where the next team meets: a free port of that address of this machine. Most teams wait with KOLO_WAIT=yield, where
 * the environment says nothing else; one in seven waits as it does by default. */
void nodes_meet_at(const char *address);

/* Options of a rank that is on that node and meets the others there. */
void nodes_place(kolo_options *options, int node);
