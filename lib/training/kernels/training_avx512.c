/* The kernels of training for AVX-512 F, BW, DQ and VL. */
#include "reduce/isa/avx512_vectors.h"

#define INSTANCE kolo_training_kernels_avx512
#include "training/kernels/training_template.h"
