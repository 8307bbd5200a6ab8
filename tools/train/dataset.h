/* Labelled rows of numbers, and their division into what is learned from and what is tested on. Want of memory ends the
 * process (complain.h). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kolo.h"

typedef struct dataset {
    size_t rows;
    size_t features;
    size_t classes;
    float *inputs;   /* rows x features, row by row */
    int32_t *labels; /* rows; 0 .. classes-1 */
} dataset;

/* Makes room for that many rows; what the present ones hold stays. */
void dataset_reserve(dataset *data, size_t rows);
void dataset_free(dataset *data);

/* Fills all rows of *to with those of *from at `order`, one after the other. */
void dataset_copy_rows(dataset *to, const dataset *from, const size_t *order);

/* Reads a CSV file: a row a line, the features and then the label, an integer from 0; no header line. Returns 0, or -1
 * with the reason in words in `reason`. */
int dataset_read(dataset *data, const char *path, char *reason, size_t reason_bytes);

/* Gives every rank what rank 0 has; the others' *data is empty, or a former copy of the same. Returns 0 or LOST. */
int dataset_share(dataset *data, kolo_comm *comm);

/* A number that tells other data from these, but not who forges them; never 0. */
uint64_t dataset_fingerprint(const dataset *data);

/* Deals the rows out to *train and *test: one in five, chosen at random but always the same, is for testing. The
 * inputs of both are divided by the largest magnitude found in the training rows. */
void dataset_split(const dataset *all, dataset *train, dataset *test);

/* The part of `count` rows that a rank takes: parts differ by one row at most. */
typedef struct share {
    size_t first, count;
} share;

static inline share share_of(size_t count, int rank, int ranks) {
    const size_t first = count * (size_t)rank / (size_t)ranks;
    return (share){first, count * ((size_t)rank + 1) / (size_t)ranks - first};
}

static inline size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* The fingerprint of what came before, and then of words[0 .. count-1], of 32 bits each, at any address. */
#define FINGERPRINT_BEGIN UINT64_C(0xcbf29ce484222325)
uint64_t fingerprint_add(uint64_t hash, const void *words, size_t count);
