/* Handles and a small number for each: a hash table that is filled once and then only read. */
#pragma once

#include <stdbool.h>

#include "host/constants.h"

enum { MPI_HANDLE_MAP_SLOTS = 256 };

struct mpi_handle_map {
    mpi_word handles[MPI_HANDLE_MAP_SLOTS]; /* 0: free; no handle is */
    uint8_t numbers[MPI_HANDLE_MAP_SLOTS];
};

_Static_assert(2 * (int)MPI_TYPES <= MPI_HANDLE_MAP_SLOTS, "searches end soon at a free slot");

static inline unsigned mpi_handle_map_slot(mpi_word handle) {
    return (unsigned)((uint64_t)handle * 0x9e3779b97f4a7c15u >> 56);
}

/* A handle that has two names keeps the first. */
static inline void mpi_handle_map_add(struct mpi_handle_map *map, mpi_word handle, unsigned number) {
    unsigned slot = mpi_handle_map_slot(handle);
    while (map->handles[slot] && map->handles[slot] != handle)
        slot = (slot + 1) % MPI_HANDLE_MAP_SLOTS;
    if (!map->handles[slot])
        map->numbers[slot] = (uint8_t)number;
    map->handles[slot] = handle;
}

static inline bool mpi_handle_map_find(const struct mpi_handle_map *map, mpi_word handle, unsigned *number) {
    unsigned slot = mpi_handle_map_slot(handle);
    for (; map->handles[slot]; slot = (slot + 1) % MPI_HANDLE_MAP_SLOTS) {
        *number = map->numbers[slot];
        if (map->handles[slot] == handle)
            return true;
    }
    return false;
}
