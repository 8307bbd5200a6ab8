/* The same call on all ranks: who began it last, how long it took once all were there. */
#include <stdlib.h>
#include <string.h>

#include "kolo_tools.h"
#include "trace_figures.h"

/* A straggler costs a hundredth of the time at least, and half as much again as any other rank. */
#define STRAGGLER_SHARE 0.01
#define STRAGGLER_TIMES 1.5

enum { COLLECTIVES_ALL = KOLO_COLLECTIVES + 1 }; /* the last one stands for those of newer versions */

double trace_bus_factor(unsigned collective, int ranks) {
    if (ranks < 2) /* nothing is on a bus */
        return 0;
    const unsigned has = kolo_collective_has((kolo_collective)collective);
    if (has & KOLO_HAS_BLOCKS)
        return (double)(ranks - 1) / ranks;
    if (collective == KOLO_ALLREDUCE || collective == KOLO_ALLREDUCE_MANY || collective == KOLO_ALLREDUCE_APPLY)
        return 2.0 * (ranks - 1) / ranks;
    return has ? 1 : 0;
}

uint64_t trace_message_bytes(unsigned collective, uint64_t elements, unsigned dtype, int ranks) {
    uint64_t bytes;
    const unsigned has = kolo_collective_has((kolo_collective)collective);
    size_t each = kolo_dtype_bytes((kolo_dtype)dtype);
    if (!has && collective < KOLO_COLLECTIVES && collective != KOLO_SEND && collective != KOLO_RECV)
        return 0;                                            /* no message */
    if ((has & KOLO_HAS_BLOCKS) && !(has & KOLO_HAS_COUNTS)) /* elements of a block */
        each *= (size_t)ranks;
    return __builtin_mul_overflow(elements, each, &bytes) || bytes > (UINT64_C(1) << 50) ? 0 : bytes;
}

static int by_call(const void *left, const void *right) {
    const trace_call *a = left, *b = right;
    if (a->comm != b->comm)
        return a->comm < b->comm ? -1 : 1;
    if (a->creates != b->creates)
        return a->creates ? -1 : 1;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    if (a->process != b->process)
        return a->process - b->process;
    return (a->begin_ns > b->begin_ns) - (a->begin_ns < b->begin_ns);
}

static int by_value(const void *left, const void *right) {
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* What is known of each communicator: how many ranks it has, and of how many the traces are here. */
static bool count_members(trace_figures *figures) {
    const trace_job *job = figures->job;
    figures->comms = calloc((size_t)job->shared_count + 1, sizeof *figures->comms);
    for (int p = 0; figures->comms && p < job->count; p++)
        for (int i = 0; i < KOLO_TRACE_COMMS; i++) {
            const trace_comm *comm = &job->processes[p].comms[i];
            if (!comm->present)
                continue;
            trace_members *members = &figures->comms[job->comms[comm->machine_comm].shared];
            members->here++;
            members->ranks = comm->is.global_size;
        }
    return figures->comms != NULL;
}

static void look_at_group(const trace_figures *figures, trace_group *group, int64_t *begins) {
    const trace_call *calls = figures->calls;
    group->last = group->longest = group->first;
    for (size_t i = group->first; i < group->first + (size_t)group->count; i++) {
        if (calls[i].begin_ns > calls[group->last].begin_ns)
            group->last = i;
        if (calls[i].end_ns - calls[i].begin_ns > calls[group->longest].end_ns - calls[group->longest].begin_ns)
            group->longest = i;
    }
    const int32_t comm = calls[group->first].comm;
    group->complete = comm >= 0 && group->count >= 2 && group->count == figures->comms[comm].ranks;
    if (group->count < 2)
        return;
    int others = 0;
    for (size_t i = group->first; i < group->first + (size_t)group->count; i++)
        if (i != group->last)
            begins[others++] = calls[i].begin_ns;
    qsort(begins, (size_t)others, sizeof *begins, by_value);
    const int64_t low = begins[(others - 1) / 2], high = begins[others / 2];
    group->late_ns = calls[group->last].begin_ns - (low + (high - low) / 2);
}

static bool make_groups(trace_figures *figures) {
    const trace_call *calls = figures->calls;
    int64_t *begins = calloc((size_t)figures->job->count + 1, sizeof *begins);
    figures->groups = calloc(figures->call_count + 1, sizeof *figures->groups);
    const bool good = begins && figures->groups;
    for (size_t i = 0; good && i < figures->call_count;) {
        trace_group *group = &figures->groups[figures->group_count++];
        *group = (trace_group){.first = i, .count = 1};
        for (i++; i < figures->call_count && calls[i].comm >= 0 && calls[i].comm == calls[i - 1].comm &&
                  calls[i].number == calls[i - 1].number && calls[i].process != calls[i - 1].process &&
                  calls[i].collective == calls[i - 1].collective && calls[i].creates == calls[i - 1].creates;
             i++)
            group->count++;
        look_at_group(figures, group, begins);
    }
    free(begins);
    return good;
}

/* How late a process was. */
typedef struct lateness {
    int32_t process;
    int64_t ns;
} lateness;

static int by_lateness(const void *left, const void *right) {
    const lateness *a = left, *b = right;
    if (a->process != b->process)
        return a->process - b->process;
    return (a->ns > b->ns) - (a->ns < b->ns);
}

/* Of one process, in rising order. Where a step has many calls, the rank that is late is so for the first of them, and
 * comes last to others by chance: what half of the time was lost by tells the usual lateness. */
static void judge(trace_rank *rank, const lateness *late, size_t count) {
    int64_t half = 0;
    size_t usual = 0, first = 0;
    for (size_t i = 0; i < count; i++)
        rank->late_total_ns += late[i].ns;
    while (usual + 1 < count && (half += late[usual].ns) < rank->late_total_ns / 2)
        usual++;
    while (late[first].ns < late[usual].ns / 10)
        first++;
    rank->latest_ns = late[count - 1].ns;
    rank->late_calls = count - first;
    rank->late_ns = late[first + (count - first) / 2].ns;
}

static bool judge_all(trace_figures *figures) {
    lateness *late = calloc(figures->group_count + 1, sizeof *late);
    size_t count = 0;
    if (!late)
        return false;
    for (size_t g = 0; g < figures->group_count; g++) {
        const trace_group *group = &figures->groups[g];
        if (!group->complete)
            continue;
        for (size_t i = group->first; i < group->first + (size_t)group->count; i++)
            figures->ranks[figures->calls[i].process].matched++;
        late[count++] = (lateness){figures->calls[group->last].process, group->late_ns};
    }
    figures->matched = count;
    qsort(late, count, sizeof *late, by_lateness);
    for (size_t i = 0, behind; i < count; i = behind) {
        for (behind = i + 1; behind < count && late[behind].process == late[i].process;)
            behind++;
        judge(&figures->ranks[late[i].process], &late[i], behind - i);
    }
    free(late);
    return true;
}

static int by_clock(const void *left, const void *right) {
    const trace_table_clock *a = left, *b = right;
    if (a->comm != b->comm)
        return a->comm < b->comm ? -1 : 1;
    if (a->process != b->process)
        return a->process - b->process;
    return (a->begin_ns > b->begin_ns) - (a->begin_ns < b->begin_ns);
}

/* The clocks of one worker, in order; `next` is the first one that had not ended when another began to wait. */
typedef struct worker {
    const trace_table_clock *first, *next, *end;
} worker;

/* For whom the worker waited in `wait`: of those that have ended fewest clocks by then, and not that one, the last to
 * end its next. NULL: for no worker. */
static const worker *awaited_in(const trace_table_clock *wait, worker *workers, int count) {
    const worker *found = NULL;
    for (int i = 0; i < count; i++) {
        worker *other = &workers[i];
        while (other->next < other->end && other->next->begin_ns <= wait->begin_ns)
            other->next++;
        if (other->next == other->end || other->next->process == wait->process || other->next->clock > wait->clock)
            continue;
        if (!found || other->next->clock < found->next->clock ||
            (other->next->clock == found->next->clock && other->next->begin_ns > found->next->begin_ns))
            found = other;
    }
    return found;
}

/* The clocks of one communicator's tables. kept: 0 for each process, as it is left. */
static void judge_clocks(trace_figures *figures, const trace_table_clock *first, const trace_table_clock *end,
                         worker *workers, int64_t *kept) {
    int count = 0;
    for (const trace_table_clock *at = first; at < end; at++) {
        if (at == first || at->process != at[-1].process)
            workers[count++].first = at;
        workers[count - 1].end = at + 1;
    }
    for (int own = 0; own < count; own++) {
        for (int i = 0; i < count; i++)
            workers[i].next = workers[i].first;
        for (const trace_table_clock *wait = workers[own].first; wait < workers[own].end; wait++) {
            const worker *awaited = awaited_in(wait, workers, count);
            if (!awaited)
                continue;
            const int64_t until_ns = awaited->next->begin_ns < wait->end_ns ? awaited->next->begin_ns : wait->end_ns;
            kept[awaited->next->process] += until_ns - wait->begin_ns;
        }
        for (int i = 0; i < count; i++) {
            const int32_t process = workers[i].first->process;
            if (kept[process] > figures->ranks[process].kept_ns)
                figures->ranks[process].kept_ns = kept[process];
            kept[process] = 0;
        }
    }
}

static bool judge_tables(trace_figures *figures) {
    worker *workers = calloc((size_t)figures->job->count + 1, sizeof *workers);
    int64_t *kept = calloc((size_t)figures->job->count + 1, sizeof *kept);
    const bool good = workers && kept;
    if (figures->clock_count)
        qsort(figures->clocks, figures->clock_count, sizeof *figures->clocks, by_clock);
    for (size_t first = 0, behind; good && first < figures->clock_count; first = behind) {
        for (behind = first + 1;
             behind < figures->clock_count && figures->clocks[behind].comm == figures->clocks[first].comm;)
            behind++;
        const int32_t comm = figures->clocks[first].comm;
        if (comm < 0 || figures->comms[comm].here < figures->comms[comm].ranks)
            continue;
        judge_clocks(figures, &figures->clocks[first], &figures->clocks[behind], workers, kept);
        figures->judged += behind - first;
    }
    free(workers);
    free(kept);
    return good;
}

/* The rank that has cost the others most; -1: none in a way that matters. is_steady: its longest lateness is left out,
 * so that one late start hides no rank that is slow in every step. */
static int most_late(const trace_figures *figures, bool is_steady) {
    const trace_job *job = figures->job;
    int64_t most = 0, second = 0;
    int found = -1;
    for (int p = 0; p < job->count; p++) {
        const trace_rank *rank = &figures->ranks[p];
        const int64_t ns = rank->late_total_ns - (is_steady ? rank->latest_ns : 0) + rank->kept_ns;
        if (ns > most) {
            second = most;
            most = ns;
            found = p;
        } else if (ns > second)
            second = ns;
    }
    const double time = (double)(job->end_ns - job->begin_ns);
    return (double)most >= STRAGGLER_SHARE * time && (double)most >= STRAGGLER_TIMES * (double)second ? found : -1;
}

static void find_straggler(trace_figures *figures) {
    const int steady = most_late(figures, true);
    figures->straggler = steady >= 0 ? steady : most_late(figures, false);
}

/* Duration of a call once all ranks were there, or of the only one that is known; less than 0: it did not end. */
static int64_t duration(const trace_figures *figures, const trace_group *group) {
    int64_t end = INT64_MIN;
    for (size_t i = group->first; i < group->first + (size_t)group->count; i++) {
        if (figures->calls[i].unfinished)
            return -1;
        if (figures->calls[i].end_ns > end)
            end = figures->calls[i].end_ns;
    }
    const int64_t ns = end - figures->calls[group->last].begin_ns;
    return ns > 0 ? ns : 0;
}

static bool make_rows(trace_figures *figures) {
    trace_collective_row(*all)[TRACE_SIZES] = calloc(COLLECTIVES_ALL, sizeof *all);
    figures->rows = calloc((size_t)COLLECTIVES_ALL * TRACE_SIZES, sizeof *figures->rows);
    if (!all || !figures->rows) {
        free(all);
        return false;
    }
    for (size_t g = 0; g < figures->group_count; g++) {
        const trace_group *group = &figures->groups[g];
        const trace_call *call = &figures->calls[group->first];
        const int64_t ns = duration(figures, group);
        const int size = trace_size_class(call->bytes);
        const int collective = call->collective < COLLECTIVES_ALL ? call->collective : COLLECTIVES_ALL - 1;
        trace_collective_row *row = &all[collective][size];
        if (call->creates)
            continue;
        const int ranks =
            call->comm >= 0 ? figures->comms[call->comm].ranks : figures->job->processes[call->process].header.ranks;
        row->calls++;
        figures->sizes[size]++;
        if (ns < 0)
            continue;
        row->ended++;
        row->bytes += (double)call->bytes;
        row->bus_bytes += (double)call->bytes * trace_bus_factor(call->collective, ranks);
        row->ns += (double)ns;
    }
    for (unsigned collective = 0; collective < COLLECTIVES_ALL; collective++)
        for (int size = 0; size < TRACE_SIZES; size++)
            if (all[collective][size].calls) {
                all[collective][size].collective = collective;
                all[collective][size].size = size;
                figures->rows[figures->row_count++] = all[collective][size];
            }
    free(all);
    return true;
}

static int64_t longest_ns(const trace_figures *figures, size_t group) {
    const trace_call *call = &figures->calls[figures->groups[group].longest];
    return call->end_ns - call->begin_ns;
}

static void find_slowest(trace_figures *figures) {
    for (size_t g = 0; g < figures->group_count; g++) {
        int at = figures->slowest_count;
        while (at > 0 && longest_ns(figures, g) > longest_ns(figures, figures->slowest[at - 1]))
            at--;
        if (at == TRACE_SLOWEST || figures->calls[figures->groups[g].first].creates)
            continue;
        const int moved = figures->slowest_count - at - (figures->slowest_count == TRACE_SLOWEST);
        memmove(&figures->slowest[at + 1], &figures->slowest[at], (size_t)moved * sizeof *figures->slowest);
        figures->slowest[at] = g;
        figures->slowest_count += figures->slowest_count < TRACE_SLOWEST;
    }
}

bool trace_calls_match(trace_figures *figures) {
    if (figures->call_count)
        qsort(figures->calls, figures->call_count, sizeof *figures->calls, by_call);
    if (!count_members(figures) || !make_groups(figures) || !judge_all(figures) || !judge_tables(figures) ||
        !make_rows(figures))
        return false;
    find_straggler(figures);
    find_slowest(figures);
    return true;
}
