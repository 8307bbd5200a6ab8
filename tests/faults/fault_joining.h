/* What must be true where ranks take in joiners, and a fault strikes one of either meanwhile. */
#ifndef KOLO_TESTS_FAULT_JOINING_H
#define KOLO_TESTS_FAULT_JOINING_H

#include "fault_run.h"

/* Judges the survivors of a case of PHASE_GROW; `held_ns`: what the machine took apart from their own steps. */
void joining_find(struct run *run, int64_t held_ns);

/* Whether joiners wait for as long as the victim is stopped: it is to answer them. */
bool joining_waits_for_victim(const struct run *run);

#endif
