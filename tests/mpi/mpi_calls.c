#include "mpi_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "splitmix64.h"

#define CALL_TRAITS(number, name, ...) [number] = {#name, __VA_ARGS__},
const struct traits call_traits[CALLS] = {CALL_OTHERS(CALL_TRAITS) CALL_REDUCTIONS(CALL_TRAITS)};

/* One rank's side of a call: blocks of one layout in one buffer. */
struct side {
    struct layout layout;
    struct region region;
    int blocks;
    int elements[MPI_RANKS_MAX], counts[MPI_RANKS_MAX], starts[MPI_RANKS_MAX]; /* the latter two in items */
};

struct prepared {
    const struct call *call;
    const struct traits *traits;
    int rank, size;
    bool sends, takes; /* whether this rank has the side at all */
    struct side send, recv;
};

static uint64_t mixed(uint64_t draw, uint64_t a, uint64_t b) {
    uint64_t state = draw ^ a * UINT64_C(0x100000001b3) ^ b << 40;
    return random_next(&state);
}

/* How many elements go from one rank to another, or are both ranks' slice of a reduction. */
static int block_elements(const struct prepared *prepared, int source, int destination) {
    const struct call *call = prepared->call;
    if (!prepared->traits->has_counts)
        return call->count;
    const bool both = prepared->traits->sends_blocks && prepared->traits->takes_blocks;
    const int of_pair = call->in_place ? source + destination : source + 2 * destination;
    const int peer = both ? of_pair : prepared->traits->sends_blocks ? destination : source;
    return call->count * (int)(((uint64_t)peer + call->draw) % 3);
}

/* What one rank sends to another; where all get the same, the destination is 0. */
static struct value moved(const struct prepared *prepared, int source, int destination, int index) {
    const bool differs = prepared->traits->sends_blocks;
    const uint64_t draw =
        mixed(prepared->call->draw, (uint64_t)source * 64 + (uint64_t)(differs ? destination : 0), (uint64_t)index);
    return element_input(prepared->call->element, NULL, draw);
}

/* What a rank adds to a reduction; blocks follow each other. */
static struct value contributed(const struct prepared *prepared, int rank, int index) {
    return element_input(prepared->call->element, prepared->call->operation,
                         mixed(prepared->call->draw, (uint64_t)rank, (uint64_t)index));
}

static struct value reduced(const struct prepared *prepared, int ranks, int index) {
    const struct call *call = prepared->call;
    struct value value = contributed(prepared, 0, index);
    for (int rank = 1; rank < ranks; rank++)
        value = operation_apply(call->operation, call->element, value, contributed(prepared, rank, index));
    return value;
}

/* Blocks of collectives with displacements lie in an order that the draw chooses, with an item between them. */
static void side_make(struct prepared *prepared, struct side *side, int which, bool has_blocks, bool is_send) {
    const struct call *call = prepared->call;
    const bool spaced = prepared->traits->has_counts && !prepared->traits->reduces;
    int items = 0;
    layout_make(&side->layout, call->element, which);
    side->blocks = has_blocks ? prepared->size : 1;
    for (int i = 0; i < side->blocks; i++) {
        const int block = spaced && call->draw & 1 ? side->blocks - 1 - i : i;
        const int peer = has_blocks ? block : is_send ? call->root : prepared->rank;
        side->elements[block] = is_send && has_blocks ? block_elements(prepared, prepared->rank, peer)
                                : is_send             ? block_elements(prepared, prepared->rank, prepared->rank)
                                : has_blocks          ? block_elements(prepared, peer, prepared->rank)
                                                      : block_elements(prepared, call->root, prepared->rank);
        side->counts[block] = side->elements[block] / side->layout.elements;
        side->starts[block] = items;
        items += side->counts[block] + (spaced ? 1 : 0);
    }
    region_make(&side->region, &side->layout, items);
}

static const char *side_end(struct side *side) {
    layout_free(&side->layout);
    return region_retire(&side->region);
}

static void put_moved(struct prepared *prepared, struct side *side, int block, int source, int destination) {
    for (int i = 0; i < side->elements[block]; i++)
        region_put(&side->region, side->starts[block], i, moved(prepared, source, destination, i));
}

static void expect_moved(struct prepared *prepared, struct side *side, int block, int source, int destination) {
    for (int i = 0; i < side->elements[block]; i++)
        region_expect(&side->region, side->starts[block], i, moved(prepared, source, destination, i));
}

static int all_elements(const struct side *side) {
    int elements = 0;
    for (int i = 0; i < side->blocks; i++)
        elements += side->elements[i];
    return elements;
}

static void put_contribution(struct prepared *prepared, struct region *region, int elements) {
    for (int i = 0; i < elements; i++)
        region_put(region, 0, i, contributed(prepared, prepared->rank, i));
}

/* Inputs and expected results of reductions. With MPI_IN_PLACE the receive buffer has room for all inputs. */
static void prepare_reduction(struct prepared *prepared, bool in_place) {
    const struct call *call = prepared->call;
    const int rank = prepared->rank, inputs = all_elements(&prepared->send);
    put_contribution(prepared, in_place ? &prepared->recv.region : &prepared->send.region, inputs);
    if (!prepared->takes)
        return;
    const bool has_blocks = prepared->traits->sends_blocks;
    const int results = has_blocks ? prepared->send.elements[rank] : inputs;
    int first = 0;
    for (int i = 0; has_blocks && i < rank; i++)
        first += prepared->send.elements[i];
    const int ranks = call_inputs(call->collective, rank, prepared->size);
    for (int i = 0; i < inputs; i++)
        if (i < results && ranks > 0)
            region_expect(&prepared->recv.region, 0, i, reduced(prepared, ranks, first + i));
        else if (in_place || ranks == 0)
            region_ignore(&prepared->recv.region, 0, i);
}

static void prepare_movement(struct prepared *prepared, bool in_place) {
    const struct call *call = prepared->call;
    const int rank = prepared->rank;
    const bool to_all = prepared->traits->sends_blocks, from_all = prepared->traits->takes_blocks;
    if (call->collective == CALL_BCAST) {
        if (rank == call->root)
            put_moved(prepared, &prepared->recv, 0, rank, 0);
        expect_moved(prepared, &prepared->recv, 0, call->root, 0);
        return;
    }
    const bool is_in_send = prepared->sends && (!in_place || (to_all && !from_all));
    for (int i = 0; is_in_send && i < prepared->send.blocks; i++)
        put_moved(prepared, &prepared->send, i, rank, to_all ? i : 0);
    for (int i = 0; in_place && from_all && i < prepared->recv.blocks; i++)
        if (to_all || i == rank)
            put_moved(prepared, &prepared->recv, i, rank, i);
    for (int i = 0; prepared->takes && !(in_place && !from_all) && i < prepared->recv.blocks; i++)
        expect_moved(prepared, &prepared->recv, i, from_all ? i : call->root, rank);
}

static bool is_in_place(const struct prepared *prepared) {
    const struct call *call = prepared->call;
    return call->in_place && (!prepared->traits->is_rooted || call->root == prepared->rank);
}

/* Each rank of Open MPI 4.1 chooses the algorithm of an MPI_Allgatherv by the size of its own send type times the
 * counts that it receives, and where these differ, they hang. */
static bool must_agree_on_types(const struct call *call) {
#ifdef OPEN_MPI
    return call->collective == CALL_ALLGATHERV && !is_strict;
#else
    (void)call;
    return false;
#endif
}

static void prepare(struct prepared *prepared, const struct call *call) {
    *prepared = (struct prepared){.call = call, .traits = &call_traits[call->collective], .sends = true, .takes = true};
    MPI_Comm_rank(call->comm, &prepared->rank);
    MPI_Comm_size(call->comm, &prepared->size);
    const struct traits *traits = prepared->traits;
    const bool is_root = prepared->rank == call->root, in_place = is_in_place(prepared);
    if (traits->is_rooted && call->collective != CALL_BCAST) {
        prepared->sends = !traits->sends_blocks || is_root;
        prepared->takes = traits->sends_blocks || is_root;
    }
    const int chooser = must_agree_on_types(call) ? 0 : prepared->rank;
    uint64_t choice = mixed(call->draw, (uint64_t)chooser, 77);
    const int send_layout = call->derived ? (int)random_below(&choice, LAYOUTS) : 0;
    const int recv_layout = call->derived ? (int)random_below(&choice, LAYOUTS) : 0;
    side_make(prepared, &prepared->send, send_layout, traits->sends_blocks, true);
    side_make(prepared, &prepared->recv, recv_layout, traits->reduces ? traits->sends_blocks : traits->takes_blocks,
              traits->reduces);
    if (traits->reduces)
        prepare_reduction(prepared, in_place);
    else if (call->collective != CALL_BARRIER)
        prepare_movement(prepared, in_place);
}

/* The arguments as MPI is to see them. */
static struct arguments arguments_of(struct prepared *prepared) {
    const struct call *call = prepared->call;
    const bool in_place = is_in_place(prepared),
               is_scatter = prepared->traits->sends_blocks && prepared->traits->is_rooted;
    const bool is_reduced = prepared->traits->reduces && !prepared->traits->sends_blocks;
    struct arguments arguments = {.send = prepared->send.region.address,
                                  .recv = prepared->recv.region.address,
                                  .send_counts = prepared->send.counts,
                                  .recv_counts = prepared->recv.counts,
                                  .send_starts = prepared->send.starts,
                                  .recv_starts = prepared->recv.starts,
                                  .send_extent = prepared->send.layout.extent,
                                  .recv_extent = prepared->recv.layout.extent,
                                  .send_type = prepared->send.layout.type,
                                  .recv_type = prepared->recv.layout.type,
                                  .op = call->operation ? call->operation->op : MPI_OP_NULL,
                                  .root = call->root,
                                  .comm = call->comm,
                                  .size = prepared->size};
    if (in_place && is_scatter)
        arguments.recv = MPI_IN_PLACE;
    else if (in_place)
        arguments.send = MPI_IN_PLACE;
    if (is_reduced) /* one type, one count: those of the receiving side may be rubbish */
        arguments.recv_type = arguments.send_type;
    static const int negative[MPI_RANKS_MAX] = {-3, -3, -3, -3, -3, -3};
    const bool send_ignored = !prepared->sends || (in_place && !is_scatter && !prepared->traits->reduces);
    const bool recv_ignored = !prepared->takes || (in_place && is_scatter);
    if (call->rubbish && send_ignored) {
        arguments.send_counts = arguments.send_starts = negative;
        arguments.send_type = MPI_DATATYPE_NULL;
        arguments.send = prepared->sends ? arguments.send : (void *)(uintptr_t)8;
    }
    if (call->rubbish && recv_ignored) {
        arguments.recv_counts = arguments.recv_starts = negative;
        arguments.recv_type = is_reduced ? arguments.send_type : MPI_DATATYPE_NULL;
        arguments.recv = prepared->takes ? arguments.recv : (void *)(uintptr_t)8;
    }
    return arguments;
}

bool call_has_large(enum collective collective) {
    return entry_has_large(collective);
}

const char *call_run(const struct call *call) {
    static char text[300];
    struct prepared prepared;
    prepare(&prepared, call);
    const struct arguments arguments = arguments_of(&prepared);
    const int code =
        call->large ? entry_call_large(call->collective, &arguments) : entry_call(call->collective, &arguments);
    region_scribble(&prepared.recv.region);
    region_scribble(&prepared.send.region);
    const char *problem = NULL;
    if (code != MPI_SUCCESS) {
        char words[MPI_MAX_ERROR_STRING];
        int length;
        MPI_Error_string(code, words, &length);
        snprintf(text, sizeof text, "returned %d: %.200s", code, words);
        problem = text;
    } else if ((problem = region_problem(&prepared.recv.region))) {
        snprintf(text, sizeof text, "in the receive buffer (%s) %s", prepared.recv.layout.name, problem);
        problem = text;
    } else if ((problem = region_problem(&prepared.send.region))) {
        snprintf(text, sizeof text, "in the send buffer (%s) %s", prepared.send.layout.name, problem);
        problem = text;
    }
    const char *old_send = side_end(&prepared.send), *old_recv = side_end(&prepared.recv);
    return problem ? problem : old_send ? old_send : old_recv;
}

const char *call_words(const struct call *call) {
    static char text[300];
    snprintf(text, sizeof text, "MPI_%s%s of %d %s%s%s, root %d%s%s%s", call_traits[call->collective].name,
             call->large ? "_c" : "", call->count, call->element->name, call->operation ? ", " : "",
             call->operation ? call->operation->name : "", call->root, call->in_place ? ", in place" : "",
             call->derived ? ", derived types" : "", call->rubbish ? ", rubbish where it is not read" : "");
    return text;
}
