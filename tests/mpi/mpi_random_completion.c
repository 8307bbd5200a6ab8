/* Completing what a random program has begun, in a way of each rank's choice. */
#include <stdlib.h>
#include <string.h>

#include "mpi_random_program.h"
#include "splitmix64.h"

struct pending *pending_add(struct state *state, enum pending_kind kind) {
    if (state->pendings == PENDING_MAX)
        complete_all(state);
    struct pending *pending = &state->pending[state->pendings++];
    *pending = (struct pending){
        .request = MPI_REQUEST_NULL, .kind = kind, .group = state->event.group, .position = state->event.position};
    return pending;
}

/* It has been completed, with this status. */
static void check(const struct state *state, struct pending *pending, const MPI_Status *status) {
    const struct group *group = &state->groups[pending->group];
    int count = 0;
    if (pending->kind == PENDING_RECEIVE) {
        MPI_Get_count(status, MPI_INT32_T, &count);
        require(state, status->MPI_SOURCE == pending->source && status->MPI_TAG == pending->position,
                "the receive of event %d has source %d and tag %d", pending->position, status->MPI_SOURCE,
                status->MPI_TAG);
        require(state, count == pending->count, "the receive of event %d has %d numbers instead of %d",
                pending->position, count, pending->count);
    }
    for (int i = 0; i < pending->count && pending->kind != PENDING_SEND; i++) {
        int32_t due = random_number(pending->draw, pending->source, i);
        if (pending->kind == PENDING_SUM) {
            due = 0;
            for (int rank = 0; rank < group->size; rank++)
                due += random_number(pending->draw, rank, i) >> 8;
        }
        require(state, pending->received[i] == due, "number %d of what began at event %d is %d instead of %d", i,
                pending->position, pending->received[i], due);
    }
    free(pending->sent);
    free(pending->received);
}

/* Takes out what is chosen; returns how many those are. */
static int take(struct state *state, const bool *chosen, struct pending *taken) {
    int n = 0, left = 0;
    for (int i = 0; i < state->pendings; i++)
        if (chosen[i])
            taken[n++] = state->pending[i];
        else
            state->pending[left++] = state->pending[i];
    state->pendings = left;
    return n;
}

static void complete(struct state *state, const bool *chosen) {
    struct pending taken[PENDING_MAX];
    MPI_Request requests[PENDING_MAX];
    MPI_Status statuses[PENDING_MAX];
    const int n = take(state, chosen, taken), way = (int)random_below(&state->mine, 5);
    int indices[PENDING_MAX], done = 0;
    for (int i = 0; i < n; i++)
        requests[i] = taken[i].request;
    if (way == 0)
        require_success(state, MPI_Waitall(n, requests, statuses), "MPI_Waitall");
    for (int i = 0; i < n; i++)
        if (way == 0) {
            check(state, &taken[i], &statuses[i]);
        } else if (way == 1) {
            require_success(state, MPI_Wait(&requests[n - 1 - i], &statuses[0]), "MPI_Wait");
            check(state, &taken[n - 1 - i], &statuses[0]);
        } else if (way == 2) {
            require_success(state, MPI_Waitany(n, requests, &indices[0], &statuses[0]), "MPI_Waitany");
            check(state, &taken[indices[0]], &statuses[0]);
        } else if (way == 3) {
            for (int ready = 0; !ready;)
                require_success(state, MPI_Test(&requests[i], &ready, &statuses[0]), "MPI_Test");
            check(state, &taken[i], &statuses[0]);
        }
    for (int left = way == 4 ? n : 0; left > 0; left -= done) {
        require_success(state, MPI_Waitsome(n, requests, &done, indices, statuses), "MPI_Waitsome");
        for (int i = 0; i < done; i++)
            check(state, &taken[indices[i]], &statuses[i]);
    }
}

void complete_some(struct state *state) {
    bool chosen[PENDING_MAX];
    for (int i = 0; i < state->pendings; i++)
        chosen[i] = random_below(&state->mine, 2);
    complete(state, chosen);
}

void complete_group(struct state *state, int group) {
    bool chosen[PENDING_MAX];
    for (int i = 0; i < state->pendings; i++)
        chosen[i] = state->pending[i].group == group;
    complete(state, chosen);
}

void complete_all(struct state *state) {
    bool chosen[PENDING_MAX];
    memset(chosen, true, sizeof chosen);
    complete(state, chosen);
}
