/* Whether the algorithms keep to their protocol, whatever the times: who reads must know that what it reads has been
 * written, and who writes must know that all have read what was there; in slots, and in buffers that ranks share
 * (races.h). Small messages travel in real lines, and their bytes are compared as well. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Looks at the present team, or at nothing. 0, or -1 if there is no memory. */
int sim_check_begin(bool checks, uint32_t ranks, size_t slot_bytes);

/* The running thread has stored a flag with release, or loaded it with acquire. */
void sim_check_released(const void *word);
void sim_check_acquired(const void *word);

/* The running thread reads or writes; what lies in no slot or buffer is not looked at. */
void sim_check_read(const void *address, size_t bytes);
void sim_check_write(const void *address, size_t bytes);

/* The running thread begins its call `call`: it fills its part of `send`, and what its part of `recv` holds counts as
 * not written. */
void sim_check_call(uint8_t *send, const uint8_t *recv, size_t bytes, uint64_t call);

/* Input `rank` of the running thread's call `call`, if it is real memory. */
void sim_check_input(const void *input, size_t bytes, uint32_t rank, uint64_t call);

/* The first violation in words, or NULL. */
const char *sim_check_problem(void);
