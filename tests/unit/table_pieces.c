/* How tables are cut and placed: by formula, for all placements, rows of one length and rows that differ. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "splitmix64.h"
#include "table/rows/pieces.h"

enum { ROWS = 61, COLUMNS_MAX = 100, PIECES_MAX = ROWS * COLUMNS_MAX, VARIABLES = 1000, SEED = 20180107 };

static kolo_table_options options_of(uint64_t rows, size_t columns, const size_t *row_columns) {
    kolo_table_options options = KOLO_TABLE_OPTIONS_INIT;
    options.rows = rows;
    options.columns = columns;
    options.row_columns = row_columns;
    return options;
}

static struct kolo_pieces create(const kolo_table_options *options, uint32_t shards) {
    struct kolo_pieces pieces;
    assert_int_equal(kolo_pieces_create(&pieces, options, shards), 0);
    return pieces;
}

static size_t columns_of(const kolo_table_options *options, uint64_t row) {
    return options->row_columns ? options->row_columns[row] : options->columns;
}

/* Goes through rows and their elements as pieces.h says it, and finds the same. */
static void check_cut(const struct kolo_pieces *pieces, const kolo_table_options *options, size_t split) {
    uint64_t piece = 0, elements = 0;
    size_t longest = 0;
    for (uint64_t row = 0; row < options->rows; row++) {
        const size_t columns = columns_of(options, row);
        assert_int_equal(kolo_pieces_of_row(pieces, row), piece);
        assert_int_equal(kolo_pieces_row_element(pieces, row), elements);
        assert_int_equal(kolo_pieces_row_columns(pieces, row), columns);
        for (size_t first = 0; first < columns; first += split, piece++) {
            const struct kolo_piece at = kolo_piece_at(pieces, piece);
            const size_t count = columns - first < split ? columns - first : split;
            assert_true(at.row == row && at.first == first && at.count == count);
            assert_int_equal(kolo_pieces_of_row(pieces, row) + first / pieces->piece_columns, piece);
            if (count > longest)
                longest = count;
        }
        elements += columns;
    }
    assert_int_equal(pieces->pieces, piece);
    assert_int_equal(pieces->elements, elements);
    assert_int_equal(pieces->piece_columns, longest);
    assert_int_equal(pieces->rows, options->rows);
    assert_int_equal(kolo_pieces_row_element(pieces, options->rows), elements);
    assert_int_equal(kolo_pieces_of_row(pieces, options->rows), piece);
}

/* The shard of a piece that begins at byte `begin`, of `total`, where those before it have filled the shards so far. */
static void check_shard(const struct kolo_pieces *pieces, kolo_placement placement, uint64_t piece, uint64_t begin,
                        uint64_t total, const uint64_t *filled) {
    const uint32_t shard = kolo_piece_shard(pieces, piece);
    assert_true(shard < pieces->shards);
    if (placement == KOLO_PLACEMENT_ROUND_ROBIN)
        assert_int_equal(shard, piece % pieces->shards);
    else if (placement == KOLO_PLACEMENT_RANGE)
        assert_int_equal(shard, begin * pieces->shards / total);
    for (uint32_t i = 0; placement == KOLO_PLACEMENT_GREEDY && i < pieces->shards; i++)
        assert_true(i < shard ? filled[i] > filled[shard] : filled[i] >= filled[shard]);
    if (placement == KOLO_PLACEMENT_HASH)
        assert_true(filled[shard] <= begin / pieces->shards * 21 / 20 + 1);
}

/* Bytes of the elements in each shard: bytes[0 .. shards-1]. */
static void count_bytes(const struct kolo_pieces *pieces, uint64_t *bytes) {
    memset(bytes, 0, pieces->shards * sizeof *bytes);
    for (struct kolo_walk walk = kolo_walk_rows(pieces, 0, pieces->rows); kolo_walk_next(&walk);)
        bytes[kolo_piece_shard(pieces, walk.piece)] += walk.count * pieces->element_bytes;
}

static void check_placement(const struct kolo_pieces *pieces, kolo_placement placement) {
    uint64_t filled[64] = {0}, bytes[64], begin = 0;
    const uint64_t total = pieces->elements * pieces->element_bytes;
    assert_true(pieces->shards <= 64);
    for (uint64_t piece = 0; piece < pieces->pieces; piece++) {
        const uint64_t count = kolo_piece_at(pieces, piece).count * pieces->element_bytes;
        check_shard(pieces, placement, piece, begin, total, filled);
        filled[kolo_piece_shard(pieces, piece)] += count;
        begin += count;
    }
    assert_int_equal(begin, total);
    count_bytes(pieces, bytes);
    assert_memory_equal(bytes, filled, pieces->shards * sizeof *bytes);
}

static void check(const kolo_table_options *options, size_t split) {
    static const uint32_t shards[] = {1, 2, 3, 7, 64};
    kolo_table_options own = *options;
    for (int placement = 0; placement < KOLO_PLACEMENTS; placement++)
        for (size_t i = 0; i < sizeof shards / sizeof *shards; i++) {
            own.placement = (kolo_placement)placement;
            struct kolo_pieces pieces = create(&own, shards[i]);
            check_cut(&pieces, &own, split);
            check_placement(&pieces, own.placement);
            kolo_pieces_destroy(&pieces);
        }
}

static void test_rows_of_one_length(void **unused) {
    static const size_t columns[] = {1, 2, 15, 16, 17, 32, COLUMNS_MAX};
    (void)unused;
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        kolo_table_options options = options_of(ROWS, columns[i], NULL);
        check(&options, columns[i]);
        options.split_bytes = 64 + 3; /* not all of an element */
        check(&options, 16);
        options.split_bytes = 1; /* an element is whole */
        check(&options, 1);
        options.dtype = KOLO_U8;
        options.split_bytes = 16;
        check(&options, 16);
    }
}

static void test_rows_that_differ(void **unused) {
    size_t columns[ROWS];
    uint64_t state = SEED;
    (void)unused;
    for (int round = 0; round < 8; round++) {
        for (int row = 0; row < ROWS; row++) /* some are empty */
            columns[row] = random_below(&state, COLUMNS_MAX);
        columns[round] = COLUMNS_MAX;
        kolo_table_options options = options_of(ROWS, 0, columns);
        check(&options, COLUMNS_MAX);
        options.split_bytes = 64;
        check(&options, 16);
        options.dtype = KOLO_F64;
        check(&options, 8);
    }
}

/* More rows, pieces and bytes than 32 bits can count. */
static void test_large(void **unused) {
    kolo_table_options options = options_of(UINT64_C(1) << 34, 3 * 16384, NULL);
    (void)unused;
    struct kolo_pieces pieces = create(&options, 5);
    assert_int_equal(pieces.pieces, UINT64_C(3) << 34);
    const uint64_t piece = (UINT64_C(2) << 34) + 2;
    const struct kolo_piece at = kolo_piece_at(&pieces, piece);
    assert_true(at.row == piece / 3 && at.first == piece % 3 * 16384 && at.count == 16384);
    assert_int_equal(kolo_piece_shard(&pieces, 0), 0);
    assert_int_equal(kolo_piece_shard(&pieces, pieces.pieces / 5), 0);
    assert_int_equal(kolo_piece_shard(&pieces, pieces.pieces / 5 + 1), 1);
    assert_int_equal(kolo_piece_shard(&pieces, piece), 3);
    assert_int_equal(kolo_piece_shard(&pieces, pieces.pieces - 1), 4);
    kolo_pieces_destroy(&pieces);
}

/* Sizes of variables as models have them: many small ones and a few that hold most. Zipf: the largest over its rank. */
static void fill_zipf(size_t *columns, uint64_t *state) {
    for (size_t i = 0; i < VARIABLES; i++)
        columns[i] = 64000000 / (i + 1);
    for (size_t i = VARIABLES - 1; i > 0; i--) {
        const size_t other = random_below(state, i + 1), held = columns[i];
        columns[i] = columns[other];
        columns[other] = held;
    }
}

/* Powers of two whose exponents are sums of many: about log-normal, around 2^14 elements. */
static void fill_log_normal(size_t *columns, uint64_t *state) {
    for (size_t i = 0; i < VARIABLES; i++) {
        uint64_t exponent = 0, fraction;
        for (int k = 0; k < 28; k++)
            exponent += random_next(state) & 1;
        fraction = random_below(state, 1024);
        columns[i] = (UINT64_C(1) << exponent) + (fraction << exponent >> 10);
    }
}

static void check_balance(const size_t *columns, const char *name) {
    static const uint32_t shards[] = {2, 3, 4, 8, 16};
    static const kolo_placement placements[] = {KOLO_PLACEMENT_RANGE, KOLO_PLACEMENT_HASH, KOLO_PLACEMENT_GREEDY};
    kolo_table_options options = options_of(VARIABLES, 0, columns);
    for (size_t i = 0; i < sizeof shards / sizeof *shards; i++)
        for (size_t k = 0; k < sizeof placements / sizeof *placements; k++) {
            uint64_t bytes[16], least = UINT64_MAX, most = 0;
            options.placement = placements[k];
            struct kolo_pieces pieces = create(&options, shards[i]);
            const double even = (double)(pieces.elements * pieces.element_bytes) / shards[i];
            count_bytes(&pieces, bytes);
            for (uint32_t shard = 0; shard < shards[i]; shard++) {
                least = bytes[shard] < least ? bytes[shard] : least;
                most = bytes[shard] > most ? bytes[shard] : most;
            }
            print_message("%s, %s, %u shards: %.4f to %.4f of even\n", name,
                          kolo_name(KOLO_NAME_PLACEMENT, placements[k]), shards[i], (double)least / even,
                          (double)most / even);
            assert_true((double)least >= 0.9 * even && (double)most <= 1.1 * even);
            kolo_pieces_destroy(&pieces);
        }
}

static void test_balance(void **unused) {
    size_t columns[VARIABLES];
    uint64_t state = SEED;
    (void)unused;
    fill_zipf(columns, &state);
    check_balance(columns, "Zipf");
    fill_log_normal(columns, &state);
    check_balance(columns, "log-normal");
}

/* More than memory can hold is refused before anything is multiplied that does not fit. */
static void test_too_large(void **unused) {
    static const uint64_t large[] = {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 4, SIZE_MAX / 8, SIZE_MAX / 1024};
    const size_t columns[] = {SIZE_MAX / 2, SIZE_MAX / 2, 3};
    struct kolo_pieces pieces;
    (void)unused;
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        kolo_table_options options = options_of(large[i], 1, NULL);
        assert_int_equal(kolo_pieces_create(&pieces, &options, 2), KOLO_ERR_ARG);
        options = options_of(1, large[i], NULL);
        assert_int_equal(kolo_pieces_create(&pieces, &options, 2), KOLO_ERR_ARG);
        options = options_of(UINT64_C(1) << 32, large[i] >> 31, NULL);
        assert_int_equal(kolo_pieces_create(&pieces, &options, 2), KOLO_ERR_ARG);
        options = options_of(large[i], large[i], NULL);
        assert_int_equal(kolo_pieces_create(&pieces, &options, 2), KOLO_ERR_ARG);
        options = options_of(large[i], 0, columns);
        if (large[i] > SIZE_MAX / 4096)
            assert_int_equal(kolo_pieces_create(&pieces, &options, 2), KOLO_ERR_ARG);
    }
    const kolo_table_options differ = options_of(3, 0, columns);
    assert_int_equal(kolo_pieces_create(&pieces, &differ, 2), KOLO_ERR_ARG);
    kolo_pieces_destroy(&pieces);
    const size_t most = SIZE_MAX / 1024 / sizeof(float), halves[] = {most / 2, most - most / 2, 1};
    kolo_table_options sum = options_of(3, 0, halves);
    assert_int_equal(kolo_pieces_create(&pieces, &sum, 2), KOLO_ERR_ARG);
    kolo_pieces_destroy(&pieces);
    sum.rows = 2; /* as large as can be */
    pieces = create(&sum, 2);
    assert_int_equal(pieces.elements, most);
    kolo_pieces_destroy(&pieces);
}

static void test_names(void **unused) {
    static const char *const names[KOLO_PLACEMENTS] = {"range", "round_robin", "hash", "greedy"};
    (void)unused;
    for (int i = 0; i < KOLO_PLACEMENTS; i++)
        assert_string_equal(kolo_name(KOLO_NAME_PLACEMENT, i), names[i]);
    assert_null(kolo_name(KOLO_NAME_PLACEMENT, KOLO_PLACEMENTS));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_of_one_length),
        cmocka_unit_test(test_rows_that_differ),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_balance),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
