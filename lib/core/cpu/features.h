/* What CPU this is: the instruction sets of which there is a reducer instance, and the name of the model. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    KOLO_CPU_AVX2 = 1u << 0,   /* with F16C, and a kernel that saves the registers */
    KOLO_CPU_AVX512 = 1u << 1, /* F, BW, DQ and VL, and a kernel that saves the registers; implies AVX2 */
    KOLO_CPU_NEON = 1u << 2,
    KOLO_CPU_AVX512BF16 = 1u << 3 /* implies AVX512 */
};

/* Returns the instruction sets that the CPU and the kernel offer. */
uint32_t kolo_cpu_features(void);

/* True for a CPU made by Intel, whose cores pass on cache lines in another way than AMD's: see reduce/copy.h. */
bool kolo_cpu_is_intel(void);

/* Reads KOLO_CPU, a comma-separated list of instruction sets that may be used ("avx512,avx2", "portable"); without it
 * all may. Sets *mask; or returns KOLO_ERR_ARG, with a message that quotes the value and lists the known names. */
int kolo_cpu_mask_read(uint32_t *mask);

/* Writes "avx2 avx512", or "none", to text. */
void kolo_cpu_features_format(uint32_t features, char *text, size_t text_bytes);

/* Writes the model's name from /proc/cpuinfo, without blanks at its end, cut to fit; "" where there is none. */
void kolo_cpu_model(char *model, size_t model_bytes);
