/* The summary as one page that needs nothing else: no network, no script. Names come from files: all are escaped. */
#include <inttypes.h>
#include <string.h>

#include "trace_output.h"

enum { BIN_RECTS_MAX = 200000, MATRIX_SHOWN_MAX = 64, ROW_HEIGHT = 16 };

static const char *const state_names[TRACE_STATES] = {"computing", "communicating", "waiting"};

static const char style[] =
    ":root{color-scheme:light dark;--page:#fff;--ink:#1c2430;--soft:#5b6675;--line:#d8dde4;--head:#f3f5f8;"
    "--s0:#4f9d69;--s1:#3f74c8;--s2:#d9822b;--hot:217,90,43}\n"
    "@media(prefers-color-scheme:dark){:root{--page:#14181e;--ink:#e4e8ee;--soft:#98a3b3;--line:#333b46;"
    "--head:#1d232b;--s0:#5fb57d;--s1:#6a9bea;--s2:#f0a050;--hot:240,120,70}}\n"
    "*{box-sizing:border-box}body{margin:0 auto;max-width:70rem;padding:1rem;background:var(--page);color:var(--ink);"
    "font:15px/1.45 system-ui,sans-serif}\n"
    "h1{font-size:1.35rem;margin:.2rem 0;overflow-wrap:anywhere}h2{font-size:1.05rem;margin:1.6rem 0 .5rem}\n"
    "p{margin:.3rem 0}.soft{color:var(--soft)}.verdict{font-size:1.1rem;border-left:4px solid var(--s2);"
    "padding:.4rem .8rem;margin:.8rem 0;background:var(--head)}\n"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.9rem}\n"
    "th,td{padding:.2rem .55rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}\n"
    "th{background:var(--head);font-weight:600}th:first-child,td:first-child{text-align:left}"
    "td.name{max-width:24rem;overflow:hidden;text-overflow:ellipsis}\n"
    ".rows{display:grid;grid-template-columns:max-content 1fr;gap:2px .5rem;align-items:center;font-size:.85rem}\n"
    ".rows svg{width:100%;height:16px;display:block;background:var(--head)}\n"
    ".axis{display:flex;justify-content:space-between;color:var(--soft)}\n"
    ".s0{fill:var(--s0);background:var(--s0)}.s1{fill:var(--s1);background:var(--s1)}"
    ".s2{fill:var(--s2);background:var(--s2)}\n"
    ".key{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 .9em}\n"
    "tr.late td{font-weight:600}.bar{display:block;height:.8em;background:var(--s1);min-width:1px}\n"
    "td.bars{width:60%;text-align:left}\n";

static void put_text(FILE *to, const char *text) {
    for (; *text; text++)
        switch (*text) {
        case '&':
            fputs("&amp;", to);
            break;
        case '<':
            fputs("&lt;", to);
            break;
        case '>':
            fputs("&gt;", to);
            break;
        case '"':
            fputs("&quot;", to);
            break;
        case '\'':
            fputs("&#39;", to);
            break;
        default:
            putc(*text, to);
        }
}

static void put_process(FILE *to, const trace_figures *figures, int process) {
    char name[TRACE_PROCESS_NAME_BYTES];
    put_text(to, trace_process_name(figures->job, process, name));
}

static void put_heading(FILE *to, const trace_figures *figures) {
    const trace_job *job = figures->job;
    const struct kolo_trace_header *header = &job->processes[0].header;
    char text[TRACE_SENTENCE_BYTES];
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>",
          to);
    put_text(to, header->job[0] ? header->job : "a job");
    fprintf(to, " - kolo-trace</title>\n<style>\n%s</style>\n</head>\n<body>\n<h1>", style);
    put_text(to, header->job[0] ? header->job : "A job without a name");
    fputs("</h1>\n<p class=\"soft\">", to);
    put_text(to, header->program);
    fprintf(to, "%s%" PRId32 " rank%s on %" PRId32 " machine%s, %s; traces of %d processes</p>\n",
            header->program[0] ? ", " : "", header->ranks, header->ranks == 1 ? "" : "s", header->nodes,
            header->nodes == 1 ? "" : "s", trace_time_text((double)(job->end_ns - job->begin_ns)).text, job->count);
    fputs("<p class=\"verdict\">", to);
    const char *verdict = trace_verdict(figures, text);
    fprintf(to, "%c", verdict[0] == 'r' ? 'R' : verdict[0]);
    put_text(to, verdict + 1);
    fprintf(to, "</p>\n<p>Spread evenly, so that nobody waits, the work would take %s.</p>\n",
            trace_time_text((double)trace_without_waiting_ns(figures)).text);
    if (figures->failures)
        fprintf(to, "<p>Communicators failed: ranks noted it %" PRIu64 " time%s.</p>\n", figures->failures,
                figures->failures == 1 ? "" : "s");
    if (job->clock_error_ns == UINT64_MAX)
        fputs("<p>The clocks of the machines were not compared: they are taken to show the same time of day.</p>\n",
              to);
    else if (job->clock_error_ns)
        fprintf(to, "<p>Times of different machines are right within %s.</p>\n",
                trace_time_text((double)job->clock_error_ns).text);
}

static void put_missing(FILE *to, const trace_figures *figures) {
    const trace_job *job = figures->job;
    char missing[TRACE_SENTENCE_BYTES];
    bool any = false;
    for (int p = 0; p < job->count; p++) {
        if (!trace_missing(&job->processes[p], missing)[0])
            continue;
        fputs(any ? "<li>" : "<h2>What is missing</h2>\n<ul>\n<li>", to);
        any = true;
        put_process(to, figures, p);
        fputs(": ", to);
        put_text(to, missing);
        fputs("</li>\n", to);
    }
    if (any)
        fputs("</ul>\n", to);
    if (figures->mismatches)
        fprintf(to, "<p>%" PRIu64 " events do not fit together: some are missing between others.</p>\n",
                figures->mismatches);
}

/* A row of the overview: for each bin a bar of each state, one above the other; a path for each state. */
static void put_overview_row(FILE *to, const trace_figures *figures, int process, int joined) {
    const int bins = TRACE_BINS / joined;
    const double whole = trace_bin_ns(figures->job) * joined;
    fprintf(to, "<svg viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"", bins, ROW_HEIGHT);
    put_process(to, figures, process);
    fputs("\">", to);
    for (int state = 0; state < TRACE_STATES; state++) {
        fprintf(to, "<path class=\"s%d\" d=\"", state);
        for (int bin = 0; bin < bins; bin++) {
            double below = 0, height = 0;
            for (int i = bin * joined; i < (bin + 1) * joined; i++)
                for (int s = 0; s <= state; s++)
                    *(s < state ? &below : &height) += (double)figures->bins[process][i][s];
            below *= ROW_HEIGHT / whole;
            height *= ROW_HEIGHT / whole;
            if (height >= 0.05)
                fprintf(to, "M%d %.1fh1v-%.1fh-1z", bin, ROW_HEIGHT - below, height);
        }
        fputs("\"/>", to);
    }
    fputs("</svg>\n", to);
}

static void put_overview(FILE *to, const trace_figures *figures) {
    const int count = figures->job->count;
    int joined = 1;
    while (count * (TRACE_BINS / joined) > BIN_RECTS_MAX && joined < TRACE_BINS / 20)
        joined++;
    fputs("<h2>Overview</h2>\n<p>", to);
    for (int state = 0; state < TRACE_STATES; state++)
        fprintf(to, "<span class=\"key s%d\"></span>%s", state, state_names[state]);
    fputs("</p>\n<div class=\"rows\">\n", to);
    for (int p = 0; p < count; p++) {
        fputs("<span>", to);
        put_process(to, figures, p);
        fputs("</span>", to);
        put_overview_row(to, figures, p, joined);
    }
    fprintf(to, "<span></span><span class=\"axis\"><span>0</span><span>%s</span></span>\n</div>\n",
            trace_time_text((double)(figures->job->end_ns - figures->job->begin_ns)).text);
}

static void put_ranks(FILE *to, const trace_figures *figures) {
    fputs("<h2>Ranks</h2>\n<div class=\"wide\"><table>\n<tr><th>rank</th><th>computing</th><th>communicating</th>"
          "<th>waiting</th><th>spinning</th><th>last to begin</th><th>late (median)</th><th>late "
          "(all)</th><th>hidden</th><th>calls</th>"
          "<th>bytes</th></tr>\n",
          to);
    for (int p = 0; p < figures->job->count; p++) {
        const trace_rank *rank = &figures->ranks[p];
        const double whole = (double)trace_rank_ns(rank), hidden = trace_hidden_percent(rank);
        fprintf(to, "<tr%s><td>", p == figures->straggler ? " class=\"late\"" : "");
        put_process(to, figures, p);
        fputs("</td>", to);
        for (int state = 0; state < TRACE_STATES; state++)
            fprintf(to, "<td>%s (%.0f&nbsp;%%)</td>", trace_time_text((double)rank->state_ns[state]).text,
                    trace_percent((double)rank->state_ns[state], whole));
        fprintf(to, "<td>%s (%.0f&nbsp;%%)</td><td>%.0f&nbsp;%%</td><td>%s</td><td>%s</td>",
                trace_time_text((double)rank->spun_ns).text,
                trace_percent((double)rank->spun_ns, (double)rank->threads_ns),
                trace_percent((double)rank->late_calls, (double)rank->matched),
                trace_time_text((double)rank->late_ns).text, trace_time_text((double)rank->late_total_ns).text);
        if (hidden < 0)
            fputs("<td>-</td>", to);
        else
            fprintf(to, "<td>%.0f&nbsp;%%</td>", hidden);
        fprintf(to, "<td>%" PRIu64 "</td><td>%s</td></tr>\n", rank->calls, bytes_text(rank->bytes).text);
    }
    fputs("</table></div>\n", to);
}

static void put_matrix(FILE *to, const trace_figures *figures) {
    const int count = figures->job->count, shown = count + trace_waits_for_absent(figures);
    if (!figures->waits || shown < 2 || count > MATRIX_SHOWN_MAX)
        return;
    double most = 0;
    for (int i = 0; i < count * (count + 1); i++)
        most = figures->waits[i] > most ? figures->waits[i] : most;
    fputs("<h2>Who waited for whom</h2>\n<p class=\"soft\">Each row waited for the columns.</p>\n"
          "<div class=\"wide\"><table>\n<tr><th></th>",
          to);
    for (int p = 0; p < count; p++)
        fprintf(to, "<th>%" PRId32 "</th>", figures->job->processes[p].header.rank);
    fputs(shown > count ? "<th>without a trace</th></tr>\n" : "</tr>\n", to);
    for (int p = 0; p < count; p++) {
        fputs("<tr><td>", to);
        put_process(to, figures, p);
        fputs("</td>", to);
        for (int q = 0; q < shown; q++) {
            const double ns = *trace_wait_of(figures, p, q);
            if (ns > 0)
                fprintf(to, "<td style=\"background:rgba(var(--hot),%.2f)\">%s</td>", 0.75 * ns / most,
                        trace_time_text(ns).text);
            else
                fputs("<td></td>", to);
        }
        fputs("</tr>\n", to);
    }
    fputs("</table></div>\n", to);
}

static void put_collectives(FILE *to, const trace_figures *figures) {
    fputs("<h2>Collectives</h2>\n<p class=\"soft\">Time is from the begin of the last rank to the last end; algbw and "
          "busbw as in nccl-tests, in GB/s.</p>\n<div class=\"wide\"><table>\n<tr><th>collective</th><th>size from</th>"
          "<th>calls</th><th>bytes</th><th>time</th><th>a call</th><th>algbw</th><th>busbw</th></tr>\n",
          to);
    for (int i = 0; i < figures->row_count; i++) {
        const trace_collective_row *row = &figures->rows[i];
        fprintf(to,
                "<tr><td>%s</td><td>%s</td><td>%" PRIu64 "</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td>"
                "</tr>\n",
                trace_collective_name(row->collective), trace_size_text(row->size).text, row->calls,
                bytes_text((uint64_t)row->bytes).text, trace_time_text(row->ns).text, trace_call_text(row).text,
                trace_rate_text(row->bytes, row->ns).text, trace_rate_text(row->bus_bytes, row->ns).text);
    }
    fputs("</table></div>\n", to);
}

static void put_sizes(FILE *to, const trace_figures *figures) {
    uint64_t most = 1;
    for (int size = 0; size < TRACE_SIZES; size++)
        most = figures->sizes[size] > most ? figures->sizes[size] : most;
    fputs("<h2>Sizes</h2>\n<div class=\"wide\"><table>\n<tr><th>size from</th><th>calls</th><th></th></tr>\n", to);
    for (int size = 0; size < TRACE_SIZES; size++)
        if (figures->sizes[size])
            fprintf(to,
                    "<tr><td>%s</td><td>%" PRIu64 "</td><td class=\"bars\"><span class=\"bar\" style=\"width:%.1f%%\">"
                    "</span></td></tr>\n",
                    size ? trace_size_text(size).text : "no data", figures->sizes[size],
                    trace_percent((double)figures->sizes[size], (double)most));
    fputs("</table></div>\n", to);
}

static void put_slowest(FILE *to, const trace_figures *figures) {
    fputs(
        "<h2>Slowest calls</h2>\n<div class=\"wide\"><table>\n<tr><th>call</th><th>number</th><th>size</th><th>at</th>"
        "<th>rank</th><th>took</th><th>waited</th><th>last to begin</th><th>late</th></tr>\n",
        to);
    for (int i = 0; i < figures->slowest_count; i++) {
        const trace_group *group = &figures->groups[figures->slowest[i]];
        const trace_call *call = &figures->calls[group->longest];
        fprintf(to, "<tr><td>%s</td><td>%" PRIu64 "</td><td>%s</td><td>%s</td><td>",
                trace_collective_name(call->collective), call->number, bytes_text(call->bytes).text,
                trace_time_text((double)(call->begin_ns - figures->job->begin_ns)).text);
        put_process(to, figures, call->process);
        fprintf(to, "</td><td>%s%s</td><td>%s</td><td>", trace_time_text((double)(call->end_ns - call->begin_ns)).text,
                call->unfinished ? ", no end" : "", trace_time_text((double)call->waited_ns).text);
        if (group->complete) {
            put_process(to, figures, figures->calls[group->last].process);
            fprintf(to, "</td><td>%s</td></tr>\n", trace_time_text((double)group->late_ns).text);
        } else
            fputs("-</td><td>-</td></tr>\n", to);
    }
    fputs("</table></div>\n", to);
}

static void put_ranges(FILE *to, const trace_figures *figures) {
    if (figures->range_count == 0)
        return;
    fputs("<h2>Ranges</h2>\n<div class=\"wide\"><table>\n<tr><th>name</th><th>count</th><th>time, all ranks</th>"
          "<th>each</th><th>longest</th></tr>\n",
          to);
    for (int i = 0; i < figures->range_count; i++) {
        const trace_range_row *range = &figures->ranges[i];
        fputs("<tr><td class=\"name\">", to);
        put_text(to, range->name);
        fprintf(to, "</td><td>%" PRIu64 "</td><td>%s</td><td>%s</td><td>%s</td></tr>\n", range->count,
                trace_time_text((double)range->ns).text, trace_time_text((double)range->ns / (double)range->count).text,
                trace_time_text((double)range->longest_ns).text);
    }
    fputs("</table></div>\n", to);
}

void trace_page_write(FILE *to, const trace_figures *figures) {
    put_heading(to, figures);
    put_overview(to, figures);
    put_ranks(to, figures);
    put_matrix(to, figures);
    put_collectives(to, figures);
    put_sizes(to, figures);
    put_slowest(to, figures);
    put_ranges(to, figures);
    put_missing(to, figures);
    fprintf(to, "<p class=\"soft\">kolo-trace %s</p>\n</body>\n</html>\n", kolo_version());
}
