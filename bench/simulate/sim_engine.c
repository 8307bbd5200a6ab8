/* SPDX-License-Identifier: Apache-2.0
 */
#include "sim_engine.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { STACK_BYTES = 128 << 10 };

typedef struct coroutine {
    ucontext_t context;
    double now_ns;
    sim_state state;
} coroutine;

static struct {
    uint32_t ranks;
    coroutine *coroutines;
    uint8_t *stacks; /* each with a page before it that faults */
    uint32_t *heap;  /* ranks that can run but do not, the earliest first */
    uint32_t heap_length;
    uint32_t running;
    uint32_t meeting;
    uint32_t done;
    uint64_t events;
    uint64_t events_max;
    ucontext_t outside;
    void (*body)(uint32_t rank);
} engine;

static size_t page_bytes(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t stack_stride(void) {
    return STACK_BYTES + page_bytes();
}

static bool earlier(uint32_t a, uint32_t b) {
    const double a_ns = engine.coroutines[a].now_ns, b_ns = engine.coroutines[b].now_ns;
    return a_ns < b_ns || (a_ns == b_ns && a < b);
}

static void push(uint32_t rank) {
    uint32_t at = engine.heap_length++;
    for (uint32_t parent = (at - 1) / 2; at > 0 && earlier(rank, engine.heap[parent]); parent = (at - 1) / 2) {
        engine.heap[at] = engine.heap[parent];
        at = parent;
    }
    engine.heap[at] = rank;
}

static uint32_t pop(void) {
    const uint32_t first = engine.heap[0], moved = engine.heap[--engine.heap_length];
    uint32_t at = 0;
    for (uint32_t child = 1; child < engine.heap_length; child = 2 * at + 1) {
        if (child + 1 < engine.heap_length && earlier(engine.heap[child + 1], engine.heap[child]))
            child++;
        if (!earlier(engine.heap[child], moved))
            break;
        engine.heap[at] = engine.heap[child];
        at = child;
    }
    engine.heap[at] = moved;
    return first;
}

/* Leaves the running rank for the earliest one, or for sim_engine_run if there is none. */
static void run_next(void) {
    ucontext_t *from = &engine.coroutines[engine.running].context;
    if (engine.heap_length == 0 || engine.events >= engine.events_max) {
        swapcontext(from, &engine.outside);
        return;
    }
    engine.events++;
    engine.running = pop();
    ucontext_t *to = &engine.coroutines[engine.running].context;
    if (to != from)
        swapcontext(from, to);
}

static void end_meeting(void) {
    if (engine.meeting == 0 || engine.meeting + engine.done < engine.ranks)
        return;
    double latest_ns = 0;
    for (uint32_t rank = 0; rank < engine.ranks; rank++) {
        const coroutine *other = &engine.coroutines[rank];
        if (other->state == SIM_MEETING && other->now_ns > latest_ns)
            latest_ns = other->now_ns;
    }
    engine.meeting = 0;
    for (uint32_t rank = 0; rank < engine.ranks; rank++) {
        if (engine.coroutines[rank].state != SIM_MEETING)
            continue;
        engine.coroutines[rank].now_ns = latest_ns;
        engine.coroutines[rank].state = SIM_READY;
        push(rank);
    }
}

static void run_body(void) {
    engine.body(engine.running);
    engine.coroutines[engine.running].state = SIM_DONE;
    engine.done++;
    end_meeting();
    run_next(); /* never comes back */
}

/* `memory` is a page to fault on, where a stack that grows too far ends up, and the stack. */
static int prepare(ucontext_t *context, uint8_t *memory) {
    if (mprotect(memory, page_bytes(), PROT_NONE) != 0 || getcontext(context) != 0)
        return -1;
    context->uc_stack.ss_sp = memory + page_bytes();
    context->uc_stack.ss_size = STACK_BYTES;
    context->uc_link = NULL;
    makecontext(context, run_body, 0);
    return 0;
}

int sim_engine_create(uint32_t ranks, void (*body)(uint32_t rank)) {
    engine.ranks = ranks;
    engine.body = body;
    engine.coroutines = calloc(ranks, sizeof *engine.coroutines);
    engine.heap = calloc(ranks, sizeof *engine.heap);
    engine.stacks =
        mmap(NULL, ranks * stack_stride(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    engine.heap_length = engine.meeting = engine.done = 0;
    engine.events = 0;
    if (engine.coroutines == NULL || engine.heap == NULL || engine.stacks == MAP_FAILED) {
        sim_engine_destroy();
        return -1;
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        if (prepare(&engine.coroutines[rank].context, engine.stacks + rank * stack_stride()) != 0) {
            sim_engine_destroy();
            return -1;
        }
        push(rank);
    }
    return 0;
}

sim_end sim_engine_run(uint64_t events_max) {
    engine.events_max = events_max;
    engine.running = pop();
    swapcontext(&engine.outside, &engine.coroutines[engine.running].context);
    if (engine.done == engine.ranks)
        return SIM_END_ALL;
    return engine.events >= events_max ? SIM_END_ENDLESS : SIM_END_DEADLOCK;
}

void sim_engine_destroy(void) {
    if (engine.stacks != NULL && engine.stacks != MAP_FAILED)
        munmap(engine.stacks, engine.ranks * stack_stride());
    free(engine.coroutines);
    free(engine.heap);
    engine.stacks = NULL;
    engine.coroutines = NULL;
    engine.heap = NULL;
}

uint64_t sim_engine_events(void) {
    return engine.events;
}

sim_state sim_engine_state(uint32_t rank) {
    return engine.coroutines[rank].state;
}

double sim_engine_clock_ns(uint32_t rank) {
    return engine.coroutines[rank].now_ns;
}

uint32_t sim_self(void) {
    return engine.running;
}

double sim_now_ns(void) {
    return engine.coroutines[engine.running].now_ns;
}

void sim_spend(double ns) {
    engine.coroutines[engine.running].now_ns += ns;
}

void sim_spend_until(double at_ns) {
    coroutine *self = &engine.coroutines[engine.running];
    if (at_ns > self->now_ns)
        self->now_ns = at_ns;
}

void sim_turn(void) {
    const uint32_t self = engine.running;
    if (engine.heap_length == 0 || earlier(self, engine.heap[0])) {
        engine.events++;
        if (engine.events < engine.events_max)
            return;
    }
    push(self);
    run_next();
}

void sim_block(void) {
    engine.coroutines[engine.running].state = SIM_BLOCKED;
    run_next();
}

void sim_wake(uint32_t rank, double at_ns) {
    coroutine *woken = &engine.coroutines[rank];
    if (at_ns > woken->now_ns)
        woken->now_ns = at_ns;
    woken->state = SIM_READY;
    push(rank);
}

void sim_meet(void) {
    engine.coroutines[engine.running].state = SIM_MEETING;
    engine.meeting++;
    end_meeting();
    run_next();
}
