/* The path of a call. Every collective takes it, with these stages:
 *
 *   check   the arguments are completed, and refused if they are wrong (api/arguments.c);
 *   begin   the call gets its number and its stamp;
 *   divide  a large call is cut into slices, one for each lane (api/lanes/slices.h);
 *   plan    the plan names the algorithm;
 *   run     the algorithm moves the data;
 *   end     the call is left, and what it was stays in the history.
 *
 * A call that blocks goes from check to end at once. One in the background is checked when it is issued, and goes from
 * begin to end when its turn comes. With lanes, each lane that has a slice goes from begin to end, in a thread of its
 * own. A small call that blocks takes a short way (api/short_call.h). */
#pragma once

#include "api/arguments.h"
#include "comm/step/progress.h"
#include "cpu/fpenv.h"

/* Makes a call that blocks. Fills in the rest of `call`. function: that the program has called, for messages. */
int kolo_path_make(kolo_collective collective, const char *function, kolo_comm *comm, struct kolo_arguments *call);

/* Issues a call for the background. */
int kolo_path_issue(kolo_collective collective, const char *function, kolo_comm *comm, struct kolo_arguments *call,
                    kolo_request **request);

/* The stages begin and end, around what a call does in a communicator. Returns the caller's floating-point mode. */
static inline __attribute__((always_inline)) uint32_t kolo_path_begin(const struct kolo_descriptor *descriptor,
                                                                      kolo_comm *comm, struct kolo_call_key key) {
    kolo_call_begin(comm, key);
    return descriptor->has_op ? kolo_fpenv_enter() : 0;
}

static inline void kolo_path_end(const struct kolo_descriptor *descriptor, kolo_comm *comm, uint32_t callers_fpenv) {
    if (descriptor->has_op)
        kolo_fpenv_leave(callers_fpenv);
    kolo_call_leave(comm);
}
