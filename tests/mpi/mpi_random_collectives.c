/* The collectives and communicators of a random program. */
#include <stdlib.h>
#include <unistd.h>

#include "mpi_random_program.h"
#include "mpi_testing.h"
#include "splitmix64.h"

static const struct operation *draw_operation(const struct element *element, uint64_t draw) {
    for (int i = 0; i < OPERATIONS; i++) {
        const struct operation *operation = &mpi_operations[(draw + (uint64_t)i) % OPERATIONS];
        if (operation_exists(operation, element))
            return operation;
    }
    return NULL;
}

void run_collective(struct state *state) {
    static const char *const elements[] = {"MPI_INT",   "MPI_DOUBLE",  "MPI_DOUBLE",           "MPI_LONG", "MPI_FLOAT",
                                           "MPI_SHORT", "MPI_UINT8_T", "MPI_C_DOUBLE_COMPLEX", "MPI_2INT"};
    static const int ends[] = {2, 10, 10, 10, 100, 100, 100, 1000, 5000};
    const struct group *group = &state->groups[state->event.group];
    if (group->comm == MPI_COMM_NULL)
        return;
    const uint64_t draw = group_draw(state, 0), more = group_draw(state, 1);
    struct call call = {.collective = (enum collective)(draw % CALLS),
                        .comm = group->comm,
                        .element = element_named(elements[(draw >> 8) % 9]),
                        .root = (int)((draw >> 16) % (uint64_t)group->size),
                        .count = (int)((draw >> 24) % (uint64_t)ends[(draw >> 44) % 9]),
                        .in_place = more % 3 == 0,
                        .rubbish = (more >> 8) % 2,
                        .draw = group_draw(state, 2)};
    const struct traits *traits = &call_traits[call.collective];
    call.in_place &= traits->works_in_place;
#ifdef MPICH /* 4.0 crashes */
    call.in_place &= is_strict || call.collective != CALL_REDUCE || call.root == 0;
#endif
    call.large = (more >> 16) % 4 == 0 && call_has_large(call.collective);
    if ((more >> 24) % 24 == 0)
        call.count *= 40 / group->size;
    if (traits->reduces)
        call.operation = draw_operation(call.element, more >> 32);
    else if ((more >> 40) % 3 == 0) {
        call.derived = true;
        call.count = call.count / LAYOUT_MULTIPLE * LAYOUT_MULTIPLE;
    }
    if (random_below(&state->mine, 12) == 0)
        usleep((unsigned)random_below(&state->mine, 3000)); /* the others have filled their buffers with rubbish */
    const char *problem = call_run(&call);
    require(state, !problem, "%s: %s", call_words(&call), problem);
}

void run_background_collective(struct state *state) {
    const struct group *group = &state->groups[state->event.group];
    if (group->comm == MPI_COMM_NULL)
        return;
    const uint64_t draw = group_draw(state, 0);
    const int count = (int)((draw >> 8) % ((draw >> 40) % 8 == 0 ? 30000 : 100)),
              root = (int)((draw >> 32) % (uint64_t)group->size);
    struct pending *pending = pending_add(state, (enum pending_kind)(PENDING_SUM + draw % 3));
    pending->draw = group_draw(state, 1);
    if (pending->kind == PENDING_BARRIER) {
        require_success(state, MPI_Ibarrier(group->comm, &pending->request), "MPI_Ibarrier");
        return;
    }
    pending->count = count;
    pending->source = root;
    int32_t *mine = random_numbers(pending->draw, group->rank, count);
    if (pending->kind == PENDING_BROADCAST) {
        pending->received = mine;
        require_success(state, MPI_Ibcast(mine, count, MPI_INT32_T, root, group->comm, &pending->request),
                        "MPI_Ibcast");
        return;
    }
    for (int i = 0; i < count; i++)
        mine[i] >>= 8; /* so that the sum fits */
    pending->sent = mine;
    pending->received = malloc(sizeof *mine * (size_t)(count + 1));
    require_success(
        state, MPI_Iallreduce(mine, pending->received, count, MPI_INT32_T, MPI_SUM, group->comm, &pending->request),
        "MPI_Iallreduce");
}

/* Communicators. Some have an attribute, the callbacks of which make collectives: its copy callback where the
 * communicator is duplicated, its delete callback where it is freed, or gets the attribute anew. */

struct attribute {
    uint64_t draw;
};

/* Then it is not copied: Open MPI 4.1 would do so in MPI_Comm_create_group, too, where not all ranks are. */
static bool is_kept;

static void call_in_callback(const struct state *state, MPI_Comm comm, uint64_t draw) {
    struct call call = {.collective = (enum collective)(draw % CALLS),
                        .comm = comm,
                        .element = element_named("MPI_INT"),
                        .count = (int)((draw >> 8) % 50),
                        .draw = draw >> 16};
    if (call_traits[call.collective].reduces)
        call.operation = draw_operation(call.element, draw >> 24);
    const char *problem = call_run(&call);
    require(state, !problem, "in a callback %s: %s", call_words(&call), problem);
}

static int copy_attribute(MPI_Comm comm, int key, void *extra, void *value, void *copied, int *flag) {
    struct attribute *attribute = value, *copy;
    (void)key;
    *flag = !is_kept;
    if (!*flag)
        return MPI_SUCCESS;
    call_in_callback(extra, comm, random_next(&attribute->draw));
    copy = malloc(sizeof *copy);
    *copy = *attribute;
    *(void **)copied = copy;
    return MPI_SUCCESS;
}

static int delete_attribute(MPI_Comm comm, int key, void *value, void *extra) {
    struct attribute *attribute = value;
    const uint64_t draw = random_next(&attribute->draw);
    MPI_Comm again;
    (void)key;
    for (uint64_t i = 0; i < draw % 8; i++)
        call_in_callback(extra, comm, random_next(&attribute->draw));
    if (draw & 256) {
        is_kept = true;
        require_success(extra, MPI_Comm_dup(comm, &again), "MPI_Comm_dup in a callback");
        is_kept = false;
        call_in_callback(extra, again, random_next(&attribute->draw));
        require_success(extra, MPI_Comm_free(&again), "MPI_Comm_free in a callback");
    }
    free(attribute);
    return MPI_SUCCESS;
}

static void attach_attribute(struct state *state, MPI_Comm comm, uint64_t draw) {
    static int key = MPI_KEYVAL_INVALID;
    struct attribute *attribute = malloc(sizeof *attribute);
    *attribute = (struct attribute){.draw = draw};
    if (key == MPI_KEYVAL_INVALID)
        MPI_Comm_create_keyval(copy_attribute, delete_attribute, &key, state);
    require_success(state, MPI_Comm_set_attr(comm, key, attribute), "MPI_Comm_set_attr");
}

static void adopt(struct group *group, MPI_Comm comm, uint64_t draw) {
    *group = (struct group){.exists = true, .comm = comm, .draw = draw};
    if (comm == MPI_COMM_NULL)
        return;
    MPI_Group here, world;
    int places[MPI_RANKS_MAX];
    MPI_Comm_size(comm, &group->size);
    MPI_Comm_rank(comm, &group->rank);
    MPI_Comm_group(comm, &here);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int i = 0; i < group->size; i++)
        places[i] = i;
    MPI_Group_translate_ranks(here, group->size, places, world, group->members);
    MPI_Group_free(&here);
    MPI_Group_free(&world);
}

/* MPI_Comm_create_group: only those call it that are to be in. */
static void make_subgroup(struct state *state, const struct group *from, MPI_Comm *comm, uint64_t draw) {
    MPI_Group whole, part;
    int excluded = (int)(draw % (uint64_t)from->size);
    MPI_Comm_group(from->comm, &whole);
    MPI_Group_excl(whole, from->size > 1 ? 1 : 0, &excluded, &part);
    is_kept = true;
    if (draw & 256)
        require_success(state, MPI_Comm_create(from->comm, part, comm), "MPI_Comm_create");
    else if (from->rank != excluded || from->size == 1)
        require_success(state, MPI_Comm_create_group(from->comm, part, state->event.position, comm),
                        "MPI_Comm_create_group");
    is_kept = false;
    MPI_Group_free(&whole);
    MPI_Group_free(&part);
}

/* With a request on its way, MPICH calls the delete callback in MPI_Wait. Open MPI 4.1 crashes now and then. */
static void free_group(struct state *state, int which) {
    struct group *group = &state->groups[which];
    MPI_Request request = MPI_REQUEST_NULL;
    if (group->comm != MPI_COMM_NULL) {
        complete_group(state, which);
#ifdef MPICH
        if (group->draw % 3 == 0)
            require_success(state, MPI_Ibarrier(group->comm, &request), "MPI_Ibarrier");
#endif
        require_success(state, group->draw % 3 == 1 ? MPI_Comm_disconnect(&group->comm) : MPI_Comm_free(&group->comm),
                        "MPI_Comm_free");
        require_success(state, MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
    }
    group->exists = false;
}

static bool has_window(const struct state *state, int group) {
    bool has = false;
    for (int i = 0; i < WINDOWS_MAX; i++)
        has |= state->windows[i].exists && state->windows[i].group == group;
    return has;
}

/* Another communicator is made of the event's; or, where there are enough, it is freed. */
void run_group(struct state *state) {
    const struct group *from = &state->groups[state->event.group];
    int place = 1;
    while (place < GROUPS_MAX && state->groups[place].exists)
        place++;
    if (place == GROUPS_MAX) {
        if (state->event.group > 0 && !has_window(state, state->event.group))
            free_group(state, state->event.group);
        return;
    }
    MPI_Comm comm = MPI_COMM_NULL;
    if (from->comm != MPI_COMM_NULL) {
        const uint64_t draw = group_draw(state, 0);
        const int color = (int)(draw >> (8 + from->rank * 2) & 3), key = draw & 128 ? -from->rank : from->rank;
        if (draw % 3 == 0)
            require_success(state, MPI_Comm_dup(from->comm, &comm), "MPI_Comm_dup");
        else if (draw % 3 == 1)
            require_success(state, MPI_Comm_split(from->comm, color == 3 ? MPI_UNDEFINED : color & 1, key, &comm),
                            "MPI_Comm_split");
        else
            make_subgroup(state, from, &comm, draw >> 8);
    }
    const uint64_t made = group_draw(state, 1);
    if (comm != MPI_COMM_NULL)
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    if (comm != MPI_COMM_NULL && made & 1)
        attach_attribute(state, comm, made >> 8);
    adopt(&state->groups[place], comm, made >> 1);
}

void end_groups(struct state *state) {
    for (int i = 1; i < GROUPS_MAX; i++)
        if (state->groups[i].exists)
            free_group(state, i);
}
