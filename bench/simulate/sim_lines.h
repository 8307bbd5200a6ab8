/* The cache lines of flags: who has a copy, what it takes to get one, and who polls which word.
 *
 * A store takes the line away from all others. A load that finds no copy in its core's cache asks the nearest holder:
 * a core of its own L3 domain if one has a copy, else the line's last writer. A holder serves one request after
 * another, turn_ns apart, and the answer takes hop_ns of the distance. A thread that polls keeps a copy, so each store
 * makes it ask again, whether or not the value is what it waits for. Loads of flags that turn out to be set already
 * overlap, as processors speculate past them: loads_in_flight at a time.
 *
 * The flags themselves are real memory, which the library reads and writes; this is only about time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim_machine.h"

/* Those of the team before its slots, in all lanes. 0, or -1 if there is no memory. */
int sim_lines_create(const sim_machine *machine);
void sim_lines_destroy(void);

bool sim_lines_holds(const void *address);

/* The running thread loads a word. Later loads may overlap with one that finds what it looks for. */
void sim_line_look(const void *word, bool reached);

/* The running thread has just stored a word. */
void sim_line_stored(const void *word);

/* The running thread polls `word` until it is at least `target`. */
void sim_line_poll(const uint64_t *word, uint64_t target);

/* Loads that overlapped are over before anything else begins. */
void sim_line_settle(void);

/* What a blocked thread polls. */
typedef struct sim_poll {
    const uint64_t *word;
    uint64_t target;
} sim_poll;

sim_poll sim_line_polled(uint32_t thread);
