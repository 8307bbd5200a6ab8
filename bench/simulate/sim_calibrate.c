/* How each figure of a machine file follows from those of kolo-perf limits is at the function that makes it. */
#include "sim_calibrate.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "cpu/topology.h"
#include "sim_machine.h"
#include "sim_rows.h"

enum { POINTS_MAX = 32 };

typedef struct curve {
    int points;
    double bytes[POINTS_MAX]; /* of one CPU, growing */
    double gbps[POINTS_MAX];
} curve;

typedef struct figures {
    double cpus;
    double exchange_ns, nearest_ns;
    curve exchanges, copy, update, read;
} figures;

/* Assumed: nothing measures them one by one, and results depend little on them. */
static const sim_machine assumed = {.call_ns = 10,
                                    .load_ns = 0.5,
                                    .store_ns = 1,
                                    .turn_ns = 5,
                                    .loads_in_flight = 8,
                                    .domain_gbps = 1000,
                                    .link_gbps = 1000};

static curve *curve_of(figures *figures, const char *limit) {
    const struct {
        const char *name;
        curve *curve;
    } curves[] = {{"exchanges", &figures->exchanges},
                  {"copy", &figures->copy},
                  {"update", &figures->update},
                  {"read", &figures->read}};
    for (size_t i = 0; i < sizeof curves / sizeof *curves; i++) {
        if (strcmp(limit, curves[i].name) == 0)
            return curves[i].curve;
    }
    return NULL;
}

static void read_row(figures *figures, const char *row) {
    char limit[32];
    double time_ns, bytes, gbps;
    if (!sim_row_text(row, "limit", limit, sizeof limit))
        return;
    sim_row_number(row, "cpus", &figures->cpus);
    if (sim_row_number(row, "time_ns", &time_ns) && strcmp(limit, "exchange") == 0)
        figures->exchange_ns = time_ns;
    else if (sim_row_number(row, "time_ns", &time_ns) && strcmp(limit, "nearest") == 0)
        figures->nearest_ns = time_ns;
    curve *curve = curve_of(figures, limit);
    if (curve == NULL || curve->points == POINTS_MAX || !sim_row_number(row, "bytes_per_cpu", &bytes) ||
        !sim_row_number(row, "gbps_per_cpu", &gbps) || gbps <= 0)
        return;
    curve->bytes[curve->points] = bytes;
    curve->gbps[curve->points++] = gbps;
}

static int read_figures(figures *figures, const char *path) {
    char row[SIM_ROW_BYTES_MAX];
    int number = 0, rc;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        fprintf(stderr, "kolo-simulate: --calibrate '%s': cannot be opened: %s\n", path, strerror(errno));
        return 2;
    }
    while ((rc = sim_row_next(file, row, &number)) == 1)
        read_row(figures, row);
    fclose(file);
    if (rc != 0) {
        fprintf(stderr, "kolo-simulate: --calibrate %s:%d: not a row of kolo-perf's --json\n", path, number);
        return 2;
    }
    if (figures->cpus >= 2 && figures->exchange_ns > 0 && figures->exchanges.points > 0 && figures->copy.points > 0 &&
        figures->update.points > 0 && figures->read.points > 0)
        return 0;
    fprintf(stderr,
            "kolo-simulate: --calibrate '%s': exchange, exchanges, copy, update and read of two CPUs or more are"
            " needed: make it with kolo-perf limits --json\n",
            path);
    return 2;
}

/* The rate at the largest block of up to `bytes`, or at the smallest block. */
static double rate_at(const curve *curve, double bytes) {
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

static void set_shape(sim_machine *machine, const figures *figures) {
    kolo_topology topology;
    kolo_cpu_set allowed;
    kolo_cpu_set_allowed(&allowed);
    kolo_topology_read(&topology, &allowed);
    const double domains = topology.l3_domains > 1 ? topology.l3_domains : 1;
    machine->sockets = 1; /* nodes of several sockets are as far apart as those of one, by the slowest exchange */
    machine->nodes = topology.numa_nodes > 1 && topology.numa_nodes <= domains ? topology.numa_nodes : 1;
    machine->domains = (double)(int)(domains / machine->nodes);
    machine->cores = (double)(int)(figures->cpus / (machine->nodes * machine->domains));
    machine->cores = machine->cores < 1 ? 1 : machine->cores;
    machine->l2_bytes = topology.l2_bytes ? (double)topology.l2_bytes : 1 << 20;
    machine->l3_bytes = topology.l3_bytes ? (double)topology.l3_bytes : machine->l2_bytes * figures->cpus;
}

/* A copy reads and writes its bytes, so each way goes at twice its rate. Memory: a read is a read; an update adds the
 * way back; the fastest copy adds stores past the caches. An exchange of blocks takes lines over twice, once to write
 * them and once to read the other's. */
static void set_rates(sim_machine *machine, const figures *figures) {
    const double cores = machine->cores * machine->domains * machine->nodes;
    const double in_l2 = machine->l2_bytes / 4, in_l3 = machine->l3_bytes / (4 * machine->cores), in_memory = 1e18;
    machine->fold_gbps = rate_at(&figures->copy, 0);
    machine->l2_gbps = 2 * rate_at(&figures->copy, in_l2);
    machine->l3_gbps = 2 * rate_at(&figures->copy, in_l3);
    machine->read_gbps = rate_at(&figures->read, in_memory);
    machine->write_back_gbps = rest(rate_at(&figures->update, in_memory), machine->read_gbps);
    machine->stream_gbps = rest(rate_at(&figures->copy, in_memory), machine->read_gbps);
    double most_gbps = machine->read_gbps;
    most_gbps = 2 * rate_at(&figures->copy, in_memory) > most_gbps ? 2 * rate_at(&figures->copy, in_memory) : most_gbps;
    most_gbps =
        2 * rate_at(&figures->update, in_memory) > most_gbps ? 2 * rate_at(&figures->update, in_memory) : most_gbps;
    machine->node_gbps = most_gbps * cores / machine->nodes;
    const double nearest_ns = figures->nearest_ns > 0 ? figures->nearest_ns : figures->exchange_ns;
    for (int distance = 0; distance < SIM_DISTANCES; distance++) {
        machine->hop_ns[distance] = distance == SIM_DOMAIN ? nearest_ns : figures->exchange_ns;
        machine->share_gbps[distance] = 2 * rate_at(&figures->exchanges, in_l2);
    }
}

int sim_calibrate(const char *path, FILE *machine_file) {
    figures figures = {0};
    sim_machine machine = assumed;
    const int rc = read_figures(&figures, path);
    if (rc != 0)
        return rc;
    set_shape(&machine, &figures);
    set_rates(&machine, &figures);
    snprintf(machine.name, sizeof machine.name, "this machine, %.0f cores",
             machine.cores * machine.domains * machine.nodes);
    sim_machine_write(
        &machine, machine_file,
        "Made by kolo-simulate --calibrate from the figures of kolo-perf limits.\n"
        "Assumed, not measured: call_ns, load_ns, store_ns, turn_ns, loads_in_flight, domain_gbps,\n"
        "link_gbps; and that all domains, nodes and sockets are as far apart as the slowest pair of CPUs\n"
        "that kolo-perf tried.");
    return 0;
}
