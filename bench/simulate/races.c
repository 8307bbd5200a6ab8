#include "races.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANY UINT32_MAX

/* What has been released with a word. */
typedef struct release {
    uint32_t run;  /* in which */
    uint32_t rank; /* by whom; MANY: not by one alone */
    uint32_t clock[];
} release;

/* Bytes of a zone that a rank has accessed in an epoch of its own. */
typedef struct extent {
    size_t begin, end;
    uint32_t rank;
    uint32_t epoch;
} extent;

typedef struct extents {
    extent *items;
    uint32_t count, room;
} extents;

/* Extents of `writes` do not overlap, nor do those of one rank in `reads`, which are since their bytes were written. */
typedef struct zone {
    extents reads, writes;
} zone;

/* The part of an access that is in one zone. */
typedef struct step {
    extent now;
    zone *zone;
    const uint8_t *start; /* of the zone */
} step;

static struct {
    races_setting of;
    uint32_t run;
    size_t words, zones;
    release **releases; /* of each four bytes of `of.words`; NULL before the first */
    uint32_t *clocks;   /* [rank][other]: the other's epochs that are over, as far as rank knows; [rank][rank]: now */
    zone *zone;         /* region by region */
} races;

static void drop(void) {
    for (size_t i = 0; i < races.words; i++)
        free(races.releases[i]);
    for (size_t i = 0; i < races.zones; i++) {
        free(races.zone[i].reads.items);
        free(races.zone[i].writes.items);
    }
    free(races.releases);
    free(races.clocks);
    free(races.zone);
    races.words = races.zones = races.of.ranks = 0;
}

/* Keeps what an earlier run of the same size has allocated. */
static int allocate(uint32_t ranks, size_t words, size_t zones) {
    if (ranks == races.of.ranks && words == races.words && zones == races.zones)
        return 0;
    drop();
    races.releases = calloc(words, sizeof *races.releases);
    races.clocks = calloc((size_t)ranks * ranks, sizeof *races.clocks);
    races.zone = calloc(zones, sizeof *races.zone);
    if (!races.releases || !races.clocks || !races.zone) {
        drop();
        return -1;
    }
    races.words = words;
    races.zones = zones;
    return 0;
}

static size_t zones_of(const races_region *region) {
    return region->bytes ? (region->bytes + region->zone_bytes - 1) / region->zone_bytes : 0;
}

static uint32_t *clock_of(uint32_t rank) {
    return races.clocks + (size_t)rank * races.of.ranks;
}

int races_begin(const races_setting *setting) {
    const uint32_t ranks = setting->ranks;
    size_t zones = 0;
    for (int i = 0; i < RACES_REGIONS_MAX; i++)
        zones += zones_of(&setting->regions[i]);
    if (allocate(ranks, setting->words.bytes / sizeof(uint32_t), zones) != 0)
        return -1;
    races.of = *setting;
    races.run++;
    for (size_t i = 0; i < zones; i++)
        races.zone[i].reads.count = races.zone[i].writes.count = 0;
    memset(races.clocks, 0, (size_t)ranks * ranks * sizeof *races.clocks);
    for (uint32_t rank = 0; rank < ranks; rank++)
        clock_of(rank)[rank] = 1;
    return 0;
}

/* Words. */

static void join(uint32_t *clock, const uint32_t *from) {
    for (uint32_t rank = 0; rank < races.of.ranks; rank++)
        if (clock[rank] < from[rank])
            clock[rank] = from[rank];
}

static void *allocated(void *memory) {
    if (!memory)
        races.of.complain("no memory to check with: try fewer ranks");
    return memory;
}

static release **place_of(const void *word) {
    const size_t index = ((uintptr_t)word - (uintptr_t)races.of.words.base) / sizeof(uint32_t);
    return index < races.words ? &races.releases[index] : NULL;
}

/* What this run has released with the word, or NULL. */
static release *release_of(const void *word) {
    release **place = place_of(word);
    return place && *place && (*place)->run == races.run ? *place : NULL;
}

void races_release(uint32_t rank, uint32_t *clock) {
    uint32_t *own = clock_of(rank);
    memcpy(clock, own, races.of.ranks * sizeof *own);
    own[rank]++;
}

void races_store(const void *word, uint32_t rank, const uint32_t *clock) {
    release **place = place_of(word);
    if (!place || (!*place && !clock))
        return;
    if (!*place && !(*place = allocated(malloc(sizeof **place + races.of.ranks * sizeof *clock))))
        return;
    (*place)->run = clock ? races.run : 0;
    (*place)->rank = rank;
    if (clock)
        memcpy((*place)->clock, clock, races.of.ranks * sizeof *clock);
}

void races_merge(const void *word, uint32_t rank, const uint32_t *clock) {
    release *with = release_of(word);
    if (!with) {
        races_store(word, rank, clock);
        return;
    }
    with->rank = MANY;
    join(with->clock, clock);
}

void races_acquire(uint32_t rank, const void *word) {
    const release *from = release_of(word);
    uint32_t *own = clock_of(rank);
    if (!from || (from->rank != MANY && own[from->rank] >= from->clock[from->rank]))
        return; /* an earlier acquire has brought all of it */
    join(own, from->clock);
}

/* Plain accesses. */

static bool overlaps(const extent *a, const extent *b) {
    return a->begin < b->end && b->begin < a->end;
}

/* Adds an extent, or makes one longer that ends where it begins. */
static void add(extents *list, extent item) {
    for (uint32_t i = 0; i < list->count; i++) {
        extent *before = &list->items[i];
        if (before->end == item.begin && before->rank == item.rank && before->epoch == item.epoch) {
            before->end = item.end;
            return;
        }
    }
    if (list->count == list->room) {
        const uint32_t room = list->room ? 2 * list->room : 8;
        extent *items = allocated(realloc(list->items, room * sizeof *items));
        if (!items)
            return;
        list->items = items;
        list->room = room;
    }
    list->items[list->count++] = item;
}

/* Takes the bytes of `gone` out of all extents, or of one rank's. */
static void cut(extents *list, const extent *gone, uint32_t rank) {
    for (uint32_t i = list->count; i-- > 0;) {
        extent *item = &list->items[i];
        if (!overlaps(item, gone) || (rank != MANY && item->rank != rank))
            continue;
        const extent tail = {.begin = gone->end, .end = item->end, .rank = item->rank, .epoch = item->epoch};
        if (item->begin < gone->begin)
            item->end = gone->begin;
        else
            *item = list->items[--list->count];
        if (tail.begin < tail.end)
            add(list, tail);
    }
}

/* Fills *step with what the access has in the zone of `address`, and takes that off `bytes`. False: it has ended, or is
 * in no region. */
static bool begin_step(step *step, uint32_t rank, const uint8_t *address, size_t *bytes) {
    zone *first = races.zone;
    for (int i = 0; i < RACES_REGIONS_MAX && *bytes; i++) {
        const races_region *region = &races.of.regions[i];
        const size_t offset = (uintptr_t)address - (uintptr_t)region->base;
        if (offset >= region->bytes) {
            first += zones_of(region);
            continue;
        }
        const size_t begin = offset % region->zone_bytes, left = region->zone_bytes - begin;
        const size_t part = *bytes < left ? *bytes : left;
        step->now = (extent){.begin = begin, .end = begin + part, .rank = rank, .epoch = clock_of(rank)[rank]};
        step->zone = first + offset / region->zone_bytes;
        step->start = address - begin;
        *bytes -= part;
        return true;
    }
    return false;
}

/* Looks for races with what is in `list`. */
static void compare(const step *step, const char *what, const char *before, const extents *list) {
    const extent *now = &step->now;
    const uint32_t *clock = clock_of(now->rank);
    const uint8_t *address = step->start + now->begin;
    char where[96], text[320];
    for (uint32_t i = 0; i < list->count; i++) {
        const extent *other = &list->items[i];
        if (other->rank == now->rank || !overlaps(now, other) || clock[other->rank] >= other->epoch)
            continue;
        races.of.describe(address, now->end - now->begin, where, sizeof where);
        snprintf(text, sizeof text,
                 "rank %" PRIu32 " %s %s and cannot know that rank %" PRIu32 " has %s bytes %zu to %zu", now->rank,
                 what, where, other->rank, before, other->begin, other->end);
        races.of.complain(text);
    }
}

void races_read(uint32_t rank, const void *address, size_t bytes) {
    step step;
    for (const uint8_t *at = address; begin_step(&step, rank, at, &bytes); at = step.start + step.now.end) {
        compare(&step, "reads", "written", &step.zone->writes);
        cut(&step.zone->reads, &step.now, rank);
        add(&step.zone->reads, step.now);
    }
}

void races_write(uint32_t rank, const void *address, size_t bytes) {
    step step;
    for (const uint8_t *at = address; begin_step(&step, rank, at, &bytes); at = step.start + step.now.end) {
        if (!races.of.is_given_up || !races.of.is_given_up(at))
            compare(&step, "overwrites", "written", &step.zone->writes);
        compare(&step, "overwrites", "read", &step.zone->reads);
        cut(&step.zone->writes, &step.now, MANY);
        cut(&step.zone->reads, &step.now, MANY);
        add(&step.zone->writes, step.now);
    }
}

size_t races_unwritten(const void *address, size_t bytes) {
    size_t unwritten = 0;
    step step;
    for (const uint8_t *at = address; begin_step(&step, 0, at, &bytes); at = step.start + step.now.end) {
        const extent *now = &step.now;
        unwritten += now->end - now->begin;
        for (uint32_t i = 0; i < step.zone->writes.count; i++) {
            const extent *write = &step.zone->writes.items[i];
            if (overlaps(now, write))
                unwritten -= (write->end < now->end ? write->end : now->end) -
                             (write->begin > now->begin ? write->begin : now->begin);
        }
    }
    return unwritten;
}

void races_forget(const void *address, size_t bytes) {
    step step;
    for (const uint8_t *at = address; begin_step(&step, 0, at, &bytes); at = step.start + step.now.end)
        cut(&step.zone->writes, &step.now, MANY);
}
