/* A sample in Prometheus' text format. Counters are as old as their communicator or table. One that is over is left
 * out, so that its series end. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kolo_table.h"
#include "kolo_tools.h"
#include "top_report.h"

#define NS 1e-9

typedef struct family family;

/* Prints those samples of a family that are of one communicator. */
typedef void print_fn(FILE *to, const family *of, const top_sample *sample, const top_comm *comm);

struct family {
    print_fn *print;
    int figure; /* which of those that `print` knows */
    const char *name, *type, *help;
};

/* Names come from other processes. A byte that is not printable ASCII becomes '?', as the format is UTF-8. */
static void print_label(FILE *to, const char *name, const char *value) {
    fprintf(to, "%s=\"", name);
    for (; *value; value++)
        if (*value == '"' || *value == '\\')
            fprintf(to, "\\%c", *value);
        else
            putc(*value >= ' ' && *value <= '~' ? *value : '?', to);
    putc('"', to);
}

/* A sample up to the labels that all have. A communicator is named by its segment's place, which stays. Prometheus'
 * server gives each sample a label "job" of its own. */
static void begin_sample(FILE *to, const family *of, const top_comm *comm) {
    fprintf(to, "%s{", of->name);
    print_label(to, "kolo_job", comm->seen.job);
    fprintf(to, ",communicator=\"%" PRIu64 "+%" PRIu64 "\"", comm->seen.file, comm->seen.offset);
}

static void end_sample(FILE *to, double value) {
    fprintf(to, value < 1e18 && value == (double)(int64_t)value ? "} %.0f\n" : "} %.9f\n", value);
}

/* Below, a negative figure is one that there is not. */

enum { RANKS, FAILURES, SEGMENT_BYTES, AGE_S };

static void print_comm(FILE *to, const family *of, const top_sample *sample, const top_comm *comm) {
    const kolo_watched_comm *seen = &comm->seen;
    const double figures[] = {[RANKS] = seen->ranks,
                              [FAILURES] = seen->failure != 0,
                              [SEGMENT_BYTES] = (double)seen->segment_bytes,
                              [AGE_S] = seen->age_s};
    (void)sample;
    if (figures[of->figure] < 0)
        return;
    begin_sample(to, of, comm);
    end_sample(to, figures[of->figure]);
}

static void print_failure(FILE *to, const family *of, const top_sample *sample, const top_comm *comm) {
    (void)sample;
    if (!comm->seen.failure)
        return;
    begin_sample(to, of, comm);
    putc(',', to);
    print_label(to, "status", kolo_strerror(comm->seen.failure));
    fprintf(to, ",rank=\"%d\",reporter=\"%d\"", comm->seen.failure_rank, comm->seen.failure_reporter);
    end_sample(to, 1);
}

static void print_states(FILE *to, const family *of, const top_sample *sample, const top_comm *comm) {
    static const char *const states[] = {"between calls", "in call", "waiting", "stopped", "left", "ended"};
    (void)sample;
    for (size_t state = 0; state < sizeof states / sizeof *states; state++) {
        int count = 0;
        for (int rank = 0; rank < comm->seen.ranks; rank++)
            count += strcmp(top_rank_state(&comm->ranks[rank]), states[state]) == 0;
        begin_sample(to, of, comm);
        fprintf(to, ",state=\"%s\"", states[state]);
        end_sample(to, count);
    }
}

enum { CALLS_BEGUN, SENT_BYTES, RECEIVED_BYTES, WAITED_S, WAITS_S, SPUN_S, CPU_S };

static double rank_figure(const top_comm *comm, const top_rank *rank, int figure) {
    const kolo_watched_rank *seen = &rank->seen;
    const double waits_s = ((double)comm->seen.read_ns - (double)seen->waits_since_ns) * NS;
    const double figures[] = {[CALLS_BEGUN] = (double)seen->calls,
                              [SENT_BYTES] = (double)seen->sent_bytes,
                              [RECEIVED_BYTES] = (double)seen->received_bytes,
                              [WAITED_S] = (double)seen->waited_ns * NS,
                              [WAITS_S] = seen->waits_for >= 0 ? waits_s : 0,
                              [SPUN_S] = (double)seen->spun_ns * NS,
                              [CPU_S] = rank->cpu_s};
    return figures[figure];
}

static void print_ranks(FILE *to, const family *of, const top_sample *sample, const top_comm *comm) {
    (void)sample;
    for (int rank = 0; rank < comm->seen.ranks; rank++) {
        const double value = rank_figure(comm, &comm->ranks[rank], of->figure);
        if (value < 0)
            continue;
        begin_sample(to, of, comm);
        fprintf(to, ",rank=\"%d\"", rank);
        end_sample(to, value);
    }
}

enum { CALLS, PAYLOAD_BYTES };

static void print_collectives(FILE *to, const family *of, const top_sample *sample, const top_comm *comm) {
    (void)sample;
    for (int rank = 0; rank < comm->seen.ranks; rank++) {
        const kolo_watched_rank *seen = &comm->ranks[rank].seen;
        for (int collective = 0; collective < KOLO_COLLECTIVES; collective++) {
            if (seen->calls_by_collective[collective] == 0)
                continue;
            begin_sample(to, of, comm);
            fprintf(to, ",rank=\"%d\",collective=\"%s\"", rank, kolo_name(KOLO_NAME_COLLECTIVE, collective));
            end_sample(to, (double)(of->figure == CALLS ? seen->calls_by_collective
                                                        : seen->payload_by_collective)[collective]);
        }
    }
}

/* Several tables of a communicator may have one name; their files differ. */
static void begin_table_sample(FILE *to, const family *of, const top_comm *comm, const kolo_watched_table *seen) {
    begin_sample(to, of, comm);
    putc(',', to);
    print_label(to, "table", seen->name);
    fprintf(to, ",file=\"%" PRIu64 "\"", seen->table_file);
}

/* The next table of `comm`, from `at` on; NULL: there is no other. */
static const top_table *next_table(const top_sample *sample, const top_comm *comm, int *at) {
    while (*at < sample->tables_count) {
        const top_table *table = &sample->tables[(*at)++];
        if (top_table_is_of(table, comm) && !table->seen.over && table->seen.status == 0)
            return table;
    }
    return NULL;
}

enum { ROWS, MEMORY_BYTES, STALENESS, WAITING };

static void print_tables(FILE *to, const family *of, const top_sample *sample, const top_comm *comm) {
    const top_table *table;
    for (int at = 0; (table = next_table(sample, comm, &at));) {
        const kolo_watched_table *seen = &table->seen;
        const bool is_bounded = seen->staleness != KOLO_STALENESS_UNBOUNDED;
        const double figures[] = {[ROWS] = (double)seen->rows,
                                  [MEMORY_BYTES] = (double)seen->memory_bytes,
                                  [STALENESS] = is_bounded ? (double)seen->staleness : -1,
                                  [WAITING] = seen->waiting};
        if (figures[of->figure] < 0)
            continue;
        begin_table_sample(to, of, comm, seen);
        end_sample(to, figures[of->figure]);
    }
}

enum { PULLED, PUSHED, APPLIED, CLOCKS, TABLE_WAITED_S, TABLE_WAITS_S };

static void print_table_ranks(FILE *to, const family *of, const top_sample *sample, const top_comm *comm) {
    const top_table *table;
    for (int at = 0; (table = next_table(sample, comm, &at));)
        for (int rank = 0; rank < table->seen.ranks; rank++) {
            const kolo_watched_table_rank *seen = &table->ranks[rank].seen;
            const double waits_s = ((double)table->seen.read_ns - (double)seen->waits_since_ns) * NS;
            const double figures[] = {[PULLED] = (double)seen->pulled,
                                      [PUSHED] = (double)seen->pushed,
                                      [APPLIED] = (double)seen->applied,
                                      [CLOCKS] = seen->server ? -1 : (double)seen->clock,
                                      [TABLE_WAITED_S] = seen->server ? -1 : (double)seen->waited_ns * NS,
                                      [TABLE_WAITS_S] = seen->server           ? -1
                                                        : seen->waits_for >= 0 ? waits_s
                                                                               : 0};
            if (figures[of->figure] < 0)
                continue;
            begin_table_sample(to, of, comm, &table->seen);
            fprintf(to, ",rank=\"%d\"", rank);
            end_sample(to, figures[of->figure]);
        }
}

static const family families[] = {
    {print_comm, RANKS, "kolo_ranks", "gauge", "Ranks of the communicator on this machine."},
    {print_states, 0, "kolo_ranks_in_state", "gauge", "Ranks on this machine by what they do."},
    {print_comm, SEGMENT_BYTES, "kolo_segment_bytes", "gauge", "Size of the segment of shared memory."},
    {print_comm, AGE_S, "kolo_age_seconds", "gauge", "Time since the oldest process of a rank was started."},
    {print_comm, FAILURES, "kolo_failures_total", "counter", "Failures of the communicator, which the first breaks."},
    {print_failure, 0, "kolo_failure_info", "gauge",
     "What broke the communicator: the rank at fault, and who found it."},
    {print_ranks, CALLS_BEGUN, "kolo_calls_begun_total", "counter", "Collectives that the rank has begun."},
    {print_collectives, CALLS, "kolo_calls_total", "counter",
     "Collectives, sends and receives that have ended on the rank."},
    {print_collectives, PAYLOAD_BYTES, "kolo_payload_bytes_total", "counter", "Bytes of their messages."},
    {print_ranks, SENT_BYTES, "kolo_sent_bytes_total", "counter", "Bytes that the rank wrote for others to read."},
    {print_ranks, RECEIVED_BYTES, "kolo_received_bytes_total", "counter",
     "Bytes that the rank read of what others wrote."},
    {print_ranks, WAITED_S, "kolo_waited_seconds_total", "counter", "Time in waits beyond spinning that are over."},
    {print_ranks, WAITS_S, "kolo_wait_seconds", "gauge", "Time in the present wait; 0: the rank does not wait."},
    {print_ranks, SPUN_S, "kolo_spun_seconds_total", "counter",
     "Time in waits of more than some 20 us in which the rank did not sleep."},
    {print_ranks, CPU_S, "kolo_cpu_seconds_total", "counter",
     "User and system time of the rank's process, which may be in several communicators."},
    {print_tables, ROWS, "kolo_table_rows", "gauge", "Rows of the table."},
    {print_tables, MEMORY_BYTES, "kolo_table_memory_bytes", "gauge", "Memory that the ranks of this machine share."},
    {print_tables, STALENESS, "kolo_table_staleness_clocks", "gauge", "The staleness bound, unless asynchronous."},
    {print_tables, WAITING, "kolo_table_waiting_workers", "gauge", "Workers that wait for the slowest one."},
    {print_table_ranks, PULLED, "kolo_table_pulled_total", "counter", "Pieces of rows that the rank pulled."},
    {print_table_ranks, PUSHED, "kolo_table_pushed_total", "counter", "Pieces of rows that the rank pushed."},
    {print_table_ranks, APPLIED, "kolo_table_applied_total", "counter", "Pieces whose updates the rank applied."},
    {print_table_ranks, CLOCKS, "kolo_table_clocks_total", "counter", "Clocks that the worker has ended."},
    {print_table_ranks, TABLE_WAITED_S, "kolo_table_waited_seconds_total", "counter",
     "Time in waits for other workers that are over."},
    {print_table_ranks, TABLE_WAITS_S, "kolo_table_wait_seconds", "gauge",
     "Time in the present wait; 0: the worker does not wait."},
};

void top_report_prometheus(FILE *to, const top_sample *sample) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const family *of = &families[i];
        fprintf(to, "# HELP %s %s\n# TYPE %s %s\n", of->name, of->help, of->name, of->type);
        for (int comm = 0; comm < sample->count; comm++)
            if (!sample->comms[comm].seen.over)
                of->print(to, of, sample, &sample->comms[comm]);
    }
}
