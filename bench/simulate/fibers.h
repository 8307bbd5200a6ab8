/* Fibers: each has a stack of its own and runs until it switches to another. Which one that is, and when, is the
 * caller's to say. One set at a time, in one thread. */
#pragma once

#include <stdint.h>

#define FIBER_NONE UINT32_MAX

/* Makes fibers 0 .. count-1, which will run body(fiber). It must not return. Forgets those of an earlier set, wherever
 * they stand. 0, or -1 if there is no memory. */
int fibers_create(uint32_t count, void (*body)(uint32_t fiber));

/* The running one; FIBER_NONE outside. */
uint32_t fiber_running(void);

/* Goes on with `to`, or with FIBER_NONE outside, and comes back when somebody switches here. */
void fiber_switch(uint32_t to);
