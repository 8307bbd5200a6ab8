/* The instruction sets of this CPU, less those that KOLO_CPU masks, and its model. */
#include "cpu/features.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#ifndef HWCAP_ASIMD
#define HWCAP_ASIMD (1u << 1)
#endif
#endif

/* The names that KOLO_CPU and kolo-info use, in the order in which they are listed. */
static const struct {
    const char *name;
    uint32_t feature;
} names[] = {
    {"avx2", KOLO_CPU_AVX2}, {"avx512", KOLO_CPU_AVX512}, {"avx512bf16", KOLO_CPU_AVX512BF16}, {"neon", KOLO_CPU_NEON},
    {"portable", 0},
};

enum { NAMES = sizeof names / sizeof *names };

#if defined(__x86_64__)

/* Bits of XCR0: register state that the kernel saves at a context switch. */
enum {
    XCR0_AVX = 0x06,   /* XMM and the upper halves of YMM */
    XCR0_AVX512 = 0xe0 /* mask registers, upper halves of ZMM, ZMM16-31 */
};

static uint32_t saved_state(void) {
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

uint32_t kolo_cpu_features(void) {
    const uint32_t leaf1_needed = bit_OSXSAVE | bit_AVX | bit_F16C;
    const uint32_t avx512_needed = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    uint32_t eax, ebx, ecx, edx;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || (ecx & leaf1_needed) != leaf1_needed)
        return 0;
    uint32_t saved = saved_state();
    if ((saved & XCR0_AVX) != XCR0_AVX)
        return 0;
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || !(ebx & bit_AVX2))
        return 0;
    if ((ebx & avx512_needed) != avx512_needed || (saved & XCR0_AVX512) != XCR0_AVX512)
        return KOLO_CPU_AVX2;
    if (!__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) || !(eax & bit_AVX512BF16))
        return KOLO_CPU_AVX2 | KOLO_CPU_AVX512;
    return KOLO_CPU_AVX2 | KOLO_CPU_AVX512 | KOLO_CPU_AVX512BF16;
}

bool kolo_cpu_is_intel(void) {
    uint32_t eax, ebx, ecx, edx;
    if (!__get_cpuid(0, &eax, &ebx, &ecx, &edx))
        return false;
    return ebx == signature_INTEL_ebx && ecx == signature_INTEL_ecx && edx == signature_INTEL_edx;
}

#elif defined(__aarch64__)

uint32_t kolo_cpu_features(void) {
    return getauxval(AT_HWCAP) & HWCAP_ASIMD ? KOLO_CPU_NEON : 0;
}

#else

uint32_t kolo_cpu_features(void) {
    return 0;
}

#endif

#if !defined(__x86_64__)

bool kolo_cpu_is_intel(void) {
    return false;
}

#endif

/* Returns the index in `names` of the `length` characters at text, or NAMES. */
static int name_index(const char *text, size_t length) {
    int index = 0;
    while (index < NAMES && (strlen(names[index].name) != length || memcmp(names[index].name, text, length) != 0))
        index++;
    return index;
}

int kolo_cpu_mask_parse(const char *text, uint32_t *mask) {
    if (!text || !*text) {
        *mask = UINT32_MAX;
        return 0;
    }
    uint32_t allowed = 0;
    const char *item = text;
    for (;;) {
        size_t length = strcspn(item, ",");
        int index = name_index(item, length);
        if (index == NAMES)
            return kolo_fail(KOLO_ERR_ARG,
                             "KOLO_CPU=\"%s\": \"%.*s\" is no instruction set that kolo knows; "
                             "use a comma-separated list of avx2, avx512, avx512bf16, neon, portable",
                             text, (int)length, item);
        allowed |= names[index].feature;
        if (!item[length])
            break;
        item += length + 1;
    }
    *mask = allowed;
    return 0;
}

void kolo_cpu_features_format(uint32_t features, char *text, size_t text_bytes) {
    size_t used = 0;
    snprintf(text, text_bytes, "none");
    for (int index = 0; index < NAMES && used < text_bytes; index++) {
        if (features & names[index].feature)
            used += (size_t)snprintf(text + used, text_bytes - used, "%s%s", used ? " " : "", names[index].name);
    }
}

void kolo_cpu_model(char *model, size_t model_bytes) {
    model[0] = '\0';
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (!file)
        return;
    char line[512];
    while (!model[0] && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        colon += strspn(colon, ": \t");
        colon[strcspn(colon, "\n")] = '\0';
        snprintf(model, model_bytes, "%s", colon);
    }
    fclose(file);
    size_t length = strlen(model);
    while (length > 0 && (model[length - 1] == ' ' || model[length - 1] == '\t'))
        model[--length] = '\0';
}
