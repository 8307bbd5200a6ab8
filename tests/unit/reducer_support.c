#include "reducer_support.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu/features.h"

enum { MARGIN_BYTES = 128, CANARY = 0xa5 };

static const struct {
    const char *name;
    size_t bytes;
    bool is_float;
    bool is_signed;
} dtypes[KOLO_DTYPES] = {
    [KOLO_I8] = {"i8", 1, false, true},   [KOLO_U8] = {"u8", 1, false, false},
    [KOLO_I16] = {"i16", 2, false, true}, [KOLO_U16] = {"u16", 2, false, false},
    [KOLO_I32] = {"i32", 4, false, true}, [KOLO_U32] = {"u32", 4, false, false},
    [KOLO_I64] = {"i64", 8, false, true}, [KOLO_U64] = {"u64", 8, false, false},
    [KOLO_F16] = {"f16", 2, true, false}, [KOLO_BF16] = {"bf16", 2, true, false},
    [KOLO_F32] = {"f32", 4, true, false}, [KOLO_F64] = {"f64", 8, true, false},
};

static const char *const ops[KOLO_OPS] = {"sum", "prod", "min", "max", "avg", "band", "bor", "bxor", "sum_exact"};

static const char usage[] = "usage: %s [--seed N] [--thin N]\n"
                            "\n"
                            "  --seed N  start of the random inputs (default 1)\n"
                            "  --thin N  run one case in N (default 1: all)\n"
                            "\n"
                            "example: %s --seed 7 --thin 10\n";

static uint64_t number(const char *program, const char *name, const char *text, uint64_t least) {
    char *end = NULL;
    errno = 0;
    unsigned long long value = text && *text >= '0' && *text <= '9' ? strtoull(text, &end, 0) : 0;
    if (!end || *end || errno || value < least) {
        fprintf(stderr, "%s: %s %s: a number of at least %" PRIu64 " is needed\n", program, name, text ? text : "",
                least);
        exit(2);
    }
    return value;
}

test_arguments test_arguments_read(int argc, char **argv) {
    test_arguments arguments = {.seed = 1, .thin = 1};
    for (int i = 1; i < argc; i += 2) {
        if (strcmp(argv[i], "--help") == 0) {
            printf(usage, argv[0], argv[0]);
            exit(0);
        } else if (strcmp(argv[i], "--seed") == 0) {
            arguments.seed = number(argv[0], argv[i], argv[i + 1], 0);
        } else if (strcmp(argv[i], "--thin") == 0) {
            arguments.thin = number(argv[0], argv[i], argv[i + 1], 1);
        } else {
            fprintf(stderr, "%s: unknown argument %s\n", argv[0], argv[i]);
            fprintf(stderr, usage, argv[0], argv[0]);
            exit(2);
        }
    }
    printf("%s --seed %" PRIu64 " --thin %" PRIu64 "\n", argv[0], arguments.seed, arguments.thin);
    fflush(stdout);
    return arguments;
}

const char *dtype_name(kolo_dtype dtype) {
    return dtypes[dtype].name;
}

const char *op_name(kolo_op op) {
    return ops[op];
}

size_t dtype_bytes(kolo_dtype dtype) {
    return dtypes[dtype].bytes;
}

bool dtype_is_float(kolo_dtype dtype) {
    return dtypes[dtype].is_float;
}

bool dtype_is_signed(kolo_dtype dtype) {
    return dtypes[dtype].is_signed;
}

bool op_is_bitwise(kolo_op op) {
    return op == KOLO_BAND || op == KOLO_BOR || op == KOLO_BXOR;
}

bool op_fits(kolo_op op, kolo_dtype dtype) {
    return dtype_is_float(dtype) ? !op_is_bitwise(op) : op != KOLO_SUM_EXACT;
}

float_format format_of(kolo_dtype dtype) {
    switch (dtype) {
    case KOLO_F16:
        return (float_format){16, 10, 15, 0x7e00};
    case KOLO_BF16:
        return (float_format){16, 7, 127, 0x7fc0};
    case KOLO_F32:
        return (float_format){32, 23, 127, 0x7fc00000};
    default: /* F64 */
        return (float_format){64, 52, 1023, UINT64_C(0x7ff8000000000000)};
    }
}

uint64_t bits_at(kolo_dtype dtype, const void *elements, size_t index) {
    uint64_t bits = 0;
    size_t bytes = dtype_bytes(dtype); /* the low bytes come first on all that kolo builds for */
    memcpy(&bits, (const char *)elements + index * bytes, bytes);
    return bits;
}

void bits_store(kolo_dtype dtype, void *elements, size_t index, uint64_t bits) {
    size_t bytes = dtype_bytes(dtype);
    memcpy((char *)elements + index * bytes, &bits, bytes);
}

const kolo_reducer *instance_next(uint32_t *index, kolo_dtype dtype, kolo_op op) {
    static uint32_t features;
    static bool asked; /* once: virtual machines take long over the answer */
    if (!asked)
        features = kolo_cpu_features();
    asked = true;
    for (const kolo_reducer *next; (next = kolo_reducer_at(features, *index));) {
        const kolo_reducer *before = *index > 0 ? kolo_reducer_at(features, *index - 1) : NULL;
        ++*index;
        if (!before || memcmp(&next->kernels[dtype][op], &before->kernels[dtype][op], sizeof(kolo_kernel)) != 0)
            return next;
    }
    return NULL;
}

static uint64_t float_bits(kolo_dtype dtype, fill_style style, uint64_t *state) {
    float_format format = format_of(dtype);
    uint64_t fraction_mask = (UINT64_C(1) << format.fraction_bits) - 1;
    uint64_t exponent_max = 2 * (uint64_t)format.bias + 1;
    uint64_t sign = random_below(state, 2);
    uint64_t any = random_next(state);
    uint64_t exponent = (uint64_t)format.bias - 3 + random_below(state, 6);
    uint64_t fraction = any & fraction_mask;
    if (style == FILL_SPECIAL) {
        const uint64_t exponents[] = {0, 0, 1, exponent, exponent_max - 1, exponent_max, exponent_max};
        const uint64_t fractions[] = {0, 0, 1, (fraction_mask + 1) / 2, fraction_mask, fraction};
        exponent = exponents[random_below(state, sizeof exponents / sizeof *exponents)];
        fraction = fractions[random_below(state, sizeof fractions / sizeof *fractions)];
    }
    return sign << (format.bits - 1) | exponent << format.fraction_bits | fraction;
}

static uint64_t integer_bits(kolo_dtype dtype, fill_style style, uint64_t *state) {
    unsigned top = 8 * (unsigned)dtype_bytes(dtype) - 1;
    const uint64_t limits[] = {0, 1, 2, UINT64_MAX, UINT64_MAX - 1, UINT64_C(1) << top, (UINT64_C(1) << top) - 1};
    if (style == FILL_SPECIAL)
        return limits[random_below(state, sizeof limits / sizeof *limits)];
    return random_below(state, 7) - 3;
}

void fill(kolo_dtype dtype, fill_style style, void *elements, size_t count, uint64_t *state) {
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = style == FILL_BITS      ? random_next(state)
                        : dtype_is_float(dtype) ? float_bits(dtype, style, state)
                                                : integer_bits(dtype, style, state);
        bits_store(dtype, elements, i, bits);
    }
}

static void fail_errno(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

guarded guarded_create(size_t bytes_min) {
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes = (bytes_min + page_bytes - 1) / page_bytes * page_bytes;
    unsigned char *map = mmap(NULL, bytes + 2 * page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        fail_errno("mmap of a guarded buffer");
    if (mprotect(map + page_bytes, bytes, PROT_READ | PROT_WRITE) != 0)
        fail_errno("mprotect of a guarded buffer");
    return (guarded){map + page_bytes, bytes};
}

void guarded_destroy(guarded area) {
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    munmap(area.begin - page_bytes, area.bytes + 2 * page_bytes);
}

static size_t margin_before(guarded area, const unsigned char *place) {
    size_t bytes = (size_t)(place - area.begin);
    return bytes < MARGIN_BYTES ? bytes : MARGIN_BYTES;
}

static size_t margin_after(guarded area, const unsigned char *place, size_t bytes) {
    size_t left = (size_t)(area.begin + area.bytes - place) - bytes;
    return left < MARGIN_BYTES ? left : MARGIN_BYTES;
}

unsigned char *guarded_place(guarded area, size_t bytes, uint64_t *state) {
    size_t room = area.bytes - bytes;
    size_t shift = random_below(state, 2) ? 0 : random_below(state, 64);
    shift = shift < room ? shift : room;
    unsigned char *place = area.begin + (random_below(state, 2) ? shift : room - shift);
    size_t before = margin_before(area, place);
    memset(place - before, CANARY, before + bytes + margin_after(area, place, bytes));
    return place;
}

bool guarded_intact(guarded area, const unsigned char *place, size_t bytes) {
    unsigned char canaries[MARGIN_BYTES];
    memset(canaries, CANARY, sizeof canaries);
    size_t before = margin_before(area, place);
    return memcmp(place - before, canaries, before) == 0 &&
           memcmp(place + bytes, canaries, margin_after(area, place, bytes)) == 0;
}
