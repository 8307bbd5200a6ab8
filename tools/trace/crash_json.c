/* What the records of a communicator say, as an object of JSON. */
#include <inttypes.h>

#include "crash_job.h"
#include "printed_text.h"

static void put_failures(FILE *to, const crash_comm *comm) {
    for (int i = 0; i < comm->record_count; i++) {
        const crash_record *record = &comm->records[i];
        fputs(i ? ", " : "", to);
        json_pairs_print(to, "{rank=%" PRId64 " status=%" PRId64 " failed_rank=%" PRId64 " message=", record->rank,
                         record->status, record->failed_rank);
        json_text_print(to, record->message);
        fputc('}', to);
    }
}

static void put_stands(FILE *to, const crash_comm *comm) {
    static const char *const states[] = {[CRASH_UNKNOWN] = NULL,
                                         [CRASH_RUNNING] = "running",
                                         [CRASH_LEFT] = "left",
                                         [CRASH_STOPPED] = "stopped",
                                         [CRASH_ENDED] = "ended"};
    for (int rank = 0; rank < comm->ranks; rank++) {
        const crash_stand *stand = &comm->stands[rank];
        const crash_call *call = crash_call_of(stand, stand->is.calls);
        fputs(rank ? ",\n" : "", to);
        json_pairs_print(to, "{rank=%d pid=%" PRId64 " state=", rank, stand->is.pid);
        json_text_print(to, states[stand->state]);
        json_pairs_print(to, " missing=%s begun=%" PRIu64 " ended=%" PRIu64 " last_call=",
                         crash_is_missing(stand) ? "true" : "false", stand->is.calls, stand->is.ended);
        json_text_print(to, call ? call->text : NULL);
        if (stand->is.waits_for == CRASH_NOBODY)
            fputs(", \"waits_for\": null, \"waited_s\": null}", to);
        else
            json_pairs_print(to, " waits_for=%" PRId64 " waited_s=%.9f}", stand->is.waits_for,
                             (double)stand->waited_ns * 1e-9);
    }
}

static void put_difference(FILE *to, const crash_comm *comm, uint64_t number) {
    const char *between = "";
    json_pairs_print(to, "{number=%" PRIu64 " calls=[", number);
    for (int rank = 0; rank < comm->ranks; rank++) {
        const crash_call *call = crash_call_of(&comm->stands[rank], number);
        if (!call)
            continue;
        fputs(between, to);
        json_pairs_print(to, "{rank=%d call=", rank);
        json_text_print(to, call->text);
        json_pairs_print(to, " digest=%" PRIu64 "}", call->digest);
        between = ", ";
    }
    fputs("]}", to);
}

bool crash_comm_write_json(FILE *to, const crash_comm *comm) {
    crash_difference difference;
    if (!crash_difference_find(&difference, comm))
        return false;
    const crash_record *newest = &comm->records[comm->record_count - 1];
    fputs("{\"job\": ", to);
    json_text_print(to, newest->job);
    json_pairs_print(to, " ranks=%d utc_ns=%" PRId64, comm->ranks, newest->utc_ns);
    fputs(",\n\"failures\": [", to);
    put_failures(to, comm);
    fputs("],\n\"stands\": [", to);
    put_stands(to, comm);
    fputs("],\n\"difference\": ", to);
    if (difference.number)
        put_difference(to, comm, difference.number);
    else
        fputs("null", to);
    fputc('}', to);
    return true;
}
