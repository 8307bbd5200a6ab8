#include "sim_engine.h"

#include <stdbool.h>
#include <string.h>

#include "fibers.h"

typedef struct thread_run {
    double now_ns;
    sim_state state;
} thread_run;

/* A thread takes 1 to SLOWEST times as long as the fastest; each access is up to SHORT_NS late, and one of RARE by up
 * to LONG_NS: longer than a whole call of a small message. */
enum { SLOWEST = 4, SHORT_NS = 40, LONG_NS = 20000, RARE = 256 };

static struct {
    uint32_t threads;
    uint64_t noise_seed, noise_drawn;
    thread_run run[SIM_THREADS_MAX];
    uint32_t heap[SIM_THREADS_MAX]; /* threads that can run but do not, the earliest first */
    uint32_t heap_length;
    uint32_t meeting;
    uint32_t done;
    uint64_t events;
    uint64_t events_max;
    void (*body)(uint32_t thread);
} engine;

static bool earlier(uint32_t a, uint32_t b) {
    const double a_ns = engine.run[a].now_ns, b_ns = engine.run[b].now_ns;
    return a_ns < b_ns || (a_ns == b_ns && a < b);
}

static void push(uint32_t thread) {
    uint32_t at = engine.heap_length++;
    for (uint32_t parent = (at - 1) / 2; at > 0 && earlier(thread, engine.heap[parent]); parent = (at - 1) / 2) {
        engine.heap[at] = engine.heap[parent];
        at = parent;
    }
    engine.heap[at] = thread;
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

/* Leaves the running thread for the earliest one, or for sim_engine_run if there is none. */
static void run_next(void) {
    const bool stops = engine.heap_length == 0 || engine.events >= engine.events_max;
    engine.events += !stops;
    fiber_switch(stops ? FIBER_NONE : pop());
}

static void end_meeting(void) {
    if (engine.meeting == 0 || engine.meeting + engine.done < engine.threads)
        return;
    double latest_ns = 0;
    for (uint32_t thread = 0; thread < engine.threads; thread++) {
        const thread_run *other = &engine.run[thread];
        if (other->state == SIM_MEETING && other->now_ns > latest_ns)
            latest_ns = other->now_ns;
    }
    engine.meeting = 0;
    for (uint32_t thread = 0; thread < engine.threads; thread++)
        if (engine.run[thread].state == SIM_MEETING)
            sim_wake(thread, latest_ns);
}

static void run_body(uint32_t thread) {
    engine.body(thread);
    engine.run[thread].state = SIM_DONE;
    engine.done++;
    end_meeting();
    run_next(); /* never comes back */
}

sim_end sim_engine_run(uint32_t threads, void (*body)(uint32_t thread), uint64_t events_max, uint64_t noise_seed) {
    if (fibers_create(threads, run_body) != 0)
        return SIM_END_NO_MEMORY;
    memset(&engine, 0, sizeof engine);
    engine.threads = threads;
    engine.body = body;
    engine.events_max = events_max;
    engine.noise_seed = noise_seed;
    for (uint32_t thread = 0; thread < threads; thread++)
        push(thread);
    fiber_switch(pop());
    if (engine.done == threads)
        return SIM_END_ALL;
    return engine.events >= events_max ? SIM_END_ENDLESS : SIM_END_DEADLOCK;
}

uint64_t sim_engine_events(void) {
    return engine.events;
}

sim_state sim_engine_state(uint32_t thread) {
    return engine.run[thread].state;
}

uint32_t sim_self(void) {
    return fiber_running();
}

double sim_now_ns(void) {
    return engine.run[sim_self()].now_ns;
}

void sim_spend(double ns) {
    engine.run[sim_self()].now_ns += ns;
}

void sim_spend_until(double at_ns) {
    thread_run *self = &engine.run[sim_self()];
    if (at_ns > self->now_ns)
        self->now_ns = at_ns;
}

/* From 0 to 1, by the splitmix64 generator: a counter, mixed. */
static double draw(uint64_t index) {
    uint64_t mixed = (engine.noise_seed + index) * UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)((mixed ^ mixed >> 31) >> 11) * 0x1p-53;
}

void sim_work(double ns) {
    sim_spend(engine.noise_seed ? ns * (1 + (SLOWEST - 1) * draw(UINT64_C(1) << 62 | sim_self())) : ns);
}

void sim_pause(void) {
    if (!engine.noise_seed)
        return;
    const double kind = draw(engine.noise_drawn++), size = draw(engine.noise_drawn++);
    sim_spend(size * (kind * RARE < 1 ? LONG_NS : SHORT_NS));
}

void sim_turn(void) {
    const uint32_t self = sim_self();
    if (engine.heap_length == 0 || earlier(self, engine.heap[0])) {
        engine.events++;
        if (engine.events < engine.events_max)
            return;
    }
    push(self);
    run_next();
}

void sim_block(void) {
    engine.run[sim_self()].state = SIM_BLOCKED;
    run_next();
}

void sim_wake(uint32_t thread, double at_ns) {
    thread_run *woken = &engine.run[thread];
    if (at_ns > woken->now_ns)
        woken->now_ns = at_ns;
    woken->state = SIM_READY;
    push(thread);
}

void sim_meet(void) {
    engine.run[sim_self()].state = SIM_MEETING;
    engine.meeting++;
    end_meeting();
    run_next();
}
