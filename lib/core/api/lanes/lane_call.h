/* Makes one lane's part of a call, for the functions of kolo_lanes.h. The code is in api/collectives.c, with the path
 * that all calls take. */
#ifndef KOLO_API_LANES_LANE_CALL_H
#define KOLO_API_LANES_LANE_CALL_H

#include "api/arguments.h"

int kolo_lane_call(const char *function, kolo_collective collective, kolo_comm *comm, int lane,
                   struct kolo_arguments call);

#endif
