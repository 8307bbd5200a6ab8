#include "sim_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "kolo_lanes.h"
#include "algo/registry.h"
#include "api/lanes/slices.h"
#include "comm/creation/options.h"
#include "plan/plan.h"
#include "plan/tuning.h"
#include "sim_check.h"
#include "sim_engine.h"
#include "sim_lines.h"
#include "sim_memory.h"
#include "sim_machine.h"

/* Of each buffer; whole pages, whatever a page's size is. */
enum { UNIT = TEAM_BUFFERS_ALIGNMENT, REAL_BYTES = (KOLO_LINES_BYTES_MAX + UNIT - 1) / UNIT * UNIT };

static struct {
    uint8_t *arena; /* NULL: none */
    size_t bytes;
} team;

/* What the library would read of the machine: its first cores, on which the ranks are. */
static void fill_topology(kolo_topology *topology, const sim_machine *machine, uint32_t cores) {
    *topology = (kolo_topology){.cpus_online = sim_machine_cores(machine),
                                .numa_nodes = sim_machine_node(machine, sim_machine_cores(machine) - 1) + 1,
                                .l3_domains = sim_machine_domain(machine, cores - 1) + 1,
                                .nodes = sim_machine_node(machine, cores - 1) + 1,
                                .packages = sim_machine_socket(machine, cores - 1) + 1,
                                .cores = cores,
                                .l2_bytes = (uint64_t)machine->l2_bytes,
                                .l3_bytes = (uint64_t)machine->l3_bytes};
    for (uint32_t core = 0; core < KOLO_CPUS_MAX; core++) {
        const bool used = core < cores;
        if (used)
            kolo_cpu_set_add(&topology->allowed, core);
        topology->l3_of[core] = used ? (uint16_t)sim_machine_domain(machine, core) : KOLO_CPU_NOWHERE;
        topology->node_of[core] = used ? (uint16_t)sim_machine_node(machine, core) : KOLO_CPU_NOWHERE;
        topology->package_of[core] = used ? (uint16_t)sim_machine_socket(machine, core) : KOLO_CPU_NOWHERE;
        topology->core_of[core] = used ? (uint16_t)core : KOLO_CPU_NOWHERE;
    }
}

static void sim_team_settings(struct kolo_shared_settings *settings, const sim_case *asked, size_t slot_bytes) {
    static kolo_cpu_set sets[KOLO_CPUS_MAX];
    static const kolo_cpu_set *rank_cpus[KOLO_CPUS_MAX];
    kolo_topology topology;
    fill_topology(&topology, asked->machine, sim_rank_core(asked->ranks));
    for (uint32_t rank = 0; rank < asked->ranks; rank++) {
        sets[rank] = (kolo_cpu_set){{0}};
        for (uint32_t core = sim_rank_core(rank); core < sim_rank_core(rank + 1); core++)
            kolo_cpu_set_add(&sets[rank], core);
        rank_cpus[rank] = &sets[rank];
    }
    const struct kolo_tuning_question question = {.algorithm = asked->algorithm,
                                                  .slot_bytes = slot_bytes,
                                                  .ranks = asked->ranks,
                                                  .topology = &topology,
                                                  .rank_cpus = rank_cpus};
    kolo_tuning_default(settings, &question);
}

static bool open_up(uint8_t *memory, size_t bytes) {
    return mprotect(memory, bytes, PROT_READ | PROT_WRITE) == 0;
}

/* Buffers of `bytes` or more. 0, or -1 if there is no memory. */
static int sim_team_create(const sim_case *asked, const struct kolo_shared_settings *settings, size_t slot_bytes,
                           size_t bytes) {
    const size_t more = bytes > REAL_BYTES ? bytes : REAL_BYTES;
    const team_shape shape = {.ranks = asked->ranks,
                              .lanes = sim_lanes(),
                              .slot_bytes = slot_bytes,
                              .buffer_bytes = (more + UNIT - 1) / UNIT * UNIT,
                              .settings = *settings,
                              .has_heap = asked->algorithm == KOLO_ALGORITHM_DIRECT};
    const team_layout layout = team_layout_of(&shape);
    uint8_t *arena =
        mmap(NULL, layout.begin[TEAM_PARTS], PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena == MAP_FAILED)
        return -1;
    team.arena = arena;
    team.bytes = layout.begin[TEAM_PARTS];
    for (uint32_t lane = 0; lane < sim_lanes(); lane++)
        if (!open_up(arena + lane * layout.segment_bytes, layout.begin[TEAM_SLOTS]))
            return -1;
    for (size_t begin = layout.begin[TEAM_SEND]; begin < layout.begin[TEAM_PARTS]; begin += shape.buffer_bytes)
        if (!open_up(arena + begin, REAL_BYTES))
            return -1;
    return team_create(&shape, arena);
}

static void sim_team_destroy(void) {
    team_destroy();
    if (team.arena != NULL)
        munmap(team.arena, team.bytes);
    team.arena = NULL;
}

bool sim_team_is_real(const void *address, size_t bytes) {
    team_place place;
    if (!team_find(address, &place) || place.part < TEAM_SLOTS)
        return true;
    return place.part != TEAM_SLOTS && place.offset + bytes <= REAL_BYTES;
}

/* Calls of up to BATCH_BYTES_MAX are made back to back, as kolo-perf makes them; others after a meeting of all ranks.
 */
enum { BATCH_BYTES_MAX = 4096, BATCH_CALLS = 8, CALLS_MANY = 2, MANY_THREADS = 256, CHECK_CALLS = 6 };
enum { GRANULE_BYTES_MIN = 128, GRANULE_BYTES_MAX = 4096, GRANULES_MAX = 4 << 20 };

/* Long messages are cut to as many chunks as keep a run within this many accesses to flags and blocks. */
enum { CHUNKS_MIN = 6, CHUNKS_MAX = 96 };
#define ACCESSES_MAX UINT64_C(6000000)
#define EVENTS_MAX   (UINT64_C(1) << 31)

static struct {
    const sim_case *asked;
    sim_outcome *outcome;
    struct kolo_shared_settings settings;
    size_t slot_bytes;
    uint32_t slices;    /* lanes that do a part of each call */
    size_t chunk_bytes; /* of the message, or of a slice */
    size_t count;       /* of the calls that are made: less than asked where the message was cut */
    double age;         /* how much longer the message asked for is than what is done of it */
    uint64_t warm_ups;
    uint32_t calls;
    double start_ns;
    double end_ns; /* latest */
    uint64_t waits;
    uint64_t call[SIM_THREADS_MAX];
} run;

const sim_case *sim_run_asked(void) {
    return run.asked;
}

uint64_t sim_run_call(void) {
    return run.call[sim_self()];
}

size_t sim_run_bytes(void) {
    return run.count * kolo_dtype_bytes(run.asked->dtype);
}

size_t sim_acc_bytes(kolo_dtype dtype) {
    return dtype == KOLO_F16 || dtype == KOLO_BF16 ? sizeof(float) : kolo_dtype_bytes(dtype);
}

bool sim_run_skips_wait(void) {
    return ++run.waits == run.asked->skipped_wait;
}

void sim_run_fail(const char *function, const char *what) {
    char self[SIM_NAME_BYTES];
    sim_thread_name(sim_self(), self, sizeof self);
    if (run.outcome->problem[0] == '\0')
        snprintf(run.outcome->problem, sizeof run.outcome->problem, "%s in call %" PRIu64 ": %s: %s", self,
                 sim_run_call(), function, what);
}

/* The part of the message that a lane does: *first and the number returned. */
static size_t part_of(uint32_t lane, size_t *first) {
    *first = 0;
    return lane < run.slices
               ? kolo_plan_slice(run.count, (uint32_t)kolo_dtype_bytes(run.asked->dtype), run.slices, lane, first)
               : 0;
}

/* One call of a thread; false if it failed. */
static bool call_once(uint32_t thread) {
    const sim_case *asked = run.asked;
    const uint32_t rank = sim_rank_of(thread), lane = sim_lane_of(thread);
    const size_t element_bytes = kolo_dtype_bytes(asked->dtype);
    uint8_t *send = team_piece(TEAM_SEND, rank);
    uint8_t *recv = asked->in_place ? send : team_piece(TEAM_RECV, rank);
    size_t first;
    const size_t part_bytes = part_of(lane, &first) * element_bytes, from = first * element_bytes;
    sim_check_call(send + from, recv + from, part_bytes, ++run.call[thread]);
    sim_pause();
    sim_spend(asked->machine->call_ns);
    const int rc = sim_lanes() > 1 ? kolo_allreduce(kolo_comm_lane(team_comm(rank), (int)lane), send, recv, run.count,
                                                    asked->dtype, KOLO_SUM)
                                   : kolo_allreduce(team_comm(rank), send, recv, run.count, asked->dtype, KOLO_SUM);
    sim_line_settle();
    if (rc == 0)
        sim_check_read(recv + from, part_bytes);
    else
        sim_run_fail(kolo_strerror(rc), kolo_error_message());
    return rc == 0;
}

static void body(uint32_t thread) {
    for (uint64_t i = 0; i < run.warm_ups; i++)
        if (!call_once(thread))
            return;
    sim_meet();
    if (thread == 0) { /* the first to go on */
        sim_memory_age(run.age);
        run.start_ns = run.end_ns = sim_now_ns();
    }
    for (uint32_t i = 0; i < run.calls; i++)
        if (!call_once(thread))
            return;
    if (sim_now_ns() > run.end_ns)
        run.end_ns = sim_now_ns();
}

/* Who waits for what, of the first ranks that do. */
static void describe_deadlock(char *text, size_t text_bytes) {
    enum { SHOWN_MAX = 4 };
    char who[SIM_NAME_BYTES], word[96];
    int shown = 0;
    size_t length = (size_t)snprintf(text, text_bytes, "deadlock:");
    for (uint32_t thread = 0; thread < sim_threads() && shown < SHOWN_MAX && length < text_bytes; thread++) {
        if (sim_engine_state(thread) != SIM_BLOCKED)
            continue;
        const sim_poll poll = sim_line_polled(thread);
        sim_thread_name(thread, who, sizeof who);
        team_describe(poll.word, sizeof *poll.word, word, sizeof word);
        length += (size_t)snprintf(text + length, text_bytes - length,
                                   "%s %s in call %" PRIu64 " waits for %s to reach %" PRIu64 ", and it is %" PRIu64,
                                   shown++ > 0 ? ";" : "", who, run.call[thread], word, poll.target, *poll.word);
    }
}

static void judge(sim_end end) {
    char *text = run.outcome->problem;
    const size_t text_bytes = sizeof run.outcome->problem;
    if (end == SIM_END_NO_MEMORY)
        snprintf(text, text_bytes, "no memory for the model of %u ranks: try fewer, or smaller messages",
                 run.asked->ranks);
    else if (sim_check_problem() != NULL)
        snprintf(text, text_bytes, "protocol: %s", sim_check_problem());
    else if (text[0] == '\0' && end == SIM_END_DEADLOCK)
        describe_deadlock(text, text_bytes);
    else if (text[0] == '\0' && end == SIM_END_ENDLESS)
        snprintf(text, text_bytes, "no end after %" PRIu64 " events: fewer ranks or smaller messages may have one",
                 sim_engine_events());
}

/* Blocks no larger than a rank's slice, which is touched at once, and not more of them than there is memory for. */
static size_t granule_bytes(size_t message_bytes) {
    const uint32_t ranks = run.asked->ranks;
    const size_t slots_bytes = KOLO_SLOTS * run.slot_bytes * sim_lanes();
    const size_t slice_bytes = message_bytes / run.slices;
    const size_t shared_bytes = slice_bytes < run.chunk_bytes ? slice_bytes : run.chunk_bytes;
    const size_t most_bytes = message_bytes > slots_bytes ? message_bytes : slots_bytes;
    size_t bytes = GRANULE_BYTES_MIN;
    while (bytes < GRANULE_BYTES_MAX && 2 * bytes * ranks <= shared_bytes)
        bytes *= 2;
    while (most_bytes / bytes * ranks > GRANULES_MAX)
        bytes *= 2;
    return bytes;
}

static sim_end build_and_run(void) {
    const sim_case *asked = run.asked;
    if (sim_team_create(asked, &run.settings, run.slot_bytes, sim_run_bytes()) != 0 ||
        sim_memory_create(asked->machine, asked->ranks, granule_bytes(sim_run_bytes())) != 0 ||
        sim_lines_create(asked->machine) != 0 || sim_check_begin(asked->check, asked->ranks, run.slot_bytes) != 0)
        return SIM_END_NO_MEMORY;
    const sim_end end = sim_engine_run(sim_threads(), body, EVENTS_MAX, asked->noise_seed);
    run.outcome->events += sim_engine_events();
    return end;
}

static uint32_t timed_calls(void) {
    if (sim_threads() >= MANY_THREADS)
        return CALLS_MANY;
    if (run.asked->check)
        return CHECK_CALLS;
    return sim_run_bytes() <= BATCH_BYTES_MAX ? BATCH_CALLS : 1;
}

/* The ns of one call of `count` elements in `chunks` chunks; 0: in lines. Every slot, or both sets of lines, are in use
 * before what is timed. */
static double simulate(size_t count, size_t chunks, double age) {
    run.count = count;
    run.age = age;
    run.waits = 0;
    memset(run.call, 0, sizeof run.call);
    run.warm_ups = chunks == 0 ? 2 : (KOLO_PARTS + chunks - 1) / chunks;
    run.calls = timed_calls();
    judge(build_and_run());
    sim_lines_destroy();
    sim_memory_destroy();
    sim_team_destroy();
    return (run.end_ns - run.start_ns) / run.calls;
}

/* Chunks of a message that are simulated at most. Each chunk costs some looks at each peer's flags, and one shot reads
 * all of everybody's. */
static size_t chunks_max(const struct kolo_answer *plan) {
    const uint64_t pairs = (uint64_t)run.asked->ranks * run.asked->ranks;
    uint64_t accesses = 3 * pairs;
    if (plan->algorithm == KOLO_ALGORITHM_ONESHOT)
        accesses += pairs * (run.chunk_bytes / granule_bytes(run.chunk_bytes));
    const uint64_t chunks = ACCESSES_MAX / accesses / run.slices;
    return chunks < CHUNKS_MIN ? CHUNKS_MIN : chunks > CHUNKS_MAX ? CHUNKS_MAX : (size_t)chunks;
}

/* Settings with which a shorter message is treated as the long one would be. */
static void pin(struct kolo_shared_settings *settings, const struct kolo_answer *plan) {
    settings->algorithm = (uint32_t)plan->algorithm;
    settings->tables[KOLO_TABLE_ALLREDUCE] = (struct kolo_shared_table){
        .stream_bytes_min = plan->stream ? 0 : UINT64_MAX,
        .bands = 1,
        .band = {{UINT64_MAX, (uint32_t)plan->algorithm, (uint32_t)run.chunk_bytes}},
    };
}

static double simulate_part(const struct kolo_answer *plan, size_t chunks) {
    return simulate(chunks * plan->chunk_count * run.slices, chunks, (double)plan->chunks / (double)chunks - 1);
}

/* A long message goes through the same pipeline chunk after chunk: time is linear in chunks once it is filled. */
static double extrapolate(const struct kolo_answer *plan, size_t chunks) {
    const size_t few = chunks / 2;
    pin(&run.settings, plan);
    run.outcome->extrapolated = true;
    const double few_ns = simulate_part(plan, few);
    if (run.outcome->problem[0] != '\0')
        return 0;
    const double many_ns = simulate_part(plan, chunks);
    const double chunk_ns = (many_ns - few_ns) / (double)(chunks - few);
    return many_ns + chunk_ns * (double)(plan->chunks - chunks);
}

/* How many lanes the library divides a message among. */
static uint32_t slices_of(const sim_case *asked) {
    struct kolo_lanes lanes = {.count = sim_lanes()};
    const kolo_comm comm = {.lanes = &lanes, .global_size = asked->ranks, .settings = run.settings};
    return kolo_slices_count(&kolo_registry[KOLO_ALLREDUCE], &comm, asked->count, kolo_dtype_bytes(asked->dtype), 0);
}

static double run_asked(const sim_case *asked) {
    const uint32_t element_bytes = (uint32_t)kolo_dtype_bytes(asked->dtype);
    sim_places_set(asked->machine, asked->ranks, asked->lanes);
    run.slot_bytes = asked->slot_bytes ? asked->slot_bytes : kolo_settings_slot_bytes(asked->ranks, sim_lanes());
    sim_team_settings(&run.settings, asked, run.slot_bytes);
    run.slices = slices_of(asked);
    if (asked->algorithm == KOLO_ALGORITHM_DIRECT) { /* no slots, and the plan does not know of it */
        run.chunk_bytes = SIZE_MAX;
        run.slot_bytes = KOLO_PAGE_BYTES;
        return simulate(asked->count, 1, 0);
    }
    const kolo_kernel kernel = {.element_bytes = element_bytes, .acc_bytes = (uint32_t)sim_acc_bytes(asked->dtype)};
    const struct kolo_question question = {.descriptor = &kolo_registry[KOLO_ALLREDUCE],
                                           .count = kolo_plan_longest(asked->count, element_bytes, run.slices),
                                           .kernel = &kernel,
                                           .lanes = run.slices > 1 ? run.slices : 0};
    struct kolo_answer plan;
    kolo_plan_make(&question, &run.settings, run.slot_bytes, &plan);
    run.chunk_bytes = plan.chunk_count * element_bytes;
    run.outcome->algorithm = plan.algorithm;
    run.outcome->chunks = plan.lines ? 0 : plan.chunks;
    const size_t most = chunks_max(&plan);
    return plan.chunks > most ? extrapolate(&plan, most) : simulate(asked->count, run.outcome->chunks, 0);
}

int sim_run(const sim_case *asked, sim_outcome *outcome) {
    *outcome = (sim_outcome){.algorithm = asked->algorithm};
    run.asked = asked;
    run.outcome = outcome;
    outcome->time_us = run_asked(asked) * 1e-3;
    return outcome->problem[0] == '\0' ? 0 : -1;
}
