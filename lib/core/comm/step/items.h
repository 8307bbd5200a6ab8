/* The items of a call: what ranks have to pass alike. Ranks compare digests; a message names the first that differs. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kolo.h"

enum kolo_item_kind { KOLO_ITEM_NUMBER, KOLO_ITEM_REAL, KOLO_ITEM_NAMED };

struct kolo_item {
    const char *list; /* NULL: the item is in no list */
    const char *name; /* "rows"; for an element of a list, what stands behind the index: ".count", or "" */
    size_t index;     /* in the list */
    enum kolo_item_kind kind;
    kolo_named of;    /* with KOLO_ITEM_NAMED */
    uint64_t value;   /* a signed number; the bits of a double; or of an enum */
    const char *text; /* in place of a value */
};

/* The items, by index. A list's length is an item before it, so that items after equal ones have one name. */
struct kolo_items {
    size_t count;
    struct kolo_item (*item)(const void *context, size_t index);
    const void *context;
};

static inline struct kolo_item kolo_item_number(const char *name, uint64_t value) {
    return (struct kolo_item){.name = name, .kind = KOLO_ITEM_NUMBER, .value = value};
}

static inline struct kolo_item kolo_item_named(const char *name, kolo_named of, int value) {
    return (struct kolo_item){.name = name, .kind = KOLO_ITEM_NAMED, .of = of, .value = (uint64_t)value};
}

/* An element of a list. */
static inline struct kolo_item kolo_item_of_list(const char *list, size_t index, const char *name, uint64_t value) {
    return (struct kolo_item){.list = list, .name = name, .index = index, .kind = KOLO_ITEM_NUMBER, .value = value};
}

struct kolo_item kolo_item_real(const char *name, double value);

/* Continues a digest with items `begin` to `end` less one. Items past the last one count, too. */
uint64_t kolo_items_digest(const struct kolo_items *items, size_t begin, size_t end, uint64_t digest);

/* Returns a number that tells items of one kind of call from those of others. */
uint64_t kolo_items_kind(const struct kolo_items *items);

#define KOLO_ITEM_TEXT_BYTES 64

/* Write the name of an item, such as "row_columns[3]" ("" past the last one), and a value of it, such as "12". */
void kolo_item_name(const struct kolo_items *items, size_t index, char text[KOLO_ITEM_TEXT_BYTES]);
void kolo_item_value(const struct kolo_item *item, uint64_t value, char text[KOLO_ITEM_TEXT_BYTES]);
