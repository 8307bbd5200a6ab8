#include "trace_figures.h"

#include <stdlib.h>
#include <string.h>

/* What grows while a job's events are gone through. */
typedef struct tally {
    trace_figures *figures;
    trace_rank *rank;
    size_t call_room, request_room, clock_room;
    bool good; /* there has been memory */

    /* of the present track */
    int track;
    bool is_main;
    int creating, communicating, waiting; /* slices that are open */
    int64_t since_ns;
    int64_t until_ns; /* the end of what is known of it */
} tally;

double *trace_wait_of(const trace_figures *figures, int process, int whom) {
    return &figures->waits[(size_t)process * ((size_t)figures->job->count + 1) + (size_t)whom];
}

bool trace_waits_for_absent(const trace_figures *figures) {
    bool found = false;
    for (int p = 0; figures->waits && p < figures->job->count; p++)
        found |= *trace_wait_of(figures, p, figures->job->count) > 0;
    return found;
}

double trace_bin_ns(const trace_job *job) {
    const double ns = (double)(job->end_ns - job->begin_ns) / TRACE_BINS;
    return ns > 1 ? ns : 1;
}

static int bin_of(const trace_job *job, int64_t ns) {
    const double bin = (double)(ns - job->begin_ns) / trace_bin_ns(job);
    return bin <= 0 ? 0 : bin >= TRACE_BINS ? TRACE_BINS - 1 : (int)bin;
}

int trace_size_class(uint64_t bytes) {
    return bytes ? 64 - __builtin_clzll(bytes) : 0;
}

uint64_t trace_size_min(int size_class) {
    return size_class ? UINT64_C(1) << (size_class - 1) : 0;
}

static void count_time(trace_figures *figures, int process, trace_state state, int64_t from_ns, int64_t to_ns) {
    const trace_job *job = figures->job;
    float(*bins)[TRACE_STATES] = figures->bins[process];
    figures->ranks[process].state_ns[state] += to_ns - from_ns;
    const double width = trace_bin_ns(job), from = (double)(from_ns - job->begin_ns),
                 to = (double)(to_ns - job->begin_ns);
    const int first = bin_of(job, from_ns), last = bin_of(job, to_ns);
    for (int bin = first; bin <= last; bin++) {
        const double begin = bin == first ? from : bin * width, end = bin == last ? to : (bin + 1) * width;
        bins[bin][state] += (float)(end - begin);
    }
}

/* Counts the time since the last change for the present state. That of creations is counted when they are matched. */
static void advance(tally *tally, int64_t ns) {
    const trace_state state = tally->waiting         ? TRACE_WAITING
                              : tally->communicating ? TRACE_COMMUNICATING
                                                     : TRACE_COMPUTING;
    if (!tally->is_main || ns <= tally->since_ns)
        return;
    if (!tally->creating)
        count_time(tally->figures, (int)(tally->rank - tally->figures->ranks), state, tally->since_ns, ns);
    tally->since_ns = ns;
}

static bool creates(const trace_slice *slice) {
    return slice->type == TRACE_SLICE_SPAN && slice->begin && slice->begin->detail == KOLO_TRACE_CREATE;
}

static bool communicates(const trace_slice *slice) {
    if (slice->type != TRACE_SLICE_SPAN)
        return slice->type == TRACE_SLICE_CALL;
    const trace_event *event = slice->begin ? slice->begin : slice->end;
    return event->detail != KOLO_TRACE_TABLE_WAIT && event->detail != KOLO_TRACE_BUCKETS &&
           event->detail != KOLO_TRACE_OPTIMIZER;
}

static bool waits(const trace_slice *slice) {
    return slice->type == TRACE_SLICE_WAIT ||
           (slice->type == TRACE_SLICE_SPAN &&
            (slice->begin ? slice->begin : slice->end)->detail == KOLO_TRACE_TABLE_WAIT);
}

static void begin_slice(void *context, const trace_walk *walk, const trace_slice *slice) {
    tally *tally = context;
    (void)walk;
    advance(tally, slice->begin_ns);
    tally->creating += creates(slice);
    tally->communicating += communicates(slice);
    tally->waiting += waits(slice);
}

/* Makes room for one more of an array. */
static bool grow(tally *tally, void **array, size_t count, size_t *room, size_t bytes) {
    if (count < *room)
        return true;
    const size_t more = *room ? *room * 2 : 1024;
    void *grown = realloc(*array, more * bytes);
    tally->good &= grown != NULL;
    if (!grown)
        return false;
    *array = grown;
    *room = more;
    return true;
}

/* Other threads wait within what these do, or for work. */
static bool is_counted(const trace_track *track) {
    return track->thread == KOLO_TRACE_PROGRAM || track->thread == KOLO_TRACE_PROGRESS;
}

static bool is_of_kolo(const trace_walk *walk) {
    return walk->track->thread != KOLO_TRACE_PROGRAM;
}

/* Lanes other than the first one, and their helpers, do a part of a call that lane 0 makes. */
static void add_call(tally *tally, const trace_walk *walk, const trace_slice *slice) {
    trace_figures *figures = tally->figures;
    const trace_process *process = &walk->job->processes[walk->process];
    const trace_comm *comm = slice->begin ? trace_comm_of(process, slice->begin) : NULL;
    if (!slice->begin || walk->track->thread == KOLO_TRACE_HELPER || (comm && comm->is.lane > 0) ||
        !grow(tally, (void **)&figures->calls, figures->call_count, &tally->call_room, sizeof *figures->calls))
        return;
    const trace_event *event = slice->begin;
    trace_call *call = &figures->calls[figures->call_count++];
    *call = (trace_call){.begin_ns = slice->begin_ns,
                         .end_ns = slice->end_ns,
                         .waited_ns = slice->waited_ns,
                         .wait_begin_ns = slice->waited_longest_end_ns - slice->waited_longest_ns,
                         .wait_end_ns = slice->waited_longest_end_ns,
                         .number = event->b,
                         .bytes = trace_message_bytes(event->detail, event->a, event->dtype,
                                                      comm ? comm->is.global_size : process->header.ranks),
                         .process = walk->process,
                         .track = tally->track,
                         .comm = trace_job_comm(walk->job, process, event),
                         .collective = event->detail,
                         .unfinished = slice->unfinished};
    tally->rank->calls++;
    tally->rank->bytes += call->bytes;
    figures->bytes[(size_t)walk->process * TRACE_BINS + (size_t)bin_of(walk->job, call->end_ns)] += (double)call->bytes;
    if (is_of_kolo(walk))
        tally->rank->background_ns += slice->end_ns - slice->begin_ns;
}

/* It is of the communicator that came last while it lasted: those of its lanes are made within it. */
static void add_creation(tally *tally, const trace_walk *walk, const trace_slice *slice) {
    trace_figures *figures = tally->figures;
    const trace_process *process = &walk->job->processes[walk->process];
    const trace_comm *made = NULL;
    if (!grow(tally, (void **)&figures->calls, figures->call_count, &tally->call_room, sizeof *figures->calls))
        return;
    for (int i = 0; i < KOLO_TRACE_COMMS && !slice->unfinished; i++) {
        const trace_comm *comm = &process->comms[i];
        if (comm->present && comm->ns >= slice->begin_ns && comm->ns <= slice->end_ns &&
            (!made || comm->ns >= made->ns))
            made = comm;
    }
    figures->calls[figures->call_count++] =
        (trace_call){.begin_ns = slice->begin_ns,
                     .end_ns = slice->end_ns,
                     .process = walk->process,
                     .track = tally->track,
                     .comm = made && made->machine_comm >= 0 ? walk->job->comms[made->machine_comm].shared : -1,
                     .creates = true};
}

static void add_clock(tally *tally, const trace_walk *walk, const trace_slice *slice) {
    trace_figures *figures = tally->figures;
    if (!grow(tally, (void **)&figures->clocks, figures->clock_count, &tally->clock_room, sizeof *figures->clocks))
        return;
    figures->clocks[figures->clock_count++] =
        (trace_table_clock){.begin_ns = slice->begin_ns,
                            .end_ns = slice->end_ns,
                            .clock = slice->begin->a,
                            .process = walk->process,
                            .comm = trace_job_comm(walk->job, &walk->job->processes[walk->process], slice->begin)};
}

/* How much of a wait its thread did not sleep. */
static int64_t spun_ns(const trace_slice *wait) {
    const int64_t ns = wait->end_ns - wait->begin_ns;
    int64_t spun = wait->begin ? wait->begin->ns - wait->begin_ns : 0;
    if (wait->end && wait->end->b < (uint64_t)ns)
        spun += (int64_t)wait->end->b;
    else if (wait->end)
        spun = ns;
    return spun < 0 ? 0 : spun < ns ? spun : ns;
}

static void add_wait(tally *tally, const trace_walk *walk, const trace_slice *slice) {
    const trace_job *job = walk->job;
    const int peer = slice->begin ? trace_job_peer(job, &job->processes[walk->process], slice->begin) : -1;
    bool within = false, counts = is_counted(walk->track) && !tally->creating;
    for (int i = 0; i < walk->depth; i++) {
        within |= communicates(&walk->open[i]) || waits(&walk->open[i]);
        counts &= walk->open[i].type != TRACE_SLICE_WAIT; /* in which the program made a call: kolo_hooks */
    }
    tally->rank->spun_ns += counts ? spun_ns(slice) : 0;
    if (!is_of_kolo(walk) && !within)
        tally->rank->exposed_ns += slice->end_ns - slice->begin_ns;
    const int whom = peer == TRACE_ABSENT ? job->count : peer;
    if (whom >= 0 && whom != walk->process && counts && tally->figures->waits) /* for itself: for no rank */
        *trace_wait_of(tally->figures, walk->process, whom) += (double)(slice->end_ns - slice->begin_ns);
}

/* By name. The last row takes those for which there is none. */
static void add_range(trace_figures *figures, const trace_slice *slice) {
    int row = 0;
    while (row < figures->range_count && strcmp(figures->ranges[row].name, slice->name) != 0)
        row++;
    if (row == TRACE_RANGES_MAX) {
        row--;
        strcpy(figures->ranges[row].name, "(others)");
    }
    trace_range_row *range = &figures->ranges[row];
    if (row == figures->range_count) {
        figures->range_count++;
        memcpy(range->name, slice->name, sizeof range->name);
    }
    const int64_t ns = slice->end_ns - slice->begin_ns;
    range->count++;
    range->ns += ns;
    if (ns > range->longest_ns)
        range->longest_ns = ns;
}

static void end_slice(void *context, const trace_walk *walk, const trace_slice *slice) {
    tally *tally = context;
    advance(tally, slice->end_ns);
    tally->until_ns = slice->end_ns > tally->until_ns ? slice->end_ns : tally->until_ns;
    if (slice->begin) {
        tally->creating -= creates(slice);
        tally->communicating -= communicates(slice);
        tally->waiting -= waits(slice);
    }
    if (slice->type == TRACE_SLICE_CALL)
        add_call(tally, walk, slice);
    else if (slice->type == TRACE_SLICE_WAIT)
        add_wait(tally, walk, slice);
    else if (slice->type == TRACE_SLICE_RANGE)
        add_range(tally->figures, slice);
    else if (creates(slice) && tally->creating == 0)
        add_creation(tally, walk, slice);
    else if (slice->begin && waits(slice))
        add_clock(tally, walk, slice);
}

static void take_event(void *context, const trace_walk *walk, const trace_event *event) {
    tally *tally = context;
    trace_figures *figures = tally->figures;
    figures->failures += event->kind == KOLO_TRACE_FAILURE;
    tally->rank->exchanged_bytes += event->kind == KOLO_TRACE_EXCHANGE ? event->b : 0;
    if ((event->kind != KOLO_TRACE_ISSUE && event->kind != KOLO_TRACE_DONE) ||
        !grow(tally, (void **)&figures->requests, figures->request_count, &tally->request_room,
              sizeof *figures->requests))
        return;
    const bool issue = event->kind == KOLO_TRACE_ISSUE;
    figures->requests[figures->request_count++] = (trace_request){.process = walk->process,
                                                                  .number = event->b,
                                                                  .issue_ns = issue ? event->ns : 0,
                                                                  .done_ns = issue ? 0 : event->ns,
                                                                  .collective = event->detail};
}

static int by_request(const void *left, const void *right) {
    const trace_request *a = left, *b = right;
    if (a->process != b->process)
        return a->process - b->process;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return (a->done_ns > 0) - (b->done_ns > 0);
}

/* Makes one of the two halves of each request; without an issue there is none. */
static void join_requests(trace_figures *figures) {
    size_t kept = 0;
    qsort(figures->requests, figures->request_count, sizeof *figures->requests, by_request);
    for (size_t i = 0; i < figures->request_count; i++) {
        const trace_request *half = &figures->requests[i];
        trace_request *last = kept ? &figures->requests[kept - 1] : NULL;
        const bool fits = last && last->process == half->process && last->number == half->number;
        if (half->done_ns == 0 && !fits)
            figures->requests[kept++] = *half;
        else if (half->done_ns > 0 && fits && last->done_ns == 0 && half->done_ns >= last->issue_ns)
            last->done_ns = half->done_ns;
    }
    figures->request_count = kept;
}

static int find_main_track(const trace_process *process) {
    int found = -1;
    size_t most = 0;
    for (int t = 0; t < process->track_count; t++) {
        const trace_track *track = &process->tracks[t];
        size_t calls = 1;
        for (size_t i = track->first; i < track->first + track->count; i++)
            calls += process->events[i].kind == KOLO_TRACE_CALL_BEGIN || process->events[i].kind == KOLO_TRACE_CALL;
        if (track->thread == KOLO_TRACE_PROGRAM && calls > most) {
            most = calls;
            found = t;
        }
    }
    return found;
}

static void take_process(tally *tally, int index) {
    const trace_job *job = tally->figures->job;
    const trace_process *process = &job->processes[index];
    tally->rank = &tally->figures->ranks[index];
    tally->rank->main_track = find_main_track(process);
    for (int t = 0; t < process->track_count; t++) {
        const trace_track *track = &process->tracks[t];
        tally->track = t;
        tally->is_main = t == tally->rank->main_track;
        tally->creating = tally->communicating = tally->waiting = 0;
        tally->since_ns = process->events[track->first].ns;
        tally->until_ns = process->events[track->first + track->count - 1].ns;
        const trace_visitor visitor = {.context = tally, .begin = begin_slice, .end = end_slice, .event = take_event};
        tally->figures->mismatches += trace_walk_track(job, index, track, visitor);
        advance(tally, process->last_ns);
        if (is_counted(track))
            tally->rank->threads_ns += tally->until_ns - process->events[track->first].ns;
    }
}

/* The time of creations: until the last rank began it, the others waited for that one. */
static void count_creations(trace_figures *figures) {
    for (size_t g = 0; g < figures->group_count; g++) {
        const trace_group *group = &figures->groups[g];
        const trace_call *last = &figures->calls[group->last];
        for (size_t i = group->first; i < group->first + (size_t)group->count; i++) {
            trace_call *call = &figures->calls[i];
            if (!call->creates)
                continue;
            const int64_t known_ns = group->complete ? last->begin_ns : call->begin_ns; /* else another may be last */
            const int64_t until_ns = known_ns < call->end_ns ? known_ns : call->end_ns;
            call->waited_ns = until_ns - call->begin_ns;
            if (figures->waits && call != last && group->complete)
                *trace_wait_of(figures, call->process, last->process) += (double)call->waited_ns;
            if (call->track != figures->ranks[call->process].main_track)
                continue;
            count_time(figures, call->process, TRACE_WAITING, call->begin_ns, until_ns);
            count_time(figures, call->process, TRACE_COMMUNICATING, until_ns, call->end_ns);
        }
    }
}

static int by_time(const void *left, const void *right) {
    const trace_range_row *a = left, *b = right;
    return (a->ns < b->ns) - (a->ns > b->ns);
}

bool trace_figures_make(trace_figures *figures, const trace_job *job) {
    const size_t count = (size_t)job->count;
    *figures = (trace_figures){.job = job,
                               .ranks = calloc(count + 1, sizeof *figures->ranks),
                               .bins = calloc(count + 1, sizeof *figures->bins),
                               .bytes = calloc((count + 1) * TRACE_BINS, sizeof *figures->bytes),
                               .ranges = calloc(TRACE_RANGES_MAX, sizeof *figures->ranges),
                               .straggler = -1};
    if (job->count <= TRACE_MATRIX_MAX)
        figures->waits = calloc(count * (count + 1) + 1, sizeof *figures->waits);
    tally tally = {.figures = figures, .good = figures->ranks && figures->bins && figures->bytes && figures->ranges};
    for (int p = 0; tally.good && p < job->count; p++)
        take_process(&tally, p);
    if (!tally.good)
        return false;
    if (figures->request_count)
        join_requests(figures);
    qsort(figures->ranges, (size_t)figures->range_count, sizeof *figures->ranges, by_time);
    if (!trace_calls_match(figures))
        return false;
    count_creations(figures);
    return true;
}

void trace_figures_free(trace_figures *figures) {
    free(figures->ranks);
    free(figures->bins);
    free(figures->bytes);
    free(figures->waits);
    free(figures->comms);
    free(figures->calls);
    free(figures->groups);
    free(figures->requests);
    free(figures->clocks);
    free(figures->rows);
    free(figures->ranges);
    *figures = (trace_figures){0};
}
