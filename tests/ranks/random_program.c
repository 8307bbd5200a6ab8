#include "random_program.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "kolo_lanes.h"
#include "oracle.h"
#include "own_operations.h"

enum { GROUPS_MAX = 7, SMALL_SLOT_BYTES = 4096, STREAMS_MAX = 2, LANES_MAX = 3 };
enum { PATIENCE_MS = 20, STILL_MS = 60, LATE_ODDS = 50, ALARM_US_MAX = 20000 };
enum { SETTLED_EVERY = 60, FLIGHT_MAX = SETTLED_EVERY * POSTED_MAX }; /* one event issues no more */

/* A communicator of the program, or the several that one split has made. */
struct group {
    bool exists;     /* the same on all ranks */
    kolo_comm *comm; /* the one that this rank is in; NULL: none */
    int ranks, self;
    int members[HARNESS_RANKS_MAX]; /* which of all ranks each is */
    int node_of[HARNESS_RANKS_MAX];
    bool has_buffers, in_use;  /* of kolo_alloc; by a call that has not been looked at yet */
    unsigned char *buffers[2]; /* NULL where this rank is in none */
};

/* A call in the background. */
struct flying {
    kolo_request *request;
    struct prepared *prepared; /* a collective */
    struct posted *posted;     /* a send or a receive; one of the two is NULL */
    int group;
    uint32_t position; /* in the program */
};

struct state {
    const struct rank *rank;
    const struct program *program;
    uint32_t stream;                  /* which of the rank's threads this is */
    struct group groups[GROUPS_MAX];  /* the first has all ranks */
    struct flying flight[FLIGHT_MAX]; /* in the order of issue */
    int flying;
    uint64_t mine; /* random numbers of this rank alone */
};

/* What happens at one place of the program, the same on all ranks. */
struct event {
    uint32_t position;
    int group; /* one that exists */
    uint64_t draws[4];
};

/* Expects that all went well with a call; if not, says where in the program it is. */
static bool located(const struct state *state, bool right, const struct flying *call, const char *how) {
    char members[64] = "";
    if (!right && state->rank->team->loses) /* what is not part of that has been told */
        return false;
    const struct group *group = &state->groups[call->group];
    for (int i = 0, length = 0; !right && i < group->ranks && length < (int)sizeof members - 8; i++)
        length += snprintf(members + length, sizeof members - (size_t)length, " %d", group->members[i]);
    return expect(state->rank, right, "that was call %u of the program (--calls %u), %s, on communicator %d, ranks%s",
                  call->position, call->position + 1, how, call->group, members);
}

/* A call has returned `status`. */
static bool land(struct state *state, struct flying *call, int status, const char *how) {
    if (call->posted)
        return located(state, posted_check(call->posted, status), call, how);
    if (call->prepared->shared)
        state->groups[call->group].in_use = false;
    const bool right = call_check(state->rank, call->prepared, status);
    free(call->prepared);
    return located(state, right, call, how);
}

/* Waiting. */

static void shuffle(struct state *state, struct flying *calls, int n) {
    for (int i = n - 1; i > 0; i--) {
        const int other = (int)random_below(&state->mine, (uint64_t)i + 1);
        const struct flying call = calls[i];
        calls[i] = calls[other];
        calls[other] = call;
    }
}

static bool test_and_wait(struct state *state, struct flying *call) {
    int done = 0;
    while (!done) {
        if (!expect_status(state->rank, kolo_request_test(call->request, &done), 0, "kolo_request_test"))
            return false;
        if (!done && state->program->waits == WAITS_ANYHOW) /* the others need the processor */
            sleep_ms(1);
    }
    return land(state, call, kolo_request_wait(call->request), "tested for");
}

static bool wait_for_any(struct state *state, struct flying *calls, int n) {
    kolo_request *requests[FLIGHT_MAX];
    for (int i = 0; i < n; i++)
        requests[i] = calls[i].request;
    for (int left = n; left; left--) {
        int index = -2;
        const int status = kolo_request_wait_any(requests, (size_t)n, &index);
        if (!expect(state->rank, index >= 0 && index < n && !requests[index], "kolo_request_wait_any: %d of %d", index,
                    n) ||
            !land(state, &calls[index], status, "waited for with others"))
            return false;
    }
    return true;
}

static bool wait_for_all(struct state *state, struct flying *calls, int n) {
    kolo_request *requests[FLIGHT_MAX];
    for (int i = 0; i < n; i++)
        requests[i] = calls[i].request;
    const int status = kolo_request_wait_all(requests, (size_t)n);
    bool right = expect_status(state->rank, status, 0, "kolo_request_wait_all");
    for (int i = 0; i < n; i++)
        right = expect(state->rank, !requests[i], "kolo_request_wait_all has left a request") &&
                land(state, &calls[i], status, "waited for with all others") && right;
    return right;
}

/* Completes calls that are no longer in the flight, in a way of this rank's choice. To wait for any with a message
 * among them may carry out collectives that were issued later: that is out of order. */
static bool complete(struct state *state, struct flying *calls, int n) {
    const bool in_order = state->program->waits == WAITS_IN_ORDER;
    const uint64_t way = random_below(&state->mine, 4);
    bool right = true, has_messages = false;
    for (int i = 0; i < n; i++)
        has_messages |= calls[i].posted != NULL;
    if (!in_order || way >= 2)
        shuffle(state, calls, n);
    if (way == 2 && !(in_order && has_messages))
        return wait_for_any(state, calls, n);
    if (way >= 2)
        return wait_for_all(state, calls, n);
    for (int i = 0; right && i < n; i++)
        right = way ? test_and_wait(state, &calls[i])
                    : land(state, &calls[i], kolo_request_wait(calls[i].request), "waited for");
    return right;
}

/* Completes the calls of the flight that `chosen` says. */
static bool complete_chosen(struct state *state, const bool *chosen) {
    struct flying calls[FLIGHT_MAX];
    int n = 0, left = 0;
    for (int i = 0; i < state->flying; i++)
        if (chosen[i])
            calls[n++] = state->flight[i];
        else
            state->flight[left++] = state->flight[i];
    state->flying = left;
    return complete(state, calls, n);
}

/* Completes all calls of one group; without a progress thread and a common order, all. */
static bool settle(struct state *state, int group) {
    bool chosen[FLIGHT_MAX];
    for (int i = 0; i < state->flying; i++)
        chosen[i] = state->program->waits == WAITS_IN_ORDER || state->flight[i].group == group;
    return complete_chosen(state, chosen);
}

/* Before a call that is not in the background. */
static bool get_ready(struct state *state, int group) {
    return state->program->waits != WAITS_IN_ORDER || settle(state, group);
}

/* Waits for some, where this rank may choose when. */
static bool wait_at_will(struct state *state) {
    bool chosen[FLIGHT_MAX];
    const bool in_order = state->program->waits == WAITS_IN_ORDER;
    const uint64_t will = random_below(&state->mine, 40);
    const bool is_full = state->flying > FLIGHT_MAX - POSTED_MAX;
    if (will == 1)
        sleep_ms((int64_t)random_below(&state->mine, 3));
    if (state->program->waits == WAITS_TOGETHER || (will > 6 && !is_full) || state->flying == 0)
        return true;
    const int last = (int)random_below(&state->mine, (uint64_t)state->flying);
    for (int i = 0; i < state->flying; i++)
        chosen[i] = in_order ? i <= last : i == last || random_below(&state->mine, 2);
    return complete_chosen(state, chosen);
}

/* What may happen. */

/* A number below `limit` that depends on a draw and a rank alone. */
static int draw_for(uint64_t draw, int rank, int limit) {
    uint64_t state = draw ^ (uint64_t)rank;
    return (int)random_below(&state, (uint64_t)limit);
}

/* An operation of the program's own, in a call that reduces. Where several nodes share the slots, large elements may be
 * refused. */
static const struct own_operation *draw_own(uint64_t draw, const collective_shape *kind, bool has_nodes) {
    const struct own_operation *own = &own_operations[(draw >> 8) % OWN_OPERATIONS];
    return kind->reduces && (draw >> 16) % 8 == 0 && (!has_nodes || own->bytes <= sizeof(uint64_t)) ? own : NULL;
}

struct call call_draw(uint64_t draw, uint32_t index, int ranks, bool has_nodes, kolo_algorithm algorithm) {
    const collective_shape *kind = &collective_shapes[draw % COLLECTIVES];
    struct call call = {.index = index,
                        .kind = kind,
                        .dtype = (kolo_dtype)((draw >> 8) % KOLO_DTYPES),
                        .op = (kolo_op)((draw >> 16) % KOLO_OPS),
                        .root = (int)((draw >> 24) % (uint64_t)ranks),
                        .in_place = (draw >> 32) % 2 && works_in_place(kind)};
    const bool in_ring_order = algorithm == KOLO_ALGORITHM_RING && kind->collective == KOLO_ALLREDUCE;
    if (!kolo_op_supports(call.op, call.dtype) || (in_ring_order && order_matters(call.dtype, call.op)))
        call.op = KOLO_MAX;
    size_t chunk = SMALL_SLOT_BYTES / kolo_dtype_bytes(call.dtype);
    const struct own_operation *own = draw_own(random_next(&draw), kind, has_nodes);
    if (own) {
        call.op = own->op;
        call.dtype = own->dtype;
        chunk = SMALL_SLOT_BYTES / own->bytes;
    }
    const size_t ends[] = {1, 9, 9, 9, 120, 120, chunk, chunk, chunk, 5 * chunk};
    const bool has_blocks = kind->sends_blocks || kind->takes_blocks, is_large = (draw >> 33) % 64 == 0;
    call.count = (size_t)((draw >> 40) % (is_large ? 50 * chunk : ends[(draw >> 33) % 10]));
    if (has_blocks && call.count > 120)
        call.count = 120 + call.count / (size_t)ranks;
    return call;
}

static struct call draw_call(const struct state *state, const struct event *event) {
    const struct group *group = &state->groups[event->group];
    int lowest = group->members[0];
    for (int i = 1; i < group->ranks; i++)
        lowest = group->members[i] < lowest ? group->members[i] : lowest;
    /* Each of a split's groups has other inputs, and each thread. */
    const uint32_t index = event->position * 37 + (uint32_t)lowest + state->stream * 1000003;
    struct call call =
        call_draw(event->draws[0], index, group->ranks, state->program->has_nodes, state->rank->team->algorithm);
    call.node_of = state->program->node_of ? group->node_of : NULL;
    return call;
}

static bool run_call(struct state *state, const struct event *event) {
    struct group *group = &state->groups[event->group];
    struct flying flying = {.group = event->group, .position = event->position};
    if (!group->comm)
        return true;
    struct call call = draw_call(state, event);
    const uint64_t will = state->program->waits == WAITS_TOGETHER ? event->draws[2] : random_next(&state->mine);
    const bool blocks = will % 4 == 0;
    const uint64_t users = event->draws[1] % 16; /* of buffers of kolo_alloc: most often all, else every other rank */
    if (blocks && !get_ready(state, event->group))
        return false;
    if (group->buffers[0] && !group->in_use && (users > 5 || (users > 2 && group->self % 2)))
        call.shared = group->buffers;
    flying.prepared = malloc(sizeof *flying.prepared);
    call_prepare(flying.prepared, &call, group->comm);
    if (blocks)
        return land(state, &flying, call_make(flying.prepared, group->comm), "blocking");
    group->in_use |= flying.prepared->shared;
    const int status = call_issue(flying.prepared, group->comm, &flying.request);
    if (!located(state, expect_status(state->rank, status, 0, kolo_name(KOLO_NAME_COLLECTIVE, call.kind->collective)),
                 &flying, "being issued"))
        return false;
    memset(&flying.prepared->sent, 0xff, sizeof flying.prepared->sent); /* the counts have been copied */
    memset(&flying.prepared->taken, 0xff, sizeof flying.prepared->taken);
    state->flight[state->flying++] = flying;
    return true;
}

/* One thread's part of a call. */
struct lane_call {
    const struct prepared *prepared;
    kolo_comm *comm;
    int lane, status;
};

static void *call_in_lane(void *argument) {
    struct lane_call *call = argument;
    call->status = call_make(call->prepared, kolo_comm_lane(call->comm, call->lane));
    return NULL;
}

/* One call by a thread for each lane; nothing is in flight meanwhile. */
static bool run_lanes(struct state *state, const struct event *event) {
    const struct group *group = &state->groups[event->group];
    const int lanes = group->comm ? info_of(group->comm).lanes : 1;
    struct flying whole = {.group = event->group, .position = event->position};
    struct lane_call parts[LANES_MAX];
    pthread_t threads[LANES_MAX];
    if (lanes < 2 || !settle(state, event->group))
        return lanes < 2;
    const struct call call = draw_call(state, event);
    whole.prepared = malloc(sizeof *whole.prepared);
    call_prepare(whole.prepared, &call, group->comm);
    bool right = true;
    int status = 0;
    for (int lane = 0; lane < lanes; lane++) {
        parts[lane] = (struct lane_call){whole.prepared, group->comm, lane, 0};
        right &= pthread_create(&threads[lane], NULL, call_in_lane, &parts[lane]) == 0;
    }
    for (int lane = 0; right && lane < lanes; lane++) {
        pthread_join(threads[lane], NULL);
        status = parts[lane].status ? parts[lane].status : status;
    }
    return expect(state->rank, right, "no thread") && land(state, &whole, status, "in lanes");
}

/* All ranks wait for what they have in flight on one communicator. */
static bool run_wait(struct state *state, const struct event *event) {
    return state->program->waits != WAITS_TOGETHER || settle(state, event->group);
}

/* The same on each, one after another. */
static bool settle_all(struct state *state) {
    bool right = true;
    for (int i = 0; right && i < GROUPS_MAX; i++)
        right = settle(state, i);
    return right;
}

/* Buffers of kolo_alloc come, or go. */
static bool run_buffers(struct state *state, const struct event *event) {
    struct group *group = &state->groups[event->group];
    group->has_buffers = !group->has_buffers;
    if (!group->comm)
        return true;
    if (!(group->has_buffers ? get_ready(state, event->group) : settle(state, event->group)))
        return false;
    bool right = true;
    for (int i = 0; right && i < 2; i++) {
        right = group->has_buffers
                    ? expect_status(state->rank, kolo_alloc(group->comm, SHARED_BYTES, (void **)&group->buffers[i]), 0,
                                    "kolo_alloc")
                    : expect_status(state->rank, kolo_free(group->comm, group->buffers[i]), 0, "kolo_free");
        if (!group->has_buffers)
            group->buffers[i] = NULL;
    }
    return right;
}

/* The ranks of a communicator send and receive, unless a rank is left out. Only those that make a call would carry out
 * what is in flight. */
static bool run_messages(struct state *state, const struct event *event) {
    kolo_comm *comm = state->groups[event->group].comm;
    return !comm || ((state->program->waits == WAITS_ANYHOW || settle(state, event->group)) &&
                     messages_run(state->rank, comm, event->position, event->draws[0], &state->mine));
}

/* The same in the background, beside whatever is in flight. */
static bool run_posts(struct state *state, const struct event *event) {
    kolo_comm *comm = state->groups[event->group].comm;
    struct posted *posted[POSTED_MAX];
    kolo_request *requests[POSTED_MAX];
    int count;
    if (!comm)
        return true;
    const bool right =
        messages_post(state->rank, comm, event->position, event->draws[0], &state->mine, posted, requests, &count);
    for (int i = 0; i < count; i++)
        state->flight[state->flying++] = (struct flying){
            .request = requests[i], .posted = posted[i], .group = event->group, .position = event->position};
    return right;
}

/* Fills in which ranks a group of `parent` has: those of this rank's color, in the order of their keys. */
static void list_members(struct group *group, const struct group *parent, const int *colors, const int *keys) {
    for (int i = 0; i < parent->ranks; i++) {
        if (colors[i] != colors[parent->self])
            continue;
        int place = 0;
        for (int other = 0; other < parent->ranks; other++)
            place += colors[other] == colors[i] && (keys[other] < keys[i] || (keys[other] == keys[i] && other < i));
        group->members[place] = parent->members[i];
        group->node_of[place] = parent->node_of[i];
        if (i == parent->self)
            group->self = place;
        group->ranks++;
    }
}

/* One more communicator: a copy, or groups. */
static bool run_split(struct state *state, const struct event *event) {
    const struct group *parent = &state->groups[event->group];
    const bool copy = event->draws[0] % 3 == 0;
    int colors[HARNESS_RANKS_MAX], keys[HARNESS_RANKS_MAX], place = 0;
    while (place < GROUPS_MAX && state->groups[place].exists)
        place++;
    if (place == GROUPS_MAX)
        return true;
    struct group *group = &state->groups[place];
    *group = (struct group){.exists = true};
    if (!parent->comm)
        return true;
    for (int i = 0; i < parent->ranks; i++) {
        colors[i] = copy ? 0 : draw_for(event->draws[1], parent->members[i], 2 + (int)(event->draws[2] % 3)) - 1;
        keys[i] = copy ? 0 : draw_for(event->draws[3], parent->members[i], 4) - 2;
    }
    if (!get_ready(state, event->group))
        return false;
    const int self = parent->self;
    const int status = copy ? kolo_comm_dup(parent->comm, &group->comm)
                            : kolo_comm_split(parent->comm, colors[self], keys[self], &group->comm);
    if (!expect_status(state->rank, status, 0, copy ? "kolo_comm_dup" : "kolo_comm_split"))
        return false;
    if (colors[self] < 0)
        return expect(state->rank, !group->comm, "a rank without a color is in a group");
    list_members(group, parent, colors, keys);
    int fd; /* for which a progress thread works at once, even where it has no processor of its own */
    if (state->program->waits == WAITS_ANYHOW && event->position % 2 &&
        !expect_status(state->rank, kolo_comm_eventfd(group->comm, &fd), 0, "kolo_comm_eventfd"))
        return false;
    return expect(state->rank,
                  kolo_comm_size(group->comm) == group->ranks && kolo_comm_rank(group->comm) == group->self,
                  "event %u: rank %d of %d in the group, not %d of %d", event->position, kolo_comm_rank(group->comm),
                  kolo_comm_size(group->comm), group->self, group->ranks);
}

/* One communicator fewer. */
static bool run_destroy(struct state *state, const struct event *event) {
    struct group *group = &state->groups[event->group];
    if (event->group == 0)
        return true;
    if (group->comm && !settle(state, event->group))
        return false;
    /* Between nodes it waits only a while for the others to take what they have been sent. */
    if (group->comm && state->program->has_nodes &&
        !expect_status(state->rank, kolo_barrier(group->comm), 0, "kolo_barrier"))
        return false;
    kolo_comm_destroy(group->comm);
    *group = (struct group){.exists = false};
    return true;
}

/* Programs. */

static const struct {
    unsigned weight;
    bool (*run)(struct state *state, const struct event *event);
} events[] = {{200, run_call}, {14, run_wait},   {12, run_lanes}, {12, run_messages},
              {25, run_posts}, {4, run_buffers}, {4, run_split},  {3, run_destroy}};

enum { EVENTS = sizeof events / sizeof *events };

static void stand_still(int signal) {
    (void)signal;
    sleep_ms(STILL_MS);
}

static void die(int signal) {
    (void)signal;
    _exit(0);
}

static void set_alarm(void (*handler)(int signal), uint64_t *random) {
    const struct itimerval when = {.it_value = {.tv_usec = 1 + (suseconds_t)random_below(random, ALARM_US_MAX)}};
    signal(SIGALRM, handler);
    setitimer(ITIMER_REAL, &when, NULL);
}

static void set_patience(const struct state *state, int64_t ms) {
    for (int i = 0; i < GROUPS_MAX; i++)
        if (state->groups[i].comm)
            kolo_comm_set_timeout(state->groups[i].comm, ms);
}

/* Ends the program of a rank that leaves: what is in flight completes with that. */
static void leave(struct state *state) {
    for (int i = 0; i < state->flying; i++)
        if (state->flight[i].prepared && state->flight[i].prepared->shared)
            state->flight[i].prepared->memory = NULL; /* it goes with the communicator */
    for (int i = GROUPS_MAX - 1; i >= 0; i--) {
        kolo_comm_destroy(state->groups[i].comm);
        state->groups[i].comm = NULL;
        memset(state->groups[i].buffers, 0, sizeof state->groups[i].buffers);
    }
}

/* What the loss does at this place of the program; false: the rank goes no further. */
static bool lose(struct state *state, uint32_t position) {
    const struct program *program = state->program;
    const bool is_culprit = state->rank->rank == program->culprit, begins = position == program->loss_position;
    const bool is_early = (program->loss == GIVES_UP) == is_culprit;
    if (program->loss == LOSES_NOTHING || position < program->loss_position)
        return true;
    if ((program->loss == LOSES_TIME || program->loss == GIVES_UP) && is_early)
        set_patience(state, PATIENCE_MS); /* communicators come and go */
    else if (program->loss == GIVES_UP && random_below(&state->mine, LATE_ODDS) == 0)
        sleep_ms((int64_t)random_below(&state->mine, 2 * PATIENCE_MS));
    if (!is_culprit || !begins)
        return true;
    if (program->loss == LOSES_TIME || program->loss == DIES)
        set_alarm(program->loss == DIES ? die : stand_still, &state->mine);
    else if (program->loss == LEAVES)
        leave(state);
    return program->loss != LEAVES && program->loss != ABORTS;
}

static bool run_event(struct state *state, uint64_t *random, uint32_t position) {
    struct event event = {.position = position};
    unsigned total = 0, kind = 0;
    int existing = 0;
    for (unsigned i = 0; i < EVENTS; i++)
        total += events[i].weight;
    for (int i = 0; i < GROUPS_MAX; i++)
        existing += state->groups[i].exists;
    uint64_t which = random_below(random, total), nth = random_below(random, (uint64_t)existing);
    for (int i = 0; i < 4; i++)
        event.draws[i] = random_next(random);
    for (; which >= events[kind].weight; kind++)
        which -= events[kind].weight;
    for (; !state->groups[event.group].exists || nth; event.group++)
        nth -= state->groups[event.group].exists;
    if (state->program->waits == WAITS_TOGETHER && position % SETTLED_EVERY == 0 && !settle_all(state))
        return false;
    return events[kind].run(state, &event) && wait_at_will(state);
}

static void end_program(struct state *state, bool right) {
    right = right && settle_all(state);
    for (int i = GROUPS_MAX - 1; right && i > 0; i--)
        if (state->groups[i].exists)
            right = run_destroy(state, &(struct event){.group = i});
    if (right)
        right = expect_status(state->rank, kolo_barrier(state->groups[0].comm), 0, "the last barrier");
    for (int i = GROUPS_MAX - 1; !right && i >= 0; i--)
        if (state->groups[i].comm)
            kolo_comm_abort(state->groups[i].comm, 1); /* it completes the requests, and tells the others */
    for (int i = 0; i < state->flying; i++) {
        struct flying *call = &state->flight[i];
        land(state, call, kolo_request_wait(call->request), "left in flight");
    }
    if (state->program->loss != LOSES_NOTHING) {
        sleep_ms(right ? 0 : 2 * STILL_MS); /* by then who is late has gone on */
        calls_untouched(state->rank);
    }
    for (int i = GROUPS_MAX - 1; !right && i > 0; i--)
        kolo_comm_destroy(state->groups[i].comm);
}

/* One thread's program, on the communicator of all ranks that is its own. */
static void *run_stream(void *argument) {
    struct state *state = argument;
    uint64_t random = random_seed(200, state->stream);
    bool right = true;
    for (uint32_t position = 0; right && position < state->program->calls; position++)
        right = lose(state, position) && run_event(state, &random, position);
    end_program(state, right);
    return NULL;
}

static struct state *make_state(const struct rank *rank, kolo_comm *world, const struct program *program,
                                uint32_t stream) {
    struct state *state = calloc(1, sizeof *state);
    struct group *all = &state->groups[0];
    state->rank = rank;
    state->program = program;
    state->stream = stream;
    state->mine = random_seed(201, (uint64_t)rank->rank * STREAMS_MAX + stream);
    *all = (struct group){.exists = true, .comm = world, .ranks = rank->ranks, .self = rank->rank};
    for (int i = 0; i < rank->ranks; i++) {
        all->members[i] = i;
        all->node_of[i] = program->node_of ? program->node_of[i] : 0;
    }
    return state;
}

void program_run(const struct rank *rank, kolo_comm *world, const struct program *program) {
    const bool leaves = program->loss == LEAVES;
    struct state *first, *second = NULL;
    kolo_comm *copy = NULL;
    pthread_t thread;
    if ((program->streams > 1 || leaves) && !expect_status(rank, kolo_comm_dup(world, &copy), 0, "kolo_comm_dup"))
        return;
    first = make_state(rank, leaves ? copy : world, program, 0);
    if (program->streams > 1)
        second = make_state(rank, copy, program, 1);
    const bool started = second && expect(rank, pthread_create(&thread, NULL, run_stream, second) == 0, "no thread");
    run_stream(first);
    if (started)
        pthread_join(thread, NULL);
    if (!leaves || first->groups[0].comm)
        kolo_comm_destroy(copy);
    free(first);
    free(second);
}

void program_begin(void) {
    own_operations_create();
}

void program_draw(struct program *program, struct team *team) {
    static const int few[] = {1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 6, 7, 8, 9, 16};
    static const size_t slots[] = {SMALL_SLOT_BYTES, SMALL_SLOT_BYTES, 4 * SMALL_SLOT_BYTES, 0};
    uint64_t random = random_seed(202, 0);
    const int ranks = few[random_below(&random, sizeof few / sizeof *few)];
    program->waits = (program_waits)random_below(&random, PROGRAM_WAITS);
    const uint64_t algorithm = random_below(&random, 2 * KOLO_ALGORITHMS);
    team->slot_bytes = slots[random_below(&random, sizeof slots / sizeof *slots)];
    team->algorithm = algorithm < KOLO_ALGORITHMS ? (kolo_algorithm)algorithm : KOLO_ALGORITHM_AUTO;
    program->streams = random_below(&random, 4) ? 1 : 2;
    program->lanes = program->streams > 1 || random_below(&random, 3) ? 1 : 2 + (int)random_below(&random, 2);
    program->reads = random_below(&random, 2);
    setenv("KOLO_SINGLE_COPY", program->reads ? "1" : "off", 1);
    if (program->lanes > 1)
        team->slot_bytes = SMALL_SLOT_BYTES;
    team->ranks = arguments.ranks ? arguments.ranks : ranks;
    if (arguments.algorithm >= 0)
        team->algorithm = (kolo_algorithm)arguments.algorithm;
}

void program_draw_loss(struct program *program, struct team *team) {
    uint64_t random = random_seed(203, 0);
    program->streams = 1;
    program->loss = LOSES_NOTHING + 1 + random_below(&random, PROGRAM_LOSSES - 1);
    program->culprit = (int)random_below(&random, (uint64_t)team->ranks);
    program->loss_position = (uint32_t)random_below(&random, program->calls);
    team->loses = true;
    team->victim = program->loss == DIES ? program->culprit + 1 : 0;
}

void program_tell(const struct program *program, const struct team *team) {
    static const char *const losses[] = {"", ", loses time", ", gives up", ", aborts", ", leaves", ", dies"};
    static const char *const waits[] = {"waiting anyhow", "waiting in order", "waiting together"};
    printf("seed %llu: %d ranks%s, %s, %s, slots of %zu bytes%s%s\n", (unsigned long long)arguments.seed, team->ranks,
           program->streams > 1 ? " of two threads"
           : program->lanes > 1 ? " with lanes"
                                : "",
           waits[program->waits], kolo_name(KOLO_NAME_ALGORITHM, team->algorithm), team->slot_bytes,
           program->reads ? ", single copies" : "", losses[program->loss]);
}
