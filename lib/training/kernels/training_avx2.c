/* The kernels of training for AVX2 with F16C. */
#include "reduce/isa/avx2_vectors.h"

#define INSTANCE kolo_training_kernels_avx2
#include "training/kernels/training_template.h"
