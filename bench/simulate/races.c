#include "races.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANY UINT32_MAX

enum { NAME_BYTES = 40 };

/* What has been released with a word. */
typedef struct release {
    uint32_t run;  /* in which */
    uint32_t rank; /* by whom; MANY: not by one alone */
    uint32_t clock[];
} release;

/* Bytes of the memory, all in one zone, that a rank has accessed in an epoch of its own. */
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

static struct {
    races_setting of;
    uint32_t run;
    size_t words, zones;
    release **releases; /* of each four bytes of words; NULL before the first */
    uint32_t *clocks;   /* [rank][other]: the other's epochs that are over, as far as rank knows; [rank][rank]: now */
    zone *zone;
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

static uint32_t *clock_of(uint32_t rank) {
    return races.clocks + (size_t)rank * races.of.ranks;
}

int races_begin(const races_setting *setting) {
    const uint32_t ranks = setting->ranks;
    const size_t zones = (setting->memory_bytes + setting->zone_bytes - 1) / setting->zone_bytes;
    if (allocate(ranks, setting->words_bytes / sizeof(uint32_t), zones) != 0)
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
    const size_t index = ((uintptr_t)word - (uintptr_t)races.of.words) / sizeof(uint32_t);
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

void races_learn_end(uint32_t rank, uint32_t ended) {
    join(clock_of(rank), clock_of(ended));
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

/* An access, zone by zone. */
typedef struct access {
    extent now; /* what of it is in the present zone */
    zone *zone;
    size_t end;
} access;

/* Takes the next zone; false: there is none. */
static bool next_zone(access *access) {
    const size_t zone_bytes = races.of.zone_bytes, begin = access->now.end;
    const size_t zone_end = (begin / zone_bytes + 1) * zone_bytes;
    access->zone = &races.zone[begin / zone_bytes];
    access->now.begin = begin;
    access->now.end = access->end < zone_end ? access->end : zone_end;
    return begin < access->end;
}

static access begin_access(uint32_t rank, const void *address, size_t bytes) {
    size_t begin = (uintptr_t)address - (uintptr_t)races.of.memory;
    if (begin >= races.of.memory_bytes)
        begin = bytes = 0;
    return (access){.now = {.end = begin, .rank = rank, .epoch = clock_of(rank)[rank]}, .end = begin + bytes};
}

static void name(uint32_t rank, char *text, size_t text_bytes) {
    if (races.of.name)
        races.of.name(rank, text, text_bytes);
    else
        snprintf(text, text_bytes, "rank %u", rank);
}

static bool is_given_up(const void *address, bool is_read) {
    return races.of.is_given_up && races.of.is_given_up(address, is_read);
}

/* Looks for races with what is in `list`. */
static void compare(const access *access, const char *what, const char *before, const extents *list) {
    const extent *now = &access->now;
    const uint32_t *clock = clock_of(now->rank);
    char here[96], there[96], self[NAME_BYTES], who[NAME_BYTES], text[320];
    for (uint32_t i = 0; i < list->count; i++) {
        const extent *other = &list->items[i];
        if (other->rank == now->rank || !overlaps(now, other) || clock[other->rank] >= other->epoch)
            continue;
        races.of.describe(races.of.memory + now->begin, now->end - now->begin, here, sizeof here);
        races.of.describe(races.of.memory + other->begin, other->end - other->begin, there, sizeof there);
        name(now->rank, self, sizeof self);
        name(other->rank, who, sizeof who);
        snprintf(text, sizeof text, "%s %s %s and cannot know that %s has %s %s", self, what, here, who, before, there);
        races.of.complain(text);
    }
}

void races_read(uint32_t rank, const void *address, size_t bytes) {
    access access = begin_access(rank, address, bytes);
    while (next_zone(&access)) {
        if (!is_given_up(address, true))
            compare(&access, "reads", "written", &access.zone->writes);
        cut(&access.zone->reads, &access.now, rank);
        add(&access.zone->reads, access.now);
    }
}

void races_write(uint32_t rank, const void *address, size_t bytes) {
    access access = begin_access(rank, address, bytes);
    while (next_zone(&access)) {
        if (!is_given_up(address, false))
            compare(&access, "overwrites", "written", &access.zone->writes);
        if (!is_given_up(address, true))
            compare(&access, "overwrites", "read", &access.zone->reads);
        cut(&access.zone->writes, &access.now, MANY);
        cut(&access.zone->reads, &access.now, MANY);
        add(&access.zone->writes, access.now);
    }
}

static size_t common_bytes(const extent *a, const extent *b) {
    const size_t begin = a->begin > b->begin ? a->begin : b->begin, end = a->end < b->end ? a->end : b->end;
    return begin < end ? end - begin : 0;
}

size_t races_unwritten(const void *address, size_t bytes) {
    access access = begin_access(0, address, bytes);
    size_t unwritten = 0;
    while (next_zone(&access)) {
        unwritten += access.now.end - access.now.begin;
        for (uint32_t i = 0; i < access.zone->writes.count; i++)
            unwritten -= common_bytes(&access.now, &access.zone->writes.items[i]);
    }
    return unwritten;
}

void races_forget(const void *address, size_t bytes) {
    access access = begin_access(0, address, bytes);
    while (next_zone(&access))
        cut(&access.zone->writes, &access.now, MANY);
}
