/* The search for the first item of a call that two ranks pass differently. */
#include "comm/failure/difference.h"

#include <stdio.h>

#include "base/clock.h"

#define SHOWN_NS (1000 * KOLO_NS_PER_MS) /* ranks that wait look for a failure at least every KOLO_SLICE_NS */
#define LOOK_NS  KOLO_NS_PER_MS

enum { SPAN_MAX = 32 * 32 * 32 }; /* items of a word of the first level */

static_assert(KOLO_SHOWN_WORDS == 32 && KOLO_SHOWN_LEVELS == 4, "those of the last level are of one item");

static struct kolo_shared_difference *shown_by(const kolo_comm *comm, uint32_t rank) {
    return &comm->first->segment.members[rank].difference;
}

/* Shows the items from `first` on, `span` items in each word. */
static void show(kolo_comm *comm, uint32_t level, size_t first, size_t span) {
    const struct kolo_items *items = &comm->call.items;
    struct kolo_shared_difference *own = shown_by(comm, comm->rank);
    if (level == 0)
        own->kind = kolo_items_kind(items);
    for (size_t i = 0; i < KOLO_SHOWN_WORDS; i++) {
        const size_t begin = first + i * span;
        own->words[level][i] = span > 1               ? kolo_items_digest(items, begin, begin + span, 0)
                               : begin < items->count ? items->item(items->context, begin).value
                                                      : 0;
    }
    kolo_publish(&comm->waiter, &own->levels, level + 1, &own->bell); /* pairs with await */
}

/* Waits until `rank` has shown that level. Returns whether it has, and its items are of the same kind as this
 * rank's. */
static bool await(const kolo_comm *comm, uint64_t call, uint32_t rank, uint32_t level, int64_t until_ns) {
    struct kolo_shared_difference *theirs = shown_by(comm, rank);
    for (;;) {
        const bool has_left = kolo_load_acquire(&comm->segment.signals[rank].ended) >= call;
        if (kolo_load_acquire(&theirs->levels) > level) /* pairs with show */
            return theirs->kind == kolo_items_kind(&comm->call.items);
        if (has_left || kolo_clock_ns() >= until_ns)
            return false;
        kolo_wait_briefly(&theirs->levels, level + 1, &theirs->bell, LOOK_NS);
    }
}

static void put_into_words(kolo_comm *comm, size_t index, const uint64_t values[2], const uint32_t names[2]) {
    const struct kolo_items *items = &comm->call.items;
    char name[KOLO_ITEM_TEXT_BYTES], value[2][KOLO_ITEM_TEXT_BYTES];
    if (index >= items->count)
        return;
    const struct kolo_item item = items->item(items->context, index);
    kolo_item_name(items, index, name);
    for (int i = 0; i < 2; i++)
        kolo_item_value(&item, values[i], value[i]);
    snprintf(comm->first->difference, sizeof comm->first->difference, "; %s is %s on rank %u, %s on rank %u", name,
             value[0], names[0], value[1], names[1]);
    kolo_store_release(&comm->first->has_difference, 1); /* pairs with the description of a failure */
}

void kolo_difference_find(kolo_comm *comm, uint64_t call, const uint32_t ranks[2], const uint32_t names[2]) {
    const int64_t until_ns = kolo_clock_ns() + SHOWN_NS;
    size_t first = 0, span = SPAN_MAX;
    uint64_t values[2] = {0};
    for (uint32_t level = 0; level < KOLO_SHOWN_LEVELS; level++, span /= KOLO_SHOWN_WORDS) {
        uint32_t same = 0;
        if (comm->rank == ranks[0] || comm->rank == ranks[1])
            show(comm, level, first, span);
        for (int i = 0; i < 2; i++)
            if (!await(comm, call, ranks[i], level, until_ns))
                return;
        for (; same < KOLO_SHOWN_WORDS; same++) {
            values[0] = shown_by(comm, ranks[0])->words[level][same];
            values[1] = shown_by(comm, ranks[1])->words[level][same];
            if (values[0] != values[1])
                break;
        }
        if (same == KOLO_SHOWN_WORDS)
            return;
        first += same * span;
    }
    put_into_words(comm, first, values, names);
}
