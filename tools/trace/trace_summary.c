/* The summary as text in 80 columns. */
#include <inttypes.h>
#include <string.h>

#include "trace_output.h"

enum { MATRIX_COLUMNS_MAX = 64, RANKS_SHOWN = 64, RANGES_SHOWN = 12, FILES_SHOWN = 8 };

/* "3", or "3:71" with the pid where there is another process of that rank. */
static const char *rank_text(const trace_job *job, int process, char text[TRACE_PROCESS_NAME_BYTES]) {
    const struct kolo_trace_header *header = &job->processes[process].header;
    const bool again = strchr(trace_process_name(job, process, text), '(') != NULL;
    if (again)
        snprintf(text, TRACE_PROCESS_NAME_BYTES, "%" PRId32 ":%" PRIu32, header->rank, header->pid);
    else
        snprintf(text, TRACE_PROCESS_NAME_BYTES, "%" PRId32, header->rank);
    return text;
}

/* How wide a column is that names ranks. */
static int rank_columns(const trace_job *job) {
    char name[TRACE_PROCESS_NAME_BYTES];
    int columns = 4;
    for (int p = 0; p < job->count; p++) {
        const int wanted = (int)strlen(rank_text(job, p, name)) + 1;
        columns = wanted > columns ? wanted : columns;
    }
    return columns;
}

static void print_heading(const trace_figures *figures) {
    const trace_job *job = figures->job;
    const struct kolo_trace_header *header = &job->processes[0].header;
    char text[TRACE_SENTENCE_BYTES];
    snprintf(text, sizeof text, "%s%s: %s%s%" PRId32 " rank%s, %" PRId32 " machine%s, %s",
             header->job[0] ? "job " : "a job without a name", header->job, header->program,
             header->program[0] ? " on " : "", header->ranks, header->ranks == 1 ? "" : "s", header->nodes,
             header->nodes == 1 ? "" : "s", trace_time_text((double)(job->end_ns - job->begin_ns)).text);
    wrapped_text_print(text, 0, 0);
    if (job->count != header->ranks)
        printf("  traces of %d processes are here\n", job->count);
    if (job->clock_error_ns == UINT64_MAX)
        wrapped_text_print(
            "  the clocks of the machines were not compared: they are taken to show the same time of day", 0, 0);
    else if (job->clock_error_ns)
        printf("  times of different machines are right within %s\n",
               trace_time_text((double)job->clock_error_ns).text);
}

static void print_missing(const trace_job *job) {
    char name[TRACE_PROCESS_NAME_BYTES], missing[TRACE_SENTENCE_BYTES];
    char text[TRACE_SENTENCE_BYTES + TRACE_PROCESS_NAME_BYTES + 8];
    int shown = 0, more = 0;
    for (int p = 0; p < job->count; p++) {
        if (!trace_missing(&job->processes[p], missing)[0])
            continue;
        if (shown == FILES_SHOWN) {
            more++;
            continue;
        }
        snprintf(text, sizeof text, "  %s: %s", trace_process_name(job, p, name), missing);
        wrapped_text_print(text, 0, 0);
        shown++;
    }
    if (more)
        printf("  and %d more ranks: see --html or --json\n", more);
}

static void print_verdict(const trace_figures *figures) {
    char text[TRACE_SENTENCE_BYTES], more[TRACE_SENTENCE_BYTES];
    const int64_t ns = figures->job->end_ns - figures->job->begin_ns;
    putchar('\n');
    snprintf(more, sizeof more, "%s", trace_verdict(figures, text));
    if (more[0] == 'r')
        more[0] = 'R';
    wrapped_text_print(more, 0, 0);
    snprintf(more, sizeof more, "Spread evenly, so that nobody waits, the work would take %s instead of %s.",
             trace_time_text((double)trace_without_waiting_ns(figures)).text, trace_time_text((double)ns).text);
    wrapped_text_print(more, 0, 0);
    if (figures->mismatches)
        printf("%" PRIu64 " events do not fit together: some are missing between others.\n", figures->mismatches);
    if (figures->failures)
        printf("Communicators failed: ranks noted it %" PRIu64 " time%s.\n", figures->failures,
               figures->failures == 1 ? "" : "s");
}

static void print_ranks(const trace_figures *figures) {
    char name[TRACE_PROCESS_NAME_BYTES];
    printf("\n%-7s %14s %14s %14s %4s %5s %8s %7s\n", "rank", "computing", "communicating", "waiting", "spin", "last",
           "late", "calls");
    for (int p = 0; p < figures->job->count; p++) {
        const trace_rank *rank = &figures->ranks[p];
        const double whole = (double)trace_rank_ns(rank);
        if (p >= RANKS_SHOWN && p != figures->straggler)
            continue;
        printf("%-7s", rank_text(figures->job, p, name));
        for (int state = 0; state < TRACE_STATES; state++)
            printf(" %9s %3.0f%%", trace_time_text((double)rank->state_ns[state]).text,
                   trace_percent((double)rank->state_ns[state], whole));
        printf(" %3.0f%%", trace_percent((double)rank->spun_ns, (double)rank->threads_ns));
        if (rank->late_total_ns)
            printf(" %4.0f%% %8s", trace_percent((double)rank->late_calls, (double)rank->matched),
                   trace_time_text((double)rank->late_ns).text);
        else
            printf(" %5s %8s", "-", "-");
        printf(" %7" PRIu64 "\n", rank->calls);
    }
    if (figures->job->count > RANKS_SHOWN)
        printf("and more: see --html or --json\n");
    for (int p = 0; p < figures->job->count && p < RANKS_SHOWN; p++)
        if (trace_hidden_percent(&figures->ranks[p]) >= 0)
            printf("rank %s: %.0f %% of its calls in the background were hidden behind other work\n",
                   rank_text(figures->job, p, name), trace_hidden_percent(&figures->ranks[p]));
    for (int p = 0; p < figures->job->count && p < RANKS_SHOWN; p++)
        if (figures->ranks[p].exchanged_bytes)
            printf("rank %s: exchanged %s with other machines\n", rank_text(figures->job, p, name),
                   bytes_text(figures->ranks[p].exchanged_bytes).text);
}

static void print_collectives(const trace_figures *figures) {
    if (figures->row_count)
        printf("\n%-19s %10s %9s %10s %10s %8s %8s\n", "collective", "size from", "calls", "bytes", "a call", "algbw",
               "busbw");
    for (int i = 0; i < figures->row_count; i++) {
        const trace_collective_row *row = &figures->rows[i];
        printf("%-19s %10s %9" PRIu64 " %10s %10s %8s %8s\n", trace_collective_name(row->collective),
               trace_size_text(row->size).text, row->calls,
               row->bytes > 0 ? bytes_text((uint64_t)row->bytes).text : "-", trace_call_text(row).text,
               trace_rate_text(row->bytes, row->ns).text, trace_rate_text(row->bus_bytes, row->ns).text);
    }
}

static void print_slowest(const trace_figures *figures) {
    const int columns = rank_columns(figures->job), letters = columns < 10 ? 17 - columns : 7;
    char name[TRACE_PROCESS_NAME_BYTES], last[TRACE_PROCESS_NAME_BYTES];
    if (figures->slowest_count)
        printf("\n%-*s%*s %8s %9s %8s %8s %8s  %s\n", letters, "slowest", columns, "rank", "number", "size", "at",
               "took", "waited", "last, by");
    for (int i = 0; i < figures->slowest_count; i++) {
        const trace_group *group = &figures->groups[figures->slowest[i]];
        const trace_call *call = &figures->calls[group->longest], *latest = &figures->calls[group->last];
        printf("%-*.*s%*s %8" PRIu64 " %9s %8s %8s %8s", letters, letters, trace_collective_name(call->collective),
               columns, rank_text(figures->job, call->process, name), call->number,
               call->bytes ? bytes_text(call->bytes).text : "-",
               trace_time_text((double)(call->begin_ns - figures->job->begin_ns)).text,
               trace_time_text((double)(call->end_ns - call->begin_ns)).text,
               call->unfinished ? "no end" : trace_time_text((double)call->waited_ns).text);
        if (group->complete)
            printf("  %s %s\n", rank_text(figures->job, latest->process, last),
                   trace_time_text((double)group->late_ns).text);
        else
            puts("  -");
    }
}

static void print_matrix(const trace_figures *figures) {
    const int count = figures->job->count, columns = rank_columns(figures->job);
    const int shown = count + trace_waits_for_absent(figures);
    char name[TRACE_PROCESS_NAME_BYTES];
    double all = 0;
    for (int i = 0; figures->waits && i < count * (count + 1); i++)
        all += figures->waits[i];
    if (all <= 0 || shown * columns > MATRIX_COLUMNS_MAX)
        return;
    puts("\nWho waited for whom: % of the time of a row's threads, in waits for a column");
    if (shown > count)
        puts("(?: for ranks without a trace)");
    printf("%-10s", "rank");
    for (int p = 0; p < shown; p++)
        printf("%*s", columns, p < count ? rank_text(figures->job, p, name) : "?");
    putchar('\n');
    for (int p = 0; p < count; p++) {
        printf("%-10s", rank_text(figures->job, p, name));
        for (int q = 0; q < shown; q++) {
            const double share = trace_percent(*trace_wait_of(figures, p, q), (double)figures->ranks[p].threads_ns);
            if (share < 0.5)
                printf("%*s", columns, p == q ? "" : ".");
            else
                printf("%*.0f", columns, share);
        }
        putchar('\n');
    }
}

static void print_ranges(const trace_figures *figures) {
    if (figures->range_count)
        printf("\n%-34s %9s %10s %10s %10s\n", "ranges, all ranks", "count", "time", "each", "longest");
    for (int i = 0; i < figures->range_count && i < RANGES_SHOWN; i++) {
        const trace_range_row *range = &figures->ranges[i];
        column_print(range->name, 34);
        printf(" %9" PRIu64 " %10s %10s %10s\n", range->count, trace_time_text((double)range->ns).text,
               trace_time_text((double)range->ns / (double)range->count).text,
               trace_time_text((double)range->longest_ns).text);
    }
    if (figures->range_count > RANGES_SHOWN)
        printf("and %d more: see --html or --json\n", figures->range_count - RANGES_SHOWN);
}

void trace_summary_print(const trace_figures *figures) {
    print_heading(figures);
    print_missing(figures->job);
    print_verdict(figures);
    print_ranks(figures);
    print_matrix(figures);
    print_collectives(figures);
    print_slowest(figures);
    print_ranges(figures);
}
