#include <inttypes.h>
#include <string.h>

#include "trace_output.h"

quantity_text trace_time_text(double ns) {
    static const char *const units[] = {"ns", "us", "ms", "s"};
    quantity_text time;
    int unit = 0;
    for (; ns >= 999.5 && unit < 3; unit++)
        ns /= 1000;
    const int decimals = unit == 0 || ns >= 99.95 ? 0 : ns >= 9.995 ? 1 : 2;
    snprintf(time.text, sizeof time.text, "%.*f %s", decimals, ns, units[unit]);
    return time;
}

quantity_text trace_size_text(int size_class) {
    quantity_text none = {"-"};
    return size_class ? bytes_text(trace_size_min(size_class)) : none;
}

quantity_text trace_call_text(const trace_collective_row *row) {
    const quantity_text none = {"-"};
    return row->ended ? trace_time_text(row->ns / (double)row->ended) : none;
}

quantity_text trace_rate_text(double bytes, double ns) {
    quantity_text rate = {"-"};
    if (bytes > 0 && ns > 0)
        snprintf(rate.text, sizeof rate.text, "%.*f", shown_decimals(bytes / ns) > 2 ? 2 : shown_decimals(bytes / ns),
                 bytes / ns);
    return rate;
}

double trace_percent(double part, double whole) {
    return whole > 0 ? 100 * part / whole : 0;
}

const char *trace_verdict(const trace_figures *figures, char text[TRACE_SENTENCE_BYTES]) {
    char name[TRACE_PROCESS_NAME_BYTES];
    if (figures->matched == 0 && figures->judged == 0)
        return figures->job->count < 2 ? "With one rank's trace nothing can be said of who is late."
                                       : "No call is in the traces of all its ranks: nothing can be said of who is "
                                         "late.";
    if (figures->straggler < 0)
        return "No rank is late in a way that matters.";
    const trace_rank *rank = &figures->ranks[figures->straggler];
    if (rank->kept_ns > rank->late_total_ns) {
        snprintf(text, TRACE_SENTENCE_BYTES, "%s keeps the others waiting for its clocks of a table, %s in all.",
                 trace_process_name(figures->job, figures->straggler, name),
                 trace_time_text((double)rank->kept_ns).text);
        return text;
    }
    const double percent = trace_percent((double)rank->late_calls, (double)rank->matched);
    char share[64];
    if (percent < 1)
        snprintf(share, sizeof share, "%" PRIu64 " of %" PRIu64 " calls", (uint64_t)rank->late_calls,
                 (uint64_t)rank->matched);
    else
        snprintf(share, sizeof share, "%.0f %% of the calls", percent);
    snprintf(text, TRACE_SENTENCE_BYTES, "%s comes last to %s, %s after the others in the median; %s in all.",
             trace_process_name(figures->job, figures->straggler, name), share,
             trace_time_text((double)rank->late_ns).text, trace_time_text((double)rank->late_total_ns).text);
    return text;
}

static size_t add(char *text, size_t used, uint64_t count, const char *what) {
    if (count == 0 || used >= TRACE_SENTENCE_BYTES)
        return used;
    return used + (size_t)snprintf(text + used, TRACE_SENTENCE_BYTES - used, "%s%" PRIu64 " %s", used ? ", " : "",
                                   count, what);
}

const char *trace_missing(const trace_process *process, char text[TRACE_SENTENCE_BYTES]) {
    const trace_damage *damage = &process->damage;
    size_t used = 0;
    text[0] = '\0';
    used = add(text, used, damage->blocks_overwritten, "older blocks overwritten (KOLO_TRACE_BYTES)");
    used = add(text, used, damage->events_lost, "events lost for want of a block");
    used = add(text, used, damage->blocks_cut, "blocks cut off");
    used = add(text, used, damage->events_cut, "events cut off");
    used = add(text, used, damage->blocks_wrong, "blocks damaged");
    used = add(text, used, damage->events_wrong, "events damaged");
    if (!process->header.ended && used < TRACE_SENTENCE_BYTES)
        snprintf(text + used, TRACE_SENTENCE_BYTES - used, "%sended abruptly, or still runs", used ? ", " : "");
    return text;
}

int64_t trace_rank_ns(const trace_rank *rank) {
    int64_t ns = 0;
    for (int state = 0; state < TRACE_STATES; state++)
        ns += rank->state_ns[state];
    return ns;
}

/* A trace may have a part of the job only: what its rank did meanwhile stands for all of it. */
int64_t trace_without_waiting_ns(const trace_figures *figures) {
    double all_ns = 0, waiting_ns = 0;
    for (int p = 0; p < figures->job->count; p++) {
        all_ns += (double)trace_rank_ns(&figures->ranks[p]);
        waiting_ns += (double)figures->ranks[p].state_ns[TRACE_WAITING];
    }
    const double ns = (double)(figures->job->end_ns - figures->job->begin_ns);
    return (int64_t)(all_ns > 0 ? ns * (1 - waiting_ns / all_ns) : ns);
}

double trace_hidden_percent(const trace_rank *rank) {
    if (rank->background_ns == 0)
        return -1;
    const int64_t hidden = rank->background_ns - rank->exposed_ns;
    return trace_percent(hidden > 0 ? (double)hidden : 0, (double)rank->background_ns);
}
