/* Printing tables, below the communicator that they are of. */
#include <inttypes.h>
#include <stdio.h>

#include "kolo.h"
#include "kolo_table.h"
#include "top_report.h"

#define NS 1e-9

static const char *table_state(const kolo_watched_table *seen) {
    return seen->over                         ? "ended"
           : seen->status == KOLO_ERR_VERSION ? "other version"
           : seen->status < 0                 ? "damaged"
                                              : "running";
}

static bool is_worker_there(const top_table_rank *rank) {
    return rank->seen.state == KOLO_WATCHED_TABLE_PRESENT && rank->seen.process && !rank->seen.server;
}

static void print_slowest(const kolo_watched_table *seen) {
    const bool is_behind = seen->slowest_clock < seen->fastest_clock || seen->waiting > 0;
    if (seen->staleness == KOLO_STALENESS_UNBOUNDED)
        printf("  asynchronous; ");
    else
        printf("  staleness %" PRId64 "; ", seen->staleness);
    if (seen->slowest_rank < 0)
        puts("no workers are left");
    else if (!is_behind)
        printf("all workers are at clock %" PRIu64 "\n", seen->slowest_clock);
    else
        printf("%sslowest: rank %d at clock %" PRIu64 ", for which %d wait%s%s\n",
               top_tint_begin(seen->waiting ? TOP_YELLOW : TOP_PLAIN), seen->slowest_rank, seen->slowest_clock,
               seen->waiting, seen->waiting == 1 ? "s" : "", top_tint_end(seen->waiting ? TOP_YELLOW : TOP_PLAIN));
}

static top_tint rank_tint(const top_table *table, int index) {
    const kolo_watched_table_rank *seen = &table->ranks[index].seen;
    const bool has_ended = seen->state == KOLO_WATCHED_TABLE_DEAD || seen->process == '\0';
    if (seen->state != KOLO_WATCHED_TABLE_LEFT && (has_ended || seen->process == 'T' || seen->process == 't'))
        return TOP_RED;
    return index == table->seen.slowest_rank && table->seen.waiting ? TOP_YELLOW : TOP_PLAIN;
}

static void print_rank(const top_table *table, int index) {
    const top_table_rank *rank = &table->ranks[index];
    const kolo_watched_table *seen = &table->seen;
    const top_tint as = rank_tint(table, index);
    const bool is_slowest = index == seen->slowest_rank && seen->slowest_clock < seen->fastest_clock;
    char ahead[40] = "-", peer[24] = "-";
    if (is_worker_there(rank))
        snprintf(ahead, sizeof ahead, "+%s", top_count_text(rank->seen.clock - seen->slowest_clock).text);
    if (rank->seen.waits_for >= 0)
        snprintf(peer, sizeof peer, "%d", rank->seen.waits_for);
    printf("%s%c%4d %8d %-7.7s %8s %7s %7s %8s %9s %4.0f%% %4s%s\n", top_tint_begin(as), is_slowest ? '*' : ' ', index,
           rank->seen.pid, top_table_rank_state(rank), rank->seen.server ? "-" : top_count_text(rank->seen.clock).text,
           ahead, top_rate_text(rank->pulled_per_s, "").text, top_rate_text(rank->pushed_per_s, "").text,
           top_rate_text(rank->applied_per_s, "").text, 100 * rank->waiting_share, peer, top_tint_end(as));
}

static void print_table(const top_table *table) {
    const kolo_watched_table *seen = &table->seen;
    printf("%stable %s%s: ", top_tint_begin(TOP_BOLD), seen->name, top_tint_end(TOP_BOLD));
    if (seen->over)
        puts("ended");
    else if (seen->status == KOLO_ERR_VERSION)
        printf("cannot be read:\n  it is of another version of kolo (layout %u)\n", seen->layout);
    else if (seen->status < 0)
        puts("cannot be read:\n  it is damaged");
    if (seen->over || seen->status < 0)
        return;
    printf("%s rows, %d shards, %s\n", top_count_text(seen->rows).text, seen->shards,
           bytes_text(seen->memory_bytes).text);
    print_slowest(seen);
    printf(" %4s %8s %-7s %8s %7s %7s %8s %9s %5s %4s\n", "rank", "pid", "state", "clock", "ahead", "pulls/s",
           "pushes/s", "applies/s", "wait", "for");
    for (int rank = 0; rank < seen->ranks; rank++)
        print_rank(table, rank);
}

bool top_table_is_of(const top_table *table, const top_comm *comm) {
    return table->seen.file == comm->seen.file && table->seen.offset == comm->seen.offset;
}

void top_tables_print(const top_sample *sample, const top_comm *comm) {
    for (int i = 0; i < sample->tables_count; i++)
        if (top_table_is_of(&sample->tables[i], comm))
            print_table(&sample->tables[i]);
}

static void print_rank_json(FILE *to, const top_table *table, int index) {
    const top_table_rank *rank = &table->ranks[index];
    const kolo_watched_table_rank *seen = &rank->seen;
    const double waits_s = ((double)table->seen.read_ns - (double)seen->waits_since_ns) * NS;
    fputs(index ? ", " : "", to);
    json_pairs_print(to, "{rank=%d pid=%d process=%s state=\"%s\" server=%s clock=%" PRIu64, index, seen->pid,
                     top_process_text(seen->process).text, top_table_rank_state(rank), seen->server ? "true" : "false",
                     seen->clock);
    json_pairs_print(to,
                     " ahead=%s waits_for=%s waits_s=%s pulled=%" PRIu64 " pushed=%" PRIu64 " applied=%" PRIu64
                     " pulled_per_s=%.3f pushed_per_s=%.3f applied_per_s=%.3f waited_s=%.6f waiting_share=%.4f}",
                     top_number_text(is_worker_there(rank), (double)(seen->clock - table->seen.slowest_clock), 0).text,
                     top_number_text(seen->waits_for >= 0, seen->waits_for, 0).text,
                     top_number_text(seen->waits_for >= 0, waits_s, 6).text, seen->pulled, seen->pushed, seen->applied,
                     rank->pulled_per_s, rank->pushed_per_s, rank->applied_per_s, (double)seen->waited_ns * NS,
                     rank->waiting_share);
}

static void print_table_json(FILE *to, const top_table *table) {
    const kolo_watched_table *seen = &table->seen;
    fprintf(to, "{\"name\": ");
    json_text_print(to, seen->name);
    json_pairs_print(to, " file=%" PRIu64 " state=", seen->table_file);
    json_text_print(to, table_state(seen));
    json_pairs_print(to, " layout=%u", seen->layout);
    if (seen->status == 0) {
        json_pairs_print(to,
                         " rows=%" PRIu64 " shards=%d servers=%d memory_bytes=%" PRIu64 " staleness=%s slowest_rank=%s"
                         " slowest_clock=%" PRIu64 " fastest_clock=%" PRIu64 " waiting=%d ranks=[",
                         seen->rows, seen->shards, seen->servers, seen->memory_bytes,
                         top_number_text(seen->staleness != KOLO_STALENESS_UNBOUNDED, (double)seen->staleness, 0).text,
                         top_number_text(seen->slowest_rank >= 0, seen->slowest_rank, 0).text, seen->slowest_clock,
                         seen->fastest_clock, seen->waiting);
        for (int rank = 0; rank < seen->ranks; rank++)
            print_rank_json(to, table, rank);
        putc(']', to);
    }
    putc('}', to);
}

void top_tables_print_json(FILE *to, const top_sample *sample, const top_comm *comm) {
    bool is_first = true;
    fprintf(to, "\"tables\": [");
    for (int i = 0; i < sample->tables_count; i++) {
        if (!top_table_is_of(&sample->tables[i], comm))
            continue;
        if (!is_first)
            fprintf(to, ", ");
        is_first = false;
        print_table_json(to, &sample->tables[i]);
    }
    putc(']', to);
}
