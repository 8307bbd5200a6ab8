/* The adder for AVX2. */
#include "reduce/isa/avx2_vectors.h"

#define INSTANCE      kolo_adder_avx2
#define INSTANCE_NAME "avx2"
#include "training/exact/adder_template.h"
