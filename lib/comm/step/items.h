/* What ranks have to pass alike in a call, one by one: ranks compare digests of it, and where these differ a message
 * names the first of the items that differs. */
#ifndef KOLO_COMM_STEP_ITEMS_H
#define KOLO_COMM_STEP_ITEMS_H

#include <stddef.h>
#include <stdint.h>

#include "kolo.h"

enum kolo_item_kind {
    KOLO_ITEM_NUMBER,
    KOLO_ITEM_REAL,
    KOLO_ITEM_DTYPE,
    KOLO_ITEM_OP,
    KOLO_ITEM_COMPRESSION,
    KOLO_ITEM_RULE,
    KOLO_ITEM_PLACEMENT,
    KOLO_ITEM_TEXT
};

struct kolo_item {
    const char *list; /* NULL: it is of none */
    const char *name; /* "rows"; of an element of a list what stands behind it: ".count", or "" */
    size_t index;     /* in the list */
    enum kolo_item_kind kind;
    uint64_t value;   /* a signed number; the bits of a double; or of an enum */
    const char *text; /* in place of that, with KOLO_ITEM_TEXT */
};

/* The length of a list is an item before it, so that items in the same place with equal ones before have one name. */
struct kolo_items {
    size_t count;
    struct kolo_item (*item)(const void *context, size_t index);
    const void *context;
};

static inline struct kolo_item kolo_item_number(const char *name, uint64_t value) {
    return (struct kolo_item){.name = name, .kind = KOLO_ITEM_NUMBER, .value = value};
}

struct kolo_item kolo_item_real(const char *name, double value);

/* Goes on with a digest by items `begin` to `end` less one. Those past the last one count, too. */
uint64_t kolo_items_digest(const struct kolo_items *items, size_t begin, size_t end, uint64_t digest);

/* Tells items of one kind of call from those of others. */
uint64_t kolo_items_kind(const struct kolo_items *items);

#define KOLO_ITEM_TEXT_BYTES 64

/* "row_columns[3]", and "12" for such an item with that value. Past the last one: "". */
void kolo_item_name(const struct kolo_items *items, size_t index, char text[KOLO_ITEM_TEXT_BYTES]);
void kolo_item_value(const struct kolo_item *item, uint64_t value, char text[KOLO_ITEM_TEXT_BYTES]);

#endif
