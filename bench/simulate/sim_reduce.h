/* The model's kernels, for every dtype and op.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SIM_REDUCE_H
#define SIM_REDUCE_H

#include "reduce/reducer.h"

const kolo_reducer *sim_reducer(void);

#endif
