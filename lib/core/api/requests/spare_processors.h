/* The processors of a progress thread. */
#ifndef KOLO_API_REQUESTS_SPARE_PROCESSORS_H
#define KOLO_API_REQUESTS_SPARE_PROCESSORS_H

#include <stdbool.h>

#include "comm/comm.h"

/* Moves the calling thread to processors that no rank of the communicator may use (cpu/spare.h), if the machine has any
 * and the control group allows them. Returns whether there is a processor for the thread, including those that ranks
 * may use but do not need. */
bool kolo_spare_processors_take(const kolo_comm *comm);

#endif
