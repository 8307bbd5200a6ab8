/* The adder for AVX-512 F, BW, DQ and VL. */
#include "reduce/isa/avx512_vectors.h"

#define INSTANCE      kolo_adder_avx512
#define INSTANCE_NAME "avx512"
#include "training/exact/adder_template.h"
