/* What the portable kernels and the templates call the functions of a dtype and the kernels. Where a name is used the
 * including file has defined DTYPE and, for that of a kernel, OP: enumerators without KOLO_, as in F32 and SUM. */
#ifndef KOLO_REDUCE_KERNEL_NAMES_H
#define KOLO_REDUCE_KERNEL_NAMES_H

#define PASTE3_(a, b, c)  a##_##b##_##c
#define PASTE3(a, b, c)   PASTE3_(a, b, c)
#define PASTE2_(a, b)     a##_##b
#define PASTE2(a, b)      PASTE2_(a, b)
#define DTYPE_NAME(verb)  PASTE2(verb, DTYPE)
#define KERNEL_NAME(verb) PASTE3(verb, DTYPE, OP)
#define F32_NAME(verb)    PASTE3(verb, F32, OP) /* of the same op */

/* A kernel that other kernels call. Left to itself, gcc makes a copy of it for each constant that they pass: a
 * sixteenth of all code, for no gain. */
#if defined(__clang__)
#define ONE_COPY __attribute__((noinline))
#else
#define ONE_COPY __attribute__((noinline, noclone))
#endif

#endif
