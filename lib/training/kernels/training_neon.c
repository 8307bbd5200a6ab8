/* The kernels of training for arm64. */
#include "reduce/isa/neon_vectors.h"

#define INSTANCE kolo_training_kernels_neon
#include "training/kernels/training_template.h"
