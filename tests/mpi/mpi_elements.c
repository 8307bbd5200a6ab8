#include "mpi_elements.h"

#include <complex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "splitmix64.h"

struct float_int {
    float value;
    int place;
};
struct double_int {
    double value;
    int place;
};
struct long_int {
    long value;
    int place;
};
struct short_int {
    short value;
    int place;
};
struct long_double_int {
    long double value;
    int place;
};

/* clang-format off */
#define SIGNED(type, c)        {#type, type, NUMBER_INTEGER, {PART_SIGNED}, {sizeof(c)}, 0, sizeof(c)}
#define UNSIGNED(type, c)      {#type, type, NUMBER_INTEGER, {PART_UNSIGNED}, {sizeof(c)}, 0, sizeof(c)}
#define FOREIGN(type, c)       {#type, type, NUMBER_FOREIGN, {PART_SIGNED}, {sizeof(c)}, 0, sizeof(c)}
#define FLOAT(type, c)         {#type, type, NUMBER_FLOAT, {PART_FLOAT}, {sizeof(c)}, 0, sizeof(c)}
#define LOGICAL(type, c)       {#type, type, NUMBER_LOGICAL, {PART_UNSIGNED}, {sizeof(c)}, 0, sizeof(c)}
#define OTHER(type, c)         {#type, type, NUMBER_OTHER, {PART_UNSIGNED}, {sizeof(c)}, 0, sizeof(c)}
#define COMPLEX(type, c)       {#type, type, NUMBER_COMPLEX, {PART_FLOAT, PART_FLOAT}, {sizeof(c), sizeof(c)}, \
                                sizeof(c), 2 * sizeof(c)}
#define PAIR(type, part, c)    {#type, type, NUMBER_PAIR, {part, PART_SIGNED}, {sizeof(((c *)0)->value), sizeof(int)}, \
                                offsetof(c, place), sizeof(c)}
#define TWINS(type, part, c)   {#type, type, NUMBER_PAIR, {part, part}, {sizeof(c), sizeof(c)}, sizeof(c), 2 * sizeof(c)}

/* MPI_CHAR as MPIs take it, not the standard. Of the two with 16 bytes a part, both Open MPI 4.1 and MPICH 4.0 compute
 * wrong sums. */
const struct element mpi_elements[] = {
    SIGNED(MPI_CHAR, char), SIGNED(MPI_SIGNED_CHAR, char), UNSIGNED(MPI_UNSIGNED_CHAR, char), SIGNED(MPI_SHORT, short),
    UNSIGNED(MPI_UNSIGNED_SHORT, short), SIGNED(MPI_INT, int), UNSIGNED(MPI_UNSIGNED, int), SIGNED(MPI_LONG, long),
    UNSIGNED(MPI_UNSIGNED_LONG, long), SIGNED(MPI_LONG_LONG_INT, long long), SIGNED(MPI_LONG_LONG, long long),
    UNSIGNED(MPI_UNSIGNED_LONG_LONG, long long),
    SIGNED(MPI_INT8_T, int8_t), SIGNED(MPI_INT16_T, int16_t), SIGNED(MPI_INT32_T, int32_t), SIGNED(MPI_INT64_T, int64_t),
    UNSIGNED(MPI_UINT8_T, int8_t), UNSIGNED(MPI_UINT16_T, int16_t), UNSIGNED(MPI_UINT32_T, int32_t),
    UNSIGNED(MPI_UINT64_T, int64_t),
    FOREIGN(MPI_AINT, MPI_Aint), FOREIGN(MPI_COUNT, MPI_Count), FOREIGN(MPI_OFFSET, MPI_Offset),
    FLOAT(MPI_FLOAT, float), FLOAT(MPI_DOUBLE, double), FLOAT(MPI_LONG_DOUBLE, long double),
    COMPLEX(MPI_C_COMPLEX, float), COMPLEX(MPI_C_FLOAT_COMPLEX, float), COMPLEX(MPI_C_DOUBLE_COMPLEX, double),
    COMPLEX(MPI_C_LONG_DOUBLE_COMPLEX, long double),
    COMPLEX(MPI_CXX_FLOAT_COMPLEX, float), COMPLEX(MPI_CXX_DOUBLE_COMPLEX, double),
    COMPLEX(MPI_CXX_LONG_DOUBLE_COMPLEX, long double),
    LOGICAL(MPI_C_BOOL, bool), LOGICAL(MPI_CXX_BOOL, bool), LOGICAL(MPI_LOGICAL, int),
    {"MPI_BYTE", MPI_BYTE, NUMBER_BYTE, {PART_UNSIGNED}, {1}, 0, 1},
    OTHER(MPI_WCHAR, wchar_t), OTHER(MPI_CHARACTER, char), OTHER(MPI_PACKED, char),
    FOREIGN(MPI_INTEGER, int), FOREIGN(MPI_INTEGER1, int8_t), FOREIGN(MPI_INTEGER2, int16_t), FOREIGN(MPI_INTEGER4, int32_t),
    FOREIGN(MPI_INTEGER8, int64_t),
    FLOAT(MPI_REAL, float), FLOAT(MPI_DOUBLE_PRECISION, double), FLOAT(MPI_REAL4, float), FLOAT(MPI_REAL8, double),
    {"MPI_REAL16", MPI_REAL16, NUMBER_OTHER, {PART_QUAD}, {16}, 0, 16},
    COMPLEX(MPI_COMPLEX, float), COMPLEX(MPI_DOUBLE_COMPLEX, double), COMPLEX(MPI_COMPLEX8, float),
    COMPLEX(MPI_COMPLEX16, double),
    {"MPI_COMPLEX32", MPI_COMPLEX32, NUMBER_OTHER, {PART_QUAD, PART_QUAD}, {16, 16}, 16, 32},
    PAIR(MPI_FLOAT_INT, PART_FLOAT, struct float_int), PAIR(MPI_DOUBLE_INT, PART_FLOAT, struct double_int),
    PAIR(MPI_LONG_INT, PART_SIGNED, struct long_int), PAIR(MPI_SHORT_INT, PART_SIGNED, struct short_int),
    PAIR(MPI_LONG_DOUBLE_INT, PART_FLOAT, struct long_double_int), TWINS(MPI_2INT, PART_SIGNED, int),
    TWINS(MPI_2REAL, PART_FLOAT, float), TWINS(MPI_2DOUBLE_PRECISION, PART_FLOAT, double),
    TWINS(MPI_2INTEGER, PART_SIGNED, int),
};
/* clang-format on */
const int mpi_elements_count = sizeof mpi_elements / sizeof *mpi_elements;

enum {
    ORDERED = NUMBER_INTEGER | NUMBER_FOREIGN | NUMBER_FLOAT,
    SUMMED = ORDERED | NUMBER_COMPLEX,
    LOGIC = NUMBER_INTEGER | NUMBER_LOGICAL,
    BITS = NUMBER_INTEGER | NUMBER_FOREIGN | NUMBER_BYTE
};

const struct operation mpi_operations[OPERATIONS] = {
    {"MPI_SUM", MPI_SUM, DO_SUM, SUMMED},
    {"MPI_PROD", MPI_PROD, DO_PROD, SUMMED},
    {"MPI_MIN", MPI_MIN, DO_MIN, ORDERED},
    {"MPI_MAX", MPI_MAX, DO_MAX, ORDERED},
    {"MPI_LAND", MPI_LAND, DO_LAND, LOGIC},
    {"MPI_LOR", MPI_LOR, DO_LOR, LOGIC},
    {"MPI_LXOR", MPI_LXOR, DO_LXOR, LOGIC},
    {"MPI_BAND", MPI_BAND, DO_BAND, BITS},
    {"MPI_BOR", MPI_BOR, DO_BOR, BITS},
    {"MPI_BXOR", MPI_BXOR, DO_BXOR, BITS},
    {"MPI_MINLOC", MPI_MINLOC, DO_MINLOC, NUMBER_PAIR},
    {"MPI_MAXLOC", MPI_MAXLOC, DO_MAXLOC, NUMBER_PAIR},
};

bool is_strict;

const struct element *element_named(const char *name) {
    for (int i = 0; i < mpi_elements_count; i++)
        if (strcmp(mpi_elements[i].name, name) == 0)
            return &mpi_elements[i];
    fprintf(stderr, "no element is named %s\n", name);
    abort();
}

bool element_exists(const struct element *element) {
    return element->type != MPI_DATATYPE_NULL;
}

bool operation_exists(const struct operation *operation, const struct element *element) {
    return element_exists(element) && (operation->numbers & element->number);
}

static long double load_integer(const void *address, size_t bytes, bool is_signed) {
    uint64_t bits = 0;
    memcpy(&bits, address, bytes); /* the tests' machines are little-endian */
    if (!is_signed)
        return (long double)bits;
    const int unused = 64 - 8 * (int)bytes;
    return (long double)((int64_t)(bits << unused) >> unused);
}

static long double load_float(const void *address, size_t bytes) {
    float narrow;
    double wide;
    long double widest;
    if (bytes == sizeof narrow)
        return memcpy(&narrow, address, bytes), narrow;
    if (bytes == sizeof wide)
        return memcpy(&wide, address, bytes), wide;
    return memcpy(&widest, address, bytes), widest;
}

static long double load_quad(const void *address) {
    __float128 quad;
    memcpy(&quad, address, sizeof quad);
    return (long double)quad;
}

static void store_integer(void *address, size_t bytes, long double value) {
    const uint64_t bits = value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
    memcpy(address, &bits, bytes);
}

static void store_float(void *address, size_t bytes, long double value) {
    const float narrow = (float)value;
    const double wide = (double)value;
    if (bytes == sizeof narrow)
        memcpy(address, &narrow, bytes);
    else if (bytes == sizeof wide)
        memcpy(address, &wide, bytes);
    else
        memcpy(address, &value, bytes);
}

struct value element_load(const struct element *element, const void *address) {
    struct value value = {{0, 0}};
    for (int i = 0; i < 2; i++) {
        const unsigned char *part = (const unsigned char *)address + (i ? element->offset : 0);
        const size_t bytes = element->sizes[i];
        if (element->parts[i] == PART_SIGNED || element->parts[i] == PART_UNSIGNED)
            value.parts[i] = load_integer(part, bytes, element->parts[i] == PART_SIGNED);
        else if (element->parts[i] == PART_FLOAT)
            value.parts[i] = load_float(part, bytes);
        else if (element->parts[i] == PART_QUAD)
            value.parts[i] = load_quad(part);
    }
    return value;
}

void element_store(const struct element *element, void *address, struct value value) {
    for (int i = 0; i < 2; i++) {
        unsigned char *part = (unsigned char *)address + (i ? element->offset : 0);
        const __float128 quad = value.parts[i];
        if (element->parts[i] == PART_SIGNED || element->parts[i] == PART_UNSIGNED)
            store_integer(part, element->sizes[i], value.parts[i]);
        else if (element->parts[i] == PART_FLOAT)
            store_float(part, element->sizes[i], value.parts[i]);
        else if (element->parts[i] == PART_QUAD)
            memcpy(part, &quad, sizeof quad);
    }
}

bool values_equal(const struct element *element, struct value a, struct value b) {
    return a.parts[0] == b.parts[0] && (element->parts[1] == PART_NONE || a.parts[1] == b.parts[1]);
}

/* Any value of the type, as far as integers go. */
static long double any_part(const struct element *element, int part, uint64_t draw) {
    const int unused = 64 - 8 * (int)element->sizes[part];
    if (element->parts[part] == PART_SIGNED)
        return (long double)((int64_t)draw >> unused);
    if (element->parts[part] == PART_UNSIGNED)
        return (long double)(draw >> unused);
    return ((long double)(draw % 8192) - 4096) / 4;
}

/* What may be added: of MPI_RANKS_MAX such numbers the sum fits into a byte. */
static long double summand(const struct element *element, int part, uint64_t draw) {
    if (element->parts[part] == PART_SIGNED)
        return (long double)(draw % 39) - 19;
    return element->parts[part] == PART_UNSIGNED ? (long double)(draw % 40) : ((long double)(draw % 200) - 100) / 4;
}

/* What may be multiplied: of MPI_RANKS_MAX such numbers the product fits into a byte. */
static long double factor(const struct element *element, uint64_t draw) {
    static const long double integers[] = {1, 2, -1, -2}, floats[] = {1, 2, -1, 0.5};
    if (element->parts[0] == PART_SIGNED)
        return integers[draw % 4];
    return element->parts[0] == PART_UNSIGNED ? integers[draw % 2] : floats[draw % 4];
}

struct value element_input(const struct element *element, const struct operation *operation, uint64_t draw) {
    const uint64_t first = random_next(&draw), second = random_next(&draw);
    const bool has_two = element->parts[1] != PART_NONE;
    if (element->number == NUMBER_LOGICAL)
        return (struct value){{(long double)(first % 2), 0}};
    switch (operation ? operation->calculation : DO_BAND) {
    case DO_SUM:
        return (struct value){{summand(element, 0, first), has_two ? summand(element, 1, second) : 0}};
    case DO_PROD:
        if (has_two)
            return (struct value){{(long double)(first % 3) - 1, (long double)(second % 3) - 1}};
        return (struct value){{factor(element, first), 0}};
    case DO_LAND:
    case DO_LOR:
    case DO_LXOR:
        return (struct value){{(long double)(first % 3), 0}};
    case DO_MINLOC:
    case DO_MAXLOC: /* often the same value, at different places */
        return (struct value){{(long double)(first % 4) - 2, (long double)(second % 10)}};
    case DO_MIN:
    case DO_MAX:
        return (struct value){
            {any_part(element, 0, is_strict || element->number == NUMBER_FLOAT ? first : first / 2), 0}};
    default:
        return (struct value){{any_part(element, 0, first), has_two ? any_part(element, 1, second) : 0}};
    }
}

static long double apply_bits(enum calculation calculation, const struct element *element, long double a,
                              long double b) {
    const uint64_t x = a < 0 ? (uint64_t)(int64_t)a : (uint64_t)a, y = b < 0 ? (uint64_t)(int64_t)b : (uint64_t)b;
    const uint64_t bits = calculation == DO_BAND ? x & y : calculation == DO_BOR ? x | y : x ^ y;
    return load_integer(&bits, element->sizes[0], element->parts[0] == PART_SIGNED);
}

struct value operation_apply(const struct operation *operation, const struct element *element, struct value left,
                             struct value right) {
    const long double a = left.parts[0], b = right.parts[0], c = left.parts[1], d = right.parts[1];
    switch (operation->calculation) {
    case DO_SUM:
        return (struct value){{a + b, c + d}};
    case DO_PROD:
        return (struct value){{a * b - c * d, a * d + c * b}};
    case DO_MIN:
        return a < b ? left : right;
    case DO_MAX:
        return a > b ? left : right;
    case DO_LAND:
        return (struct value){{a != 0 && b != 0, 0}};
    case DO_LOR:
        return (struct value){{a != 0 || b != 0, 0}};
    case DO_LXOR:
        return (struct value){{(a != 0) != (b != 0), 0}};
    case DO_MINLOC:
        return a < b || (a == b && c < d) ? left : right;
    case DO_MAXLOC:
        return a > b || (a == b && c < d) ? left : right;
    default:
        return (struct value){{apply_bits(operation->calculation, element, a, b), 0}};
    }
}
