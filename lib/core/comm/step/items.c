/* The items that ranks have to pass alike: their digests, and the items in words. */
#include "comm/step/items.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/step/call_key.h"

struct kolo_item kolo_item_real(const char *name, double value) {
    struct kolo_item item = {.name = name, .kind = KOLO_ITEM_REAL};
    memcpy(&item.value, &value, sizeof value);
    return item;
}

uint64_t kolo_items_digest(const struct kolo_items *items, size_t begin, size_t end, uint64_t digest) {
    for (size_t i = begin; i < end && i < items->count; i++) {
        const struct kolo_item item = items->item(items->context, i);
        uint64_t value = item.value;
        for (const char *letter = item.text; letter && *letter; letter++)
            value = kolo_digest_after(value, (unsigned char)*letter);
        digest = kolo_digest_after(digest, value);
    }
    return end > items->count ? kolo_digest_after(digest, items->count) : digest;
}

void kolo_item_name(const struct kolo_items *items, size_t index, char text[KOLO_ITEM_TEXT_BYTES]) {
    text[0] = 0;
    if (index >= items->count)
        return;
    const struct kolo_item item = items->item(items->context, index);
    if (item.list)
        snprintf(text, KOLO_ITEM_TEXT_BYTES, "%s[%zu]%s", item.list, item.index, item.name);
    else
        snprintf(text, KOLO_ITEM_TEXT_BYTES, "%s", item.name);
}

uint64_t kolo_items_kind(const struct kolo_items *items) {
    char name[KOLO_ITEM_TEXT_BYTES];
    uint64_t kind = 0;
    kolo_item_name(items, 0, name);
    for (const char *letter = name; *letter; letter++)
        kind = kolo_digest_after(kind, (unsigned char)*letter);
    return kind;
}

/* Writes a double with as few digits as give the same number again. */
static void describe_real(uint64_t bits, char text[KOLO_ITEM_TEXT_BYTES]) {
    double value;
    memcpy(&value, &bits, sizeof value);
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, KOLO_ITEM_TEXT_BYTES, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
}

void kolo_item_value(const struct kolo_item *item, uint64_t value, char text[KOLO_ITEM_TEXT_BYTES]) {
    const char *name = item->kind == KOLO_ITEM_NAMED ? kolo_name(item->of, (int)value) : NULL;
    if (item->kind == KOLO_ITEM_REAL)
        describe_real(value, text);
    else if (item->text)
        snprintf(text, KOLO_ITEM_TEXT_BYTES, "\"%s\"", item->text);
    else if (name)
        snprintf(text, KOLO_ITEM_TEXT_BYTES, "%s", name);
    else
        snprintf(text, KOLO_ITEM_TEXT_BYTES, "%" PRId64, (int64_t)value);
}
