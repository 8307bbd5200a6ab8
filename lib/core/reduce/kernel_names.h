/* The names that the portable kernels and the templates give to the functions of a dtype and to the kernels. Where such
 * a name is used, the including file has defined DTYPE and, for a kernel's name, OP: enumerators without KOLO_, as in
 * F32 and SUM. */
#ifndef KOLO_REDUCE_KERNEL_NAMES_H
#define KOLO_REDUCE_KERNEL_NAMES_H

#define PASTE3_(a, b, c)  a##_##b##_##c
#define PASTE3(a, b, c)   PASTE3_(a, b, c)
#define PASTE2_(a, b)     a##_##b
#define PASTE2(a, b)      PASTE2_(a, b)
#define DTYPE_NAME(verb)  PASTE2(verb, DTYPE)
#define KERNEL_NAME(verb) PASTE3(verb, DTYPE, OP)
#define F32_NAME(verb)    PASTE3(verb, F32, OP) /* of the same op */

/* The KIND of a dtype says which kernels it needs, as each_op.h has them. */
#define UNSIGNED 1 /* integer: all ops */
#define SIGNED   2 /* integer: the ops that differ from the unsigned one of its width, MIN, MAX and AVG */
#define FLOAT    3 /* all but the bit operations */
#define HALF     4 /* the same, accumulated in F32 */

/* ONE_COPY marks a kernel that other kernels call. By itself gcc makes a copy of it for each constant that they pass: a
 * sixteenth of all code, for no gain. */
#if defined(__clang__)
#define ONE_COPY __attribute__((noinline))
#else
#define ONE_COPY __attribute__((noinline, noclone))
#endif

#endif
