#include "top_sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "messages.h"

#define NS             1e-9
#define AWAITED_MIN    0.01 /* a share of the interval below which nobody is called a straggler */
#define WAITS_FOLLOWED 64   /* of a chain of ranks that wait for one another */

static bool is_stopped(const kolo_watched_rank *seen) {
    return seen->process == 'T' || seen->process == 't';
}

const char *top_rank_state(const top_rank *rank) {
    const kolo_watched_rank *seen = &rank->seen;
    if (seen->left)
        return "left";
    if (seen->process == '\0')
        return "ended";
    if (is_stopped(seen))
        return "stopped";
    if (seen->waits_for >= 0)
        return "waiting";
    return seen->calls > seen->calls_ended ? "in call" : "between calls";
}

const kolo_watched_call *top_rank_call(const top_rank *rank) {
    const kolo_watched_call *last = rank->last_calls_count ? &rank->last_calls[rank->last_calls_count - 1] : NULL;
    return last && last->number == rank->seen.calls && last->collective != KOLO_COLLECTIVES ? last : NULL;
}

/* How much of `from` .. `to` lies in the interval that ends at `now` and has `interval_s`. */
static double overlap_s(int64_t from, int64_t to, int64_t now, double interval_s) {
    const double begin = ((double)from - (double)now) * NS, end = ((double)to - (double)now) * NS;
    const double first = begin > -interval_s ? begin : -interval_s, last = end < 0 ? end : 0;
    return last > first ? last - first : 0;
}

/* The rank for which `rank` still waits; -1: none. Its wait is over, and it has just not run since, if it is stopped,
 * or if the other has got further than itself, or has come to wait for it in its turn. */
static int still_waits_for(const top_comm *comm, int rank) {
    const kolo_watched_rank *seen = &comm->ranks[rank].seen;
    if (seen->waits_for < 0 || is_stopped(seen))
        return -1;
    const kolo_watched_rank *peer = &comm->ranks[seen->waits_for].seen;
    const bool further = peer->calls > seen->calls || (peer->calls == seen->calls && peer->steps > seen->steps);
    const bool in_turn = peer->waits_for == rank && peer->waits_since_ns > seen->waits_since_ns;
    return further || in_turn ? -1 : seen->waits_for;
}

/* Whom `rank` waits for in the end, where that one waits itself; -1: for nobody. */
static int end_of_chain(const top_comm *comm, int rank) {
    const int direct = still_waits_for(comm, rank);
    int at = direct;
    for (int i = 0; i < WAITS_FOLLOWED && at >= 0 && still_waits_for(comm, at) >= 0; i++)
        at = still_waits_for(comm, at);
    return at == rank ? direct : at;
}

/* Adds to `waited`, one a rank, what `rank` waited for it in the interval. */
static void add_waits(const top_comm *comm, int rank, double *waited) {
    const kolo_watched_rank *seen = &comm->ranks[rank].seen;
    const int64_t now = comm->seen.read_ns;
    for (int i = 0; i < comm->ranks[rank].last_calls_count; i++) {
        const kolo_watched_call *call = &comm->ranks[rank].last_calls[i];
        if (call->waited_for < 0 || call->began_ns == 0)
            continue;
        const int64_t end = call->ended_ns ? call->ended_ns : now;
        const double most = overlap_s(call->began_ns, end, now, comm->interval_s);
        const double length = (double)call->waited_ns * NS;
        waited[call->waited_for] += length < most ? length : most;
    }
    const int peer = end_of_chain(comm, rank);
    if (peer >= 0)
        waited[peer] += overlap_s(seen->waits_since_ns, now, now, comm->interval_s);
}

/* Who waited for whom, and who kept the others waiting most. */
static void find_straggler(top_comm *comm, double *waited) {
    const int ranks = comm->seen.ranks;
    for (int rank = 0; rank < ranks; rank++) {
        for (int peer = 0; peer < ranks; peer++)
            waited[peer] = 0;
        add_waits(comm, rank, waited);
        double most = 0;
        for (int peer = 0; peer < ranks; peer++) {
            if (peer == rank)
                continue;
            comm->ranks[rank].waited_known_s += waited[peer];
            comm->ranks[peer].awaited_share += waited[peer] / comm->interval_s;
            if (waited[peer] > most) {
                most = waited[peer];
                comm->ranks[rank].waited_most_for = peer;
            }
        }
    }
    double worst = 0;
    for (int rank = 0; rank < ranks; rank++) {
        const top_rank *candidate = &comm->ranks[rank];
        const double excess = candidate->awaited_share - candidate->waited_known_s / comm->interval_s;
        if (candidate->awaited_share >= AWAITED_MIN && excess > worst) {
            worst = excess;
            comm->straggler = rank;
        }
    }
}

static double waited_ns(const kolo_watched_rank *seen, int64_t now) {
    return (double)seen->waited_ns + (seen->waits_for >= 0 ? (double)(now - seen->waits_since_ns) : 0);
}

/* Of all threads of a process. */
static double cpu_s(const kolo_watched_rank *seen) {
    clockid_t clock;
    struct timespec used;
    if (seen->process == '\0' || clock_getcpuclockid(seen->pid, &clock) != 0 || clock_gettime(clock, &used) < 0)
        return -1;
    return (double)used.tv_sec + (double)used.tv_nsec * NS;
}

double top_rate(uint64_t now, uint64_t before, double interval_s) {
    return now > before ? (double)(now - before) / interval_s : 0;
}

static void compare(top_comm *comm, const top_comm *before) {
    comm->interval_s = (double)(comm->seen.read_ns - before->seen.read_ns) * NS;
    for (int i = 0; i < comm->seen.ranks && comm->interval_s > 0; i++) {
        top_rank *rank = &comm->ranks[i];
        const kolo_watched_rank *now = &rank->seen, *then = &before->ranks[i].seen;
        rank->calls_per_s = top_rate(now->calls_ended, then->calls_ended, comm->interval_s);
        rank->bytes_per_s = top_rate(now->payload_bytes, then->payload_bytes, comm->interval_s);
        const double waited = waited_ns(now, comm->seen.read_ns) - waited_ns(then, before->seen.read_ns);
        const double share = waited * NS / comm->interval_s;
        rank->waiting_share = share < 0 ? 0 : share > 1 ? 1 : share;
        if (rank->cpu_s >= before->ranks[i].cpu_s && before->ranks[i].cpu_s >= 0 && now->pid == then->pid)
            rank->cpu_share = (rank->cpu_s - before->ranks[i].cpu_s) / comm->interval_s;
        const double most = rank->cpu_share >= 0 && rank->cpu_share < 1 ? rank->cpu_share : 1; /* others may have run */
        const double spun = top_rate(now->spun_ns, then->spun_ns, comm->interval_s) * NS;
        rank->spinning_share = spun < most ? spun : most;
    }
}

static const top_comm *find_before(const top_sample *before, const kolo_watched_comm *seen) {
    for (int i = 0; i < before->count; i++)
        if (before->comms[i].seen.file == seen->file && before->comms[i].seen.offset == seen->offset &&
            before->comms[i].seen.ranks == seen->ranks)
            return &before->comms[i];
    return NULL;
}

static void take_last_calls(top_rank *rank, const kolo_watch *watch, int comm, int index) {
    const uint64_t calls = rank->seen.calls;
    for (uint64_t back = calls < KOLO_WATCH_CALLS ? calls : KOLO_WATCH_CALLS; back-- > 0;) {
        kolo_watched_call *call = &rank->last_calls[rank->last_calls_count];
        *call = (kolo_watched_call){.call_bytes = sizeof *call};
        if (kolo_watch_call(watch, comm, index, calls - back, call) == 0)
            rank->last_calls_count++;
    }
}

static bool take_comm(top_comm *comm, kolo_watch *watch, int index, const top_sample *before) {
    *comm = (top_comm){.seen.comm_bytes = sizeof comm->seen, .straggler = -1};
    if (kolo_watch_read(watch, index, &comm->seen) < 0)
        return false;
    comm->ranks = calloc((size_t)comm->seen.ranks, sizeof *comm->ranks);
    double *waited = calloc((size_t)comm->seen.ranks, sizeof *waited);
    bool good = comm->ranks && waited;
    for (int i = 0; good && i < comm->seen.ranks; i++) {
        top_rank *rank = &comm->ranks[i];
        rank->seen.rank_bytes = sizeof rank->seen;
        rank->waited_most_for = -1;
        good = kolo_watch_rank(watch, index, i, &rank->seen) == 0;
        if (good)
            take_last_calls(rank, watch, index, i);
        rank->cpu_s = cpu_s(&rank->seen);
        rank->cpu_share = -1;
    }
    const top_comm *then = find_before(before, &comm->seen);
    if (good && then)
        compare(comm, then);
    if (good && comm->interval_s > 0)
        find_straggler(comm, waited);
    free(waited);
    return good;
}

int top_watch_search(top_watch *watched) {
    watched->comms = kolo_watch_search(watched->watch, &watched->tables);
    return watched->comms;
}

int top_watch_open(top_watch *watched, const char *target) {
    int status = kolo_watch_open(&watched->watch, target);
    if (status == KOLO_OK && (status = top_watch_search(watched)) < 0)
        kolo_watch_close(watched->watch);
    return status;
}

bool top_sample_take(top_sample *sample, const top_watch *watched, const top_sample *before) {
    const int count = watched->comms;
    *sample = (top_sample){.comms = calloc((size_t)count + 1, sizeof *sample->comms)};
    bool good = sample->comms != NULL;
    while (good && sample->count < count) {
        const int index = sample->count++; /* counted as soon as there may be something to free */
        good = take_comm(&sample->comms[index], watched->watch, index, before);
    }
    good = good && top_tables_take(sample, watched, before);
    if (!good)
        message_print("out of memory");
    return good;
}

void top_sample_free(top_sample *sample) {
    for (int i = 0; i < sample->count; i++)
        free(sample->comms[i].ranks);
    free(sample->comms);
    top_tables_free(sample);
    *sample = (top_sample){0};
}

bool top_sample_over(const top_sample *sample) {
    for (int i = 0; i < sample->count; i++)
        if (!sample->comms[i].seen.over)
            return false;
    return true;
}
