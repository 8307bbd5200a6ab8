/* The wire format: numbers that processes of a job write for each other are little-endian, have a given number of
 * bytes, and may stand at any address. Here is also the version, as one word. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

/* A message whose fields are written or read one after another, so that one function describes both. */
struct kolo_wire {
    uint8_t *at; /* the next field */
    bool reads;
};

/* Writes `value`, or reads a number there; returns the number that stands there afterwards. */
static inline uint64_t kolo_wire_number(struct kolo_wire *wire, uint64_t value, size_t bytes) {
    if (wire->reads)
        value = kolo_wire_get(wire->at, bytes);
    else
        kolo_wire_put(wire->at, value, bytes);
    wire->at += bytes;
    return value;
}

static inline void kolo_wire_bytes(struct kolo_wire *wire, void *field, size_t bytes) {
    memcpy(wire->reads ? field : wire->at, wire->reads ? wire->at : field, bytes);
    wire->at += bytes;
}

/* The format of a version for printf, and the arguments for it. */
#define KOLO_VERSION_FORMAT      "%u.%u.%u"
#define KOLO_VERSION_PARTS(word) (unsigned)((word) >> 16 & 255), (unsigned)((word) >> 8 & 255), (unsigned)((word)&255)

#define KOLO_VERSION_WORD ((uint32_t)(KOLO_VERSION_MAJOR << 16 | KOLO_VERSION_MINOR << 8 | KOLO_VERSION_PATCH))
