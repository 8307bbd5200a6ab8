/* The floating-point environment that the kernels rely on: round to nearest, subnormals kept, no traps. A caller may
 * have set another environment (torch.set_flush_denormal does), and ranks may differ in it; their results must not. */
#pragma once

#include <stdint.h>

#if defined(__x86_64__)

#define KOLO_FPENV_FLAGS   UINT32_C(0x3f)   /* MXCSR: sticky exception flags, which matter to nobody here */
#define KOLO_FPENV_DEFAULT UINT32_C(0x1f80) /* MXCSR at process start: all exceptions masked */

/* Enters the default environment; returns the caller's, for kolo_fpenv_leave. */
static inline uint32_t kolo_fpenv_enter(void) {
    uint32_t callers = __builtin_ia32_stmxcsr();
    if (__builtin_expect((callers & ~KOLO_FPENV_FLAGS) != KOLO_FPENV_DEFAULT, 0))
        __builtin_ia32_ldmxcsr(KOLO_FPENV_DEFAULT);
    return callers;
}

static inline void kolo_fpenv_leave(uint32_t callers) {
    if (__builtin_expect((callers & ~KOLO_FPENV_FLAGS) != KOLO_FPENV_DEFAULT, 0))
        __builtin_ia32_ldmxcsr(callers);
}

#elif defined(__aarch64__)

static inline uint32_t kolo_fpenv_enter(void) {
    uint64_t callers;
    __asm__ __volatile__("mrs %0, fpcr" : "=r"(callers));
    if (__builtin_expect(callers != 0, 0))
        __asm__ __volatile__("msr fpcr, %0" ::"r"(UINT64_C(0)));
    return (uint32_t)callers;
}

static inline void kolo_fpenv_leave(uint32_t callers) {
    if (__builtin_expect(callers != 0, 0))
        __asm__ __volatile__("msr fpcr, %0" ::"r"((uint64_t)callers));
}

#else

static inline uint32_t kolo_fpenv_enter(void) {
    return 0;
}

static inline void kolo_fpenv_leave(uint32_t callers) {
    (void)callers;
}

#endif
