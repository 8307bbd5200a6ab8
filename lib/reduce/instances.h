/* The instances of the kernels, a file each; reducer.c chooses between them. */
#ifndef KOLO_REDUCE_INSTANCES_H
#define KOLO_REDUCE_INSTANCES_H

#include "reduce/reducer.h"

extern const kolo_reducer kolo_reducer_portable;

#if defined(__x86_64__)
extern const kolo_reducer kolo_reducer_avx2;
extern const kolo_reducer kolo_reducer_avx512;
#elif defined(__aarch64__)
extern const kolo_reducer kolo_reducer_neon;
#endif

#endif
