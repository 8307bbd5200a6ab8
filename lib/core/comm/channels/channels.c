/* The messages that a rank has put aside, as a list. */
#include "comm/channels/channels.h"

#include <stdlib.h>

#include "base/status.h"

int kolo_channels_prepare(struct kolo_channels *channels, uint32_t ranks) {
    if (channels->pairs)
        return 0;
    channels->pairs = calloc(ranks, sizeof *channels->pairs);
    return channels->pairs ? 0 : kolo_fail(KOLO_ERR_NO_SPACE, "out of memory for %u ranks", ranks);
}

bool kolo_aside_add(struct kolo_channels *channels, const struct kolo_envelope *envelope, const uint8_t *payload,
                    size_t bytes) {
    struct kolo_aside *added = malloc(sizeof *added + bytes);
    if (!added)
        return false;
    *added = (struct kolo_aside){.envelope = *envelope, .is_whole = payload != NULL};
    if (bytes)
        memcpy(added->payload, payload, bytes);
    if (!channels->end)
        channels->end = &channels->aside;
    *channels->end = added;
    channels->end = &added->next;
    return true;
}

struct kolo_aside **kolo_aside_find(struct kolo_channels *channels, uint32_t from, int tag) {
    for (struct kolo_aside **place = &channels->aside; *place; place = &(*place)->next)
        if ((from == KOLO_RANKS_MAX || (*place)->envelope.from == from) &&
            (tag == KOLO_ANY_TAG || (*place)->envelope.tag == tag))
            return place;
    return NULL;
}

void kolo_aside_remove(struct kolo_channels *channels, struct kolo_aside **place) {
    struct kolo_aside *removed = *place;
    *place = removed->next;
    if (channels->end == &removed->next)
        channels->end = place;
    free(removed);
}

void kolo_channels_destroy(struct kolo_channels *channels) {
    while (channels->aside)
        kolo_aside_remove(channels, &channels->aside);
    free(channels->pairs);
}
