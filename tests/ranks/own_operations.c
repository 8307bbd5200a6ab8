#include "own_operations.h"

#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "oracle.h"

enum { ELEMENT_MAX = KOLO_OP_ELEMENT_BYTES_MAX, ROTATED_MAX = 128 };

/* Each byte is a map x -> ax + b modulo 16, with a in its upper half; two are composed, which is not commutative. Where
 * there are several, the first says how far the others are rotated: the element on the right is, by that of the left.
 * So an element that is split, or begins elsewhere, gives something else. */
static void compose(unsigned char *restrict result, const unsigned char *restrict left,
                    const unsigned char *restrict right, size_t bytes) {
    for (size_t at = 0; at < bytes; at++) {
        const unsigned char a = left[at] >> 4, b = left[at] & 15, c = right[at] >> 4, d = right[at] & 15;
        result[at] = (unsigned char)((unsigned char)(a * c) << 4 | ((a * d + b) & 15));
    }
}

static void compose_elements(const void *in, void *inout, size_t count, void *context) {
    const struct own_operation *own = context;
    const unsigned char *left = in;
    unsigned char *result = inout, right[ELEMENT_MAX];
    const size_t bytes = own->bytes, rotated = bytes - 1 < ROTATED_MAX ? bytes - 1 : ROTATED_MAX;
    for (size_t i = 0; i < count; i++, left += bytes, result += bytes) {
        const size_t from = rotated ? left[0] % rotated : 0, before = rotated - from;
        memcpy(right, result, bytes);
        compose(result, left, right, 1);
        compose(result + 1, left + 1, right + 1 + from, before);
        compose(result + 1 + before, left + 1 + before, right + 1, from);
        compose(result + 1 + rotated, left + 1 + rotated, right + 1 + rotated, bytes - 1 - rotated);
        if (rotated)
            result[0] = (unsigned char)((left[0] + right[0]) % rotated);
    }
}

/* Each element is an integer of an even number of bytes, the lowest first. */
static void add_elements(const void *in, void *inout, size_t count, void *context) {
    const struct own_operation *own = context;
    const unsigned char *left = in;
    unsigned char *result = inout;
    for (size_t i = 0; i < count; i++, left += own->bytes, result += own->bytes) {
        uint64_t sum = 0;
        for (size_t at = 0; at < own->bytes; at += sizeof(uint16_t)) {
            uint16_t ours, theirs;
            memcpy(&ours, left + at, sizeof ours);
            memcpy(&theirs, result + at, sizeof theirs);
            sum = (sum >> 16) + ours + theirs;
            ours = (uint16_t)sum;
            memcpy(result + at, &ours, sizeof ours);
        }
    }
}

/* Each element is a list of ranks: how many there are, then those. */
static void join_lists(const void *in, void *inout, size_t count, void *context) {
    const struct own_operation *own = context;
    const unsigned char *left = in;
    unsigned char *result = inout;
    for (size_t i = 0; i < count; i++, left += own->bytes, result += own->bytes) {
        if (left[0] + result[0] >= (int)own->bytes)
            abort(); /* some rank has come twice */
        memmove(result + 1 + left[0], result + 1, result[0]);
        memcpy(result + 1, left + 1, left[0]);
        result[0] = (unsigned char)(result[0] + left[0]);
    }
}

/* Each element is a double and, at its end, whose it is: the smallest, of those alike the first. */
static void find_least(const void *in, void *inout, size_t count, void *context) {
    const struct own_operation *own = context;
    const unsigned char *left = in;
    unsigned char *result = inout;
    for (size_t i = 0; i < count; i++, left += own->bytes, result += own->bytes) {
        double ours, theirs;
        memcpy(&ours, left, sizeof ours);
        memcpy(&theirs, result, sizeof theirs);
        if (ours <= theirs)
            memcpy(result, left, own->bytes);
    }
}

struct own_operation own_operations[OWN_OPERATIONS] = {
    {"maps of 1 byte", 1, false, compose_elements, KOLO_I8, 0},
    {"maps of 3 bytes", 3, false, compose_elements, KOLO_OPAQUE, 0},
    {"maps of 8 bytes", 8, false, compose_elements, KOLO_F64, 0},
    {"maps of 24 bytes", 24, false, compose_elements, KOLO_OPAQUE, 0},
    {"maps of 200 bytes", 200, false, compose_elements, KOLO_OPAQUE, 0},
    {"maps of 2048 bytes", 2048, false, compose_elements, KOLO_OPAQUE, 0},
    {"lists of 40 bytes", 40, false, join_lists, KOLO_OPAQUE, 0},
    {"integers of 2 bytes", 2, true, add_elements, KOLO_BF16, 0},
    {"integers of 12 bytes", 12, true, add_elements, KOLO_OPAQUE, 0},
    {"integers of 600 bytes", 600, true, add_elements, KOLO_OPAQUE, 0},
    {"doubles with places", 16, false, find_least, KOLO_OPAQUE, 0},
};

void own_operations_create(void) {
    for (int i = 0; i < OWN_OPERATIONS; i++) {
        struct own_operation *own = &own_operations[i];
        const int status =
            kolo_op_create(&own->op, own->function, own, own->bytes, own->is_commutative ? KOLO_OP_COMMUTATIVE : 0);
        expect(NULL, status == 0, "kolo_op_create: %s", status ? kolo_error_message() : "");
    }
}

const struct own_operation *own_operation(kolo_op op) {
    for (int i = 0; i < OWN_OPERATIONS; i++)
        if (own_operations[i].op == op && (unsigned)op >= KOLO_OPS_OWN)
            return &own_operations[i];
    return NULL;
}

void own_operation_fill(const struct own_operation *own, unsigned char *elements, size_t count, int rank,
                        uint64_t seed) {
    random_fill(elements, count * own->bytes, seed);
    for (size_t i = 0; i < count; i++, elements += own->bytes) {
        if (own->function == join_lists) {
            memset(elements, 0, own->bytes);
            elements[0] = 1;
            elements[1] = (unsigned char)rank;
        } else if (own->function == find_least) {
            const double value = (double)(random_next(&seed) % 4);
            memcpy(elements, &value, sizeof value);
            memcpy(elements + own->bytes - sizeof rank, &rank, sizeof rank);
        }
    }
}

void own_operation_reduce(const struct own_operation *own, const void *const *inputs, int n, size_t count,
                          unsigned char *expected) {
    const size_t bytes = count * own->bytes;
    unsigned char *right = malloc(bytes + 1);
    memcpy(expected, inputs[0], bytes);
    for (int rank = 1; rank < n; rank++) {
        memcpy(right, inputs[rank], bytes);
        own->function(expected, right, count, (void *)own);
        memcpy(expected, right, bytes);
    }
    free(right);
}
