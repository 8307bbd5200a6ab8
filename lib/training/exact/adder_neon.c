/* The adder for arm64. */
#include "reduce/isa/neon_vectors.h"

#define INSTANCE      kolo_adder_neon
#define INSTANCE_NAME "neon"
#include "training/exact/adder_template.h"
