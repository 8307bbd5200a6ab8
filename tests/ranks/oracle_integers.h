/* Template: how integers of one type are combined and averaged, modulo 2^bits. A compiler makes vectors of the type's
 * own width of these loops. It undefines its parameters, which are the type INTEGER and names: of COMBINE, which stores
 * left[i] op right[i] in left[i], and of AVERAGE, which divides by the number of ranks, towards zero. */

static void COMBINE(kolo_op op, void *left, const void *right, size_t count) {
    INTEGER *a = left;
    const INTEGER *b = right;
    switch (op) {
    case KOLO_PROD:
        for (size_t i = 0; i < count; i++)
            a[i] = (INTEGER)((uint64_t)a[i] * (uint64_t)b[i]);
        break;
    case KOLO_MIN:
        for (size_t i = 0; i < count; i++)
            a[i] = a[i] < b[i] ? a[i] : b[i];
        break;
    case KOLO_MAX:
        for (size_t i = 0; i < count; i++)
            a[i] = a[i] < b[i] ? b[i] : a[i];
        break;
    case KOLO_BAND:
        for (size_t i = 0; i < count; i++)
            a[i] &= b[i];
        break;
    case KOLO_BOR:
        for (size_t i = 0; i < count; i++)
            a[i] |= b[i];
        break;
    case KOLO_BXOR:
        for (size_t i = 0; i < count; i++)
            a[i] ^= b[i];
        break;
    default:
        for (size_t i = 0; i < count; i++)
            a[i] = (INTEGER)((uint64_t)a[i] + (uint64_t)b[i]);
    }
}

static void AVERAGE(void *row, int ranks, size_t count) {
    INTEGER *a = row;
    for (size_t i = 0; i < count; i++)
        a[i] = (INTEGER)(a[i] / ranks);
}

#undef INTEGER
#undef COMBINE
#undef AVERAGE
