/* The summary as one object of JSON. */
#include <inttypes.h>
#include <math.h>

#include "trace_output.h"

#define S 1e-9

static void put_rank(FILE *to, const trace_figures *figures, int index) {
    const trace_process *process = &figures->job->processes[index];
    const trace_rank *rank = &figures->ranks[index];
    const double hidden = trace_hidden_percent(rank);
    char missing[TRACE_SENTENCE_BYTES];
    fputs(index ? ", " : "", to);
    json_pairs_print(to, "{rank=%" PRId32 " pid=%" PRIu32 " host=", process->header.rank, process->header.pid);
    json_text_print(to, process->header.host);
    fputs(", \"file\": ", to);
    json_text_print(to, process->path);
    json_pairs_print(to, " ended=%s missing=", process->header.ended ? "true" : "false");
    json_text_print(to, trace_missing(process, missing));
    json_pairs_print(to,
                     " computing_s=%.9f communicating_s=%.9f waiting_s=%.9f spinning_s=%.9f calls=%" PRIu64
                     " bytes=%" PRIu64 " exchanged_bytes=%" PRIu64 " matched_calls=%" PRIu64 " late_calls=%" PRIu64
                     " late_median_s=%.9f late_total_s=%.9f kept_waiting_s=%.9f hidden_share=%.4f waited_for_s=",
                     (double)rank->state_ns[TRACE_COMPUTING] * S, (double)rank->state_ns[TRACE_COMMUNICATING] * S,
                     (double)rank->state_ns[TRACE_WAITING] * S, (double)rank->spun_ns * S, rank->calls, rank->bytes,
                     rank->exchanged_bytes, rank->matched, rank->late_calls, (double)rank->late_ns * S,
                     (double)rank->late_total_ns * S, (double)rank->kept_ns * S,
                     hidden < 0 ? (double)NAN : hidden / 100);
    for (int other = 0; figures->waits && other < figures->job->count; other++)
        fprintf(to, "%s%.9f", other ? ", " : "[", *trace_wait_of(figures, index, other) * S);
    fputs(figures->waits ? "]" : "null", to);
    json_pairs_print(to, " waited_for_absent_s=%.9f}",
                     figures->waits ? *trace_wait_of(figures, index, figures->job->count) * S : (double)NAN);
}

static void put_collectives(FILE *to, const trace_figures *figures) {
    for (int i = 0; i < figures->row_count; i++) {
        const trace_collective_row *row = &figures->rows[i];
        const double busbw = row->ns > 0 && row->bus_bytes > 0 ? row->bus_bytes / row->ns : (double)NAN;
        fprintf(to, "%s{\"collective\": \"%s\"", i ? ", " : "", trace_collective_name(row->collective));
        json_pairs_print(to,
                         " bytes_min=%" PRIu64 " calls=%" PRIu64 " ended=%" PRIu64 " bytes=%.0f time_s=%.9f"
                         " busbw_gbps=%.6g}",
                         trace_size_min(row->size), row->calls, row->ended, row->bytes, row->ns * S, busbw);
    }
}

static void put_slowest(FILE *to, const trace_figures *figures) {
    for (int i = 0; i < figures->slowest_count; i++) {
        const trace_group *group = &figures->groups[figures->slowest[i]];
        const trace_call *call = &figures->calls[group->longest];
        const trace_job *job = figures->job;
        fprintf(to, "%s{\"collective\": \"%s\"", i ? ", " : "", trace_collective_name(call->collective));
        json_pairs_print(to,
                         " communicator=%" PRId32 " number=%" PRIu64 " bytes=%" PRIu64 " rank=%" PRId32
                         " begin_s=%.9f took_s=%.9f waited_s=%.9f finished=%s",
                         call->comm, call->number, call->bytes, job->processes[call->process].header.rank,
                         (double)(call->begin_ns - job->begin_ns) * S, (double)(call->end_ns - call->begin_ns) * S,
                         (double)call->waited_ns * S, call->unfinished ? "false" : "true");
        if (group->complete)
            json_pairs_print(to, " last_rank=%" PRId32 " late_s=%.9f}",
                             job->processes[figures->calls[group->last].process].header.rank,
                             (double)group->late_ns * S);
        else
            fputs(", \"last_rank\": null, \"late_s\": null}", to);
    }
}

static void put_ranges(FILE *to, const trace_figures *figures) {
    for (int i = 0; i < figures->range_count; i++) {
        const trace_range_row *range = &figures->ranges[i];
        fputs(i ? ", {\"name\": " : "{\"name\": ", to);
        json_text_print(to, range->name);
        json_pairs_print(to, " count=%" PRIu64 " time_s=%.9f longest_s=%.9f}", range->count, (double)range->ns * S,
                         (double)range->longest_ns * S);
    }
}

void trace_summary_write_json(FILE *to, const trace_figures *figures) {
    const trace_job *job = figures->job;
    const struct kolo_trace_header *header = &job->processes[0].header;
    const bool is_known = job->clock_error_ns != UINT64_MAX;
    char verdict[TRACE_SENTENCE_BYTES];
    fputs("{\"job\": ", to);
    json_text_print(to, header->job);
    fputs(", \"program\": ", to);
    json_text_print(to, header->program);
    json_pairs_print(to,
                     " ranks=%" PRId32 " nodes=%" PRId32 " duration_s=%.9f without_waiting_s=%.9f clock_error_s=%.9f"
                     " failures=%" PRIu64 " mismatches=%" PRIu64 " matched_calls=%" PRIu64 " straggler=%.0f verdict=",
                     header->ranks, header->nodes, (double)(job->end_ns - job->begin_ns) * S,
                     (double)trace_without_waiting_ns(figures) * S,
                     is_known ? (double)job->clock_error_ns * S : (double)NAN, figures->failures, figures->mismatches,
                     figures->matched,
                     figures->straggler < 0 ? (double)NAN : (double)job->processes[figures->straggler].header.rank);
    json_text_print(to, trace_verdict(figures, verdict));
    fputs(",\n\"processes\": [", to);
    for (int p = 0; p < job->count; p++)
        put_rank(to, figures, p);
    fputs("],\n\"collectives\": [", to);
    put_collectives(to, figures);
    fputs("],\n\"slowest\": [", to);
    put_slowest(to, figures);
    fputs("],\n\"ranges\": [", to);
    put_ranges(to, figures);
    fputs("]}\n", to);
}
