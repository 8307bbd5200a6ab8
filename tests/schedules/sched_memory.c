#include "sched_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched_engine.h"

enum { GRANULE_BYTES = 8, GRANULES = SCHED_ARENA_BYTES / GRANULE_BYTES, BUFFER_STORES = 16 };

typedef struct vector {
    uint32_t known[SCHED_RANKS_MAX];
} vector;

/* Eight bytes: who wrote them last, and when each rank read them last, in the rank's own epochs. */
typedef struct granule {
    uint32_t writer;
    uint32_t write_epoch;
    vector reads;
    vector released; /* with the atomic that lies here */
} granule;

typedef struct store {
    void *address;
    uint32_t bytes;
    bool releases;
    uint64_t value;
    vector known;
} store;

typedef struct buffer {
    store stores[BUFFER_STORES];
    uint32_t count;
} buffer;

uint8_t sched_arena[SCHED_ARENA_BYTES] __attribute__((aligned(4096)));
static granule granules[GRANULES];

static struct {
    uint32_t ranks;
    vector vectors[SCHED_RANKS_MAX]; /* of each rank; its own entry is its present epoch */
    buffer buffers[SCHED_RANKS_MAX];
    void (*describe)(const void *address, char *text, size_t text_bytes);
    bool (*is_given_up)(const void *address);
} memory;

uint8_t *sched_memory_arena(void) {
    return sched_arena;
}

/* Epochs go on from run to run, so that the granules need not be cleared. */
void sched_memory_begin(uint32_t ranks, void (*describe)(const void *, char *, size_t),
                        bool (*is_given_up)(const void *)) {
    vector present;
    for (uint32_t rank = 0; rank < SCHED_RANKS_MAX; rank++)
        present.known[rank] = memory.vectors[rank].known[rank];
    for (uint32_t rank = 0; rank < SCHED_RANKS_MAX; rank++) {
        memory.vectors[rank] = present;
        memory.vectors[rank].known[rank]++;
        memory.buffers[rank].count = 0;
    }
    memory.ranks = ranks;
    memory.describe = describe;
    memory.is_given_up = is_given_up;
}

static granule *granule_of(const void *address) {
    return &granules[((uintptr_t)address - (uintptr_t)sched_arena) / GRANULE_BYTES];
}

static void join(vector *into, const vector *from) {
    for (uint32_t rank = 0; rank < memory.ranks; rank++)
        if (into->known[rank] < from->known[rank])
            into->known[rank] = from->known[rank];
}

static void complain(const void *address, const char *what, uint32_t other, const char *before) {
    char where[96];
    memory.describe(address, where, sizeof where);
    sched_fail("rank %" PRIu32 " %s %s and cannot know that rank %" PRIu32 " has %s it", sched_self(), what, where,
               other, before);
}

static void check_writer(const granule *granule, const void *address, const char *what) {
    const vector *self = &memory.vectors[sched_self()];
    if (granule->writer != sched_self() && granule->write_epoch > self->known[granule->writer])
        complain(address, what, granule->writer, "written");
}

void sched_memory_read(const void *address, size_t bytes) {
    if (!sched_memory_is_shared(address) || bytes == 0)
        return;
    const uint32_t self = sched_self();
    const granule *last = granule_of((const uint8_t *)address + bytes - 1);
    for (granule *granule = granule_of(address); granule <= last; granule++) {
        check_writer(granule, sched_arena + (granule - granules) * GRANULE_BYTES, "reads");
        granule->reads.known[self] = memory.vectors[self].known[self];
    }
}

void sched_memory_write(const void *address, size_t bytes) {
    if (!sched_memory_is_shared(address) || bytes == 0)
        return;
    const uint32_t self = sched_self();
    const granule *last = granule_of((const uint8_t *)address + bytes - 1);
    for (granule *granule = granule_of(address); granule <= last; granule++) {
        const void *where = sched_arena + (granule - granules) * GRANULE_BYTES;
        if (!memory.is_given_up(where))
            check_writer(granule, where, "overwrites");
        for (uint32_t rank = 0; rank < memory.ranks; rank++)
            if (rank != self && granule->reads.known[rank] > memory.vectors[self].known[rank])
                complain(where, "overwrites", rank, "read");
        granule->writer = self;
        granule->write_epoch = memory.vectors[self].known[self];
    }
}

uint64_t sched_memory_peek(const void *address, uint32_t bytes) {
    return bytes == sizeof(uint32_t) ? __atomic_load_n((const uint32_t *)address, __ATOMIC_RELAXED)
                                     : __atomic_load_n((const uint64_t *)address, __ATOMIC_RELAXED);
}

static void poke(void *address, uint32_t bytes, uint64_t value) {
    if (bytes == sizeof(uint32_t))
        __atomic_store_n((uint32_t *)address, (uint32_t)value, __ATOMIC_RELAXED);
    else
        __atomic_store_n((uint64_t *)address, value, __ATOMIC_RELAXED);
}

static void trace(uint32_t rank, const char *what, const void *address, uint64_t value) {
    char where[96];
    if (!sched_is_traced())
        return;
    memory.describe(address, where, sizeof where);
    sched_trace("rank %" PRIu32 " %s %s: %" PRIu64, rank, what, where, value);
}

uint64_t sched_memory_load(const void *address, uint32_t bytes, bool acquires) {
    const buffer *own = &memory.buffers[sched_self()];
    for (uint32_t i = own->count; i-- > 0;)
        if (own->stores[i].address == address)
            return own->stores[i].value;
    const uint64_t value = sched_memory_peek(address, bytes);
    trace(sched_self(), "loads", address, value);
    if (acquires)
        join(&memory.vectors[sched_self()], &granule_of(address)->released);
    return value;
}

/* What the running rank has done up to now, which a release passes on; what comes after is of a new epoch. */
static vector release(void) {
    vector *self = &memory.vectors[sched_self()];
    const vector released = *self;
    self->known[sched_self()]++;
    return released;
}

void sched_memory_store(void *address, uint32_t bytes, uint64_t value, bool releases) {
    const uint32_t self = sched_self();
    buffer *own = &memory.buffers[self];
    if (own->count == BUFFER_STORES)
        sched_memory_drain_one(self);
    store *last = &own->stores[own->count++];
    *last = (store){.address = address, .bytes = bytes, .releases = releases, .value = value};
    if (releases)
        last->known = release();
    trace(sched_self(), "stores", address, value);
}

uint64_t sched_memory_add(void *address, uint32_t bytes, uint64_t addend, bool acquires, bool releases) {
    vector *self = &memory.vectors[sched_self()], *word = &granule_of(address)->released;
    sched_memory_drain(sched_self());
    const uint64_t value = sched_memory_peek(address, bytes);
    poke(address, bytes, value + addend);
    if (acquires)
        join(self, word);
    if (releases) {
        const vector released = release();
        join(word, &released);
    }
    trace(sched_self(), "adds to", address, value + addend);
    return value;
}

uint64_t sched_memory_swap(void *address, uint32_t bytes, uint64_t expected, uint64_t value, bool blindly) {
    vector *self = &memory.vectors[sched_self()], *word = &granule_of(address)->released;
    sched_memory_drain(sched_self());
    const uint64_t found = sched_memory_peek(address, bytes);
    join(self, word);
    if (found == expected || blindly) {
        const vector released = release();
        poke(address, bytes, value);
        join(word, &released);
    }
    trace(sched_self(), "swaps into", address, sched_memory_peek(address, bytes));
    return found;
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
    /* A store that does not release ends what an earlier one passed on. */
    granule_of(oldest.address)->released = oldest.releases ? oldest.known : (vector){{0}};
    trace(rank, "has its store seen by all in", oldest.address, oldest.value);
}

void sched_memory_drain(uint32_t rank) {
    while (memory.buffers[rank].count)
        sched_memory_drain_one(rank);
}

void sched_memory_drain_all(void) {
    for (uint32_t rank = 0; rank < memory.ranks; rank++)
        sched_memory_drain(rank);
}
