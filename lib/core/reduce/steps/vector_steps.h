/* The kernels of one type in vectors. Parameters: REAL, the type; REALS, its vector; NAME, the names of functions; and
 * TO_WIDEN, the vector of as many REALs as a vector has doubles. A kernel goes through its arrays in steps of a vector,
 * the last of which may be shorter; elements of that vector beyond the end are not stored. */

static ALWAYS_INLINE void NAME(sgd_vector)(const struct kolo_step_factors *factors, const unsigned char *gradients,
                                           unsigned char *parameters, unsigned char *first, size_t bytes) {
    const REAL scale = (REAL)factors->scale, decay = (REAL)factors->decay, rate = (REAL)factors->rate;
    const REAL momentum = (REAL)factors->momentum, kept = (REAL)factors->kept, undamped = (REAL)factors->undamped;
    REALS g = (REALS)load(gradients, bytes) * scale, p = (REALS)load(parameters, bytes);
    if (decay != 0)
        g = g + p * decay;
    if (first) {
        const REALS b = (REALS)load(first, bytes) * kept + g * undamped;
        store(first, NAME(canonical)((vector)b), bytes);
        g = factors->nesterov ? g + b * momentum : b;
    }
    store(parameters, NAME(canonical)((vector)(p + g * rate)), bytes);
}

static void NAME(sgd)(const struct kolo_step_factors *factors, size_t count, const void *gradients, void *parameters,
                      void *first, void *second) {
    const struct kolo_step_factors own = *factors; /* a copy, which the compiler knows no store can change */
    const size_t bytes = count * sizeof(REAL);
    const unsigned char *g = gradients;
    unsigned char *p = parameters, *b = first;
    size_t at = 0;
    (void)second;
    for (; bytes - at >= VECTOR_BYTES; at += VECTOR_BYTES)
        NAME(sgd_vector)(&own, g + at, p + at, b ? b + at : NULL, VECTOR_BYTES);
    if (at < bytes)
        NAME(sgd_vector)(&own, g + at, p + at, b ? b + at : NULL, bytes - at);
}

static ALWAYS_INLINE void NAME(adam_vector)(const struct kolo_step_factors *factors, const unsigned char *gradients,
                                            unsigned char *parameters, unsigned char *first, unsigned char *second,
                                            size_t bytes) {
    const REAL scale = (REAL)factors->scale, decay = (REAL)factors->decay, rate = (REAL)factors->rate;
    const REAL shrink = (REAL)factors->shrink, rest = (REAL)factors->beta1_rest, other = 1 - rest;
    const REAL beta2 = (REAL)factors->beta2, beta2_rest = (REAL)factors->beta2_rest;
    const REAL root = (REAL)factors->bias2_root, epsilon = (REAL)factors->epsilon;
    REALS g = (REALS)load(gradients, bytes) * scale, p = (REALS)load(parameters, bytes);
    REALS m = (REALS)load(first, bytes), v = (REALS)load(second, bytes);
    if (decay != 0)
        g = g + p * decay;
    p = p * shrink;
    m = factors->beta1_rest < 0.5 ? m + (g - m) * rest : g - (g - m) * other;
    v = v * beta2 + g * beta2_rest * g;
    p = p + rate * m / ((REALS)NAME(sqrt)((vector)v) / root + epsilon);
    store(first, NAME(canonical)((vector)m), bytes);
    store(second, NAME(canonical)((vector)v), bytes);
    store(parameters, NAME(canonical)((vector)p), bytes);
}

static void NAME(adam)(const struct kolo_step_factors *factors, size_t count, const void *gradients, void *parameters,
                       void *first, void *second) {
    const struct kolo_step_factors own = *factors;
    const size_t bytes = count * sizeof(REAL);
    const unsigned char *g = gradients;
    unsigned char *p = parameters, *m = first, *v = second;
    size_t at = 0;
    for (; bytes - at >= VECTOR_BYTES; at += VECTOR_BYTES)
        NAME(adam_vector)(&own, g + at, p + at, m + at, v + at, VECTOR_BYTES);
    if (at < bytes)
        NAME(adam_vector)(&own, g + at, p + at, m + at, v + at, bytes - at);
}

static ALWAYS_INLINE void NAME(adagrad_vector)(const struct kolo_step_factors *factors, const unsigned char *gradients,
                                               unsigned char *parameters, unsigned char *first, size_t bytes) {
    const REAL scale = (REAL)factors->scale, decay = (REAL)factors->decay, rate = (REAL)factors->rate;
    const REAL epsilon = (REAL)factors->epsilon;
    REALS g = (REALS)load(gradients, bytes) * scale, p = (REALS)load(parameters, bytes);
    if (decay != 0)
        g = g + p * decay;
    const REALS h = (REALS)load(first, bytes) + g * g;
    p = p + rate * g / ((REALS)NAME(sqrt)((vector)h) + epsilon);
    store(first, NAME(canonical)((vector)h), bytes);
    store(parameters, NAME(canonical)((vector)p), bytes);
}

static void NAME(adagrad)(const struct kolo_step_factors *factors, size_t count, const void *gradients,
                          void *parameters, void *first, void *second) {
    const struct kolo_step_factors own = *factors;
    const size_t bytes = count * sizeof(REAL);
    const unsigned char *g = gradients;
    unsigned char *p = parameters, *h = first;
    size_t at = 0;
    (void)second;
    for (; bytes - at >= VECTOR_BYTES; at += VECTOR_BYTES)
        NAME(adagrad_vector)(&own, g + at, p + at, h + at, VECTOR_BYTES);
    if (at < bytes)
        NAME(adagrad_vector)(&own, g + at, p + at, h + at, bytes - at);
}

static ALWAYS_INLINE void NAME(square_all)(f64v *sums, const unsigned char *values) {
    for (size_t i = 0; i < KOLO_SQUARE_LANES / DOUBLES; i++) {
        TO_WIDEN some;
        memcpy(&some, values + i * sizeof some, sizeof some);
        const f64v value = __builtin_convertvector(some, f64v);
        sums[i] += value * value;
    }
}

static void NAME(squares)(double *lanes, const void *values, size_t count) {
    f64v sums[KOLO_SQUARE_LANES / DOUBLES];
    const unsigned char *from = values;
    REAL rest[KOLO_SQUARE_LANES] = {0};
    memcpy(sums, lanes, sizeof sums);
    for (; count >= KOLO_SQUARE_LANES; count -= KOLO_SQUARE_LANES, from += sizeof rest)
        NAME(square_all)(sums, from);
    memcpy(rest, from, count * sizeof *rest);
    NAME(square_all)(sums, (const unsigned char *)rest);
    memcpy(lanes, sums, sizeof sums);
}
