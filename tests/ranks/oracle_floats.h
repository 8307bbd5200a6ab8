/* Template: how floats of one type are combined and averaged. It undefines its parameters, which are the type FLOAT,
 * the functions AS_BITS and AS_VALUE between it and its bits, and names: of FIRST, which gives the lesser or the
 * greater of two, of COMBINE, which stores left[i] op right[i] in left[i], and of AVERAGE, which divides by the number
 * of ranks. */

static FLOAT FIRST(bool least, FLOAT a, FLOAT b) {
    const bool a_first = (a < b) | ((a == b) & (signbit(a) != 0));
    const uint64_t chosen = choose(a_first == least, AS_BITS(a), AS_BITS(b));
    return AS_VALUE(choose(isnan(a) | isnan(b), AS_BITS((FLOAT)NAN), chosen));
}

static void COMBINE(kolo_op op, void *left, const void *right, size_t count) {
    FLOAT *a = left;
    const FLOAT *b = right;
    if (op == KOLO_SUM || op == KOLO_AVG)
        for (size_t i = 0; i < count; i++)
            a[i] += b[i];
    else if (op == KOLO_PROD)
        for (size_t i = 0; i < count; i++)
            a[i] *= b[i];
    else
        for (size_t i = 0; i < count; i++)
            a[i] = FIRST(op == KOLO_MIN, a[i], b[i]);
}

static void AVERAGE(void *row, int ranks, size_t count) {
    FLOAT *a = row;
    for (size_t i = 0; i < count; i++)
        a[i] /= (FLOAT)ranks;
}

#undef FLOAT
#undef AS_BITS
#undef AS_VALUE
#undef FIRST
#undef COMBINE
#undef AVERAGE
