/* Cuts a table into pieces and places them in shards: see pieces.h. */
#include "table/rows/pieces.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* The memory for a table is several times as large: versions, state, padding, the workers' updates. */
static const uint64_t bytes_max = SIZE_MAX / 1024;

static int out_of_memory(const struct kolo_pieces *pieces) {
    return kolo_fail(KOLO_ERR_SYSTEM, "kolo_table_create: out of memory for the placement of %" PRIu64 " rows",
                     pieces->rows);
}

static uint64_t pieces_of(size_t columns, size_t split) {
    return columns / split + (columns % split != 0);
}

static size_t lesser(size_t a, size_t b) {
    return a < b ? a : b;
}

static bool rows_differ(const kolo_table_options *options) {
    for (uint64_t row = 1; options->row_columns && row < options->rows; row++)
        if (options->row_columns[row] != options->row_columns[0])
            return true;
    return false;
}

/* Cuts rows of one length. */
static int cut_evenly(struct kolo_pieces *pieces, const kolo_table_options *options, size_t split) {
    const uint64_t elements_max = bytes_max / pieces->element_bytes;
    const size_t columns = options->row_columns ? options->row_columns[0] : options->columns;
    if (options->rows > elements_max || columns > elements_max / options->rows)
        return kolo_fail(KOLO_ERR_ARG, "kolo_table_create: %" PRIu64 " rows of %zu elements: more than memory can hold",
                         options->rows, columns);
    pieces->columns = columns;
    pieces->elements = options->rows * columns;
    pieces->per_row = pieces_of(columns, split);
    pieces->pieces = options->rows * pieces->per_row;
    pieces->piece_columns = lesser(columns, split);
    return 0;
}

/* Cuts rows whose lengths differ. */
static int cut_by_row(struct kolo_pieces *pieces, const kolo_table_options *options, size_t split) {
    const uint64_t elements_max = bytes_max / pieces->element_bytes;
    if (options->rows > elements_max)
        return kolo_fail(KOLO_ERR_ARG, "kolo_table_create: %" PRIu64 " rows: more than memory can hold", options->rows);
    pieces->first_piece = calloc(options->rows + 1, sizeof *pieces->first_piece);
    pieces->first_element = calloc(options->rows + 1, sizeof *pieces->first_element);
    if (!pieces->first_piece || !pieces->first_element)
        return out_of_memory(pieces);
    for (uint64_t row = 0; row < options->rows; row++) {
        const size_t columns = options->row_columns[row];
        if (columns > elements_max - pieces->elements)
            return kolo_fail(KOLO_ERR_ARG,
                             "kolo_table_create: rows 0 to %" PRIu64 " of row_columns: more than memory can hold", row);
        pieces->elements += columns;
        pieces->pieces += pieces_of(columns, split);
        pieces->first_element[row + 1] = pieces->elements;
        pieces->first_piece[row + 1] = pieces->pieces;
        if (columns > pieces->columns)
            pieces->columns = columns;
    }
    pieces->piece_columns = lesser(pieces->columns, split);
    return 0;
}

/* Where piece `piece` begins, in bytes from the first row's begin. */
static uint64_t begin_of(const struct kolo_pieces *pieces, uint64_t piece) {
    const struct kolo_piece at = kolo_piece_at(pieces, piece);
    return kolo_piece_element(pieces, &at) * pieces->element_bytes;
}

static void place_ranges(struct kolo_pieces *pieces) {
    const uint64_t bytes = pieces->elements * pieces->element_bytes;
    const uint64_t even = bytes / pieces->shards, rest = bytes % pieces->shards;
    for (uint64_t shard = 0, low = 0; shard < pieces->shards; shard++) {
        const uint64_t end = (shard + 1) * even + ((shard + 1) * rest + pieces->shards - 1) / pieces->shards;
        uint64_t high = pieces->pieces; /* low: the first piece that begins at `end` or behind it */
        while (low < high) {
            const uint64_t middle = low + (high - low) / 2;
            if (begin_of(pieces, middle) < end)
                low = middle + 1;
            else
                high = middle;
        }
        pieces->range_ends[shard] = low;
    }
}

/* Maps 64 bits to as many, each of which depends on all. */
static uint64_t hash(uint64_t value) {
    value = (value ^ value >> 33) * UINT64_C(0xff51afd7ed558ccd);
    value = (value ^ value >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return value ^ value >> 33;
}

static void place_hashes(struct kolo_pieces *pieces, uint64_t *bytes) {
    uint64_t placed = 0;
    for (struct kolo_walk walk = kolo_walk_rows(pieces, 0, pieces->rows); kolo_walk_next(&walk);) {
        const uint64_t even = placed / pieces->shards, most = even + even / 20;
        uint32_t shard = (uint32_t)(hash(walk.piece) % pieces->shards);
        while (bytes[shard] > most) /* not all have more than the even part */
            shard = shard + 1 < pieces->shards ? shard + 1 : 0;
        const uint64_t more = walk.count * pieces->element_bytes;
        pieces->shard_of[walk.piece] = (uint16_t)shard;
        bytes[shard] += more;
        placed += more;
    }
}

static bool is_before(const uint64_t *bytes, uint32_t a, uint32_t b) {
    return bytes[a] < bytes[b] || (bytes[a] == bytes[b] && a < b);
}

/* Moves heap[0], whose shard has more bytes now, to its place in the heap. */
static void sift(uint32_t *heap, uint32_t count, const uint64_t *bytes) {
    const uint32_t shard = heap[0];
    uint32_t at = 0, child;
    while ((child = 2 * at + 1) < count) {
        if (child + 1 < count && is_before(bytes, heap[child + 1], heap[child]))
            child++;
        if (is_before(bytes, shard, heap[child]))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = shard;
}

static void place_greedily(struct kolo_pieces *pieces, uint64_t *bytes, uint32_t *heap) {
    for (uint32_t shard = 0; shard < pieces->shards; shard++)
        heap[shard] = shard;
    for (struct kolo_walk walk = kolo_walk_rows(pieces, 0, pieces->rows); kolo_walk_next(&walk);) {
        pieces->shard_of[walk.piece] = (uint16_t)heap[0];
        bytes[heap[0]] += walk.count * pieces->element_bytes;
        sift(heap, pieces->shards, bytes);
    }
}

/* Places pieces one after another, for the placements in which a piece's shard depends on the sizes of those before. */
static int place_in_order(struct kolo_pieces *pieces) {
    uint64_t *bytes = calloc(pieces->shards, sizeof *bytes);
    uint32_t *heap = calloc(pieces->shards, sizeof *heap);
    pieces->shard_of = calloc(pieces->pieces, sizeof *pieces->shard_of);
    const bool has_all = bytes && heap && pieces->shard_of;
    if (has_all && pieces->placement == KOLO_PLACEMENT_HASH)
        place_hashes(pieces, bytes);
    else if (has_all)
        place_greedily(pieces, bytes, heap);
    free(heap);
    free(bytes);
    return has_all ? 0 : out_of_memory(pieces);
}

static int place(struct kolo_pieces *pieces) {
    const bool has_equal = pieces->per_row && pieces->columns % pieces->piece_columns == 0;
    if (pieces->placement == KOLO_PLACEMENT_GREEDY && has_equal)
        pieces->placement = KOLO_PLACEMENT_ROUND_ROBIN; /* GREEDY does the same, with memory */
    if (pieces->shards == 1 || pieces->placement == KOLO_PLACEMENT_ROUND_ROBIN)
        return 0;
    if (pieces->placement != KOLO_PLACEMENT_RANGE)
        return place_in_order(pieces);
    pieces->range_ends = calloc(pieces->shards, sizeof *pieces->range_ends);
    if (!pieces->range_ends)
        return out_of_memory(pieces);
    place_ranges(pieces);
    return 0;
}

int kolo_pieces_create(struct kolo_pieces *pieces, const kolo_table_options *options, uint32_t shards) {
    assert(options->rows >= 1 && (options->row_columns || options->columns >= 1));
    assert(shards >= 1 && shards <= KOLO_SHARDS_MAX);
    *pieces = (struct kolo_pieces){.rows = options->rows,
                                   .element_bytes = kolo_dtype_bytes(options->dtype),
                                   .placement = options->placement,
                                   .shards = shards};
    const size_t fit = options->split_bytes / pieces->element_bytes, split = fit ? fit : 1;
    const int rc = (rows_differ(options) ? cut_by_row : cut_evenly)(pieces, options, split);
    return rc < 0 ? rc : place(pieces);
}

void kolo_pieces_destroy(struct kolo_pieces *pieces) {
    free(pieces->first_piece);
    free(pieces->first_element);
    free(pieces->range_ends);
    free(pieces->shard_of);
}

/* The number of those of ends[0 .. count-1], which never fall, that are `value` or less. */
static uint64_t ends_up_to(const uint64_t *ends, uint64_t count, uint64_t value) {
    uint64_t low = 0, high = count;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (ends[middle] <= value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint32_t kolo_piece_shard_slowly(const struct kolo_pieces *pieces, uint64_t piece) {
    if (pieces->placement == KOLO_PLACEMENT_RANGE)
        return (uint32_t)ends_up_to(pieces->range_ends, pieces->shards, piece);
    return pieces->shard_of ? pieces->shard_of[piece] : (uint32_t)(piece % pieces->shards);
}

struct kolo_piece kolo_piece_at_slowly(const struct kolo_pieces *pieces, uint64_t piece) {
    const uint64_t row =
        pieces->per_row ? piece / pieces->per_row : ends_up_to(pieces->first_piece + 1, pieces->rows, piece);
    const size_t first = (piece - kolo_pieces_of_row(pieces, row)) * pieces->piece_columns;
    const size_t left = kolo_pieces_row_columns(pieces, row) - first;
    return (struct kolo_piece){row, first, lesser(pieces->piece_columns, left)};
}
