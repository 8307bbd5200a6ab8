/* The core's kernels for AVX2 with F16C. */
#include "reduce/isa/avx2_vectors.h"

#define INSTANCE      kolo_reducer_avx2
#define INSTANCE_NAME "avx2"
#define INSTANCE_ISA  KOLO_ISA_AVX2
#include "reduce/template/instance_template.h"
