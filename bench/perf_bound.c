#include "perf_bound.h"

#include <math.h>
#include <stdint.h>

perf_job perf_job_of(const perf_options *options, int ranks) {
    return (perf_job){
        .ranks = ranks, .in_place = options->in_place, .alloc = options->alloc, .cold = options->buffers == PERF_COLD};
}

double perf_curve_gbps(const perf_curve *curve, int point) {
    return curve->us[point] > 0 ? (double)curve->bytes[point] / curve->us[point] * 1e-3 : 0;
}

/* The most at any point; 0 where there is none. */
static double perf_curve_gbps_max(const perf_curve *curve) {
    double max = 0;
    for (int point = 0; point < curve->points; point++)
        max = fmax(max, perf_curve_gbps(curve, point));
    return max;
}

static double proportion_us(const perf_curve *curve, int point, double bytes) {
    return curve->us[point] * bytes / (double)curve->bytes[point];
}

/* The time at `bytes`: between two points on a straight line between their logarithms, beyond the ends in proportion.
 * 0 for an empty curve. */
static double perf_curve_us(const perf_curve *curve, double bytes) {
    if (curve->points == 0)
        return 0;
    int point = 0;
    while (point < curve->points - 1 && (double)curve->bytes[point + 1] <= bytes)
        point++;
    if (point == curve->points - 1 || bytes <= (double)curve->bytes[point])
        return proportion_us(curve, point, bytes);
    double from = log((double)curve->bytes[point]);
    double to = log((double)curve->bytes[point + 1]);
    double part = (log(bytes) - from) / (to - from);
    return exp((1 - part) * log(curve->us[point]) + part * log(curve->us[point + 1]));
}

static int ranks_per_cpu_max(const perf_job *job, int cpus) {
    return (job->ranks + cpus - 1) / cpus;
}

perf_limits_request perf_bound_request(const perf_job *job, int cpus, size_t bytes_max) {
    perf_limits_request request = {
        .exchange_bytes_max = bytes_max, .stream_bytes_max = SIZE_MAX, .in_place = job->in_place, .cold = job->cold};
    if (job->cold)
        request.pieces |= 1u << PERF_READ;
    else if (bytes_max < SIZE_MAX / (size_t)job->ranks)
        request.stream_bytes_max = bytes_max * (size_t)job->ranks / (size_t)cpus;
    if (job->ranks > 1 && cpus > 1)
        request.pieces |= 1u << PERF_LATENCY | (job->alloc ? 0u : 1u << PERF_SENDRECV);
    if (cpus > 2)
        request.pieces |= 1u << PERF_FETCH;
    if (job->ranks > cpus)
        request.pieces |= 1u << PERF_HANDOVER;
    if (!job->in_place)
        request.pieces |= 1u << PERF_COPY;
    else if (job->ranks > 1)
        request.pieces |= 1u << PERF_UPDATE; /* alone and in place there is nothing to do */
    return request;
}

/* Every core lets another read as many bytes as the message has, and reads as many of another's, from and to its own
 * buffers; what a bandwidth-optimal reduction of more than two reads beyond that (2(c-1)/c - 1 times the message) it
 * reads at the best rate seen. Beyond the curve's ends the time is that of the end: within a line size counts for
 * nothing, and the longest messages take at least as long as those below. */
static double transfer_us(const perf_limits *limits, size_t bytes) {
    const perf_curve *curve = &limits->curve[PERF_SENDRECV];
    if (curve->points == 0)
        return 0;
    const double least = (double)curve->bytes[0], most = (double)curve->bytes[curve->points - 1];
    double us = perf_curve_us(curve, fmin(fmax((double)bytes, least), most));
    double further_bytes = (1 - 2.0 / limits->cpus) * (double)bytes;
    if (limits->curve[PERF_FETCH].points > 0)
        us += further_bytes / perf_curve_gbps_max(&limits->curve[PERF_FETCH]) * 1e-3;
    return us;
}

/* Inputs that are in no cache come from memory; outputs need not get there before the call ends. */
static double memory_us(const perf_limits *limits, const perf_job *job, size_t bytes) {
    const perf_curve *curve = job->in_place ? &limits->curve[PERF_UPDATE] : &limits->curve[PERF_COPY];
    if (job->in_place && job->ranks == 1)
        return 0;
    double bytes_per_cpu = (double)bytes * job->ranks / limits->cpus;
    double us = perf_curve_us(curve, bytes_per_cpu);
    if (job->cold && limits->curve[PERF_READ].points > 0)
        us = fmax(us, proportion_us(&limits->curve[PERF_READ], limits->curve[PERF_READ].points - 1, bytes_per_cpu));
    return us;
}

perf_bound perf_bound_of(const perf_limits *limits, const perf_job *job, size_t bytes) {
    perf_bound bound = {0};
    bound.exchange_us = job->ranks > 1 ? limits->exchange.ns * 1e-3 : 0;
    bound.handover_us = (ranks_per_cpu_max(job, limits->cpus) - 1) * limits->handover_us;
    bound.transfer_us = job->alloc ? 0 : transfer_us(limits, bytes);
    bound.memory_us = memory_us(limits, job, bytes);
    const struct {
        const char *name;
        double us;
    } terms[] = {{"exchange", bound.exchange_us},
                 {"handover", bound.handover_us},
                 {"transfer", bound.transfer_us},
                 {"memory", bound.memory_us}};
    for (size_t i = 0; i < sizeof(terms) / sizeof(terms[0]); i++) {
        if (terms[i].us > bound.bound_us) {
            bound.bound_us = terms[i].us;
            bound.term = terms[i].name;
        }
    }
    return bound;
}
