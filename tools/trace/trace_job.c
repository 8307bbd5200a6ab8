#include "trace_job.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define APART_NS_MAX ((int64_t)1 << 58)  /* between the clocks of two machines */
#define ERROR_NS_MAX ((uint64_t)1 << 60) /* of what is known of that */

/* A record of a communicator, wherever it is. */
typedef struct record {
    int process;
    trace_comm *comm;
    const trace_process *of;
} record;

static int compare(uint64_t a, uint64_t b) {
    return (a > b) - (a < b);
}

static int compare_machines(const record *a, const record *b) {
    const int order = compare((uint64_t)a->of->header.node, (uint64_t)b->of->header.node);
    return order ? order : strcmp(a->of->header.host, b->of->header.host);
}

static int by_identity(const void *left, const void *right) {
    const record *a = left, *b = right;
    int order = compare(a->comm->is.identity, b->comm->is.identity);
    order = order ? order : compare_machines(a, b);
    return order ? order : a->process - b->process;
}

static record *collect(const trace_job *job, size_t *count) {
    record *records = calloc((size_t)job->count * KOLO_TRACE_COMMS + 1, sizeof *records);
    *count = 0;
    for (int p = 0; records && p < job->count; p++)
        for (int i = 0; i < KOLO_TRACE_COMMS; i++) {
            trace_comm *comm = &job->processes[p].comms[i];
            if (comm->present)
                records[(*count)++] = (record){.process = p, .comm = comm, .of = &job->processes[p]};
        }
    return records;
}

/* Makes a communicator of the records that are of one: a part for each machine, and one number for all its parts. */
static bool join_records(trace_job *job, const record *records, size_t count) {
    trace_machine_comm *comm = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct kolo_trace_comm *is = &records[i].comm->is;
        const bool same = i > 0 && is->identity && is->identity == records[i - 1].comm->is.identity;
        if (!same || compare_machines(&records[i - 1], &records[i]) != 0 || is->rank >= comm->size) {
            const int shared = same ? comm->shared : job->shared_count++;
            comm = &job->comms[job->comm_count++];
            *comm = (trace_machine_comm){
                .shared = shared, .size = is->size, .process = malloc((size_t)is->size * sizeof(int32_t))};
            if (!comm->process)
                return false;
            memset(comm->process, 0xff, (size_t)is->size * sizeof(int32_t));
        }
        comm->process[is->rank] = records[i].process;
        records[i].comm->machine_comm = job->comm_count - 1;
    }
    return true;
}

/* Numbers communicators in the order in which the lowest rank of each has made them. */
static bool number_comms(trace_job *job) {
    int next = 0, *numbers = malloc(((size_t)job->shared_count + 1) * sizeof *numbers);
    if (!numbers)
        return false;
    memset(numbers, 0xff, (size_t)job->shared_count * sizeof *numbers);
    for (int p = 0; p < job->count; p++)
        for (int i = 0; i < KOLO_TRACE_COMMS; i++) {
            const trace_comm *comm = &job->processes[p].comms[i];
            if (comm->present && numbers[job->comms[comm->machine_comm].shared] < 0)
                numbers[job->comms[comm->machine_comm].shared] = next++;
        }
    for (int i = 0; i < job->comm_count; i++)
        job->comms[i].shared = numbers[job->comms[i].shared];
    free(numbers);
    return true;
}

/* Difference of a machine's clock to that of node 0, from time to time. */
typedef struct offset {
    int64_t ns, add;
    uint64_t error;
    bool poor;
} offset;

static int by_ns(const void *left, const void *right) {
    const offset *a = left, *b = right;
    return (a->ns > b->ns) - (a->ns < b->ns);
}

static bool on_one_machine(const trace_process *a, const trace_process *b) {
    return a->header.node == b->header.node && strcmp(a->header.host, b->header.host) == 0;
}

static int64_t offset_at(const offset *offsets, size_t count, size_t *at, int64_t ns) {
    while (*at + 1 < count && offsets[*at + 1].ns <= ns)
        ++*at;
    const offset *from = &offsets[*at], *to = from + 1;
    if (*at + 1 == count || ns <= from->ns)
        return from->add;
    const double part = (double)(ns - from->ns) / (double)(to->ns - from->ns);
    return from->add + (int64_t)((double)(to->add - from->add) * part);
}

/* Adds a difference to all times of a process. */
static void shift(trace_process *process, const offset *offsets, size_t count) {
    size_t begin = 0;
    process->first_ns += offset_at(offsets, count, &begin, process->first_ns);
    process->last_ns += offset_at(offsets, count, &begin, process->last_ns);
    for (int t = 0; t < process->track_count; t++) {
        const trace_track *track = &process->tracks[t];
        size_t at = 0;
        for (size_t i = track->first; i < track->first + track->count; i++) {
            trace_event *event = &process->events[i];
            const int64_t add = offset_at(offsets, count, &at, event->ns);
            if (event->kind == KOLO_TRACE_WAIT || event->kind == KOLO_TRACE_WAIT_BEGIN ||
                event->kind == KOLO_TRACE_EXCHANGE)
                event->a = (uint64_t)((int64_t)event->a + add);
            event->ns += add;
            if (i > track->first && event->ns < event[-1].ns)
                event->ns = event[-1].ns;
            if (event->ns < process->first_ns) /* offsets that make no sense */
                process->first_ns = event->ns;
            if (event->ns > process->last_ns)
                process->last_ns = event->ns;
        }
    }
    for (int i = 0; i < KOLO_TRACE_COMMS; i++) {
        size_t at = 0;
        trace_comm *comm = &process->comms[i];
        comm->ns += comm->present ? offset_at(offsets, count, &at, comm->ns) : 0;
    }
}

static void add_offset(offset *offsets, size_t at, int64_t ns, int64_t add, uint64_t error) {
    if (offsets)
        offsets[at] = (offset){.ns = ns, .add = add, .error = error < ERROR_NS_MAX ? error : ERROR_NS_MAX};
}

/* Finds what is known of a machine: the events of all its processes, and the last one of each, which may have been
 * overwritten. Returns how many there are. */
static size_t find_offsets(const trace_job *job, const trace_process *of, offset *offsets) {
    size_t count = 0;
    for (int p = 0; p < job->count; p++) {
        const trace_process *process = &job->processes[p];
        if (!on_one_machine(process, of))
            continue;
        if (process->offset_at_ns != INT64_MIN)
            add_offset(offsets, count++, process->offset_at_ns, process->header.offset_ns,
                       process->header.offset_error_ns);
        for (int t = 0; t < process->track_count; t++)
            for (size_t i = 0; i < process->tracks[t].count; i++) {
                const trace_event *event = &process->events[process->tracks[t].first + i];
                if (event->kind == KOLO_TRACE_OFFSET)
                    add_offset(offsets, count++, event->ns, (int64_t)event->a, event->b);
            }
    }
    return count;
}

/* How much an error grows meanwhile. */
static uint64_t drift(int64_t from_ns, int64_t to_ns) {
    return to_ns > from_ns ? (uint64_t)(to_ns - from_ns) / KOLO_TRACE_DRIFT_NS : 0;
}

/* Leaves out those that say less than an earlier or a later one does at their time. Returns how many are left. */
static size_t drop_poor(offset *offsets, size_t count) {
    uint64_t least = ERROR_NS_MAX;
    for (size_t i = 0; i < count; i++) {
        least += i > 0 ? drift(offsets[i - 1].ns, offsets[i].ns) : 0;
        offsets[i].poor = offsets[i].error > least;
        least = offsets[i].poor ? least : offsets[i].error;
    }
    least = ERROR_NS_MAX;
    for (size_t i = count; i-- > 0;) {
        least += i + 1 < count ? drift(offsets[i].ns, offsets[i + 1].ns) : 0;
        offsets[i].poor |= offsets[i].error > least;
        least = offsets[i].error < least ? offsets[i].error : least;
    }
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!offsets[i].poor)
            offsets[kept++] = offsets[i];
    return kept;
}

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* The largest error of a machine's times. Between two offsets the true one may leave the line that connects them by the
 * drift of half the time, and beyond the first and the last one by that of the whole. */
static uint64_t error_of(const trace_job *job, const trace_process *of, const offset *offsets, size_t count) {
    const offset *last = &offsets[count - 1];
    uint64_t error = 0;
    for (size_t i = 1; i < count; i++)
        error =
            larger(error, larger(offsets[i - 1].error, offsets[i].error) + drift(offsets[i - 1].ns, offsets[i].ns) / 2);
    for (int p = 0; p < job->count; p++)
        if (on_one_machine(&job->processes[p], of)) {
            error = larger(error, offsets[0].error + drift(job->processes[p].first_ns, offsets[0].ns));
            error = larger(error, last->error + drift(last->ns, job->processes[p].last_ns));
        }
    return error;
}

/* The two largest errors of machines, which two of them may have in opposite directions. */
typedef struct errors {
    uint64_t largest, second;
    bool unknown;
} errors;

static void add_error(errors *errors, uint64_t error) {
    errors->second = larger(errors->second, error < errors->largest ? error : errors->largest);
    errors->largest = larger(errors->largest, error);
}

/* Brings the processes of one machine to the clock of node 0. */
static bool align_machine(trace_job *job, int first, const trace_process *reference, bool *done, errors *errors) {
    const trace_process *of = &job->processes[first];
    size_t count = find_offsets(job, of, NULL);
    offset *offsets = calloc(count + 1, sizeof *offsets);
    if (!offsets)
        return false;
    find_offsets(job, of, offsets);
    if (count == 0) { /* as if both machines had the same time of day */
        const struct kolo_trace_header *here = &of->header, *there = &reference->header;
        const int64_t add = (here->began_utc_ns - here->began_ns) - (there->began_utc_ns - there->began_ns);
        offsets[count++].add = add > -APART_NS_MAX && add < APART_NS_MAX ? add : 0;
        errors->unknown = true;
    }
    qsort(offsets, count, sizeof *offsets, by_ns);
    count = drop_poor(offsets, count);
    add_error(errors, error_of(job, of, offsets, count));
    for (int p = job->count - 1; p >= first; p--) /* `of` is the last one */
        if (!done[p] && on_one_machine(&job->processes[p], of)) {
            shift(&job->processes[p], offsets, count);
            done[p] = true;
        }
    free(offsets);
    return true;
}

static bool align_clocks(trace_job *job) {
    const trace_process *reference = NULL;
    errors errors = {0};
    bool *done = calloc((size_t)job->count + 1, sizeof *done), good = done != NULL;
    for (int p = 0; p < job->count; p++)
        if (!reference || job->processes[p].header.node < reference->header.node)
            reference = &job->processes[p];
    for (int p = 0; good && p < job->count; p++)
        done[p] = on_one_machine(&job->processes[p], reference) && reference->header.node == 0;
    for (int p = 0; good && p < job->count; p++)
        if (!done[p])
            good = align_machine(job, p, reference, done, &errors);
    job->clock_error_ns = errors.unknown ? UINT64_MAX : errors.largest + errors.second;
    free(done);
    return good;
}

bool trace_job_align(trace_job *job) {
    size_t count;
    record *records = collect(job, &count);
    job->comms = calloc(count + 1, sizeof *job->comms);
    if (records)
        qsort(records, count, sizeof *records, by_identity);
    const bool good =
        records && job->comms && join_records(job, records, count) && number_comms(job) && align_clocks(job);
    free(records);
    for (int p = 0; p < job->count; p++) {
        const trace_process *process = &job->processes[p];
        if (p == 0 || process->first_ns < job->begin_ns)
            job->begin_ns = process->first_ns;
        if (p == 0 || process->last_ns > job->end_ns)
            job->end_ns = process->last_ns;
    }
    return good;
}

void trace_job_free(trace_job *job) {
    for (int i = 0; i < job->comm_count; i++)
        free(job->comms[i].process);
    for (int p = 0; p < job->count; p++) {
        free(job->processes[p].path);
        trace_process_free(&job->processes[p]);
    }
    free(job->comms);
    free(job->processes);
    *job = (trace_job){0};
}

int trace_job_comm(const trace_job *job, const trace_process *process, const trace_event *event) {
    const trace_comm *comm = trace_comm_of(process, event);
    return comm && comm->machine_comm >= 0 ? job->comms[comm->machine_comm].shared : -1;
}

int trace_job_peer(const trace_job *job, const trace_process *process, const trace_event *event) {
    const trace_comm *comm = trace_comm_of(process, event);
    if (!comm || comm->machine_comm < 0)
        return -1;
    const trace_machine_comm *machine = &job->comms[comm->machine_comm];
    if (event->rank < 0 || event->rank >= machine->size)
        return -1;
    return machine->process[event->rank] >= 0 ? machine->process[event->rank] : TRACE_ABSENT;
}

const char *trace_process_name(const trace_job *job, int process, char text[TRACE_PROCESS_NAME_BYTES]) {
    const int32_t rank = job->processes[process].header.rank;
    const bool again = (process > 0 && job->processes[process - 1].header.rank == rank) ||
                       (process + 1 < job->count && job->processes[process + 1].header.rank == rank);
    if (again)
        snprintf(text, TRACE_PROCESS_NAME_BYTES, "rank %" PRId32 " (pid %" PRIu32 ")", rank,
                 job->processes[process].header.pid);
    else
        snprintf(text, TRACE_PROCESS_NAME_BYTES, "rank %" PRId32, rank);
    return text;
}
