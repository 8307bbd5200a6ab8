#include "sched_plan.h"

#include <string.h>

#include "kolo_tools.h"
#include "sched_blocks.h"
#include "sched_engine.h"
#include "splitmix64.h"

#define BIT(algorithm) (1u << (algorithm))

enum { LINES_BYTES = KOLO_LINES_BYTES_MAX, BAND_BYTES = 1280, CHUNKS_MAX = 11, PERCENT = 100 };

enum {
    ONESHOT = BIT(KOLO_ALGORITHM_ONESHOT),
    MESH = BIT(KOLO_ALGORITHM_MESH),
    RING = BIT(KOLO_ALGORITHM_RING),
    CENTRAL = BIT(KOLO_ALGORITHM_CENTRAL),
    TREE = BIT(KOLO_ALGORITHM_TREE),
    DIRECT = BIT(KOLO_ALGORITHM_DIRECT),
    EVERY = ONESHOT | MESH | RING | CENTRAL | TREE | DIRECT,
    ANYTHING = SCHED_LINES | SCHED_BROADCASTS | SCHED_BARRIERS | SCHED_FAMILY
};

static const sched_case cases[] = {
    {"lines", "messages in lines, and barriers", 2, 5, 8, 0, SCHED_LINES | SCHED_BARRIERS, SCHED_NO_FAULT},
    {"oneshot", "one shot through slots", 3, 5, 4, ONESHOT, 0, SCHED_NO_FAULT},
    {"swap", "two ranks that swap their slots, with mesh, tree and broadcasts between", 2, 2, 8, ONESHOT | MESH | TREE,
     SCHED_BROADCASTS, SCHED_NO_FAULT},
    {"mesh", "mesh", 2, 5, 4, MESH, 0, SCHED_NO_FAULT},
    {"tree", "trees with levels, in lines and in slots, and broadcasts", 3, 8, 4, TREE, SCHED_LINES | SCHED_BROADCASTS,
     SCHED_NO_FAULT},
    {"ring", "ring", 2, 5, 4, RING, 0, SCHED_NO_FAULT},
    {"central", "central", 2, 5, 6, CENTRAL, 0, SCHED_NO_FAULT},
    {"direct", "buffers of kolo_alloc, and some that are not, and broadcasts", 2, 5, 6, DIRECT | MESH | TREE,
     SCHED_LINES | SCHED_BROADCASTS, SCHED_NO_FAULT},
    {"broadcast", "broadcasts from changing roots", 2, 5, 8, 0, SCHED_BROADCASTS, SCHED_NO_FAULT},
    {"ahead", "mostly broadcasts from one root, which gets as far ahead of the others as it may", 3, 5,
     KOLO_PARTS + SCHED_CALLS, DIRECT | MESH, SCHED_BROADCASTS | SCHED_SAME_ROOT, SCHED_NO_FAULT},
    {"rooted", "gathers, reductions, scatters and broadcasts, after which nobody waits for all others", 2, 5,
     KOLO_PARTS + SCHED_CALLS, 0, SCHED_ROOTED, SCHED_NO_FAULT},
    {"passes", "small calls in which not all wait for all, more in succession than there are sets of lines for", 2, 3,
     SCHED_CALLS_MAX, 0, SCHED_ROOTED | SCHED_PASSES, SCHED_NO_FAULT},
    {"mixed", "any collective by any algorithm, one after another", 2, 5, 6, EVERY, ANYTHING, SCHED_NO_FAULT},
    {"overtaken", "gathers to few roots, so that ranks get ahead of each other while they compare stamps", 3, 3,
     KOLO_PARTS + SCHED_CALLS, 0, SCHED_ROOTED | SCHED_GATHERS, SCHED_NO_FAULT},
    {"family", "every collective but the all-reduce, one after another", 2, 5, SCHED_CALLS, 0,
     SCHED_LINES | SCHED_BROADCASTS | SCHED_BARRIERS | SCHED_FAMILY, SCHED_NO_FAULT},
    {"exchanges", "reduce-scatters and all-to-alls that swap regions, with broadcasts and scatters between", 3, 5,
     SCHED_CALLS, 0, SCHED_EXCHANGES, SCHED_NO_FAULT},
    {"pairs", "any collective by any algorithm after any other, so that one waits for slots that the other used", 2, 4,
     SCHED_CALLS, 0, SCHED_PAIRS, SCHED_NO_FAULT},
    {"sleep", "short calls in which everybody sleeps at once", 2, 4, 4, ONESHOT,
     SCHED_LINES | SCHED_BROADCASTS | SCHED_BARRIERS | SCHED_SLEEPS, SCHED_NO_FAULT},
    {"abort", "one or two ranks abort between calls", 2, 5, 6, EVERY, ANYTHING, SCHED_ABORT},
    {"death", "a rank dies at any step", 2, 5, 6, EVERY, ANYTHING, SCHED_DEATH},
    {"departure", "a rank destroys its communicator and ends while others go on", 2, 5, 6, EVERY, ANYTHING,
     SCHED_DEPARTURE},
    {"late", "a rank gives a call up while others are still in it", 2, 5, 6, EVERY, ANYTHING, SCHED_LATE},
    {"mapped", "the same, mostly in buffers of kolo_alloc", 2, 5, 4, DIRECT | MESH, SCHED_FAMILY, SCHED_LATE},
    {"mismatch", "some ranks make another call than the others", 2, 5, 6, EVERY, ANYTHING, SCHED_MISMATCH},
    {"roots", "broadcasts in which some ranks make another call, and of which roots may see nothing", 2, 4, 6, 0,
     SCHED_BROADCASTS, SCHED_MISMATCH},
    {"rivals", "broadcasts that some ranks make from other roots than the others do, and go on to", 2, 4,
     SCHED_CALLS - KOLO_SLOTS, 0, SCHED_BROADCASTS | SCHED_LASTING, SCHED_MISMATCH},
    {"factions", "the same with any collective that has a root", 2, 5, SCHED_CALLS - KOLO_SLOTS, 0,
     SCHED_ROOTED | SCHED_LASTING, SCHED_MISMATCH},
    {"exchanged", "the same between exchanges, broadcasts and scatters", 3, 5, SCHED_CALLS, 0,
     SCHED_EXCHANGES | SCHED_LASTING, SCHED_MISMATCH},
    {"table", "a table with a bound on staleness, and queues that are full", 2, 3, 0, 0, SCHED_TABLES, SCHED_NO_FAULT},
    {"clocks", "a table whose clocks end for all together", 2, 3, 0, 0, SCHED_CLOCKS, SCHED_NO_FAULT},
    {"heirs", "a table of which a rank dies at any step", 2, 3, 0, 0, SCHED_TABLES, SCHED_DEATH},
    {"bereaved", "a table whose clocks cannot end since a rank dies", 2, 3, 0, 0, SCHED_CLOCKS, SCHED_DEATH},
};

enum { CASES = sizeof cases / sizeof *cases };

const sched_case *sched_case_at(uint32_t index) {
    return index < CASES ? &cases[index] : NULL;
}

const sched_case *sched_case_find(const char *name) {
    for (uint32_t i = 0; i < CASES; i++)
        if (strcmp(cases[i].name, name) == 0)
            return &cases[i];
    return NULL;
}

static bool has(const sched_case *which, sched_feature feature) {
    return which->features & feature;
}

static uint32_t below(uint64_t *random, uint64_t limit) {
    return (uint32_t)random_below(random, limit);
}

static bool percent(uint64_t *random, uint64_t chance) {
    return random_below(random, PERCENT) < chance;
}

/* What a call may be, for pairs: of k kinds there are k * k ordered pairs. */
typedef struct kind {
    kolo_collective collective;
    kolo_algorithm algorithm; /* of a reduction that has several; AUTO: in lines */
    uint32_t root;
} kind;

enum { KINDS_MAX = 64 };

static kind kinds[KINDS_MAX];
static uint32_t kinds_count;

/* Every collective: with several algorithms by each of them, and with a root from rank 0 and from rank 1. */
static void list_kinds(void) {
    for (kolo_collective collective = 0; collective < KOLO_ALLOC; collective++) {
        const uint32_t algorithms = collective == KOLO_ALLREDUCE ? BIT(KOLO_ALGORITHM_AUTO) | EVERY
                                    : collective == KOLO_REDUCE  ? ONESHOT | MESH
                                                                 : BIT(KOLO_ALGORITHM_AUTO);
        for (kolo_algorithm algorithm = 0; algorithm < KOLO_ALGORITHMS; algorithm++)
            for (uint32_t root = 0; root <= collective_shapes[collective].has_root; root++)
                if (algorithms & BIT(algorithm) && kinds_count < KINDS_MAX)
                    kinds[kinds_count++] = (kind){collective, algorithm, root};
    }
}

/* The first and the second of a pair. */
static const kind *kind_of(uint64_t seed, bool second) {
    if (kinds_count == 0)
        list_kinds();
    return &kinds[(second ? seed : seed / kinds_count) % kinds_count];
}

/* Chunks of a few lines, such that a message of the band has at most CHUNKS_MAX. */
static uint32_t draw_chunk_bytes(uint64_t *random, uint64_t band_bytes_max) {
    static const uint32_t lines[] = {1, 1, 2, 3, 4, 5, 8};
    const uint32_t least = (uint32_t)((band_bytes_max / CHUNKS_MAX + KOLO_LINE_BYTES) / KOLO_LINE_BYTES);
    const uint32_t drawn = lines[below(random, sizeof lines / sizeof *lines)];
    return (drawn < least ? least : drawn) * KOLO_LINE_BYTES;
}

static void add_band(struct kolo_shared_table *table, uint32_t algorithm, uint64_t *random) {
    const uint64_t bytes_max = table->bands ? table->band[table->bands - 1].bytes_max + BAND_BYTES : BAND_BYTES;
    table->band[table->bands++] = (struct kolo_shared_band){
        .bytes_max = bytes_max, .algorithm = algorithm, .chunk_bytes = draw_chunk_bytes(random, bytes_max)};
}

/* A band of message sizes for each algorithm of the set, in any order, behind the lines'. */
static void draw_bands(struct kolo_shared_table *table, uint32_t set, bool has_lines, uint64_t *random) {
    uint32_t algorithms[KOLO_ALGORITHMS], count = 0;
    for (uint32_t algorithm = 0; algorithm < KOLO_ALGORITHMS; algorithm++)
        if (algorithm != KOLO_ALGORITHM_DIRECT && set & BIT(algorithm))
            algorithms[count++] = algorithm;
    for (uint32_t i = count; i > 1; i--) {
        const uint32_t other = below(random, i), moved = algorithms[i - 1];
        algorithms[i - 1] = algorithms[other];
        algorithms[other] = moved;
    }
    if (has_lines || count == 0)
        table->band[table->bands++] = (struct kolo_shared_band){
            .bytes_max = LINES_BYTES, .algorithm = KOLO_ALGORITHM_ONESHOT, .chunk_bytes = SCHED_SLOT_BYTES};
    for (uint32_t i = 0; i < count; i++)
        add_band(table, algorithms[i], random);
}

/* Messages of one more band are reduced in kolo_alloc's buffers. */
static void add_direct_band(team_shape *team, uint64_t *random) {
    struct kolo_shared_table *table = &team->settings.tables[KOLO_TABLE_ALLREDUCE];
    team->settings.direct_bytes_min = table->band[table->bands - 1].bytes_max + 1;
    add_band(table, KOLO_ALGORITHM_MESH, random);
    team->has_heap = true;
}

/* Blocks are read out of the other ranks' memory. */
static void add_reads(struct kolo_shared_settings *settings) {
    static const kolo_collective reading[] = {KOLO_ALLGATHER, KOLO_SCATTER, KOLO_ALLTOALL};
    for (size_t i = 0; i < sizeof reading / sizeof *reading; i++)
        settings->reads[reading[i]] = (struct kolo_shared_range){1, UINT64_MAX};
}

static void draw_shape(sched_shape *shape, const sched_case *from, uint64_t *random) {
    static const uint32_t trees[][KOLO_LEVELS_MAX] = {{0}, {2}, {4}, {2, 4}};
    struct kolo_shared_settings *settings = &shape->team.settings;
    shape->team.slot_bytes = SCHED_SLOT_BYTES;
    shape->team.buffer_bytes = SCHED_BUFFER_BYTES;
    shape->team.ranks = from->ranks_min + below(random, from->ranks_max - from->ranks_min + 1);
    struct kolo_shared_table *table = &settings->tables[KOLO_TABLE_ALLREDUCE];
    draw_bands(table, from->algorithms, has(from, SCHED_LINES), random);
    draw_bands(&settings->tables[KOLO_TABLE_REDUCE], ONESHOT | MESH, has(from, SCHED_LINES) || has(from, SCHED_PASSES),
               random);
    draw_bands(&settings->tables[KOLO_TABLE_SCAN], ONESHOT | MESH, percent(random, 50), random);
    settings->tables[KOLO_TABLE_SINGLE] = (struct kolo_shared_table){
        .bands = 1,
        .band = {{UINT64_MAX, KOLO_ALGORITHM_ONESHOT,
                  percent(random, 50) ? SCHED_SLOT_BYTES : draw_chunk_bytes(random, SCHED_BUFFER_BYTES)}}};
    memcpy(settings->tree_sizes, trees[below(random, sizeof trees / sizeof *trees)], sizeof settings->tree_sizes);
    table->stream_bytes_min = percent(random, 30) ? 0 : UINT64_MAX;
    settings->direct_bytes_min = UINT64_MAX;
    settings->take_bytes_min = UINT64_MAX; /* stores that change nothing race with other readers */
    if (has(from, SCHED_PAIRS) && from->algorithms & DIRECT) {
        add_direct_band(&shape->team, random);
    } else if (from->algorithms & DIRECT && percent(random, 60)) {
        settings->direct_bytes_min = 0;
        shape->team.has_heap = true;
    }
    shape->publisher_fences = percent(random, 25);
    const bool sleeps = has(from, SCHED_SLEEPS) || percent(random, 40);
    shape->spins = sleeps ? below(random, 2) : 1 + below(random, 6);
    shape->yields = sleeps ? 0 : below(random, 4);
    shape->first_ticket = below(random, 4 * KOLO_SLOTS);
    if (percent(random, 40))
        add_reads(settings);
}

static void draw_reduction(sched_call *call, const struct kolo_shared_table *table, uint32_t band, uint64_t *random) {
    static const kolo_dtype dtypes[] = {KOLO_F32, KOLO_BF16, KOLO_I32, KOLO_U8};
    static const kolo_op ops[] = {KOLO_SUM, KOLO_SUM, KOLO_MAX, KOLO_AVG};
    const uint64_t least = band ? table->band[band - 1].bytes_max + 1 : 0;
    const uint64_t bytes = least + below(random, table->band[band].bytes_max - least - 2);
    /* Sums of floats in ring order have other bits. */
    call->dtype = dtypes[table->band[band].algorithm == KOLO_ALGORITHM_RING ? 2 + below(random, 2) : below(random, 4)];
    call->op = ops[below(random, sizeof ops / sizeof *ops)];
    call->count = (bytes + kolo_dtype_bytes(call->dtype) - 1) / kolo_dtype_bytes(call->dtype);
    call->in_place = percent(random, 30);
}

static bool works_in_place(kolo_collective collective) {
    return collective != KOLO_ALLTOALLV && collective != KOLO_ALLREDUCE_APPLY;
}

/* A call of a collective other than an all-reduce, in lines or in slots; a reduction in that band, if it has bands. */
static void draw_other_than_allreduce(sched_call *call, const sched_shape *shape, uint32_t band, uint32_t percent_lines,
                                      uint64_t *random) {
    const bool has_op = kolo_collective_has(call->collective) & KOLO_HAS_OP;
    const size_t ranks = shape->team.ranks;
    call->dtype = has_op ? KOLO_I32 : KOLO_U8;
    if (call->collective == KOLO_REDUCE) {
        draw_reduction(call, &shape->team.settings.tables[KOLO_TABLE_REDUCE], band, random);
    } else {
        call->op = has_op ? below(random, KOLO_BXOR + 1) : KOLO_SUM;
        call->count = below(random, percent(random, percent_lines)
                                        ? LINES_BYTES / kolo_dtype_bytes(call->dtype) / ranks
                                        : sched_count_max(call->collective, call->dtype, (uint32_t)ranks) + 1);
    }
    call->skew = below(random, 4);
    call->in_place =
        works_in_place(call->collective) && (percent(random, 30) || call->collective == KOLO_ALLREDUCE_MANY);
}

static void draw_family(sched_call *call, const sched_shape *shape, uint64_t *random) {
    call->collective = (kolo_collective)(KOLO_ALLGATHER + below(random, KOLO_ALLOC - KOLO_ALLGATHER));
    call->root = below(random, shape->team.ranks);
    draw_other_than_allreduce(call, shape, below(random, shape->team.settings.tables[KOLO_TABLE_REDUCE].bands), 30,
                              random);
}

/* Rarely in lines, unless the case is about those: in some of them all wait for all. */
static void draw_rooted(sched_call *call, const sched_case *from, const sched_shape *shape, uint64_t *random) {
    static const kolo_collective rooted[] = {KOLO_BROADCAST, KOLO_REDUCE, KOLO_GATHER, KOLO_SCATTER, KOLO_SCAN};
    const bool passes = has(from, SCHED_PASSES);
    call->collective =
        has(from, SCHED_GATHERS) ? KOLO_GATHER : rooted[below(random, sizeof rooted / sizeof *rooted - !passes)];
    call->root = call->collective == KOLO_SCAN ? 0 : below(random, shape->team.ranks);
    draw_other_than_allreduce(call, shape, passes && percent(random, 90) ? 0 : 1, passes ? 90 : 3, random);
}

/* Rarely in lines. */
static void draw_exchange(sched_call *call, const sched_shape *shape, uint64_t *random) {
    static const kolo_collective exchanges[] = {KOLO_REDUCE_SCATTER, KOLO_REDUCE_SCATTERV, KOLO_ALLTOALL,
                                                KOLO_ALLTOALLV},
                                 others[] = {KOLO_BROADCAST, KOLO_SCATTER, KOLO_SCATTERV, KOLO_GATHER};
    const bool is_other = percent(random, 25);
    const uint32_t which = below(random, sizeof exchanges / sizeof *exchanges);
    call->collective = is_other ? others[which] : exchanges[which];
    call->root = is_other ? below(random, shape->team.ranks) : 0;
    draw_other_than_allreduce(call, shape, 1, 3, random);
}

/* Mostly a little more than goes through lines, which all ranks wait for. */
static size_t draw_broadcast_count(const sched_case *from, uint64_t *random) {
    if (has(from, SCHED_SAME_ROOT) || percent(random, 60))
        return LINES_BYTES + 1 + below(random, 300);
    return below(random, percent(random, 50) ? LINES_BYTES + 1 : SCHED_BUFFER_BYTES + 1);
}

static void draw_call(sched_call *call, const sched_case *from, const sched_shape *shape, uint64_t *random) {
    const bool reduces = from->algorithms || has(from, SCHED_LINES);
    call->outsider = percent(random, 25) ? below(random, shape->team.ranks) : SCHED_NOBODY;
    call->dtype = KOLO_U8;
    if (has(from, SCHED_ROOTED)) {
        draw_rooted(call, from, shape, random);
    } else if (has(from, SCHED_EXCHANGES)) {
        draw_exchange(call, shape, random);
    } else if (has(from, SCHED_BARRIERS) && percent(random, 12)) {
        call->collective = KOLO_BARRIER;
    } else if (has(from, SCHED_BROADCASTS) && (!reduces || percent(random, has(from, SCHED_SAME_ROOT) ? 75 : 25))) {
        call->collective = KOLO_BROADCAST;
        call->root = has(from, SCHED_SAME_ROOT) ? 0 : below(random, shape->team.ranks);
        call->count = draw_broadcast_count(from, random);
    } else if (has(from, SCHED_FAMILY) && percent(random, 50)) {
        draw_family(call, shape, random);
    } else {
        call->collective = KOLO_ALLREDUCE;
        const struct kolo_shared_table *table = &shape->team.settings.tables[KOLO_TABLE_ALLREDUCE];
        draw_reduction(call, table, below(random, table->bands), random);
    }
}

static uint32_t band_of(const kind *kind, const struct kolo_shared_table *table) {
    uint32_t band = 0; /* the lines' */
    if (kind->algorithm == KOLO_ALGORITHM_DIRECT)
        return table->bands - 1;
    while (kind->algorithm != KOLO_ALGORITHM_AUTO && (band == 0 || table->band[band].algorithm != kind->algorithm))
        band++;
    return band;
}

/* Some calls of the first kind, and some of the second: more tickets than there are slots, or fewer. */
static void draw_pair(sched_plan *plan, uint64_t seed, uint64_t *random) {
    const struct kolo_shared_table *tables = plan->shape.team.settings.tables;
    const uint32_t firsts = 1 + below(random, SCHED_CALLS / 2);
    plan->calls = firsts + 1 + below(random, SCHED_CALLS - firsts);
    for (uint32_t i = 0; i < plan->calls; i++) {
        const kind *kind = kind_of(seed, i >= firsts);
        sched_call *call = &plan->call[i];
        *call = (sched_call){
            .collective = kind->collective, .dtype = KOLO_U8, .root = kind->root, .outsider = SCHED_NOBODY};
        if (kind->collective == KOLO_ALLREDUCE)
            draw_reduction(call, &tables[KOLO_TABLE_ALLREDUCE], band_of(kind, &tables[KOLO_TABLE_ALLREDUCE]), random);
        else if (kind->collective != KOLO_BARRIER)
            draw_other_than_allreduce(call, &plan->shape, band_of(kind, &tables[KOLO_TABLE_REDUCE]), 20, random);
    }
}

const sched_call *sched_plan_call(const sched_plan *plan, uint32_t rank, uint32_t index) {
    return sched_disagrees(plan, index) && sched_dissents(plan, rank) ? &plan->other[index] : &plan->call[index];
}

/* Another call, which may differ from `call` in one respect only; or in none. */
static sched_call draw_other(const sched_call *call, const sched_case *from, const sched_shape *shape,
                             uint64_t *random) {
    sched_call fresh = {0}, other = *call;
    draw_call(&fresh, from, shape, random);
    switch (has(from, SCHED_EXCHANGES) ? 4 : below(random, 5)) {
    case 0:
        other.dtype = fresh.dtype;
        break;
    case 1:
        other.op = fresh.op;
        break;
    case 2:
        other.root = fresh.root;
        break;
    case 3:
        other.count = fresh.count;
        break;
    default:
        other = fresh;
    }
    other.count %= sched_count_max(other.collective, other.dtype, shape->team.ranks) + 1;
    other.in_place &= works_in_place(other.collective);
    if (!kolo_op_supports(other.op, other.dtype))
        other.op = KOLO_SUM;
    return other;
}

static bool fits_lines(const sched_call *call, uint32_t ranks) {
    const uint32_t blocks = collective_shapes[call->collective].sends_blocks ? ranks : 1;
    return call->count * kolo_dtype_bytes(call->dtype) * blocks <= LINES_BYTES;
}

static bool any_fits_lines(const sched_plan *plan, uint32_t index) {
    const uint32_t ranks = plan->shape.team.ranks;
    return fits_lines(&plan->call[index], ranks) || fits_lines(&plan->other[index], ranks);
}

/* Some ranks make another call, and in the end all have to meet. Or they go on to make others, and nobody may end more
 * than SCHED_CALLS_AHEAD calls of those, or than KOLO_PARTS if all go through slots. Some make the same call each
 * time, in which a rank may wait for nothing but its slots. */
static void draw_mismatch(sched_plan *plan, const sched_case *from, uint64_t *random) {
    const uint32_t first = plan->fault_call, ranks = plan->shape.team.ranks;
    const bool in_slots = has(from, SCHED_LASTING) && percent(random, 60);
    plan->fault_end = first + 1;
    do {
        if (in_slots)
            draw_call(&plan->call[first], from, &plan->shape, random);
        plan->other[first] = draw_other(&plan->call[first], from, &plan->shape, random);
    } while (kolo_call_keys_equal(sched_key_of(&plan->other[first], ranks), sched_key_of(&plan->call[first], ranks)) ||
             (in_slots && any_fits_lines(plan, first)));
    plan->dissenters = 1 + below(random, (UINT64_C(1) << plan->shape.team.ranks) - 2);
    if (!has(from, SCHED_LASTING)) {
        plan->call[plan->calls++] = (sched_call){.collective = KOLO_BARRIER, .outsider = SCHED_NOBODY};
        return;
    }
    plan->calls = plan->fault_end = first + (in_slots ? KOLO_PARTS : SCHED_CALLS_AHEAD) + 1;
    const bool repeats = in_slots && percent(random, 50);
    for (uint32_t i = first + 1; i < plan->calls; i++)
        do {
            draw_call(&plan->call[i], from, &plan->shape, random);
            plan->other[i] = draw_other(&plan->call[i], from, &plan->shape, random);
            if (repeats) {
                plan->call[i] = plan->call[first];
                plan->other[i] = plan->other[first];
            }
        } while (in_slots && any_fits_lines(plan, i));
}

static void draw_fault(sched_plan *plan, const sched_case *from, uint64_t *random) {
    const sched_fault fault = from->fault;
    plan->fault = fault;
    plan->culprits[0] = plan->culprits[1] = SCHED_NOBODY;
    if (fault == SCHED_NO_FAULT)
        return;
    plan->culprits[0] = below(random, plan->shape.team.ranks);
    if (fault == SCHED_ABORT && percent(random, 80))
        plan->culprits[1] =
            (plan->culprits[0] + 1 + below(random, plan->shape.team.ranks - 1)) % plan->shape.team.ranks;
    plan->fault_call = below(random, plan->calls);
    /* A table is made in 200 steps or so. */
    const uint32_t magnitude = sched_case_has_table(from) ? 8 + below(random, 4) : 3 + below(random, 8);
    plan->fault_step = 1 + below(random, UINT64_C(1) << magnitude);
    if (fault == SCHED_MISMATCH)
        draw_mismatch(plan, from, random);
}

/* For a pair: a case that has what its kinds need. */
static sched_case narrow(const sched_case *from, uint64_t seed) {
    sched_case narrowed = *from;
    narrowed.features |= SCHED_LINES;
    for (int second = 0; second < 2; second++)
        if (kind_of(seed, second)->collective == KOLO_ALLREDUCE &&
            kind_of(seed, second)->algorithm != KOLO_ALGORITHM_AUTO)
            narrowed.algorithms |= BIT(kind_of(seed, second)->algorithm);
    return narrowed;
}

void sched_plan_draw(sched_plan *plan, const sched_case *from, uint64_t seed) {
    const sched_case which = has(from, SCHED_PAIRS) ? narrow(from, seed) : *from;
    uint64_t random = seed;
    memset(plan, 0, sizeof *plan);
    draw_shape(&plan->shape, &which, &random);
    if (sched_case_has_table(&which)) {
        plan->calls = 1; /* sched_table.h has what ranks do */
    } else if (has(&which, SCHED_PAIRS)) {
        draw_pair(plan, seed, &random);
    } else {
        plan->calls = 2 + below(&random, which.calls_max - 1);
        for (uint32_t i = 0; i < plan->calls; i++)
            if (i > 0 && has(&which, SCHED_ROOTED) && percent(&random, 60))
                plan->call[i] = plan->call[i - 1]; /* so that some rank gets far ahead of others */
            else
                draw_call(&plan->call[i], &which, &plan->shape, &random);
    }
    draw_fault(plan, &which, &random);
    plan->wakes_early = percent(&random, 40);
}
