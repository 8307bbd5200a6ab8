/* The team of a simulation: settings that the library decides for the modelled machine, and the arena. Flags and lines
 * are real memory; slots and buffers are addresses that fault when used, but for the first bytes of each buffer, which
 * small messages need. */
#ifndef SIM_TEAM_H
#define SIM_TEAM_H

#include "sim_run.h"
#include "team.h"

void sim_team_settings(struct kolo_shared_settings *settings, const sim_case *asked, size_t slot_bytes);

/* Buffers of `bytes` or more. 0, or -1 if there is no memory. */
int sim_team_create(const sim_case *asked, const struct kolo_shared_settings *settings, size_t slot_bytes,
                    size_t bytes);
void sim_team_destroy(void);

/* Whether the bytes are there, to be read and written. */
bool sim_team_is_real(const void *address, size_t bytes);

#endif
