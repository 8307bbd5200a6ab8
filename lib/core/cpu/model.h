/* The name of the processor model. */
#ifndef KOLO_CPU_MODEL_H
#define KOLO_CPU_MODEL_H

#include <stddef.h>

/* Writes the model's name from /proc/cpuinfo, without blanks at its end, cut to fit; "" where there is none. */
void kolo_cpu_model(char *model, size_t model_bytes);

#endif
