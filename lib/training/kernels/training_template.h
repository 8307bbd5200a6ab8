/* One instance of the kernels of training, which each instruction set's file beside this one makes of its vectors. That
 * file has included what reduce/template/vector_types.h asks for, and defined INSTANCE: the kolo_training_kernels that
 * is defined here. */
#include "training/kernels/adder_template.h"
#include "training/kernels/compress_template.h"

const kolo_training_kernels INSTANCE = {.to_bf16 = to_bf16,
                                        .to_f16 = to_f16,
                                        .to_signs = to_signs,
                                        .from_signs = from_signs,
                                        .collect = collect,
                                        .add_f32 = add_f32,
                                        .add_f64 = add_f64};
