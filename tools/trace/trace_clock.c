/* Ticks of a processor's counter to ns: by interpolation between pairs of both that were read together. */
#include <stdlib.h>

#include "trace_read.h"

/* A pair is off by up to some 100 ns, as reading takes time. A rate needs pairs that lie far enough apart. */
#define APART_NS     1000000
#define GUESS_NS_MIN 10000
#define LIMIT_NS     ((int64_t)1 << 62)

static int by_ticks(const void *left, const void *right) {
    const trace_clock_pair *a = left, *b = right;
    return (a->ticks > b->ticks) - (a->ticks < b->ticks);
}

static double rate(const trace_clock_pair *from, const trace_clock_pair *to) {
    return (double)(to->ns - from->ns) / (double)(to->ticks - from->ticks);
}

bool trace_clock_set(trace_clock *clock, trace_clock_pair *pairs, size_t count, double ns_per_tick) {
    qsort(pairs, count, sizeof *pairs, by_ticks);
    size_t kept = 1;
    const trace_clock_pair last = pairs[count - 1];
    for (size_t i = 1; i < count; i++)
        if (pairs[i].ticks > pairs[kept - 1].ticks && pairs[i].ns - pairs[kept - 1].ns >= APART_NS)
            pairs[kept++] = pairs[i];
    *clock = (trace_clock){.pairs = pairs, .count = kept, .ns_per_tick = ns_per_tick};
    if (kept > 1) {
        clock->ns_per_tick = rate(&pairs[kept - 2], &pairs[kept - 1]);
        return true;
    }
    if (ns_per_tick <= 0 && last.ticks > pairs[0].ticks && last.ns - pairs[0].ns >= GUESS_NS_MIN)
        clock->ns_per_tick = rate(&pairs[0], &last);
    else if (ns_per_tick <= 0)
        clock->ns_per_tick = 1;
    return false;
}

static int64_t limited(double ns) {
    if (!(ns > -(double)LIMIT_NS)) /* also where it is no number */
        return -LIMIT_NS;
    return ns < (double)LIMIT_NS ? (int64_t)ns : LIMIT_NS;
}

/* From a pair on, at a rate. */
static int64_t ns_from(const trace_clock_pair *pair, uint64_t ticks, double ns_per_tick) {
    const double passed = ticks >= pair->ticks ? (double)(ticks - pair->ticks) : -(double)(pair->ticks - ticks);
    const double ns = passed * ns_per_tick;
    const int64_t whole = limited(ns < 0 ? ns - 0.5 : ns + 0.5);
    return limited((double)pair->ns + (double)whole) == LIMIT_NS ? LIMIT_NS : pair->ns + whole;
}

int64_t trace_clock_ns(trace_clock *clock, uint64_t ticks) {
    const trace_clock_pair *pairs = clock->pairs;
    while (clock->at + 1 < clock->count && pairs[clock->at + 1].ticks <= ticks)
        clock->at++;
    while (clock->at > 0 && pairs[clock->at].ticks > ticks)
        clock->at--;
    const trace_clock_pair *pair = &pairs[clock->at];
    const bool between = ticks >= pair->ticks && clock->at + 1 < clock->count;
    const bool before = ticks < pair->ticks && clock->count > 1;
    return ns_from(pair, ticks, between || before ? rate(pair, pair + 1) : clock->ns_per_tick);
}
