/* SPDX-License-Identifier: Apache-2.0
 */
#include "sim_check.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim_engine.h"
#include "sim_memory.h"

/* What a release leaves with its flag. */
typedef struct release {
    uint32_t rank;
    uint32_t epoch;
    uint32_t known[];
} release;

/* Bytes of a zone that a rank accessed in an epoch of its own. */
typedef struct extent {
    size_t begin, end;
    uint32_t rank;
    uint32_t epoch;
} extent;

typedef struct extents {
    extent *items;
    uint32_t count, room;
} extents;

/* A slot, or a whole send or recv buffer. */
typedef struct zone {
    extents reads, writes; /* writes do not overlap; reads are those since the last write of their bytes */
} zone;

/* An access, and where. */
typedef struct step {
    extent now;
    sim_place place;
    zone *zone;
} step;

static struct {
    uint32_t ranks;
    uint32_t slots; /* of one rank */
    size_t slot_bytes;
    const uint8_t *flags;
    size_t words;
    release **releases; /* of each word; NULL before the first */
    uint32_t *known;    /* [rank][other]: the other's epochs that are over, as far as rank knows; [rank][rank]: now */
    zone *zones;        /* each rank's slots, then each one's send and recv */
    char problem[320];
} check;

static size_t zones(void) {
    return (size_t)check.ranks * (check.slots + 2);
}

int sim_check_create(uint32_t ranks, const void *flags, size_t flags_bytes, uint32_t slots, size_t slot_bytes) {
    check.ranks = ranks;
    check.slots = slots;
    check.slot_bytes = slot_bytes;
    check.flags = flags;
    check.words = flags_bytes / sizeof(uint64_t);
    check.releases = calloc(check.words, sizeof *check.releases);
    check.known = calloc((size_t)ranks * ranks, sizeof *check.known);
    check.zones = calloc(zones(), sizeof *check.zones);
    check.problem[0] = '\0';
    if (check.releases == NULL || check.known == NULL || check.zones == NULL) {
        sim_check_destroy();
        return -1;
    }
    for (uint32_t rank = 0; rank < ranks; rank++)
        check.known[(size_t)rank * ranks + rank] = 1;
    return 0;
}

void sim_check_destroy(void) {
    for (size_t word = 0; check.releases != NULL && word < check.words; word++)
        free(check.releases[word]);
    for (size_t i = 0; check.zones != NULL && i < zones(); i++) {
        free(check.zones[i].reads.items);
        free(check.zones[i].writes.items);
    }
    free(check.releases);
    free(check.known);
    free(check.zones);
    check.releases = NULL;
    check.known = NULL;
    check.zones = NULL;
}

const char *sim_check_problem(void) {
    return check.problem[0] != '\0' ? check.problem : NULL;
}

static uint32_t *known_by(uint32_t rank) {
    return check.known + (size_t)rank * check.ranks;
}

static release **release_of(const void *word) {
    const size_t index = ((uintptr_t)word - (uintptr_t)check.flags) / sizeof(uint64_t);
    return check.releases != NULL && index < check.words ? &check.releases[index] : NULL;
}

static void out_of_memory(void) {
    if (check.problem[0] == '\0')
        snprintf(check.problem, sizeof check.problem, "no memory to check with: try fewer ranks");
}

void sim_check_released(const void *word) {
    release **place = release_of(word);
    if (place == NULL)
        return;
    const uint32_t self = sim_self();
    uint32_t *known = known_by(self);
    if (*place == NULL)
        *place = malloc(sizeof **place + check.ranks * sizeof *known);
    if (*place == NULL) {
        out_of_memory();
        return;
    }
    (*place)->rank = self;
    (*place)->epoch = known[self]++;
    memcpy((*place)->known, known, check.ranks * sizeof *known);
    (*place)->known[self] = (*place)->epoch;
}

void sim_check_acquired(const void *word) {
    release **place = release_of(word);
    if (place == NULL || *place == NULL)
        return;
    uint32_t *known = known_by(sim_self());
    const release *from = *place;
    if (known[from->rank] >= from->epoch)
        return; /* an earlier acquire has brought all of it */
    for (uint32_t rank = 0; rank < check.ranks; rank++) {
        if (known[rank] < from->known[rank])
            known[rank] = from->known[rank];
    }
}

static bool overlaps(const extent *a, const extent *b) {
    return a->begin < b->end && b->begin < a->end;
}

static void add(extents *list, extent item) {
    if (list->count == list->room) {
        const uint32_t room = list->room ? 2 * list->room : 8;
        extent *items = realloc(list->items, room * sizeof *items);
        if (items == NULL) {
            out_of_memory();
            return;
        }
        list->items = items;
        list->room = room;
    }
    list->items[list->count++] = item;
}

/* Takes the bytes of `gone` out of all extents. */
static void cut(extents *list, const extent *gone) {
    for (uint32_t i = list->count; i-- > 0;) {
        extent *item = &list->items[i];
        if (!overlaps(item, gone))
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

/* Fills *step with the running rank's access; false if there is nothing to check. */
static bool begin_step(step *step, const void *address, size_t bytes) {
    sim_place *place = &step->place;
    if (check.zones == NULL || bytes == 0 || !sim_memory_place(address, place))
        return false;
    const uint32_t self = sim_self();
    const bool is_slot = place->area == SIM_SLOTS;
    const size_t begin = is_slot ? place->offset % check.slot_bytes : place->offset;
    const size_t of_slots = (size_t)check.ranks * check.slots;
    step->now = (extent){.begin = begin, .end = begin + bytes, .rank = self, .epoch = known_by(self)[self]};
    step->zone = is_slot                   ? &check.zones[place->rank * check.slots + place->offset / check.slot_bytes]
                 : place->area == SIM_SEND ? &check.zones[of_slots + place->rank]
                                           : &check.zones[of_slots + check.ranks + place->rank];
    return true;
}

/* "bytes 0 to 128 of slot 2 of rank 5" */
static void describe(const step *step, char *text, size_t text_bytes) {
    static const char *const names[] = {[SIM_SLOTS] = "slot", [SIM_SEND] = "send", [SIM_RECV] = "recv"};
    char index[32] = "";
    if (step->place.area == SIM_SLOTS)
        snprintf(index, sizeof index, " %zu", step->place.offset / check.slot_bytes);
    snprintf(text, text_bytes, "bytes %zu to %zu of %s%s of rank %" PRIu32, step->now.begin, step->now.end,
             names[step->place.area], index, step->place.rank);
}

static void compare(const step *step, const char *what, const char *before, const extents *list) {
    const extent *now = &step->now;
    const uint32_t *known = known_by(now->rank);
    char where[96];
    for (uint32_t i = 0; i < list->count && check.problem[0] == '\0'; i++) {
        const extent *other = &list->items[i];
        if (other->rank == now->rank || !overlaps(now, other) || known[other->rank] >= other->epoch)
            continue;
        describe(step, where, sizeof where);
        snprintf(check.problem, sizeof check.problem,
                 "rank %" PRIu32 " %s %s and cannot know that rank %" PRIu32 " has %s bytes %zu to %zu", now->rank,
                 what, where, other->rank, before, other->begin, other->end);
    }
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* All that is read was written. */
static void check_written(const step *step) {
    const extent *now = &step->now;
    const extents *writes = &step->zone->writes;
    char where[96];
    size_t unwritten = now->end - now->begin;
    for (uint32_t i = 0; i < writes->count; i++) {
        const extent *write = &writes->items[i];
        if (overlaps(now, write))
            unwritten -= smaller(write->end, now->end) - (write->begin > now->begin ? write->begin : now->begin);
    }
    if (unwritten == 0 || check.problem[0] != '\0')
        return;
    describe(step, where, sizeof where);
    snprintf(check.problem, sizeof check.problem, "rank %" PRIu32 " reads %s, of which nobody has written %zu",
             now->rank, where, unwritten);
}

void sim_check_read(const void *address, size_t bytes) {
    step step;
    if (!begin_step(&step, address, bytes))
        return;
    check_written(&step);
    compare(&step, "reads", "written", &step.zone->writes);
    add(&step.zone->reads, step.now);
}

void sim_check_write(const void *address, size_t bytes) {
    step step;
    if (!begin_step(&step, address, bytes))
        return;
    if (step.place.area == SIM_SLOTS && step.now.end > check.slot_bytes && check.problem[0] == '\0')
        snprintf(check.problem, sizeof check.problem, "rank %" PRIu32 " writes %zu bytes beyond the end of slot %zu",
                 step.now.rank, step.now.end - check.slot_bytes, step.place.offset / check.slot_bytes);
    compare(&step, "overwrites", "written", &step.zone->writes);
    compare(&step, "overwrites", "read", &step.zone->reads);
    cut(&step.zone->writes, &step.now);
    cut(&step.zone->reads, &step.now);
    add(&step.zone->writes, step.now);
}

void sim_check_forget(const void *address, size_t bytes) {
    step step;
    if (begin_step(&step, address, bytes))
        cut(&step.zone->writes, &step.now);
}

static uint8_t input_byte(size_t offset, uint32_t rank, uint64_t call) {
    return (uint8_t)(offset * 13 + rank * 29 + rank / 256 * 101 + call * 83);
}

void sim_check_fill_input(uint8_t *input, size_t bytes, uint32_t rank, uint64_t call) {
    for (size_t offset = 0; offset < bytes; offset++)
        input[offset] = input_byte(offset, rank, call);
}

void sim_check_input(const void *input, size_t bytes, uint32_t rank, uint64_t call) {
    const uint8_t *have = input;
    if (check.zones == NULL || !sim_memory_is_real(input, bytes))
        return;
    for (size_t offset = 0; offset < bytes; offset++) {
        if (have[offset] == input_byte(offset, rank, call) || check.problem[0] != '\0')
            continue;
        snprintf(check.problem, sizeof check.problem,
                 "rank %" PRIu32 " reduces, in call %" PRIu64 ", a line of rank %" PRIu32
                 " whose byte %zu is not that rank's input",
                 sim_self(), call, rank, offset);
    }
}
