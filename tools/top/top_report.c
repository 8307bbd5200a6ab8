#include "top_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kolo_tools.h"
#include "kolo_watch.h"
#include "messages.h"
#include "top_sample.h"

#define NS 1e-9

enum { COLUMNS = 80 }; /* of a terminal, at least */

static bool coloured;

void top_report_set_colour(bool on) {
    coloured = on;
}

const char *top_tint_begin(top_tint as) {
    static const char *const codes[] = {
        [TOP_PLAIN] = "", [TOP_BOLD] = "\033[1m", [TOP_RED] = "\033[31m", [TOP_YELLOW] = "\033[1;33m"};
    return coloured ? codes[as] : "";
}

const char *top_tint_end(top_tint as) {
    return coloured && as != TOP_PLAIN ? "\033[0m" : "";
}

quantity_text top_number_text(bool known, double number, int decimals) {
    quantity_text json = {"null"};
    if (known)
        snprintf(json.text, sizeof json.text, "%.*f", decimals, number);
    return json;
}

quantity_text top_rate_text(double rate, const char *unit) {
    static const char *const prefixes[] = {"", "k", "M", "G", "T"};
    quantity_text quantity;
    size_t prefix = 0;
    for (; rate >= 999.5 && prefix + 1 < sizeof prefixes / sizeof *prefixes; prefix++)
        rate /= 1000;
    snprintf(quantity.text, sizeof quantity.text, rate >= 99.95 || rate == 0 ? "%.0f%s%s" : "%.1f%s%s", rate,
             prefixes[prefix], unit);
    return quantity;
}

quantity_text top_count_text(uint64_t count) {
    return count >= 1000000 ? top_rate_text((double)count, "") : top_number_text(true, (double)count, 0);
}

static bool is_in_call(const top_rank *rank) {
    return rank->seen.calls > rank->seen.calls_ended;
}

static bool counts_bytes(kolo_collective collective) {
    return collective == KOLO_ALLOC || collective == KOLO_SHARE || collective == KOLO_TABLE;
}

/* "#17 allreduce 1024 f32 sum" */
static const char *format_call(char *text, size_t text_bytes, const top_rank *rank) {
    const kolo_watched_call *call = top_rank_call(rank);
    if (rank->seen.calls == 0)
        return "none yet";
    if (!call) {
        snprintf(text, text_bytes, "#%" PRIu64 " ?", rank->seen.calls);
        return text;
    }
    const char *name = kolo_name(KOLO_NAME_COLLECTIVE, call->collective);
    const bool has_op = kolo_collective_has(call->collective) & KOLO_HAS_OP;
    char root[16] = "", count[40] = "";
    if (kolo_collective_has(call->collective) & KOLO_HAS_ROOT)
        snprintf(root, sizeof root, " root %d", call->root);
    if (!(kolo_collective_has(call->collective) & KOLO_HAS_COUNTS))
        snprintf(count, sizeof count, " %s", top_count_text(call->count).text);
    if (call->collective == KOLO_BARRIER || (call->collective == KOLO_TABLE && call->count == 0))
        snprintf(text, text_bytes, "#%" PRIu64 " %s", call->number, name);
    else
        snprintf(text, text_bytes, "#%" PRIu64 " %s%s %s%s%s%s", call->number, name, count,
                 counts_bytes(call->collective) ? "bytes" : kolo_name(KOLO_NAME_DTYPE, call->dtype), has_op ? " " : "",
                 has_op ? kolo_name(KOLO_NAME_OP, call->op) : "", root);
    return text;
}

static const char *comm_state(const top_comm *comm) {
    return comm->seen.over ? "ended" : comm->seen.failure ? "broken" : "running";
}

static void print_heading(const top_comm *comm) {
    const kolo_watched_comm *seen = &comm->seen;
    const top_tint state_tint = seen->failure || seen->over ? TOP_RED : TOP_PLAIN;
    fputs(top_tint_begin(TOP_BOLD), stdout);
    if (seen->job[0])
        printf("job %.32s", seen->job);
    else
        printf("communicator %" PRIu64 "+%" PRIu64, seen->file, seen->offset);
    printf("%s: %d ranks, %s%s%s, segment of %s\n", top_tint_end(TOP_BOLD), seen->ranks, top_tint_begin(state_tint),
           comm_state(comm), top_tint_end(state_tint), bytes_text(seen->segment_bytes).text);
    if (seen->failure)
        printf("  %s%s, rank %d; found by rank %d%s\n", top_tint_begin(TOP_RED), kolo_strerror(seen->failure),
               seen->failure_rank, seen->failure_reporter, top_tint_end(TOP_RED));
}

static top_tint rank_tint(const top_comm *comm, int index) {
    const char process = comm->ranks[index].seen.process;
    if (process == '\0' || process == 'T' || process == 't')
        return TOP_RED;
    return index == comm->straggler ? TOP_YELLOW : TOP_PLAIN;
}

static void print_rank(const top_comm *comm, int index) {
    const top_rank *rank = &comm->ranks[index];
    const top_tint as = rank_tint(comm, index);
    char line[128], call[128], peer[24] = "-", cpu[24] = "-";
    const int waits_for = rank->seen.waits_for >= 0 ? rank->seen.waits_for : rank->waited_most_for;
    if (waits_for >= 0)
        snprintf(peer, sizeof peer, "%d", waits_for);
    if (rank->cpu_share >= 0)
        snprintf(cpu, sizeof cpu, "%.0f%%", 100 * rank->cpu_share);
    const int columns = snprintf(line, sizeof line, "%c%4d %7d %-7.7s %6s %5s %3.0f%% %4s %3.0f%% %3s ",
                                 index == comm->straggler ? '*' : ' ', index, rank->seen.pid, top_rank_state(rank),
                                 top_rate_text(rank->calls_per_s, "").text, top_rate_text(rank->bytes_per_s, "").text,
                                 100 * rank->waiting_share, cpu, 100 * rank->spinning_share, peer);
    printf("%s%s%.*s%s\n", top_tint_begin(as), line, COLUMNS - columns, format_call(call, sizeof call, rank),
           top_tint_end(as));
}

void top_report_table(const top_sample *sample) {
    for (int i = 0; i < sample->count; i++) {
        const top_comm *comm = &sample->comms[i];
        print_heading(comm);
        printf(" %4s %7s %-7s %6s %5s %4s %4s %4s %3s %s\n", "rank", "pid", "state", "call/s", "algbw", "wait", "cpu",
               "spin", "for", "call");
        for (int rank = 0; rank < comm->seen.ranks; rank++)
            print_rank(comm, rank);
        top_tables_print(sample, comm);
    }
}

/* JSON. Names that come from a segment were checked when it was found: letters, digits, '.', '_' and '-'. */

quantity_text top_process_text(char process) {
    quantity_text json = {"null"};
    if (process > ' ' && process < 0x7f && !strchr("\"\\", process))
        snprintf(json.text, sizeof json.text, "\"%c\"", process);
    return json;
}

static quantity_text rank_text(int rank) {
    return top_number_text(rank >= 0, rank, 0);
}

/* Leaves the object open. */
static void begin_call_json(FILE *to, const kolo_watched_call *call) {
    json_pairs_print(to, "{number=%" PRIu64 " collective=\"%s\" count=%" PRIu64 " dtype=\"%s\" op=", call->number,
                     kolo_name(KOLO_NAME_COLLECTIVE, call->collective), call->count,
                     kolo_name(KOLO_NAME_DTYPE, call->dtype));
    json_text_print(to, kolo_name(KOLO_NAME_OP, call->op));
    json_pairs_print(to, " root=%d ", call->root);
}

static void print_call_json(FILE *to, const top_comm *comm, const top_rank *rank) {
    const kolo_watched_call *call = top_rank_call(rank);
    if (!call) {
        fprintf(to, "\"call\": null, ");
        return;
    }
    const double for_s = ((double)comm->seen.read_ns - (double)call->began_ns) * NS;
    fprintf(to, "\"call\": ");
    begin_call_json(to, call);
    json_pairs_print(to, "for_s=%s} ", top_number_text(is_in_call(rank) && call->began_ns, for_s, 6).text);
}

/* Those of which it is known what they are, from the oldest on. */
static void print_last_calls_json(FILE *to, const top_rank *rank) {
    const char *separator = "";
    fprintf(to, ", \"last_calls\": [");
    for (int i = 0; i < rank->last_calls_count; i++) {
        const kolo_watched_call *call = &rank->last_calls[i];
        if (call->collective == KOLO_COLLECTIVES)
            continue;
        fputs(separator, to);
        separator = ", ";
        begin_call_json(to, call);
        json_pairs_print(to, "began_s=%s ended_s=%s waited_for=%s waited_s=%.9f}",
                         top_number_text(call->began_ns != 0, (double)call->began_ns * NS, 9).text,
                         top_number_text(call->ended_ns != 0, (double)call->ended_ns * NS, 9).text,
                         rank_text(call->waited_for).text, (double)call->waited_ns * NS);
    }
    putc(']', to);
}

static void print_collectives_json(FILE *to, const kolo_watched_rank *seen) {
    const char *separator = "";
    fprintf(to, "\"collectives\": [");
    for (int i = 0; i < KOLO_COLLECTIVES; i++) {
        if (seen->calls_by_collective[i] == 0)
            continue;
        fputs(separator, to);
        json_pairs_print(to, "{collective=\"%s\" calls=%" PRIu64 " payload_bytes=%" PRIu64 "}",
                         kolo_name(KOLO_NAME_COLLECTIVE, i), seen->calls_by_collective[i],
                         seen->payload_by_collective[i]);
        separator = ", ";
    }
    fprintf(to, "], ");
}

static void print_rank_json(FILE *to, const top_comm *comm, int index, bool with_last_calls) {
    const top_rank *rank = &comm->ranks[index];
    const kolo_watched_rank *seen = &rank->seen;
    fputs(index ? ", " : "", to);
    json_pairs_print(to, "{rank=%d pid=%d process=%s state=", index, seen->pid, top_process_text(seen->process).text);
    json_text_print(to, top_rank_state(rank));
    json_pairs_print(to, " calls=%" PRIu64 " calls_ended=%" PRIu64 " steps=%" PRIu64 " ", seen->calls,
                     seen->calls_ended, seen->steps);
    print_call_json(to, comm, rank);
    print_collectives_json(to, seen);
    json_pairs_print(
        to,
        "calls_per_s=%.3f bytes_per_s=%.0f payload_bytes=%" PRIu64 " sent_bytes=%" PRIu64 " received_bytes=%" PRIu64
        " waited_s=%.6f waiting_share=%.4f waits_for=%s waits_s=%s waited_most_for=%s"
        " awaited_share=%.4f cpu_s=%s cpu_share=%s spun_s=%.6f spinning_share=%.4f",
        rank->calls_per_s, rank->bytes_per_s, seen->payload_bytes, seen->sent_bytes, seen->received_bytes,
        (double)seen->waited_ns * NS, rank->waiting_share, rank_text(seen->waits_for).text,
        top_number_text(seen->waits_for >= 0, (double)(comm->seen.read_ns - seen->waits_since_ns) * NS, 6).text,
        rank_text(rank->waited_most_for).text, rank->awaited_share,
        top_number_text(rank->cpu_s >= 0, rank->cpu_s, 6).text,
        top_number_text(rank->cpu_share >= 0, rank->cpu_share, 4).text, (double)seen->spun_ns * NS,
        rank->spinning_share);
    if (with_last_calls)
        print_last_calls_json(to, rank);
    putc('}', to);
}

static void print_comm_json(FILE *to, const top_sample *sample, const top_comm *comm, bool with_last_calls) {
    const kolo_watched_comm *seen = &comm->seen;
    json_pairs_print(to,
                     "{job=\"%s\" file=%" PRIu64 " offset=%" PRIu64 " segment_bytes=%" PRIu64
                     " state=\"%s\" age_s=%s read_s=%.9f failure=",
                     seen->job, seen->file, seen->offset, seen->segment_bytes, comm_state(comm),
                     top_number_text(seen->age_s >= 0, seen->age_s, 2).text, (double)seen->read_ns * NS);
    if (seen->failure)
        fprintf(to, "{\"status\": \"%s\", \"rank\": %d, \"reporter\": %d}, ", kolo_strerror(seen->failure),
                seen->failure_rank, seen->failure_reporter);
    else
        fprintf(to, "null, ");
    json_pairs_print(to, "straggler=%s ranks=[", rank_text(comm->straggler).text);
    for (int rank = 0; rank < seen->ranks; rank++)
        print_rank_json(to, comm, rank, with_last_calls);
    fprintf(to, "], ");
    top_tables_print_json(to, sample, comm);
    putc('}', to);
}

void top_report_json(FILE *to, const top_sample *sample, bool with_last_calls) {
    json_pairs_print(to, "{interval_s=%.6f communicators=[", sample->count ? sample->comms[0].interval_s : 0.0);
    for (int i = 0; i < sample->count; i++) {
        if (i)
            fprintf(to, ", ");
        print_comm_json(to, sample, &sample->comms[i], with_last_calls);
    }
    fprintf(to, "]}\n");
}

/* Communicators of one name that have a process in common. */
typedef struct job {
    const char *name;
    const top_comm *largest;
    double age_s;
    int communicators;
    int broken;
    bool stopped; /* one of its processes is */
} job;

static bool have_a_process_in_common(const top_comm *a, const top_comm *b) {
    bool found = false;
    for (int i = 0; i < a->seen.ranks; i++)
        for (int j = 0; j < b->seen.ranks; j++)
            found |= a->ranks[i].seen.pid == b->ranks[j].seen.pid;
    return found;
}

static bool is_stopped(const top_comm *comm) {
    for (int rank = 0; rank < comm->seen.ranks; rank++)
        if (strcmp(top_rank_state(&comm->ranks[rank]), "stopped") == 0)
            return true;
    return false;
}

static void add(job *jobs, int *count, const top_comm *comm) {
    int index = 0;
    while (index < *count &&
           (strcmp(jobs[index].name, comm->seen.job) != 0 || !have_a_process_in_common(jobs[index].largest, comm)))
        index++;
    if (index == *count)
        jobs[(*count)++] = (job){.name = comm->seen.job, .largest = comm};
    job *of = &jobs[index];
    if (comm->seen.ranks > of->largest->seen.ranks)
        of->largest = comm;
    if (comm->seen.age_s > of->age_s)
        of->age_s = comm->seen.age_s;
    of->communicators++;
    of->broken += comm->seen.failure != 0;
    of->stopped |= is_stopped(comm);
}

static const char *state_of(const job *of) {
    return of->broken == of->communicators ? "broken" : of->stopped ? "stopped" : "running";
}

static int pid_of(const job *of) {
    return of->largest->ranks[0].seen.pid;
}

static void print_table(const job *jobs, int count) {
    if (count == 0) {
        puts("no kolo jobs of this user are running");
        return;
    }
    printf("%-36s  %8s  %5s  %-8s  %8s\n", "job", "pid", "ranks", "state", "age");
    for (int i = 0; i < count; i++)
        printf("%-36.43s  %8d  %5d  %-8s  %8s\n", jobs[i].name[0] ? jobs[i].name : "-", pid_of(&jobs[i]),
               jobs[i].largest->seen.ranks, state_of(&jobs[i]), age_text((int64_t)jobs[i].age_s).text);
}

/* Names were checked when they were found: letters, digits, '.', '_' and '-'. */
static void print_json(const job *jobs, int count) {
    printf("{\"jobs\": [");
    for (int i = 0; i < count; i++)
        json_pairs_print(stdout, "%s{job=\"%s\" pid=%d ranks=%d communicators=%d state=\"%s\" age_s=%.2f}",
                         i ? " " : "", jobs[i].name, pid_of(&jobs[i]), jobs[i].largest->seen.ranks,
                         jobs[i].communicators, state_of(&jobs[i]), jobs[i].age_s);
    puts("]}");
}

int top_list_print(bool json) {
    top_watch watched;
    if (top_watch_open(&watched, NULL) < 0) {
        message_print("%s", kolo_error_message());
        return EXIT_FAILURE;
    }
    const top_sample none = {0};
    top_sample sample;
    bool good = top_sample_take(&sample, &watched, &none);
    job *jobs = calloc((size_t)sample.count + 1, sizeof *jobs);
    int count = 0;
    for (int i = 0; good && jobs && i < sample.count; i++)
        if (!sample.comms[i].seen.over)
            add(jobs, &count, &sample.comms[i]);
    if (good && jobs && json)
        print_json(jobs, count);
    else if (good && jobs)
        print_table(jobs, count);
    good = good && jobs && message_unless_written() == 0;
    free(jobs);
    top_sample_free(&sample);
    kolo_watch_close(watched.watch);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
