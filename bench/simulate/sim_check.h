/* Whether the algorithms keep to their protocol, whatever the times: who reads must know that what it reads has been
 * written, and who writes must know that all have read what was there; in slots, and in buffers that ranks share.
 *
 * To know means to have acquired a flag that was released after it. Each rank carries a vector of how far it knows
 * every other to be; a release leaves a copy of it with the flag, an acquire joins that copy to its own. Each slot
 * remembers, byte ranges exact, who wrote and read it since; an access that overlaps with one that its rank does not
 * know of is a violation. So an order of events that goes well by luck is found out, too. Small messages travel in real
 * lines, and their bytes are compared as well.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include <stddef.h>
#include <stdint.h>

/* Flags lie from `flags` on. 0, or -1 if there is no memory. Without it, the functions below do nothing. */
int sim_check_create(uint32_t ranks, const void *flags, size_t flags_bytes, uint32_t slots, size_t slot_bytes);
void sim_check_destroy(void);

/* The running rank has stored a flag with release, or loaded it with acquire. */
void sim_check_released(const void *word);
void sim_check_acquired(const void *word);

/* The running rank reads or writes; what lies in no slot or buffer is not looked at. */
void sim_check_read(const void *address, size_t bytes);
void sim_check_write(const void *address, size_t bytes);

/* What was written there counts as not written, so that a later read tells whether it has been written again. */
void sim_check_forget(const void *address, size_t bytes);

/* Input `rank` of the running rank's call `call`, if it is real memory. */
void sim_check_input(const void *input, size_t bytes, uint32_t rank, uint64_t call);
void sim_check_fill_input(uint8_t *input, size_t bytes, uint32_t rank, uint64_t call);

/* The first violation in words, or NULL. */
const char *sim_check_problem(void);

#endif
