/* The record of a failure: with KOLO_DUMP=DIR, each rank that finds its communicator broken writes a file to that
 * directory, JOB.RANK.PID.N.kolodump with mode 0600: JSON with what failed, and what the last calls of every rank of
 * this machine were. `kolo-trace --crash DIR` tells in words what the ranks' records say together. */
#include "comm/failure/failure.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/file.h"
#include "base/new_file.h"
#include "comm/failure/liveness.h"
#include "comm/step/history.h"

enum {
    WHOLE_RANKS_MAX = 16, /* with more, each rank writes fewer calls of the others, who write their own */
    CALLS_OF_MANY = 8
};

/* Writes `text` as a JSON string. */
static void put_text(FILE *out, const char *text) {
    fputc('"', out);
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else if ((unsigned char)*text < ' ' || (unsigned char)*text > '~')
            fprintf(out, "\\u%04x", (unsigned char)*text);
        else
            fputc(*text, out);
    fputc('"', out);
}

static void put_call(FILE *out, const kolo_comm *comm, const struct kolo_past_call *call, bool has_ended) {
    char text[KOLO_CALL_TEXT_BYTES];
    kolo_call_key_describe(call->key, text);
    fprintf(out, "{\"number\": %" PRIu64 ", \"call\": ", call->number);
    put_text(out, text);
    fprintf(out, ", \"digest\": %" PRIu64, call->key.digest);
    fprintf(out, ", \"ended\": %s", has_ended ? "true" : "false");
    if (call->began_ns)
        fprintf(out, ", \"began_ns\": %" PRId64, call->began_ns);
    if (call->ended_ns)
        fprintf(out, ", \"ended_ns\": %" PRId64, call->ended_ns);
    if (call->waited_for >= 0)
        fprintf(out, ", \"waited_for\": %d, \"waited_ns\": %" PRId64,
                call->waited_for < (int)comm->size ? (int)kolo_rank_global(comm, (uint32_t)call->waited_for) : -1,
                call->waited_ns);
    fputc('}', out);
}

static void put_calls(FILE *out, const kolo_comm *comm, uint32_t rank) {
    const struct kolo_shared_signal *signal = &comm->segment.signals[rank];
    const uint64_t calls = kolo_load_acquire(&signal->calls), ended = kolo_load_acquire(&signal->ended);
    const uint64_t shown = rank == comm->rank || comm->size <= WHOLE_RANKS_MAX ? KOLO_HISTORY : CALLS_OF_MANY;
    struct kolo_past_call call;
    const char *between = "";
    fprintf(out, "\"last_calls\": [");
    for (uint64_t number = calls > shown ? calls - shown + 1 : 1; number <= calls; number++) {
        if (!kolo_history_read(signal, &comm->segment.histories[rank], number, &call))
            continue;
        fprintf(out, "%s\n     ", between);
        put_call(out, comm, &call, number <= ended || call.ended_ns); /* it may just have ended */
        between = ",";
    }
    fprintf(out, "]}");
}

static void put_rank(FILE *out, kolo_comm *comm, uint32_t rank) {
    const struct kolo_shared_signal *signal = &comm->segment.signals[rank];
    const struct kolo_shared_member *member = &comm->segment.members[rank];
    const char *state = kolo_load_acquire(&member->state) == KOLO_MEMBER_DEPARTED ? "left"
                        : kolo_liveness_has_ended(&comm->liveness, rank)          ? "ended"
                        : kolo_liveness_activity(&comm->liveness, rank) == 'T'    ? "stopped"
                                                                                  : "running";
    uint32_t peer;
    int64_t since_ns;
    fprintf(out,
            "   {\"rank\": %u, \"pid\": %u, \"state\": \"%s\", \"calls\": %" PRIu64 ", \"ended\": %" PRIu64
            ", \"steps\": %" PRIu64,
            kolo_rank_global(comm, rank), member->process.pid, state, kolo_load_acquire(&signal->calls),
            kolo_load_acquire(&signal->ended), kolo_load_acquire(&signal->progress));
    if (kolo_history_waits(kolo_load_acquire(&signal->waiting), &peer, &since_ns))
        fprintf(out, ", \"waits_for\": %d, \"waits_since_ns\": %" PRId64,
                peer < comm->size ? (int)kolo_rank_global(comm, peer) : -1, since_ns);
    fprintf(out, ",\n    ");
    put_calls(out, comm, rank);
}

static void put_record(FILE *out, kolo_comm *comm, const kolo_failure *failure) {
    fprintf(out, "{\"format\": 1, \"job\": ");
    put_text(out, comm->origin.title);
    fprintf(out, ", \"communicator\": %" PRIu64, comm->first->identity);
    fprintf(out,
            ", \"rank\": %u, \"ranks\": %u, \"node\": %u, \"lane\": %u, \"pid\": %d,\n \"utc_ns\": %" PRId64
            ", \"now_ns\": %" PRId64 ",\n \"failure\": {\"status\": %d, \"rank\": %d, \"reporter\": %d, \"message\": ",
            comm->global_rank, comm->global_size, comm->node, comm->origin.lane, (int)getpid(), kolo_clock_utc_ns(),
            kolo_clock_ns(), failure->status, failure->rank, failure->reporter);
    put_text(out, failure->message);
    fprintf(out, "},\n \"ranks_here\": [\n");
    for (uint32_t rank = 0; comm->segment.header && rank < comm->size; rank++) {
        fputs(rank ? ",\n" : "", out);
        put_rank(out, comm, rank);
    }
    fprintf(out, "]}\n");
}

static void write_record(const char *directory, const char *text, size_t bytes, kolo_comm *comm) {
    static kolo_atomic_u64 records; /* of this process */
    struct kolo_new_file file;
    char path[PATH_MAX];
    (void)kolo_file_folder(directory, 0700); /* if it fails, so does what follows */
    snprintf(path, sizeof path, "%s/%s.%u.%d.%" PRIu64 ".kolodump", directory,
             comm->origin.title[0] ? comm->origin.title : "kolo", comm->global_rank, (int)getpid(),
             kolo_fetch_add(&records, 1));
    int rc = kolo_new_file_write(&file, path, 0600, text, bytes);
    if (rc == 0)
        rc = kolo_new_file_name(&file);
    if (rc < 0)
        kolo_log(KOLO_LOG_WARN, KOLO_LOG_WARN, (int)comm->global_rank, "no record of the failure is written: %s",
                 file.message);
}

void kolo_failure_record(kolo_comm *comm, const kolo_failure *failure) {
    const char *directory = kolo_environment_text(KOLO_VARIABLE_DUMP);
    char *text = NULL;
    size_t bytes = 0;
    if (!directory || !kolo_compare_and_swap(&comm->first->has_record, 0, 1))
        return;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return;
    put_record(out, comm, failure);
    if (fclose(out) == 0)
        write_record(directory, text, bytes, comm);
    free(text);
}
