/* What the records of a communicator say, in words. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "crash_job.h"
#include "messages.h"
#include "trace_output.h"

enum {
    TEXT_BYTES = 400,
    LIST_BYTES = 200,
    LINE_BYTES = TEXT_BYTES + LIST_BYTES + 64,
    SAME_SHOWN = 3,
    MESSAGES_SHOWN = 4
};

/* A text for each rank; "": none. */
typedef char stand_texts[CRASH_RANKS_MAX][TEXT_BYTES];

static void print_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void print_line(const char *format, ...) {
    char text[LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    wrapped_text_print(text, 0, 0);
}

static void print_heading(const crash_comm *comm) {
    const crash_record *newest = &comm->records[comm->record_count - 1];
    const time_t seconds = (time_t)(newest->utc_ns / 1000000000);
    char when[32] = "";
    struct tm utc;
    if (gmtime_r(&seconds, &utc))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &utc);
    print_line("%s%s: records of %d of %d ranks, until %s UTC", newest->job[0] ? "job " : "a job without a name",
               newest->job, comm->record_count, comm->ranks, when);
}

/* All ranks say the same of a failure, unless their records are of different ones. */
static void print_messages(const crash_comm *comm) {
    int shown = 0;
    printf("\nWhat failed\n");
    for (int i = 0; i < comm->record_count; i++) {
        bool is_new = true;
        for (int k = 0; k < i && is_new; k++)
            is_new = strcmp(comm->records[k].message, comm->records[i].message) != 0;
        if (!is_new || shown == MESSAGES_SHOWN)
            continue;
        if (shown++ == 0)
            print_line("  %s", comm->records[i].message);
        else
            print_line("  rank %d says: %s", (int)comm->records[i].rank, comm->records[i].message);
    }
}

/* "in call 17, allreduce of 1024 f32, sum". */
static void describe_call(const crash_stand *stand, char text[TEXT_BYTES]) {
    const crash_call *call = crash_call_of(stand, stand->is.calls);
    if (!stand->is_known)
        snprintf(text, TEXT_BYTES, "nothing is known of its calls");
    else if (stand->is.calls == 0)
        snprintf(text, TEXT_BYTES, "it had begun no call");
    else
        snprintf(text, TEXT_BYTES, "%s call %" PRIu64 "%s%s",
                 stand->is.ended < stand->is.calls ? "in" : "in no call, after", stand->is.calls, call ? ", " : "",
                 call ? call->text : "");
}

static void describe_missing(const crash_stand *stand, char text[TEXT_BYTES]) {
    char call[TEXT_BYTES];
    const char *state = stand->state == CRASH_ENDED ? "ended"
                        : stand->state == CRASH_STOPPED
                            ? stand->has_record ? "was stopped, and wrote its record later" : "was stopped"
                        : stand->state == CRASH_LEFT ? "left the communicator"
                        : stand->is_known            ? "wrote no record, but ran when others wrote theirs"
                                                     : "wrote no record, as did all ranks of its machine";
    describe_call(stand, call);
    snprintf(text, TEXT_BYTES, "%s; %.300s", state, call);
}

static void describe_waiting(const crash_stand *stand, char text[TEXT_BYTES]) {
    char call[TEXT_BYTES], peer[32] = "any rank";
    describe_call(stand, call);
    if (stand->is.waits_for >= 0)
        snprintf(peer, sizeof peer, "rank %d", (int)stand->is.waits_for);
    snprintf(text, TEXT_BYTES, "%.300s%s%s", call,
             stand->is.waits_for == CRASH_NOBODY ? "; it waited for nobody" : "; waited for ",
             stand->is.waits_for == CRASH_NOBODY ? "" : peer);
}

/* Prints a line for all ranks with the same text. */
static void print_groups(const crash_comm *comm, const stand_texts *texts, bool with_times) {
    bool done[CRASH_RANKS_MAX] = {false};
    for (int rank = 0; rank < comm->ranks; rank++) {
        bool alike[CRASH_RANKS_MAX] = {false};
        char list[LIST_BYTES], pid[32] = "", time[80] = "";
        int64_t longest_ns = 0;
        if (done[rank] || !(*texts)[rank][0])
            continue;
        for (int other = rank; other < comm->ranks; other++) {
            alike[other] = strcmp((*texts)[other], (*texts)[rank]) == 0;
            done[other] |= alike[other];
            if (alike[other] && comm->stands[other].waited_ns > longest_ns)
                longest_ns = comm->stands[other].waited_ns;
        }
        const bool is_one = message_list_format(list, sizeof list, "rank", alike, comm->ranks, 0) == 1;
        if (is_one && comm->stands[rank].is.pid)
            snprintf(pid, sizeof pid, " (pid %" PRId64 ")", comm->stands[rank].is.pid);
        if (with_times && comm->stands[rank].is.waits_for != CRASH_NOBODY)
            snprintf(time, sizeof time, " since %s%s before %s", is_one ? "" : "up to ",
                     trace_time_text((double)longest_ns).text, is_one ? "its record" : "their records");
        print_line("  %s%s: %s%s", list, pid, (*texts)[rank], time);
    }
}

static void print_missing(const crash_comm *comm, stand_texts *texts) {
    int missing = 0;
    for (int rank = 0; rank < comm->ranks; rank++) {
        (*texts)[rank][0] = '\0';
        if (crash_is_missing(&comm->stands[rank])) {
            describe_missing(&comm->stands[rank], (*texts)[rank]);
            missing++;
        }
    }
    printf("\nWho is missing\n");
    if (missing)
        print_groups(comm, texts, false);
    else
        printf("  nobody: each rank wrote a record\n");
}

static void print_waiting(const crash_comm *comm, stand_texts *texts) {
    int others = 0;
    for (int rank = 0; rank < comm->ranks; rank++) {
        (*texts)[rank][0] = '\0';
        if (!crash_is_missing(&comm->stands[rank])) {
            describe_waiting(&comm->stands[rank], (*texts)[rank]);
            others++;
        }
    }
    if (others)
        printf("\nWhat the others did\n");
    print_groups(comm, texts, true);
}

/* Prints a call of all ranks that have it, with a line for those whose calls are the same. */
static void print_call(const crash_comm *comm, uint64_t number) {
    bool done[CRASH_RANKS_MAX] = {false};
    const char *first = NULL;
    for (int rank = 0; rank < comm->ranks; rank++) {
        bool alike[CRASH_RANKS_MAX] = {false};
        char list[LIST_BYTES];
        const crash_call *call = crash_call_of(&comm->stands[rank], number);
        if (!call || done[rank])
            continue;
        for (int other = rank; other < comm->ranks; other++) {
            const crash_call *theirs = crash_call_of(&comm->stands[other], number);
            alike[other] = theirs && !crash_calls_differ(call, theirs);
            done[other] |= alike[other];
        }
        message_list_format(list, sizeof list, "rank", alike, comm->ranks, 0);
        print_line("  call %" PRIu64 ", %s: %s%s", number, list, call->text,
                   first && strcmp(first, call->text) == 0 ? ", with other arguments" : "");
        first = call->text;
    }
}

static bool print_difference(const crash_comm *comm) {
    crash_difference difference;
    if (!crash_difference_find(&difference, comm))
        return false;
    printf("\nWhere the calls differ\n");
    if (difference.number) {
        const uint64_t same = difference.same_count < SAME_SHOWN ? difference.same_count : SAME_SHOWN;
        for (uint64_t before = same; before > 0 && before < difference.number; before--)
            print_call(comm, difference.number - before);
        print_call(comm, difference.number);
        print_line("  From call %" PRIu64 " on the ranks made different calls%s.", difference.number,
                   same ? "; those before it are the same" : "; none before it is known of two ranks");
    } else if (difference.to)
        print_line("  nowhere: in calls %" PRIu64 " to %" PRIu64 ", as far as two ranks' are known, all made the same",
                   difference.from, difference.to);
    else
        print_line("  that is not known: no two ranks' records have a call of the same number");
    return true;
}

bool crash_comm_print(const crash_comm *comm) {
    stand_texts *texts = malloc(sizeof *texts);
    if (!texts)
        return false;
    print_heading(comm);
    print_messages(comm);
    print_missing(comm, texts);
    print_waiting(comm, texts);
    free(texts);
    return print_difference(comm);
}
