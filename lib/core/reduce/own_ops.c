/* Own operations: their places, and how their functions fold. See own_ops.h. */
#include "reduce/own_ops.h"

#include <assert.h>
#include <string.h>

#include "base/status.h"
#include "sync/atomic.h"
#include "sync/thread.h"

/* The bytes that are folded at a time: such blocks are on the stack, one for each level of the tree over the inputs. */
enum { BLOCK_BYTES = 4096 };

/* How often a place can be taken: each time it has another number, and no number names two operations. */
enum { USES_MAX = KOLO_OPS_OWN / KOLO_OPS_OWN_MAX };

static_assert(KOLO_OP_ELEMENT_BYTES_MAX <= BLOCK_BYTES, "a block has at least one element");

struct own_op {
    kolo_atomic_u64 number; /* 0: the place is free. Stored after all other fields, and read before them */
    uint32_t uses;          /* how often it was taken; under the lock */
    kolo_op_function function;
    void *context;
    kolo_kernel kernel;
};

static struct own_op own_ops[KOLO_OPS_OWN_MAX];

/* Folding. */

/* Folds the tree over `n` sources, `bytes` of each from byte `at` on. Returns the result: `room` or the one source. */
static const void *fold_block(const struct own_op *own, const void *const *sources, uint32_t n, size_t at, size_t bytes,
                              uint8_t *room) {
    _Alignas(64) uint8_t left_room[BLOCK_BYTES];
    if (n == 1)
        return (const uint8_t *)sources[0] + at;
    const uint32_t left_n = kolo_tree_left(n);
    const void *right = fold_block(own, sources + left_n, n - left_n, at, bytes, room);
    if (right != room)
        memcpy(room, right, bytes);
    own->function(left_n == 1 ? (const uint8_t *)sources[0] + at
                              : fold_block(own, sources, left_n, at, bytes, left_room),
                  room, bytes / own->kernel.element_bytes, own->context);
    return room;
}

/* Folds like a kolo_fold_fn, for one operation. The program's function reads what it writes, so it never gets `dst`. */
static void fold(const struct own_op *own, void *dst, const void *const *sources, uint32_t n, size_t count) {
    _Alignas(64) uint8_t room[BLOCK_BYTES];
    const size_t element_bytes = own->kernel.element_bytes, end = count * element_bytes;
    const size_t block_bytes = BLOCK_BYTES / element_bytes * element_bytes;
    for (size_t at = 0; at < end; at += block_bytes) {
        const size_t bytes = end - at < block_bytes ? end - at : block_bytes;
        const void *result = fold_block(own, sources, n, at, bytes, room);
        if (result != (uint8_t *)dst + at)
            memcpy((uint8_t *)dst + at, result, bytes);
    }
}

static void fold_to_both(const struct own_op *own, void *dst, void *second, const void *const *sources, size_t count) {
    fold(own, dst, sources, 2, count);
    memcpy(second, dst, count * own->kernel.element_bytes);
}

static void chain(const struct own_op *own, void *dst, const void *left, const void *right, size_t count) {
    const void *const sources[2] = {left, right};
    fold(own, dst, sources, 2, count);
}

/* The kernels of a place. */

#define PLACE(i)                                                                                                       \
    static void fold_##i(void *dst, const void *const *sources, uint32_t n, size_t count, uint32_t ranks) {            \
        (void)ranks;                                                                                                   \
        fold(&own_ops[i], dst, sources, n, count);                                                                     \
    }                                                                                                                  \
    static void fold_to_both_##i(void *dst, void *second, const void *const *sources, size_t count, uint32_t ranks) {  \
        (void)ranks;                                                                                                   \
        fold_to_both(&own_ops[i], dst, second, sources, count);                                                        \
    }                                                                                                                  \
    static void chain_##i(void *acc_out, const void *acc_in, const void *source, size_t count) {                       \
        chain(&own_ops[i], acc_out, acc_in, source, count);                                                            \
    }                                                                                                                  \
    static void chain_end_##i(void *dst, const void *acc_in, const void *source, size_t count, uint32_t ranks) {       \
        (void)ranks;                                                                                                   \
        chain(&own_ops[i], dst, acc_in, source, count);                                                                \
    }                                                                                                                  \
    static void fold_partial_##i(void *acc_dst, const void *const *sources, uint32_t n, size_t count) {                \
        fold(&own_ops[i], acc_dst, sources, n, count);                                                                 \
    }
#define KERNELS(i)                                                                                                     \
    [i] = {.fold = fold_##i,                                                                                           \
           .fold_to_both = fold_to_both_##i,                                                                           \
           .chain = chain_##i,                                                                                         \
           .chain_end = chain_end_##i,                                                                                 \
           .fold_partial = fold_partial_##i,                                                                           \
           .fold_partials = fold_partial_##i,                                                                          \
           .finish = fold_##i},
/* Numbers places in octal, so that two digits go through all. */
#define EIGHT(of, i) of(i##0) of(i##1) of(i##2) of(i##3) of(i##4) of(i##5) of(i##6) of(i##7)
#define ALL(of)                                                                                                        \
    EIGHT(of, 0) EIGHT(of, 01) EIGHT(of, 02) EIGHT(of, 03) EIGHT(of, 04) EIGHT(of, 05) EIGHT(of, 06) EIGHT(of, 07)

ALL(PLACE)

static const kolo_kernel kernels[] = {ALL(KERNELS)};

static_assert(sizeof kernels / sizeof *kernels == KOLO_OPS_OWN_MAX, "each place has its kernels");

/* The table. */

static struct own_op *place_of(kolo_op op) {
    return &own_ops[(uint32_t)op % KOLO_OPS_OWN_MAX];
}

/* Returns the free place that was taken least often; KOLO_OPS_OWN_MAX: all are taken. */
static uint32_t find_place(void) {
    uint32_t best = KOLO_OPS_OWN_MAX;
    for (uint32_t place = 0; place < KOLO_OPS_OWN_MAX; place++)
        if (!kolo_load_acquire(&own_ops[place].number) && /* pairs with kolo_own_op_remove */
            (best == KOLO_OPS_OWN_MAX || own_ops[place].uses < own_ops[best].uses))
            best = place;
    return best;
}

/* Takes a place that is free, and for which there is a number left. */
static kolo_op take(uint32_t place, kolo_op_function function, void *context, size_t element_bytes,
                    bool is_commutative) {
    struct own_op *own = &own_ops[place];
    const uint32_t number = KOLO_OPS_OWN + own->uses++ * KOLO_OPS_OWN_MAX + place;
    own->function = function;
    own->context = context;
    own->kernel = kernels[place];
    own->kernel.element_bytes = own->kernel.acc_bytes = (uint32_t)element_bytes;
    own->kernel.is_own = true;
    own->kernel.keeps_order = !is_commutative;
    kolo_store_release(&own->number, number); /* pairs with kolo_own_op_kernel */
    return (kolo_op)number;
}

int kolo_own_op_add(kolo_op *op, kolo_op_function function, void *context, size_t element_bytes, bool is_commutative) {
    kolo_common_lock();
    const uint32_t place = find_place();
    const bool is_full = place == KOLO_OPS_OWN_MAX, has_number = !is_full && own_ops[place].uses < USES_MAX;
    if (has_number)
        *op = take(place, function, context, element_bytes, is_commutative);
    kolo_common_unlock();
    if (is_full)
        return kolo_fail(KOLO_ERR_UNSUPPORTED,
                         "kolo_op_create: this process has %d operations of its own, which is the most:"
                         " destroy one with kolo_op_destroy",
                         KOLO_OPS_OWN_MAX);
    return has_number ? 0
                      : kolo_fail(KOLO_ERR_UNSUPPORTED,
                                  "kolo_op_create: this process has made %d operations and more, and no number is left"
                                  " for another one: keep operations, or make them in another process",
                                  USES_MAX);
}

bool kolo_own_op_remove(kolo_op op) {
    return (uint32_t)op >= KOLO_OPS_OWN && kolo_compare_and_swap(&place_of(op)->number, (uint32_t)op, 0);
}

const kolo_kernel *kolo_own_op_kernel(kolo_op op) {
    const struct own_op *own = place_of(op);
    return (uint32_t)op >= KOLO_OPS_OWN && kolo_load_acquire(&own->number) == (uint32_t)op ? &own->kernel : NULL;
}
