/* Pieces: how rows are cut into pieces, and pieces placed in shards. The placement is a pure function of the options,
 * so that every rank computes the same. Pieces are numbered from 0, in the order of rows and, within a row, of
 * elements. All pieces of a row but its last one have piece_columns elements.
 *
 * RANGE: shard s has the pieces whose first byte is in its part of all bytes, divided evenly. HASH: a piece's hash
 * names a shard. A shard in which more than its even part of the bytes and five percent has been placed before passes
 * the piece on to the next shard (hashing with bounded loads: Mirrokni, Thorup, Zadimoghaddam, 2018). GREEDY: each
 * piece, in order, goes to the shard with the fewest bytes so far, of equal ones to the lowest. */
#pragma once

#include <stdbool.h>

#include "kolo_table.h"

struct kolo_pieces {
    uint64_t rows, pieces, elements; /* in all */
    uint64_t per_row;                /* pieces of each row; 0: rows differ */
    size_t columns;                  /* of each row; where rows differ, of the longest */
    size_t piece_columns;            /* of the longest piece */
    size_t element_bytes;
    uint64_t *first_piece;   /* [rows + 1], where rows differ; NULL elsewhere, as is the next */
    uint64_t *first_element; /* [rows + 1], in the order in which kolo_table_pull has them */
    kolo_placement placement;
    uint32_t shards;
    uint64_t *range_ends; /* [shards], in pieces; RANGE of several shards only */
    uint16_t *shard_of;   /* [pieces]; HASH and GREEDY only. GREEDY of pieces of one size is ROUND_ROBIN here */
};

/* A piece: its row, and its elements there. */
struct kolo_piece {
    uint64_t row;
    size_t first, count; /* its elements, in the row */
};

enum { KOLO_SHARDS_MAX = 1 << 16 };

/* The caller has checked `options`; `shards` is from 1 to KOLO_SHARDS_MAX. KOLO_ERR_ARG: the table is larger than
 * memory can be. KOLO_ERR_SYSTEM: out of memory. The caller destroys the pieces in any case. */
int kolo_pieces_create(struct kolo_pieces *pieces, const kolo_table_options *options, uint32_t shards);
void kolo_pieces_destroy(struct kolo_pieces *pieces);

static inline uint64_t kolo_pieces_of_row(const struct kolo_pieces *pieces, uint64_t row) { /* the first one */
    return pieces->per_row == 1 ? row : pieces->per_row ? row * pieces->per_row : pieces->first_piece[row];
}

/* The place of row `row` among the elements of all rows; `row` may be `rows`. */
static inline uint64_t kolo_pieces_row_element(const struct kolo_pieces *pieces, uint64_t row) {
    return pieces->per_row ? row * pieces->columns : pieces->first_element[row];
}

static inline size_t kolo_pieces_row_columns(const struct kolo_pieces *pieces, uint64_t row) {
    return pieces->per_row ? pieces->columns : pieces->first_element[row + 1] - pieces->first_element[row];
}

uint32_t kolo_piece_shard_slowly(const struct kolo_pieces *pieces, uint64_t piece);

static inline uint32_t kolo_piece_shard(const struct kolo_pieces *pieces, uint64_t piece) {
    return pieces->shards == 1 ? 0 : kolo_piece_shard_slowly(pieces, piece);
}

/* Pieces *begin .. *end - 1 include all pieces of the shard. Returns true if they include no others. */
static inline bool kolo_pieces_shard_range(const struct kolo_pieces *pieces, uint32_t shard, uint64_t *begin,
                                           uint64_t *end) {
    *begin = pieces->range_ends && shard ? pieces->range_ends[shard - 1] : 0;
    *end = pieces->range_ends ? pieces->range_ends[shard] : pieces->pieces;
    return pieces->range_ends || pieces->shards == 1;
}

/* Finds the row and elements of piece `piece`, by a search where rows differ. */
struct kolo_piece kolo_piece_at_slowly(const struct kolo_pieces *pieces, uint64_t piece);

static inline struct kolo_piece kolo_piece_at(const struct kolo_pieces *pieces, uint64_t piece) {
    return pieces->per_row == 1 ? (struct kolo_piece){.row = piece, .count = pieces->columns}
                                : kolo_piece_at_slowly(pieces, piece);
}

/* The place of a piece's first element among those of all rows. */
static inline uint64_t kolo_piece_element(const struct kolo_pieces *pieces, const struct kolo_piece *piece) {
    return kolo_pieces_row_element(pieces, piece->row) + piece->first;
}

/* Goes through the pieces of some rows, in order: `piece` is the present one, of `count` elements. */
struct kolo_walk {
    const struct kolo_pieces *pieces;
    uint64_t row, end, piece;
    size_t count, left; /* elements; of the row, behind the piece */
};

static inline struct kolo_walk kolo_walk_rows(const struct kolo_pieces *pieces, uint64_t first, uint64_t rows) {
    return (struct kolo_walk){
        .pieces = pieces, .row = first, .end = first + rows, .piece = kolo_pieces_of_row(pieces, first) - 1};
}

/* Moves on to the next piece, or to the first. False: there is none. */
static inline bool kolo_walk_next(struct kolo_walk *walk) {
    while (walk->left == 0) {
        if (walk->row == walk->end)
            return false;
        walk->left = kolo_pieces_row_columns(walk->pieces, walk->row++);
    }
    walk->piece++;
    walk->count = walk->left < walk->pieces->piece_columns ? walk->left : walk->pieces->piece_columns;
    walk->left -= walk->count;
    return true;
}
