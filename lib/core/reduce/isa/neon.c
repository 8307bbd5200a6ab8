/* The core's kernels for arm64. */
#include "reduce/isa/neon_vectors.h"

#define INSTANCE      kolo_reducer_neon
#define INSTANCE_NAME "neon"
#define INSTANCE_ISA  KOLO_ISA_NEON
#include "reduce/template/instance_template.h"
