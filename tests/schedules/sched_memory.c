#include "sched_memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "races.h"
#include "sched_engine.h"
#include "sched_table.h"
#include "team.h"

enum { ZONE_BYTES = 1024, BUFFER_STORES = 16 };

typedef struct store {
    void *address;
    uint32_t bytes;
    bool releases;
    uint64_t value;
    uint32_t clock[SCHED_RANKS_MAX];
} store;

typedef struct buffer {
    store stores[BUFFER_STORES];
    uint32_t count;
} buffer;

uint8_t sched_arena[SCHED_ARENA_BYTES] __attribute__((aligned(TEAM_BUFFERS_ALIGNMENT)));

static struct {
    uint32_t ranks;
    buffer buffers[SCHED_RANKS_MAX];
} memory;

uint8_t *sched_memory_arena(void) {
    return sched_arena;
}

static void complain(const char *text) {
    sched_fail("%s", text);
}

void sched_memory_begin(uint32_t ranks, bool (*is_given_up)(const void *, bool)) {
    const races_setting setting = {.ranks = SCHED_RANKS_MAX,
                                   .words = sched_arena,
                                   .words_bytes = SCHED_ARENA_BYTES,
                                   .memory = sched_arena,
                                   .memory_bytes = SCHED_ARENA_BYTES,
                                   .zone_bytes = ZONE_BYTES,
                                   .describe = sched_describe,
                                   .complain = complain,
                                   .is_given_up = is_given_up};
    if (races_begin(&setting) != 0)
        abort();
    for (uint32_t rank = 0; rank < SCHED_RANKS_MAX; rank++)
        memory.buffers[rank].count = 0;
    memory.ranks = ranks;
}

/* A plain access of the rank's own to what it has stored atomically comes after that: as on processors, it waits until
 * such a store has left the buffer. */
static void drain_overlapping(uint32_t rank, const uint8_t *begin, size_t bytes) {
    const buffer *own = &memory.buffers[rank];
    for (uint32_t i = own->count; i-- > 0;) {
        const uint8_t *stored = own->stores[i].address;
        if (stored >= begin + bytes || stored + own->stores[i].bytes <= begin)
            continue;
        sched_memory_drain(rank);
        return;
    }
}

void sched_memory_read(const void *address, size_t bytes) {
    if (sched_self() == SCHED_NOBODY)
        return;
    drain_overlapping(sched_self(), address, bytes);
    races_read(sched_self(), address, bytes);
}

void sched_memory_write(const void *address, size_t bytes) {
    if (sched_self() == SCHED_NOBODY)
        return;
    drain_overlapping(sched_self(), address, bytes);
    races_write(sched_self(), address, bytes);
}

uint64_t sched_memory_peek(const void *address, uint32_t bytes) {
    if (bytes == sizeof(uint8_t))
        return __atomic_load_n((const uint8_t *)address, __ATOMIC_RELAXED);
    return bytes == sizeof(uint32_t) ? __atomic_load_n((const uint32_t *)address, __ATOMIC_RELAXED)
                                     : __atomic_load_n((const uint64_t *)address, __ATOMIC_RELAXED);
}

static void poke(void *address, uint32_t bytes, uint64_t value) {
    if (bytes == sizeof(uint8_t))
        __atomic_store_n((uint8_t *)address, (uint8_t)value, __ATOMIC_RELAXED);
    else if (bytes == sizeof(uint32_t))
        __atomic_store_n((uint32_t *)address, (uint32_t)value, __ATOMIC_RELAXED);
    else
        __atomic_store_n((uint64_t *)address, value, __ATOMIC_RELAXED);
}

static void trace(uint32_t rank, const char *what, const void *address, uint32_t bytes, uint64_t value) {
    char where[96];
    if (!sched_is_traced())
        return;
    sched_describe(address, bytes, where, sizeof where);
    sched_trace("rank %" PRIu32 " %s %s: %" PRIu64, rank, what, where, value);
}

uint64_t sched_memory_load(const void *address, uint32_t bytes, bool acquires) {
    const buffer *own = &memory.buffers[sched_self()];
    for (uint32_t i = own->count; i-- > 0;)
        if (own->stores[i].address == address)
            return own->stores[i].value;
    const uint64_t value = sched_memory_peek(address, bytes);
    trace(sched_self(), "loads", address, bytes, value);
    if (acquires)
        races_acquire(sched_self(), address);
    return value;
}

void sched_memory_store(void *address, uint32_t bytes, uint64_t value, bool releases) {
    const uint32_t self = sched_self();
    buffer *own = &memory.buffers[self];
    if (own->count == BUFFER_STORES)
        sched_memory_drain_one(self);
    store *last = &own->stores[own->count++];
    *last = (store){.address = address, .bytes = bytes, .releases = releases, .value = value};
    if (releases)
        races_release(self, last->clock);
    trace(self, "stores", address, bytes, value);
}

/* In an atomic that also loads; a store that does not release ends nothing here. */
static void merge(const void *word) {
    uint32_t clock[SCHED_RANKS_MAX];
    races_release(sched_self(), clock);
    races_merge(word, sched_self(), clock);
}

uint64_t sched_memory_add(void *address, uint32_t bytes, uint64_t addend, bool acquires, bool releases) {
    sched_memory_drain(sched_self());
    const uint64_t value = sched_memory_peek(address, bytes);
    poke(address, bytes, value + addend);
    if (acquires)
        races_acquire(sched_self(), address);
    if (releases)
        merge(address);
    trace(sched_self(), "adds to", address, bytes, value + addend);
    return value;
}

uint64_t sched_memory_swap(void *address, uint32_t bytes, uint64_t expected, uint64_t value, bool blindly) {
    sched_memory_drain(sched_self());
    const uint64_t found = sched_memory_peek(address, bytes);
    races_acquire(sched_self(), address);
    if (found == expected || blindly) {
        poke(address, bytes, value);
        merge(address);
    }
    trace(sched_self(), "swaps into", address, bytes, sched_memory_peek(address, bytes));
    return found;
}

void sched_memory_learn_end(uint32_t ended) {
    races_learn_end(sched_self(), ended);
}

uint32_t sched_memory_pending(uint32_t rank) {
    return memory.buffers[rank].count;
}

void sched_memory_drain_one(uint32_t rank) {
    buffer *own = &memory.buffers[rank];
    const store oldest = own->stores[0];
    own->count--;
    memmove(own->stores, own->stores + 1, own->count * sizeof *own->stores);
    poke(oldest.address, oldest.bytes, oldest.value);
    races_store(oldest.address, rank, oldest.releases ? oldest.clock : NULL);
    trace(rank, "has its store seen by all in", oldest.address, oldest.bytes, oldest.value);
}

void sched_memory_drain(uint32_t rank) {
    while (memory.buffers[rank].count)
        sched_memory_drain_one(rank);
}

void sched_memory_drain_all(void) {
    for (uint32_t rank = 0; rank < memory.ranks; rank++)
        sched_memory_drain(rank);
}
