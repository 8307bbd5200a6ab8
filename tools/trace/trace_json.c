/* Chrome's trace-event format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kolo_tools.h"
#include "trace_output.h"

/* Waits that are shorter have no arrow. */
#define ARROW_NS_MIN 10000

typedef struct timeline {
    FILE *to;
    const trace_figures *figures;
    const trace_job *job;
    int64_t base_ns;
    bool any;
    uint64_t arrows;
    uint64_t exchanges;
} timeline;

/* In us, with all digits of the ns. */
static void put_us(FILE *to, int64_t ns) {
    fprintf(to, "%" PRId64 ".%03d", ns / 1000, (int)(ns % 1000));
}

static int track_id(int process, int track) {
    return (process + 1) * TRACE_TRACKS_MAX + track;
}

/* What every event begins with. */
static void put_head(timeline *line, char phase, int process, int track, int64_t ns) {
    fputs(line->any ? ",\n" : "\n", line->to);
    line->any = true;
    fprintf(line->to, "{\"ph\":\"%c\",\"pid\":%d,\"tid\":%d,\"ts\":", phase, process + 1, track_id(process, track));
    put_us(line->to, ns - line->base_ns);
}

static void put_metadata(timeline *line, int process, int track, const char *kind, const char *key) {
    fprintf(line->to, "%s\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"%s\",\"args\":{\"%s\":", line->any ? "," : "",
            process + 1, track < 0 ? track_id(process, 0) : track_id(process, track), kind, key);
    line->any = true;
}

static void put_names(timeline *line, int index) {
    const trace_process *process = &line->job->processes[index];
    char name[TRACE_PROCESS_NAME_BYTES], thread[TRACE_THREAD_NAME_BYTES], label[256];
    put_metadata(line, index, -1, "process_name", "name");
    fprintf(line->to, "\"%s\"}}", trace_process_name(line->job, index, name));
    put_metadata(line, index, -1, "process_sort_index", "sort_index");
    fprintf(line->to, "%d}}", index);
    put_metadata(line, index, -1, "process_labels", "labels");
    snprintf(label, sizeof label, "%s, pid %" PRIu32 ", %s", process->header.program, process->header.pid,
             process->header.host);
    json_text_print(line->to, label);
    fputs("}}", line->to);
    for (int t = 0; t < process->track_count; t++) {
        const trace_track *track = &process->tracks[t];
        put_metadata(line, index, t, "thread_name", "name");
        fprintf(line->to, "\"%s\"}}", trace_thread_name(track, thread));
        put_metadata(line, index, t, "thread_sort_index", "sort_index");
        fprintf(line->to, "%d}}", (int)track->thread * TRACE_TRACKS_MAX + track->of_its_thread);
    }
}

static const char *known(const char *name) {
    return name ? name : "?";
}

/* What is known of a call when it begins. */
static void put_call(const timeline *line, int index, const trace_slice *slice) {
    const trace_event *event = slice->begin;
    const trace_process *process = &line->job->processes[index];
    const trace_comm *comm = trace_comm_of(process, event);
    const int ranks = comm ? comm->is.global_size : process->header.ranks;
    const unsigned has = kolo_collective_has((kolo_collective)event->detail);
    const uint64_t bytes = trace_message_bytes(event->detail, event->a, event->dtype, ranks);
    fprintf(line->to, ",\"args\":{\"communicator\":%d,\"number\":%" PRIu64, trace_job_comm(line->job, process, event),
            event->b);
    if (event->a)
        fprintf(line->to, ",\"bytes\":%" PRIu64 ",\"elements\":%" PRIu64 ",\"dtype\":\"%s\"", bytes, event->a,
                known(kolo_name(KOLO_NAME_DTYPE, (int)event->dtype)));
    if (has & KOLO_HAS_OP)
        fprintf(line->to, ",\"op\":\"%s\"",
                known(kolo_name(KOLO_NAME_OP, event->op == KOLO_OPS ? (int)KOLO_OPS_OWN : event->op)));
    if (has & KOLO_HAS_ROOT)
        fprintf(line->to, ",\"root\":%d", event->rank);
    if (slice->carried)
        fputs(",\"background\":true", line->to);
    if (comm && comm->is.lane)
        fprintf(line->to, ",\"lane\":%" PRId32, comm->is.lane);
    putc('}', line->to);
}

static void put_span(const timeline *line, const trace_event *event) {
    static const char *const names[KOLO_TRACE_SPANS][2] = {
        [KOLO_TRACE_CREATE] = {"ranks"},       [KOLO_TRACE_SEND] = {"bytes", "tag"},
        [KOLO_TRACE_RECV] = {"bytes", "tag"},  [KOLO_TRACE_PULL] = {"rows", "first"},
        [KOLO_TRACE_PUSH] = {"rows", "first"}, [KOLO_TRACE_TABLE_WAIT] = {"clock"},
        [KOLO_TRACE_BUCKETS] = {"tensors"},    [KOLO_TRACE_OPTIMIZER] = {"parameters"}};
    const char *const *name = names[event->detail];
    fprintf(line->to, ",\"args\":{\"rank\":%d", event->rank);
    if (name[0])
        fprintf(line->to, ",\"%s\":%" PRIu64, name[0], event->a);
    if (name[1])
        fprintf(line->to, ",\"%s\":%" PRIu64, name[1], event->b);
    putc('}', line->to);
}

static void put_name(const timeline *line, const trace_walk *walk, const trace_slice *slice) {
    static const char *const categories[] = {"call", "wait", "stage", "span", "range"};
    char text[TRACE_SLICE_NAME_BYTES];
    const char *name = trace_slice_name(walk, slice, text);
    fprintf(line->to, ",\"cat\":\"%s\",\"name\":", categories[slice->type]);
    if (slice->type == TRACE_SLICE_RANGE)
        json_text_print(line->to, name);
    else
        fprintf(line->to, "\"%s\"", name);
}

static void begin_slice(void *context, const trace_walk *walk, const trace_slice *slice) {
    timeline *line = context;
    put_head(line, 'B', walk->process, (int)(walk->track - line->job->processes[walk->process].tracks),
             slice->begin_ns);
    put_name(line, walk, slice);
    if (slice->type == TRACE_SLICE_CALL)
        put_call(line, walk->process, slice);
    else if (slice->type == TRACE_SLICE_SPAN)
        put_span(line, slice->begin);
    putc('}', line->to);
}

/* What is known of a slice when it ends. */
static void put_outcome(const timeline *line, const trace_slice *slice) {
    const bool is_call = slice->type == TRACE_SLICE_CALL;
    const bool has_status = is_call || slice->type == TRACE_SLICE_SPAN;
    const char *separator = "";
    if (!is_call && !slice->unfinished && !(has_status && slice->end && slice->end->op))
        return;
    fputs(",\"args\":{", line->to);
    if (is_call) {
        fprintf(line->to, "\"waited_us\":");
        put_us(line->to, slice->waited_ns);
        separator = ",";
    }
    const bool is_short = is_call && slice->begin && slice->begin->kind == KOLO_TRACE_CALL;
    const unsigned algorithm = is_short                ? KOLO_ALGORITHM_ONESHOT
                               : is_call && slice->end ? slice->end->detail
                                                       : KOLO_ALGORITHM_AUTO;
    if (algorithm != KOLO_ALGORITHM_AUTO)
        fprintf(line->to, ",\"algorithm\":\"%s\"", known(kolo_name(KOLO_NAME_ALGORITHM, (int)algorithm)));
    if (has_status && slice->end && slice->end->op) {
        fprintf(line->to, "%s\"failed\":\"%s\"", separator, kolo_strerror(-(int)slice->end->op));
        separator = ",";
    }
    if (slice->unfinished)
        fprintf(line->to, "%s\"unfinished\":true", separator);
    putc('}', line->to);
}

static void end_slice(void *context, const trace_walk *walk, const trace_slice *slice) {
    timeline *line = context;
    const int track = (int)(walk->track - line->job->processes[walk->process].tracks);
    if (slice->begin)
        put_head(line, 'E', walk->process, track, slice->end_ns);
    else {
        put_head(line, 'X', walk->process, track, slice->begin_ns);
        fputs(",\"dur\":", line->to);
        put_us(line->to, slice->end_ns - slice->begin_ns);
        put_name(line, walk, slice);
    }
    put_outcome(line, slice);
    putc('}', line->to);
}

/* Several may be under way at once. */
static void put_exchange(timeline *line, int process, const trace_event *event) {
    const trace_job *job = line->job;
    const int64_t began_ns = (int64_t)event->a > job->begin_ns ? (int64_t)event->a : job->begin_ns;
    line->exchanges++;
    for (int end = 0; end < 2; end++) {
        put_head(line, end ? 'e' : 'b', process, 0, end ? event->ns : began_ns);
        fprintf(line->to, ",\"id\":\"%" PRIu64 "\",\"cat\":\"exchange\",\"name\":\"exchange with other machines\"",
                line->exchanges);
        if (!end)
            fprintf(line->to, ",\"args\":{\"communicator\":%d,\"bytes\":%" PRIu64 "}",
                    trace_job_comm(job, &job->processes[process], event), event->b);
        putc('}', line->to);
    }
}

static void take_event(void *context, const trace_walk *walk, const trace_event *event) {
    timeline *line = context;
    if (event->kind == KOLO_TRACE_EXCHANGE)
        put_exchange(line, walk->process, event);
    if (event->kind != KOLO_TRACE_FAILURE)
        return;
    put_head(line, 'i', walk->process, (int)(walk->track - line->job->processes[walk->process].tracks), event->ns);
    fprintf(line->to,
            ",\"s\":\"p\",\"cat\":\"failure\",\"name\":\"failure: %s\",\"args\":{\"communicator\":%d,"
            "\"rank\":%d}}",
            kolo_strerror(-(int)event->op), trace_job_comm(line->job, &line->job->processes[walk->process], event),
            event->rank);
}

/* An end of an arrow from the rank that began a call last to one that waited for it. */
static void put_arrow(timeline *line, char phase, const trace_call *call, int64_t ns) {
    put_head(line, phase, call->process, call->track, ns);
    fprintf(line->to, ",\"id\":%" PRIu64 ",\"cat\":\"late\",\"name\":\"last to begin\"%s}", line->arrows,
            phase == 'f' ? ",\"bp\":\"e\"" : "");
}

/* The part of a wait in which the last rank is there. Perfetto takes the slice that begins first for the arrow's begin,
 * so that its end needs one that begins later than the call of the last rank. */
static int64_t put_rest_of_wait(timeline *line, const trace_call *call, const trace_call *last) {
    char name[TRACE_PROCESS_NAME_BYTES];
    const int64_t ns = last->begin_ns + 1;
    if (call->wait_begin_ns >= ns || call->wait_end_ns <= ns)
        return ns;
    put_head(line, 'X', call->process, call->track, ns);
    fputs(",\"dur\":", line->to);
    put_us(line->to, call->wait_end_ns - ns);
    fprintf(line->to, ",\"cat\":\"late\",\"name\":\"%s has begun\"}",
            trace_process_name(line->job, last->process, name));
    return ns;
}

static void put_arrows(timeline *line, const trace_group *group) {
    const trace_call *calls = line->figures->calls, *last = &calls[group->last];
    for (size_t i = group->first; group->complete && i < group->first + (size_t)group->count; i++) {
        const trace_call *call = &calls[i];
        if (i == group->last || call->waited_ns < ARROW_NS_MIN || call->end_ns <= last->begin_ns)
            continue;
        line->arrows++;
        const int64_t ns = put_rest_of_wait(line, call, last);
        put_arrow(line, 's', last, last->begin_ns);
        put_arrow(line, 'f', call, ns);
    }
}

static void put_request(timeline *line, const trace_request *request) {
    const trace_process *process = &line->job->processes[request->process];
    int64_t done_ns = request->done_ns ? request->done_ns : process->last_ns;
    for (int end = 0; end < 2; end++) {
        put_head(line, end ? 'e' : 'b', request->process, 0,
                 !end || done_ns < request->issue_ns ? request->issue_ns : done_ns);
        fprintf(line->to, ",\"id\":\"%d.%" PRIu64 "\",\"cat\":\"request\",\"name\":\"%s in the background\"%s}",
                request->process, request->number,
                request->collective == KOLO_COLLECTIVES ? "function" : trace_collective_name(request->collective),
                end && !request->done_ns ? ",\"args\":{\"unfinished\":true}" : "");
    }
}

/* Bytes of the messages whose calls ended, a second. */
static void put_counters(timeline *line, int index) {
    const double width = trace_bin_ns(line->job);
    const double *bytes = &line->figures->bytes[(size_t)index * TRACE_BINS];
    double last = -1;
    for (int bin = 0; bin < TRACE_BINS; bin++) {
        const int64_t ns = line->job->begin_ns + (int64_t)(bin * width);
        if (bytes[bin] == last)
            continue;
        last = bytes[bin];
        put_head(line, 'C', index, 0, ns);
        fprintf(line->to, ",\"name\":\"communicated\",\"args\":{\"MB/s\":%.6g}}", bytes[bin] / width * 1e3);
    }
}

void trace_timeline_write(FILE *to, const trace_figures *figures) {
    const trace_job *job = figures->job;
    timeline line = {.to = to, .figures = figures, .job = job, .base_ns = job->begin_ns - TRACE_DEPTH_MAX};
    const struct kolo_trace_header *first = &job->processes[0].header;
    fprintf(to, "{\"displayTimeUnit\":\"ns\",\"baseTimeNanoseconds\":%" PRId64 ",",
            line.base_ns + first->began_utc_ns - first->began_ns);
    fprintf(to, "\"otherData\":{\"program\":\"kolo-trace\",\"version\":\"%s\",\"job\":", kolo_version());
    json_text_print(to, first->job);
    fprintf(to, ",\"monotonic_ns_at_0\":\"%" PRId64 "\"},\"traceEvents\":[", line.base_ns);
    for (int p = 0; p < job->count; p++)
        put_names(&line, p);
    for (int p = 0; p < job->count; p++)
        for (int t = 0; t < job->processes[p].track_count; t++)
            trace_walk_track(
                job, p, &job->processes[p].tracks[t],
                (trace_visitor){.context = &line, .begin = begin_slice, .end = end_slice, .event = take_event});
    for (size_t g = 0; g < figures->group_count; g++)
        put_arrows(&line, &figures->groups[g]);
    for (size_t r = 0; r < figures->request_count; r++)
        put_request(&line, &figures->requests[r]);
    for (int p = 0; p < job->count; p++)
        put_counters(&line, p);
    fputs("\n]}\n", to);
}
