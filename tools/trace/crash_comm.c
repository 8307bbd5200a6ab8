/* What the records of a communicator say together. */
#include <stdlib.h>
#include <string.h>

#include "crash_job.h"

void crash_comm_begin(crash_comm *comm, const crash_record *records, int count) {
    memset(comm, 0, sizeof *comm);
    comm->records = records;
    comm->record_count = count;
    comm->ranks = (int)records->ranks;
    for (int rank = 0; rank < CRASH_RANKS_MAX; rank++)
        comm->stands[rank].is = (crash_rank){.rank = rank, .waits_for = CRASH_NOBODY};
    for (int i = 0; i < count; i++) {
        comm->stands[records[i].rank].has_record = true;
        comm->stands[records[i].rank].is.pid = records[i].pid;
    }
}

/* Whether a record knows more of a rank's calls, or for whom it waited in the last, than is known so far. */
static bool is_newer(const crash_stand *stand, const crash_rank *rank) {
    if (!stand->is_known || rank->calls != stand->is.calls)
        return !stand->is_known || rank->calls > stand->is.calls;
    if (rank->ended != stand->is.ended)
        return rank->ended > stand->is.ended;
    return stand->is.waits_for == CRASH_NOBODY && rank->waits_for != CRASH_NOBODY;
}

bool crash_comm_add(crash_comm *comm, const crash_record *record) {
    for (int i = 0; i < record->here_count; i++) {
        const crash_rank *rank = &record->here[i];
        crash_stand *stand = &comm->stands[rank->rank];
        stand->state = rank->state > stand->state ? rank->state : stand->state;
        if (record->lane != comm->records->lane) /* another lane makes other calls */
            continue;
        if (rank->rank != record->rank && (stand->has_record || !is_newer(stand, rank)) && stand->is_known)
            continue;
        crash_call *calls = malloc((size_t)rank->count * sizeof *calls + 1);
        if (!calls)
            return false;
        memcpy(calls, rank->count ? record->calls + rank->first : calls, (size_t)rank->count * sizeof *calls);
        free(stand->calls);
        stand->calls = calls;
        stand->is.pid = rank->pid;
        stand->is.calls = rank->calls;
        stand->is.ended = rank->ended;
        stand->is.count = rank->count;
        stand->is.waits_for = rank->waits_for;
        stand->waited_ns = rank->waits_since_ns < record->now_ns ? record->now_ns - rank->waits_since_ns : 0;
        stand->is_known = true;
    }
    return true;
}

void crash_comm_free(crash_comm *comm) {
    for (int rank = 0; rank < comm->ranks; rank++)
        free(comm->stands[rank].calls);
}

const crash_call *crash_call_of(const crash_stand *stand, uint64_t number) {
    for (int i = 0; i < stand->is.count; i++)
        if (stand->calls[i].number == number)
            return &stand->calls[i];
    return NULL;
}

bool crash_calls_differ(const crash_call *a, const crash_call *b) {
    return a->digest != b->digest || strcmp(a->text, b->text) != 0;
}

bool crash_is_missing(const crash_stand *stand) {
    return !stand->has_record || stand->state == CRASH_STOPPED;
}

static int by_number(const void *left, const void *right) {
    const crash_call *a = *(const crash_call *const *)left, *b = *(const crash_call *const *)right;
    return a->number != b->number ? (a->number < b->number ? -1 : 1) : 0;
}

bool crash_difference_find(crash_difference *difference, const crash_comm *comm) {
    size_t count = 0, used = 0;
    *difference = (crash_difference){0};
    for (int rank = 0; rank < comm->ranks; rank++)
        count += (size_t)comm->stands[rank].is.count;
    const crash_call **calls = malloc((count + 1) * sizeof *calls);
    if (!calls)
        return false;
    for (int rank = 0; rank < comm->ranks; rank++)
        for (int i = 0; i < comm->stands[rank].is.count; i++)
            calls[used++] = &comm->stands[rank].calls[i];
    qsort(calls, count, sizeof *calls, by_number);
    for (size_t i = 0, next; i < count && !difference->number; i = next) {
        for (next = i + 1; next < count && calls[next]->number == calls[i]->number; next++)
            if (crash_calls_differ(calls[i], calls[next]))
                difference->number = calls[i]->number;
        if (next == i + 1)
            continue;
        difference->from = difference->from ? difference->from : calls[i]->number;
        difference->to = calls[i]->number;
        difference->same_count += difference->number == 0;
    }
    free(calls);
    return true;
}
