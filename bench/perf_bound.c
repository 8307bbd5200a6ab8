#include "perf_bound.h"

#include <math.h>
#include <stdint.h>

#include "perf_sampler.h"

/* Of an all-reduce: the inputs go across, and then the results. */
enum { FACTOR_THERE_AND_BACK = 2 };

perf_job perf_job_of(const perf_options *options, const perf_collective *collective, int ranks) {
    return (perf_job){.collective = collective,
                      .ranks = ranks,
                      .in_place = perf_collective_in_place(collective, options->in_place),
                      .alloc = options->alloc,
                      .buffers = options->buffers};
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

/* It is private buffers that are sent and received, by the pair of cores that measured just that. */
static bool is_there_and_back(const perf_job *job) {
    return job->collective->factor == FACTOR_THERE_AND_BACK;
}

static void raise_to(size_t *bytes, size_t at_least) {
    if (*bytes < at_least)
        *bytes = at_least;
}

void perf_bound_request(perf_limits_request *request, const perf_job *job, int cpus, size_t bytes_max) {
    const perf_traffic traffic =
        perf_collective_traffic(job->collective, job->ranks, cpus, (double)bytes_max, job->in_place);
    const bool fits = bytes_max < SIZE_MAX / (size_t)job->ranks;
    request->cold = job->buffers == PERF_COLD;
    raise_to(&request->exchange_bytes_max, bytes_max);
    raise_to(&request->stream_bytes_max,
             request->cold || !fits ? SIZE_MAX : bytes_max * (size_t)job->ranks / (size_t)cpus);
    if (job->ranks > cpus)
        request->pieces |= 1u << PERF_HANDOVER;
    if (job->ranks > 1 && cpus > 1)
        request->pieces |= 1u << PERF_LATENCY;
    if (is_there_and_back(job) && job->ranks > 1 && cpus > 1 && !job->alloc) {
        request->in_place = job->in_place;
        request->pieces |= 1u << PERF_SENDRECV;
    }
    if (cpus > 2 || (traffic.crossing_bytes > 0 && !is_there_and_back(job)))
        request->pieces |= 1u << PERF_FETCH;
    if (traffic.read_bytes > traffic.written_bytes || (request->cold && traffic.input_bytes > 0))
        request->pieces |= 1u << PERF_READ;
    if (traffic.written_bytes == 0 || (job->in_place && job->ranks == 1))
        return; /* alone and in place there is nothing to do */
    request->pieces |= 1u << (traffic.reduces && job->in_place ? PERF_UPDATE : PERF_COPY);
}

/* Every core lets another read as many bytes as the message has, and reads as many of another's, from and to its own
 * buffers; what a bandwidth-optimal reduction of more than two reads beyond that (2(c-1)/c - 1 times the message) it
 * reads at the best rate seen. Beyond the curve's ends the time is that of the end: within a line size counts for
 * nothing, and the longest messages take at least as long as those below. */
static double there_and_back_us(const perf_limits *limits, double bytes, double crossing_bytes) {
    const perf_curve *curve = &limits->curve[PERF_SENDRECV];
    if (curve->points == 0)
        return 0;
    const double least = (double)curve->bytes[0], most = (double)curve->bytes[curve->points - 1];
    double us = perf_curve_us(curve, fmin(fmax(bytes, least), most));
    if (limits->curve[PERF_FETCH].points > 0)
        us += (crossing_bytes - bytes) / perf_curve_gbps_max(&limits->curve[PERF_FETCH]) * 1e-3;
    return us;
}

/* Of longer ones the beginning has left the writer's caches by the time that it is read, and comes from memory. */
enum { CACHED_BYTES_MAX = 4 << 20 };

static double transfer_us(const perf_limits *limits, const perf_job *job, double bytes, const perf_traffic *traffic) {
    const double gbps_max = perf_curve_gbps_max(&limits->curve[PERF_FETCH]);
    if (job->alloc)
        return 0;
    if (is_there_and_back(job))
        return there_and_back_us(limits, bytes, traffic->crossing_bytes);
    return gbps_max > 0 ? fmin(traffic->crossing_bytes, CACHED_BYTES_MAX) / gbps_max * 1e-3 : 0;
}

/* Inputs that are in no cache come from memory; outputs need not get there before the call ends. */
static double memory_us(const perf_limits *limits, const perf_job *job, const perf_traffic *traffic) {
    const perf_curve *read = &limits->curve[PERF_READ];
    const bool updates = traffic->reduces && job->in_place;
    if (job->in_place && job->ranks == 1)
        return 0;
    double us = perf_curve_us(&limits->curve[updates ? PERF_UPDATE : PERF_COPY], traffic->written_bytes);
    if (traffic->read_bytes > traffic->written_bytes)
        us += perf_curve_us(read, traffic->read_bytes - traffic->written_bytes);
    if (job->buffers == PERF_COLD && read->points > 0)
        us = fmax(us, proportion_us(read, read->points - 1, traffic->input_bytes));
    return us;
}

/* Where ranks need not hear of all others, they do this once in a row of calls, and then have a line in each. */
static void set_latencies(perf_bound *bound, const perf_limits *limits, const perf_job *job, double bytes,
                          bool both_ways) {
    const bool is_row = !both_ways && job->buffers == PERF_WARM && bytes <= PERF_BATCH_BYTES_MAX;
    const double one_way_ns = fmin(is_row ? limits->ahead.ns : limits->hop.ns, limits->exchange.ns);
    if (job->ranks > 1)
        bound->exchange_us = (both_ways ? limits->exchange.ns : one_way_ns) * 1e-3;
    bound->handover_us =
        (ranks_per_cpu_max(job, limits->cpus) - 1) * limits->handover_us / (is_row ? PERF_BATCH_CALLS : 1);
}

perf_bound perf_bound_of(const perf_limits *limits, const perf_job *job, size_t bytes) {
    const perf_traffic traffic =
        perf_collective_traffic(job->collective, job->ranks, limits->cpus, (double)bytes, job->in_place);
    perf_bound bound = {.transfer_us = transfer_us(limits, job, (double)bytes, &traffic),
                        .memory_us = memory_us(limits, job, &traffic)};
    const bool must_cross = is_there_and_back(job) || job->buffers == PERF_DIRTY;
    set_latencies(&bound, limits, job, (double)bytes, traffic.both_ways);
    const struct {
        const char *name;
        double us;
    } terms[] = {{"exchange", bound.exchange_us},
                 {"handover", bound.handover_us},
                 {"transfer", must_cross ? bound.transfer_us : 0},
                 {"memory", bound.memory_us}};
    for (size_t i = 0; i < sizeof(terms) / sizeof(terms[0]); i++) {
        if (terms[i].us > bound.bound_us) {
            bound.bound_us = terms[i].us;
            bound.term = terms[i].name;
        }
    }
    bound.sum_us =
        bound.exchange_us + bound.handover_us +
        (is_there_and_back(job) ? fmax(bound.transfer_us, bound.memory_us) : bound.transfer_us + bound.memory_us);
    return bound;
}
