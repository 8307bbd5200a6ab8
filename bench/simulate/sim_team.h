/* The communicators of all ranks, in private memory: what comm/creation/create.c makes of processes that meet, but for
 * the meeting. Flags and lines are real; slots and buffers are addresses of sim_memory.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SIM_TEAM_H
#define SIM_TEAM_H

#include "comm/comm.h"
#include "sim_run.h"

/* The settings that the library decides on the modelled machine.. */
void sim_team_settings(struct kolo_shared_settings *settings, const sim_case *asked, size_t slot_bytes);

/* Before sim_memory_create: the flags. 0, or -1 if there is no memory. */
int sim_team_create(const sim_case *asked, const struct kolo_shared_settings *settings, size_t slot_bytes);
void sim_team_destroy(void);

/* After it: the slots, and the buffers that KOLO_ALGORITHM_DIRECT takes for kolo_alloc's. */
int sim_team_attach(void);

kolo_comm *sim_team_comm(uint32_t rank);
const void *sim_team_flags(size_t *bytes);

#endif
