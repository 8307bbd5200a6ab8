/* Kernels for one pair of sizes. Parameters, which end with this file:
 *   SIM_ELEMENT_BYTES, SIM_ACC_BYTES   of an element of the dtype, and of the accumulation type
 *   SIM_NAME(verb)                     the names
 *
 * SPDX-License-Identifier: Apache-2.0
 */

static void SIM_NAME(fold)(void *dst, const void *const *sources, uint32_t n, size_t count, uint32_t ranks) {
    (void)ranks;
    check_inputs(sources, n, count * SIM_ELEMENT_BYTES);
    fold(dst, sources, n, count * SIM_ELEMENT_BYTES, count * SIM_ELEMENT_BYTES);
}

static void SIM_NAME(fold_to_both)(void *dst, void *second, const void *const *sources, size_t count, uint32_t ranks) {
    (void)ranks;
    check_inputs(sources, 2, count * SIM_ELEMENT_BYTES);
    fold_to(dst, second, sources, 2, count * SIM_ELEMENT_BYTES, count * SIM_ELEMENT_BYTES);
}

static void SIM_NAME(chain)(void *acc_out, const void *acc_in, const void *source, size_t count) {
    chain(acc_out, acc_in, count * SIM_ACC_BYTES, source, count * SIM_ELEMENT_BYTES, count * SIM_ACC_BYTES);
}

static void SIM_NAME(chain_end)(void *dst, const void *acc_in, const void *source, size_t count, uint32_t ranks) {
    (void)ranks;
    chain(dst, acc_in, count * SIM_ACC_BYTES, source, count * SIM_ELEMENT_BYTES, count * SIM_ELEMENT_BYTES);
}

static void SIM_NAME(widen)(void *acc_out, const void *source, size_t count) {
    fold(acc_out, &source, 1, count * SIM_ELEMENT_BYTES, count * SIM_ACC_BYTES);
}

static void SIM_NAME(fold_partial)(void *acc_dst, const void *const *sources, uint32_t n, size_t count) {
    check_inputs(sources, n, count * SIM_ELEMENT_BYTES);
    fold(acc_dst, sources, n, count * SIM_ELEMENT_BYTES, count * SIM_ACC_BYTES);
}

static void SIM_NAME(fold_partials)(void *acc_dst, const void *const *acc_sources, uint32_t n, size_t count) {
    fold(acc_dst, acc_sources, n, count * SIM_ACC_BYTES, count * SIM_ACC_BYTES);
}

static void SIM_NAME(finish)(void *dst, const void *const *acc_sources, uint32_t n, size_t count, uint32_t ranks) {
    (void)ranks;
    fold(dst, acc_sources, n, count * SIM_ACC_BYTES, count * SIM_ELEMENT_BYTES);
}

static const kolo_kernel SIM_NAME(kernel) = {.fold = SIM_NAME(fold),
                                             .fold_to_both = SIM_NAME(fold_to_both),
                                             .chain = SIM_NAME(chain),
                                             .chain_end = SIM_NAME(chain_end),
                                             .widen = SIM_NAME(widen),
                                             .fold_partial = SIM_NAME(fold_partial),
                                             .fold_partials = SIM_NAME(fold_partials),
                                             .finish = SIM_NAME(finish),
                                             .element_bytes = SIM_ELEMENT_BYTES,
                                             .acc_bytes = SIM_ACC_BYTES};

#undef SIM_ELEMENT_BYTES
#undef SIM_ACC_BYTES
#undef SIM_NAME
