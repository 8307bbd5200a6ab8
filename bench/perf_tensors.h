/* A message as a list of tensors: so many, as equal as they can be, one behind the other. */
#ifndef PERF_TENSORS_H
#define PERF_TENSORS_H

#include "perf_collectives.h"

enum { PERF_TENSORS_MAX = 1000000 };

/* How many tensors a message has. */
extern int perf_tensors_count;

/* Those of the calling thread's message, until it asks for those of another one. NULL: out of memory. */
const kolo_tensor *perf_tensors_of(const perf_call *call);

/* Before the calling thread ends. */
void perf_tensors_free(void);

#endif
