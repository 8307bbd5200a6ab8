/* The core's kernels for arm64. */
#include "reduce/isa/neon_vectors.h"

#define INSTANCE      kolo_reducer_neon
#define INSTANCE_NAME "neon"
#include "reduce/template/instance_template.h"
