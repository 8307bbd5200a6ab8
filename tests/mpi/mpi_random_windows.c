/* The one-sided access of a random program. At each rank every other has a counter and integers of its own, so that it
 * knows what it must find there. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_random_program.h"
#include "splitmix64.h"

/* In int64_t: the counter, then the integers. A rank's slots are a multiple of 16 bytes, whatever the number of ranks:
 * of memory from MPI_Win_allocate that is not, MPICH 4.0 takes the start at other ranks for the multiple below. */
enum { SLOT = 2 + SLOT_INTS / 2 };
static_assert(SLOT * sizeof(int64_t) % 16 == 0, "MPICH 4.0");

static void make_window(struct state *state, struct window *window, uint64_t draw) {
    const struct group *group = &state->groups[state->event.group];
    *window = (struct window){.exists = true, .group = state->event.group, .has_fences = draw & 1};
    if (group->comm == MPI_COMM_NULL)
        return;
    const MPI_Aint bytes = (MPI_Aint)sizeof(int64_t) * SLOT * group->size;
    if (draw & 2 || group->size == 1) /* of which Open MPI 4.1 creates none */
        require_success(state, MPI_Win_allocate(bytes, 8, MPI_INFO_NULL, group->comm, &window->memory, &window->win),
                        "MPI_Win_allocate");
    else {
        require_success(state, MPI_Alloc_mem(bytes, MPI_INFO_NULL, &window->memory), "MPI_Alloc_mem");
        require_success(state, MPI_Win_create(window->memory, bytes, 8, MPI_INFO_NULL, group->comm, &window->win),
                        "MPI_Win_create");
    }
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, group->rank, 0, window->win);
    memset(window->memory, 0, (size_t)bytes);
    MPI_Win_unlock(group->rank, window->win);
    MPI_Barrier(group->comm);
    if (window->has_fences)
        require_success(state, MPI_Win_fence(MPI_MODE_NOPRECEDE, window->win), "MPI_Win_fence");
}

static void free_window(struct state *state, struct window *window) {
    const struct group *group = &state->groups[window->group];
    window->exists = false;
    if (group->comm == MPI_COMM_NULL)
        return;
    int *flavour, has_flavour;
    if (window->has_fences)
        require_success(state, MPI_Win_fence(MPI_MODE_NOSUCCEED, window->win), "MPI_Win_fence");
    MPI_Win_get_attr(window->win, MPI_WIN_CREATE_FLAVOR, &flavour, &has_flavour);
    const bool is_ours = has_flavour && *flavour == MPI_WIN_FLAVOR_CREATE;
    require_success(state, MPI_Win_free(&window->win), "MPI_Win_free");
    if (is_ours)
        MPI_Free_mem(window->memory);
}

/* Puts integers into the slot of this rank, and a number onto its counter; the caller completes both. */
static void put(struct state *state, struct window *window, int target, const int32_t *numbers, int count) {
    const struct group *group = &state->groups[window->group];
    const MPI_Aint slot = (MPI_Aint)group->rank * SLOT;
    window->more = numbers[0] >> 8;
    require_success(state, MPI_Put(numbers, count, MPI_INT32_T, target, slot + 1, count, MPI_INT32_T, window->win),
                    "MPI_Put");
    require_success(state,
                    MPI_Accumulate(&window->more, 1, MPI_INT64_T, target, slot, 1, MPI_INT64_T, MPI_SUM, window->win),
                    "MPI_Accumulate");
    window->added[target] += window->more;
}

/* All put something at a neighbour, and look at what has been put here. */
static void run_fences(struct state *state, struct window *window, uint64_t draw, int count) {
    const struct group *group = &state->groups[window->group];
    const int shift = (int)((draw >> 8) % (uint64_t)group->size);
    const int target = (group->rank + shift) % group->size, source = (group->rank + group->size - shift) % group->size;
    int32_t *numbers = random_numbers(draw, group->rank, count);
    put(state, window, target, numbers, count);
    require_success(state, MPI_Win_fence(0, window->win), "MPI_Win_fence");
    const int32_t *here = (const int32_t *)(window->memory + source * SLOT + 1);
    for (int i = 0; i < count; i++)
        require(state, here[i] == random_number(draw, source, i), "number %d that %d has put here is %d", i, source,
                here[i]);
    int64_t far = -1;
    require_success(state,
                    MPI_Get(&far, 1, MPI_INT64_T, target, (MPI_Aint)group->rank * SLOT, 1, MPI_INT64_T, window->win),
                    "MPI_Get");
    require_success(state, MPI_Win_fence(0, window->win), "MPI_Win_fence");
    require(state, far == window->added[target], "the counter at %d is %lld instead of %lld", target, (long long)far,
            (long long)window->added[target]);
    free(numbers);
}

/* One rank reaches into another, which takes no part. */
static void run_lock(struct state *state, struct window *window, uint64_t draw, int count) {
    const struct group *group = &state->groups[window->group];
    const int origin = (int)((draw >> 8) % (uint64_t)group->size), target = (int)((draw >> 16) % (uint64_t)group->size);
    if (group->rank != origin)
        return;
    const MPI_Aint slot = (MPI_Aint)origin * SLOT;
    int32_t *numbers = random_numbers(draw, origin, count), *back = calloc((size_t)count + 1, sizeof *back);
    const bool all = draw & 1 << 5;
    require_success(state,
                    all ? MPI_Win_lock_all(0, window->win)
                        : MPI_Win_lock(draw & 1 << 6 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, target, 0, window->win),
                    "MPI_Win_lock");
    put(state, window, target, numbers, count);
    require_success(state, MPI_Win_flush(target, window->win), "MPI_Win_flush");
    require_success(state, MPI_Get(back, count, MPI_INT32_T, target, slot + 1, count, MPI_INT32_T, window->win),
                    "MPI_Get");
    int64_t one = 1, before = -1;
    require_success(state, MPI_Fetch_and_op(&one, &before, MPI_INT64_T, target, slot, MPI_SUM, window->win),
                    "MPI_Fetch_and_op");
    require_success(state, all ? MPI_Win_unlock_all(window->win) : MPI_Win_unlock(target, window->win),
                    "MPI_Win_unlock");
    require(state, before == window->added[target], "the counter at %d is %lld instead of %lld", target,
            (long long)before, (long long)window->added[target]);
    window->added[target]++;
    for (int i = 0; i < count; i++)
        require(state, back[i] == numbers[i], "number %d at %d is %d instead of %d", i, target, back[i], numbers[i]);
    free(numbers);
    free(back);
}

/* Uses a window of the event's group, makes one or, now and then, frees it. */
void run_window(struct state *state) {
    const struct group *group = &state->groups[state->event.group];
    const uint64_t common = state->event.draws[0];
    struct window *window = NULL, *free_place = NULL;
    for (int i = 0; i < WINDOWS_MAX; i++)
        if (!state->windows[i].exists)
            free_place = &state->windows[i];
        else if (!window || state->windows[i].group == state->event.group)
            window = &state->windows[i];
    const bool fits = window && window->group == state->event.group;
    if (!fits && free_place && common % 2) {
        make_window(state, free_place, common >> 8);
        return;
    }
    if (!window)
        return;
    state->event.group = window->group;
    group = &state->groups[window->group];
    if (!fits && common % 8 == 0) {
        free_window(state, window);
        return;
    }
    if (group->comm == MPI_COMM_NULL)
        return;
    const uint64_t draw = group_draw(state, 1);
    const int count = 1 + (int)((draw >> 32) % ((draw >> 28) % 4 == 0 ? SLOT_INTS : 50));
    if (window->has_fences)
        run_fences(state, window, draw, count);
    else
        run_lock(state, window, draw, count);
}

void end_windows(struct state *state) {
    for (int i = 0; i < WINDOWS_MAX; i++)
        if (state->windows[i].exists)
            free_window(state, &state->windows[i]);
}
