#include "perf_message.h"

#include "kolo_tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t element_bytes(const perf_message *message) {
    return kolo_dtype_bytes(message->options->dtype);
}

/* Blocks. They differ by one element at most. Where every rank has a block for each, their lengths go round from rank
 * to rank, so that two ranks agree on those between them. */

/* Elements before block `index` of a message that begins again behind its last block. */
static size_t elements_before(const perf_message *message, size_t index) {
    const size_t ranks = (size_t)message->ranks, block = index % ranks, longer = message->count % ranks;
    return index / ranks * message->count + block * (message->count / ranks) + (block < longer ? block : longer);
}

/* Where the block for `peer`, or from it, begins in the blocks of `rank`; `peer` may be the number of ranks. */
static size_t block_at(const perf_message *message, int rank, int peer) {
    const perf_collective *collective = message->collective;
    const bool goes_round = collective->send.shape == PERF_BLOCKS && collective->recv.shape == PERF_BLOCKS;
    const size_t begin = goes_round ? (size_t)rank : 0;
    return elements_before(message, begin + (size_t)peer) - elements_before(message, begin);
}

static size_t block_count(const perf_message *message, int rank, int peer) {
    return block_at(message, rank, peer + 1) - block_at(message, rank, peer);
}

static bool has_side(const perf_message *message, perf_side side) {
    return side.shape != PERF_NONE && (!side.at_root || message->rank == message->options->root);
}

static size_t side_count(const perf_message *message, perf_side side) {
    if (!has_side(message, side))
        return 0;
    return side.shape == PERF_BLOCK ? block_count(message, message->rank, message->rank) : message->count;
}

static void lay_out(perf_message *message, size_t bytes, bool in_place) {
    const perf_collective *collective = message->collective;
    const int rank = message->rank;
    message->count = bytes / element_bytes(message);
    message->send_count = side_count(message, collective->send);
    message->recv_count = side_count(message, collective->recv);
    message->own_at = block_at(message, rank, rank);
    message->in_place = in_place;
    message->shared = in_place && has_side(message, collective->send) && has_side(message, collective->recv);
    for (int peer = 0; peer < message->ranks; peer++)
        message->counts[peer] = block_count(message, rank, peer);
}

/* The buffer that holds both, where they are shared: that of the longer one. */
static const perf_buffer *shared_buffer(const perf_message *message) {
    return message->collective->send.shape == PERF_BLOCK ? &message->recv_buffer : &message->send_buffer;
}

void perf_message_begin(perf_message *message, size_t bytes, bool in_place) {
    const bool has_blocks = perf_collective_has_blocks(message->collective);
    lay_out(message, bytes, in_place);
    message->call.count = has_blocks ? block_count(message, message->rank, message->rank) : message->count;
    message->call.send = message->send_buffer.data;
    message->call.recv = message->recv_buffer.data;
    if (!message->shared)
        return;
    char *data = shared_buffer(message)->data, *own = data + message->own_at * element_bytes(message);
    message->call.send = message->send_count < message->recv_count ? own : data;
    message->call.recv = message->recv_count < message->send_count ? own : data;
}

/* Memory. */

/* Of any rank, as all have to ask kolo_alloc for the same. */
static size_t side_bytes_max(const perf_message *message, perf_side side) {
    const size_t count = side.shape == PERF_BLOCK ? block_count(message, 0, 0) : message->count;
    return side.shape == PERF_NONE ? 0 : count * element_bytes(message);
}

static int allocate(perf_message *message, bool always_in_place) {
    const size_t one = element_bytes(message), offset = (size_t)message->options->offset;
    kolo_comm *alloc = message->options->alloc ? message->call.comm : NULL;
    const perf_collective *of = message->collective;
    const perf_buffer *shared = shared_buffer(message);
    const bool rooted = of->send.at_root || of->recv.at_root; /* then others than the root have no shared buffer */
    const bool merges = alloc != NULL ? always_in_place && !rooted : message->shared;
    const size_t send_bytes = alloc != NULL ? side_bytes_max(message, of->send) : message->send_count * one;
    const size_t recv_bytes = alloc != NULL ? side_bytes_max(message, of->recv) : message->recv_count * one;
    if ((!merges || shared != &message->recv_buffer) &&
        perf_buffer_allocate(&message->send_buffer, send_bytes, offset, alloc) != 0)
        return -1;
    if ((!merges || shared != &message->send_buffer) &&
        perf_buffer_allocate(&message->recv_buffer, recv_bytes, offset, alloc) != 0)
        return -1;
    return 0;
}

static void make_tables(perf_message *message) {
    const perf_options *options = message->options;
    const perf_origin origin = message->collective->origin;
    const int rank = message->rank,
              reduced = origin == PERF_OF_ALL ? message->ranks : rank + (origin == PERF_OF_PREFIX);
    perf_tables *tables = message->tables;
    for (int seed = 0; seed < PERF_SEEDS; seed++) {
        const perf_recipe recipe = {options->dtype, message->call.op, message->ranks, (uint64_t)seed,
                                    origin >= PERF_OF_PREFIX};
        perf_values_of(tables->input[seed], &recipe, rank, 0, PERF_TABLE_PERIOD);
        if (origin == PERF_OF_ROOT)
            perf_values_of(tables->expected[seed], &recipe, options->root, 0, PERF_TABLE_PERIOD);
        else if (origin != PERF_OF_EACH && reduced > 0 && options->check)
            perf_values_reduced(tables->expected[seed], &recipe, reduced);
    }
    perf_values_neutral(tables->neutral, options->dtype, message->call.op);
}

int perf_message_prepare(perf_message *message, kolo_comm *comm, size_t bytes, bool always_in_place) {
    const perf_options *options = message->options;
    message->rank = kolo_comm_rank(comm);
    message->ranks = kolo_comm_size(comm);
    message->counts = calloc((size_t)message->ranks, sizeof(size_t));
    message->tables = malloc(sizeof(*message->tables));
    if (message->counts == NULL || message->tables == NULL)
        return -1;
    /* What is not reduced may have any values: MAX's are the freest. */
    const kolo_op op = kolo_collective_has(message->collective->kolo) & KOLO_HAS_OP ? options->op : KOLO_MAX;
    message->call =
        (perf_call){.comm = comm, .counts = message->counts, .dtype = options->dtype, .op = op, .root = options->root};
    lay_out(message, bytes, always_in_place);
    make_tables(message);
    return allocate(message, always_in_place);
}

void perf_message_free(perf_message *message) {
    perf_buffer_free(&message->send_buffer);
    perf_buffer_free(&message->recv_buffer);
    free(message->counts);
    free(message->tables);
    message->counts = NULL;
    message->tables = NULL;
}

/* Inputs. */

bool perf_message_feeds_on_results(const perf_message *message) {
    return perf_collective_spends_input(message->collective) && message->in_place &&
           message->options->buffers == PERF_WARM;
}

void perf_message_fill(const perf_message *message) {
    const perf_tables *tables = message->tables;
    const char *values = perf_message_feeds_on_results(message) ? tables->neutral : tables->input[PERF_SEED_TIMED];
    perf_table_fill(message->call.send, message->send_count, element_bytes(message), values);
}

void perf_message_prepare_sample(const perf_message *message) {
    const perf_buffers state = message->options->buffers;
    const bool spent = perf_collective_spends_input(message->collective) && message->in_place;
    if (state == PERF_DIRTY || (state == PERF_COLD && spent))
        perf_message_fill(message);
    if (state == PERF_COLD) {
        perf_flush(message->call.send, message->send_count * element_bytes(message));
        perf_flush(message->call.recv, message->recv_count * element_bytes(message));
    }
}

/* Checking. */

/* What recv holds before a verified call: differs from the expected result nearly everywhere. */
enum { POISON = 0xa7 };

void perf_message_begin_check(const perf_message *message) {
    const size_t one = element_bytes(message);
    const size_t send_bytes = message->send_count * one, recv_bytes = message->recv_count * one;
    if (message->shared) {
        perf_buffer_guard(shared_buffer(message), send_bytes > recv_bytes ? send_bytes : recv_bytes);
    } else {
        perf_buffer_guard(&message->send_buffer, send_bytes);
        perf_buffer_guard(&message->recv_buffer, recv_bytes);
    }
    if (recv_bytes > 0)
        memset(message->call.recv, POISON, recv_bytes);
    perf_table_fill(message->call.send, message->send_count, one, message->tables->input[PERF_SEED_VERIFIED]);
}

static uint64_t element_bits(const void *elements, size_t index, size_t bytes) {
    uint64_t bits = 0; /* all supported machines are little-endian */
    memcpy(&bits, (const char *)elements + index * bytes, bytes);
    return bits;
}

/* Elements `at` to `at` + `count` of `data` should be those of `table` from `first` on. */
static size_t compare(const perf_message *message, const char *what, const void *data, size_t at, size_t count,
                      const void *table, size_t first) {
    const size_t bytes = element_bytes(message);
    size_t found = 0;
    const size_t wrong = perf_table_wrong((const char *)data + at * bytes, count, bytes, table, first, &found);
    if (wrong > 0)
        fprintf(stderr,
                "%s: rank %d: %s of %zu %s: %s element %zu is 0x%0*llx, should be 0x%0*llx (wrong elements: %zu)\n",
                message->program, message->rank, perf_collective_name(message->collective), message->count,
                kolo_name(KOLO_NAME_DTYPE, message->options->dtype), what, at + found, (int)bytes * 2,
                (unsigned long long)element_bits(data, at + found, bytes), (int)bytes * 2,
                (unsigned long long)element_bits(table, (first + found) % PERF_TABLE_PERIOD, bytes), wrong);
    return wrong;
}

static size_t compare_guards(const perf_message *message, const char *what, const perf_buffer *buffer, size_t count) {
    const size_t bytes = count * element_bytes(message), changed = perf_buffer_guards_changed(buffer, bytes);
    if (changed > 0)
        fprintf(stderr, "%s: rank %d: %s of %zu bytes: bytes overwritten beside %s: %zu\n", message->program,
                message->rank, perf_collective_name(message->collective), message->count * element_bytes(message), what,
                changed);
    return changed;
}

/* A block from each rank. */
static uint64_t check_blocks(const perf_message *message, int seed) {
    const bool cut = message->collective->send.shape == PERF_BLOCKS; /* from a message of blocks */
    const perf_recipe recipe = {message->options->dtype, message->call.op, message->ranks, (uint64_t)seed, false};
    uint64_t wrong = 0;
    for (int peer = 0; peer < message->ranks; peer++) {
        const size_t count = message->counts[peer];
        const size_t first = cut ? block_at(message, peer, message->rank) : 0;
        perf_values_of(message->tables->other, &recipe, peer, first, count);
        wrong += compare(message, "result", message->call.recv, block_at(message, message->rank, peer), count,
                         message->tables->other, first);
    }
    return wrong;
}

static uint64_t check_result(const perf_message *message, int seed) {
    const perf_collective *collective = message->collective;
    const char *expected = message->tables->expected[seed];
    if (collective->origin == PERF_OF_EACH)
        return message->recv_count > 0 ? check_blocks(message, seed) : 0;
    if (collective->origin == PERF_OF_EARLIER && message->rank == 0) { /* it keeps what it has */
        memset(message->tables->other, POISON, sizeof(message->tables->other));
        expected = message->shared ? message->tables->input[seed] : message->tables->other;
    }
    return compare(message, "result", message->call.recv, 0, message->recv_count, expected,
                   collective->recv.shape == PERF_BLOCK ? message->own_at : 0);
}

/* All of `send`, or what is left of it around a shared result. */
static uint64_t check_send(const perf_message *message, int seed) {
    const char *what = "send, which must stay as it is,", *input = message->tables->input[seed];
    const size_t before = message->shared ? message->own_at : message->send_count;
    const size_t behind = message->shared ? message->own_at + message->recv_count : message->send_count;
    if (message->shared && message->recv_count >= message->send_count)
        return 0;
    return compare(message, what, message->call.send, 0, before, input, 0) +
           compare(message, what, message->call.send, behind, message->send_count - behind, input, behind);
}

uint64_t perf_message_check(const perf_message *message, int seed) {
    const size_t send_count = message->send_count, recv_count = message->recv_count;
    const uint64_t wrong = check_result(message, seed) + check_send(message, seed);
    if (message->shared)
        return wrong + compare_guards(message, "the buffer", shared_buffer(message),
                                      send_count > recv_count ? send_count : recv_count);
    return wrong + compare_guards(message, "send", &message->send_buffer, send_count) +
           compare_guards(message, "recv", &message->recv_buffer, recv_count);
}
