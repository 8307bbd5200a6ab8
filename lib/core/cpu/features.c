/* The instruction sets of this CPU, less those that KOLO_CPU masks, and its model. */
#include "cpu/features.h"

#include <stdio.h>
#include <string.h>

#include "base/environment.h"
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

#else

uint32_t kolo_cpu_features(void) {
#if defined(__aarch64__)
    return getauxval(AT_HWCAP) & HWCAP_ASIMD ? KOLO_CPU_NEON : 0;
#else
    return 0;
#endif
}

bool kolo_cpu_is_intel(void) {
    return false;
}

#endif

int kolo_cpu_mask_read(uint32_t *mask) {
    int64_t given[NAMES] = {0};
    struct kolo_list_item items[NAMES + 1] = {{.name = NULL}};
    uint32_t allowed = kolo_environment_text(KOLO_VARIABLE_CPU) ? 0 : UINT32_MAX;
    int rc = 0;
    for (int i = 0; i < NAMES; i++)
        items[i] = (struct kolo_list_item){.name = names[i].name, .low = names[i].feature, .value = &given[i]};
    kolo_environment_list(&rc, KOLO_VARIABLE_CPU, items);
    for (int i = 0; i < NAMES; i++)
        allowed |= (uint32_t)given[i];
    if (rc == 0)
        *mask = allowed;
    return rc;
}

void kolo_cpu_features_format(uint32_t features, char *text, size_t text_bytes) {
    *text = '\0';
    for (int i = 0; i < NAMES; i++)
        if (features & names[i].feature)
            kolo_text_add(text, text_bytes, "%s%s", *text ? " " : "", names[i].name);
    if (!*text)
        snprintf(text, text_bytes, "none");
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
