/* Disturbances: ranks that run at different speeds and pause now and then, so that a protocol meets orders of events in
 * which ranks of equal speed never come. The same seed gives the same ones.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SIM_NOISE_H
#define SIM_NOISE_H

#include <stdint.h>

/* 0: none. */
void sim_noise_begin(uint64_t seed);

/* The running rank's time for work that takes `ns` at full speed. */
double sim_noise_work_ns(double ns);

/* The running rank may lose some time here. */
void sim_noise_pause(void);

#endif
