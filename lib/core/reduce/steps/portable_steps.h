/* The portable kernels of one type. Parameters: REAL, the type; NAME, of functions; SQRT. Buffers need no alignment. */

static inline REAL NAME(load)(const void *values, size_t index) {
    REAL value;
    memcpy(&value, (const char *)values + index * sizeof value, sizeof value);
    return value;
}

static inline void NAME(store)(void *values, size_t index, REAL value) {
    if (isnan(value))
        value = (REAL)NAN;
    memcpy((char *)values + index * sizeof value, &value, sizeof value);
}

static void NAME(sgd)(const struct kolo_step_factors *factors, size_t count, const void *gradients, void *parameters,
                      void *first, void *second) {
    const REAL scale = (REAL)factors->scale, decay = (REAL)factors->decay, rate = (REAL)factors->rate;
    const REAL momentum = (REAL)factors->momentum, kept = (REAL)factors->kept, undamped = (REAL)factors->undamped;
    (void)second;
    for (size_t i = 0; i < count; i++) {
        REAL g = NAME(load)(gradients, i) * scale, p = NAME(load)(parameters, i);
        if (decay != 0)
            g = g + p * decay;
        if (first) {
            const REAL b = NAME(load)(first, i) * kept + g * undamped;
            NAME(store)(first, i, b);
            g = factors->nesterov ? g + b * momentum : b;
        }
        NAME(store)(parameters, i, p + g * rate);
    }
}

static void NAME(adam)(const struct kolo_step_factors *factors, size_t count, const void *gradients, void *parameters,
                       void *first, void *second) {
    const REAL scale = (REAL)factors->scale, decay = (REAL)factors->decay, rate = (REAL)factors->rate;
    const REAL shrink = (REAL)factors->shrink, rest = (REAL)factors->beta1_rest, other = 1 - rest;
    const REAL beta2 = (REAL)factors->beta2, beta2_rest = (REAL)factors->beta2_rest;
    const REAL root = (REAL)factors->bias2_root, epsilon = (REAL)factors->epsilon;
    for (size_t i = 0; i < count; i++) {
        REAL g = NAME(load)(gradients, i) * scale, p = NAME(load)(parameters, i);
        REAL m = NAME(load)(first, i), v = NAME(load)(second, i);
        if (decay != 0)
            g = g + p * decay;
        p = p * shrink;
        m = factors->beta1_rest < 0.5 ? m + (g - m) * rest : g - (g - m) * other;
        v = v * beta2 + g * beta2_rest * g;
        p = p + rate * m / (SQRT(v) / root + epsilon);
        NAME(store)(first, i, m);
        NAME(store)(second, i, v);
        NAME(store)(parameters, i, p);
    }
}

static void NAME(adagrad)(const struct kolo_step_factors *factors, size_t count, const void *gradients,
                          void *parameters, void *first, void *second) {
    const REAL scale = (REAL)factors->scale, decay = (REAL)factors->decay, rate = (REAL)factors->rate;
    const REAL epsilon = (REAL)factors->epsilon;
    (void)second;
    for (size_t i = 0; i < count; i++) {
        REAL g = NAME(load)(gradients, i) * scale, p = NAME(load)(parameters, i);
        if (decay != 0)
            g = g + p * decay;
        const REAL h = NAME(load)(first, i) + g * g;
        NAME(store)(first, i, h);
        NAME(store)(parameters, i, p + rate * g / (SQRT(h) + epsilon));
    }
}

static void NAME(squares)(double *lanes, const void *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const double value = NAME(load)(values, i);
        lanes[i % KOLO_SQUARE_LANES] += value * value;
    }
}
