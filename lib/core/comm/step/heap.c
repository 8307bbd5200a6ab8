/* The heap of a communicator: its buffers of kolo_alloc, and where an address lies in them. */
#include "comm/step/heap.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

#define OFFSET_MASK ((UINT64_C(1) << KOLO_HEAP_OFFSET_BITS) - 1)

int kolo_heap_reserve(struct kolo_heap *heap) {
    if (heap->live < heap->capacity)
        return 0;
    const uint32_t capacity = heap->capacity ? heap->capacity * 2 : 8;
    struct kolo_region *regions = realloc(heap->regions, capacity * sizeof *regions);
    if (!regions)
        return kolo_fail(KOLO_ERR_SYSTEM, "out of memory");
    memset(regions + heap->capacity, 0, (capacity - heap->capacity) * sizeof *regions);
    heap->regions = regions;
    heap->capacity = capacity;
    return 0;
}

void kolo_heap_add(struct kolo_heap *heap, const struct kolo_region *region) {
    uint32_t index = 0;
    while (heap->regions[index].base)
        index++;
    heap->regions[index] = *region;
    heap->live++;
    heap->bytes += region->part_bytes;
}

int64_t kolo_heap_index(const struct kolo_heap *heap, const void *buffer, uint32_t own) {
    const uint64_t place = kolo_heap_place(heap, buffer, 0, own);
    return place && (place & OFFSET_MASK) == 0 ? (int64_t)(place >> KOLO_HEAP_OFFSET_BITS) - 1 : -1;
}

static void end(struct kolo_region *region, bool keeps_memory) {
    if (keeps_memory)
        kolo_region_forget(region);
    else
        kolo_region_leave(region);
}

void kolo_heap_remove(struct kolo_heap *heap, uint32_t index, bool keeps_memory) {
    heap->live--;
    heap->bytes -= heap->regions[index].part_bytes;
    end(&heap->regions[index], keeps_memory);
}

uint64_t kolo_heap_place(const struct kolo_heap *heap, const void *address, size_t bytes, uint32_t own) {
    for (uint32_t index = 0; index < heap->capacity; index++) {
        const struct kolo_region *region = &heap->regions[index];
        const uintptr_t offset = (uintptr_t)address - (uintptr_t)kolo_region_part(region, own);
        if (region->base && offset < region->part_bytes && bytes <= region->part_bytes - offset)
            return ((uint64_t)index + 1) << KOLO_HEAP_OFFSET_BITS | offset;
    }
    return 0;
}

uint8_t *kolo_heap_address(const struct kolo_heap *heap, uint64_t place, size_t bytes, uint32_t rank) {
    const uint64_t index = (place >> KOLO_HEAP_OFFSET_BITS) - 1, offset = place & OFFSET_MASK;
    if (index >= heap->capacity || !heap->regions[index].base)
        return NULL;
    const struct kolo_region *region = &heap->regions[index];
    if (offset > region->part_bytes || bytes > region->part_bytes - offset)
        return NULL;
    return kolo_region_part(region, rank) + offset;
}

bool kolo_heap_is_common(const struct kolo_heap *heap, uint64_t place) {
    const uint64_t index = (place >> KOLO_HEAP_OFFSET_BITS) - 1;
    return index < heap->capacity && heap->regions[index].parts == 1;
}

void kolo_heap_destroy(struct kolo_heap *heap, bool keeps_memory) {
    for (uint32_t index = 0; index < heap->capacity; index++)
        if (heap->regions[index].base)
            end(&heap->regions[index], keeps_memory);
    free(heap->regions);
}
