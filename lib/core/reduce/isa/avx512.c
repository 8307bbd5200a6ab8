/* The core's kernels for AVX-512 F, BW, DQ and VL. */
#include "reduce/isa/avx512_vectors.h"

#define INSTANCE      kolo_reducer_avx512
#define INSTANCE_NAME "avx512"
#define INSTANCE_ISA  KOLO_ISA_AVX512
#include "reduce/template/instance_template.h"
