/* How each figure of a machine file follows from those of kolo-perf limits is at the function that makes it. */
#include "sim_options.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "cpu/topology.h"

enum { POINTS_MAX = 32 };

typedef struct curve {
    int points;
    double bytes[POINTS_MAX]; /* of one CPU, growing */
    double gbps[POINTS_MAX];
} curve;

enum { EXCHANGES, COPY, UPDATE, READ, CURVES };

static const char *const curve_names[CURVES] = {"exchanges", "copy", "update", "read"};

static struct {
    double cpus;
    double exchange_ns, nearest_ns;
    curve curves[CURVES];
} figures;

/* Assumed: nothing measures them one by one, and results depend little on them. */
static const sim_machine assumed = {.call_ns = 10,
                                    .load_ns = 0.5,
                                    .store_ns = 1,
                                    .turn_ns = 5,
                                    .loads_in_flight = 8,
                                    .domain_gbps = 1000,
                                    .link_gbps = 1000};

static void read_row(const char *row) {
    char limit[32];
    double bytes, gbps;
    if (!sim_row_text(row, "limit", limit, sizeof limit))
        return;
    sim_row_number(row, "cpus", &figures.cpus);
    if (strcmp(limit, "exchange") == 0)
        sim_row_number(row, "time_ns", &figures.exchange_ns);
    if (strcmp(limit, "nearest") == 0)
        sim_row_number(row, "time_ns", &figures.nearest_ns);
    for (int i = 0; i < CURVES; i++) {
        curve *curve = &figures.curves[i];
        if (strcmp(limit, curve_names[i]) != 0 || curve->points == POINTS_MAX ||
            !sim_row_number(row, "bytes_per_cpu", &bytes) || !sim_row_number(row, "gbps_per_cpu", &gbps) || gbps <= 0)
            continue;
        curve->bytes[curve->points] = bytes;
        curve->gbps[curve->points++] = gbps;
    }
}

static void read_figures(const char *path) {
    sim_rows_read("calibrate", path, read_row);
    bool whole = figures.cpus >= 2 && figures.exchange_ns > 0;
    for (int i = 0; i < CURVES; i++)
        whole &= figures.curves[i].points > 0;
    if (!whole)
        sim_refuse("--calibrate '%s': exchange, exchanges, copy, update and read of two CPUs or more are needed: make "
                   "it with kolo-perf limits --json",
                   path);
}

/* The rate at the largest block of up to `bytes`, or at the smallest block. */
static double rate_at(int which, double bytes) {
    const curve *curve = &figures.curves[which];
    int point = 0;
    while (point + 1 < curve->points && curve->bytes[point + 1] <= bytes)
        point++;
    return curve->gbps[point];
}

/* The rate of what `whole` does beyond `part`, where their times add up. */
static double rest(double whole_gbps, double part_gbps) {
    const double ns = 1 / whole_gbps - 1 / part_gbps;
    return ns > 1e-4 ? 1 / ns : 1e4;
}

static void set_shape(sim_machine *machine, const char *path) {
    kolo_topology topology;
    kolo_cpu_set allowed;
    kolo_cpu_set_allowed(&allowed);
    kolo_topology_read(&topology, &allowed);
    const double domains = topology.l3_domains > 1 ? topology.l3_domains : 1;
    machine->sockets = 1; /* nodes of several sockets are as far apart as those of one, by the slowest exchange */
    machine->nodes = topology.numa_nodes > 1 && topology.numa_nodes <= domains ? topology.numa_nodes : 1;
    machine->domains = (double)(int)(domains / machine->nodes);
    machine->cores = (double)(int)(figures.cpus / (machine->nodes * machine->domains));
    if (machine->cores * machine->domains * machine->nodes != figures.cpus)
        sim_refuse("--calibrate '%s': its %g CPUs are not as many in each of the %g L3 domains here: use all CPUs",
                   path, figures.cpus, domains);
    machine->l2_bytes = topology.l2_bytes ? (double)topology.l2_bytes : 1 << 20;
    machine->l3_bytes = topology.l3_bytes ? (double)topology.l3_bytes : machine->l2_bytes * figures.cpus;
}

/* A copy reads and writes its bytes, so each way goes at twice its rate. Memory: a read is a read; an update adds the
 * way back; the fastest copy adds stores past the caches. An exchange of blocks takes lines over twice, once to write
 * them and once to read the other's. */
static void set_rates(sim_machine *machine) {
    const double cores = machine->cores * machine->domains * machine->nodes;
    const double in_l2 = machine->l2_bytes / 4, in_l3 = machine->l3_bytes / (4 * machine->cores), in_memory = 1e18;
    machine->fold_gbps = rate_at(COPY, 0);
    machine->l2_gbps = 2 * rate_at(COPY, in_l2);
    machine->l3_gbps = 2 * rate_at(COPY, in_l3);
    machine->read_gbps = rate_at(READ, in_memory);
    machine->write_back_gbps = rest(rate_at(UPDATE, in_memory), machine->read_gbps);
    machine->stream_gbps = rest(rate_at(COPY, in_memory), machine->read_gbps);
    const double most_gbps = fmax(machine->read_gbps, 2 * fmax(rate_at(COPY, in_memory), rate_at(UPDATE, in_memory)));
    machine->node_gbps = most_gbps * cores / machine->nodes;
    const double nearest_ns = figures.nearest_ns > 0 ? figures.nearest_ns : figures.exchange_ns;
    for (int distance = 0; distance < SIM_DISTANCES; distance++) {
        machine->hop_ns[distance] = distance == SIM_DOMAIN ? nearest_ns : figures.exchange_ns;
        machine->share_gbps[distance] = 2 * rate_at(EXCHANGES, in_l2);
    }
}

void sim_calibrate(const char *path) {
    sim_machine machine = assumed;
    read_figures(path);
    set_shape(&machine, path);
    set_rates(&machine);
    snprintf(machine.name, sizeof machine.name, "this machine, %.0f cores",
             machine.cores * machine.domains * machine.nodes);
    sim_machine_write(
        &machine, stdout,
        "# Made by kolo-simulate --calibrate from the figures of kolo-perf limits.\n"
        "# Assumed, not measured: call_ns, load_ns, store_ns, turn_ns, loads_in_flight, domain_gbps,\n"
        "# link_gbps; and that all domains, nodes and sockets are as far apart as the slowest pair of CPUs\n"
        "# that kolo-perf tried.\n");
}
