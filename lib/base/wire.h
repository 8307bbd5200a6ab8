/* How processes of a job write numbers for each other: little-endian, of a given number of bytes, at any address. Also
 * the library's version as one word, since the other process may have another version. */
#ifndef KOLO_BASE_WIRE_H
#define KOLO_BASE_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "kolo.h"

static inline void kolo_wire_put(uint8_t *at, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static inline uint64_t kolo_wire_get(const uint8_t *at, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

/* The same, one after another. */
static inline void kolo_wire_append(uint8_t **at, uint64_t value, size_t bytes) {
    kolo_wire_put(*at, value, bytes);
    *at += bytes;
}

static inline uint64_t kolo_wire_take(const uint8_t **at, size_t bytes) {
    const uint64_t value = kolo_wire_get(*at, bytes);
    *at += bytes;
    return value;
}

/* For printf: the format, and its arguments. */
#define KOLO_VERSION_FORMAT      "%u.%u.%u"
#define KOLO_VERSION_PARTS(word) (unsigned)((word) >> 16 & 255), (unsigned)((word) >> 8 & 255), (unsigned)((word)&255)

#define KOLO_VERSION_WORD ((uint32_t)(KOLO_VERSION_MAJOR << 16 | KOLO_VERSION_MINOR << 8 | KOLO_VERSION_PATCH))

#endif
