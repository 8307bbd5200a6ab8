/* The messages of a random program. Receives are posted before anything that may wait for them. */
#include <stdlib.h>
#include <unistd.h>

#include "mpi_random_program.h"
#include "mpi_testing.h"
#include "splitmix64.h"

/* Most are short; some go by rendezvous. */
static int draw_count(uint64_t draw) {
    static const int ends[] = {2, 20, 20, 300, 300, 2000, 2000, 30000, 30000, 200000};
    return (int)((draw >> 8) % (uint64_t)ends[draw % 10]);
}

static void post_receive(struct state *state, const struct group *group, int source, int count, uint64_t draw,
                         bool any_tag) {
    struct pending *pending = pending_add(state, PENDING_RECEIVE);
    pending->source = source;
    pending->count = count;
    pending->draw = draw;
    pending->received = malloc(sizeof(int32_t) * (size_t)(count + 1));
    require_success(state,
                    MPI_Irecv(pending->received, count, MPI_INT32_T, source, any_tag ? MPI_ANY_TAG : pending->position,
                              group->comm, &pending->request),
                    "MPI_Irecv");
}

/* Sends in a way that the draw says: all but two of them wait for the receiver if the message is long. */
static void send_numbers(struct state *state, const struct group *group, int to, int count, uint64_t draw, int way) {
    int32_t *numbers = random_numbers(draw, group->rank, count);
    const int tag = state->event.position;
    if (way >= 4) {
        struct pending *pending = pending_add(state, PENDING_SEND);
        pending->sent = numbers;
        require_success(state,
                        way == 4 ? MPI_Isend(numbers, count, MPI_INT32_T, to, tag, group->comm, &pending->request)
                                 : MPI_Issend(numbers, count, MPI_INT32_T, to, tag, group->comm, &pending->request),
                        "MPI_Isend");
        return;
    }
    require_success(state,
                    way == 0   ? MPI_Send(numbers, count, MPI_INT32_T, to, tag, group->comm)
                    : way <= 2 ? MPI_Ssend(numbers, count, MPI_INT32_T, to, tag, group->comm)
                               : MPI_Sendrecv(numbers, count, MPI_INT32_T, to, tag, NULL, 0, MPI_INT32_T, MPI_PROC_NULL,
                                              tag, group->comm, MPI_STATUS_IGNORE),
                    "MPI_Send");
    free(numbers);
}

static void check_numbers(struct state *state, const int32_t *numbers, int count, uint64_t draw, int source) {
    for (int i = 0; i < count; i++)
        require(state, numbers[i] == random_number(draw, source, i), "number %d from %d is %d instead of %d", i, source,
                numbers[i], random_number(draw, source, i));
}

/* Looks for the message first, which takes the MPI's progress or makes it. */
static void receive_probed(struct state *state, const struct group *group, int source, int count, uint64_t draw,
                           int way) {
    MPI_Status status;
    MPI_Message message = MPI_MESSAGE_NULL;
    int found = 0, length;
    const int tag = state->event.position;
    if (way == 0)
        require_success(state, MPI_Probe(source, tag, group->comm, &status), "MPI_Probe");
    else if (way == 1)
        require_success(state, MPI_Mprobe(source, tag, group->comm, &message, &status), "MPI_Mprobe");
    while (way == 2 && !found) {
        require_success(state, MPI_Iprobe(source, tag, group->comm, &found, &status), "MPI_Iprobe");
        if (!found)
            usleep(20);
    }
    MPI_Get_count(&status, MPI_INT32_T, &length);
    require(state, length == count, "a message of %d numbers instead of %d", length, count);
    int32_t *numbers = malloc(sizeof *numbers * (size_t)(count + 1));
    require_success(state,
                    way == 1 ? MPI_Mrecv(numbers, count, MPI_INT32_T, &message, &status)
                             : MPI_Recv(numbers, count, MPI_INT32_T, source, tag, group->comm, &status),
                    "MPI_Recv");
    check_numbers(state, numbers, count, draw, source);
    free(numbers);
}

/* One rank sends to another. */
void run_message(struct state *state) {
    const struct group *group = &state->groups[state->event.group];
    if (group->comm == MPI_COMM_NULL || group->size < 2)
        return;
    const uint64_t draw = group_draw(state, 0), ways = group_draw(state, 1);
    const int from = (int)(ways % (uint64_t)group->size);
    const int to = (from + 1 + (int)((ways >> 8) % (uint64_t)(group->size - 1))) % group->size;
    const int count = draw_count(draw), receiving = (int)((ways >> 16) % 8);
    if (group->rank == to && receiving < 3)
        receive_probed(state, group, from, count, draw, receiving);
    else if (group->rank == to)
        post_receive(state, group, from, count, draw, receiving == 3);
    else if (group->rank == from)
        send_numbers(state, group, to, count, draw, (int)((ways >> 24) % 6));
}

/* Each sends to a neighbour and receives from another. */
void run_exchange(struct state *state) {
    const struct group *group = &state->groups[state->event.group];
    if (group->comm == MPI_COMM_NULL)
        return;
    const uint64_t draw = group_draw(state, 0), ways = group_draw(state, 1);
    const int shift = (int)((ways >> 8) % (uint64_t)group->size), count = draw_count(draw), way = (int)(ways % 9);
    const int to = (group->rank + shift) % group->size, from = (group->rank + group->size - shift) % group->size;
    if (way < 6) {
        post_receive(state, group, from, count, draw, false);
        send_numbers(state, group, to, count, draw, way == 3 ? 4 : way);
        return;
    }
    int32_t *sent = random_numbers(draw, group->rank, count),
            *received = malloc(sizeof *received * (size_t)(count + 1));
    require_success(state,
                    MPI_Sendrecv(sent, count, MPI_INT32_T, to, state->event.position, received, count, MPI_INT32_T,
                                 from, state->event.position, group->comm, MPI_STATUS_IGNORE),
                    "MPI_Sendrecv");
    check_numbers(state, received, count, draw, from);
    free(sent);
    free(received);
}

/* All others send to one rank, which takes the messages as they come. */
void run_wildcards(struct state *state) {
    const struct group *group = &state->groups[state->event.group];
    if (group->comm == MPI_COMM_NULL || group->size < 2)
        return;
    const uint64_t draw = group_draw(state, 0), ways = group_draw(state, 1);
    const int root = (int)(ways % (uint64_t)group->size), count = draw_count(draw);
    if (group->rank != root) {
        send_numbers(state, group, root, count, draw, (int)((ways >> 8) % 6));
        return;
    }
    bool came[MPI_RANKS_MAX] = {false};
    int32_t *numbers = malloc(sizeof *numbers * (size_t)(count + 1));
    for (int i = 1; i < group->size; i++) {
        MPI_Status status;
        require_success(
            state, MPI_Recv(numbers, count, MPI_INT32_T, MPI_ANY_SOURCE, state->event.position, group->comm, &status),
            "MPI_Recv");
        require(state, !came[status.MPI_SOURCE] && status.MPI_SOURCE != root, "a message from %d", status.MPI_SOURCE);
        came[status.MPI_SOURCE] = true;
        check_numbers(state, numbers, count, draw, status.MPI_SOURCE);
    }
    free(numbers);
}
