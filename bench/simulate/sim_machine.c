#include "sim_machine.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "installed_path.h"
#include "messages.h"
#include "sim_engine.h"
#include "sim_options.h"

enum { LINE_BYTES_MAX = 512, LINES_MAX = 1000 };

typedef enum unit { UNIT_COUNT, UNIT_BYTES, UNIT_NS, UNIT_GBPS } unit;

static const struct {
    const char *key;
    size_t offset;
    unit unit;
} fields[] = {
    {"sockets", offsetof(sim_machine, sockets), UNIT_COUNT},
    {"nodes_per_socket", offsetof(sim_machine, nodes), UNIT_COUNT},
    {"domains_per_node", offsetof(sim_machine, domains), UNIT_COUNT},
    {"cores_per_domain", offsetof(sim_machine, cores), UNIT_COUNT},
    {"l2_bytes", offsetof(sim_machine, l2_bytes), UNIT_BYTES},
    {"l3_bytes", offsetof(sim_machine, l3_bytes), UNIT_BYTES},
    {"call_ns", offsetof(sim_machine, call_ns), UNIT_NS},
    {"load_ns", offsetof(sim_machine, load_ns), UNIT_NS},
    {"store_ns", offsetof(sim_machine, store_ns), UNIT_NS},
    {"hop_domain_ns", offsetof(sim_machine, hop_ns[SIM_DOMAIN]), UNIT_NS},
    {"hop_node_ns", offsetof(sim_machine, hop_ns[SIM_NODE]), UNIT_NS},
    {"hop_socket_ns", offsetof(sim_machine, hop_ns[SIM_SOCKET]), UNIT_NS},
    {"hop_machine_ns", offsetof(sim_machine, hop_ns[SIM_MACHINE]), UNIT_NS},
    {"turn_ns", offsetof(sim_machine, turn_ns), UNIT_NS},
    {"loads_in_flight", offsetof(sim_machine, loads_in_flight), UNIT_COUNT},
    {"fold_gbps", offsetof(sim_machine, fold_gbps), UNIT_GBPS},
    {"l2_gbps", offsetof(sim_machine, l2_gbps), UNIT_GBPS},
    {"l3_gbps", offsetof(sim_machine, l3_gbps), UNIT_GBPS},
    {"share_domain_gbps", offsetof(sim_machine, share_gbps[SIM_DOMAIN]), UNIT_GBPS},
    {"share_node_gbps", offsetof(sim_machine, share_gbps[SIM_NODE]), UNIT_GBPS},
    {"share_socket_gbps", offsetof(sim_machine, share_gbps[SIM_SOCKET]), UNIT_GBPS},
    {"share_machine_gbps", offsetof(sim_machine, share_gbps[SIM_MACHINE]), UNIT_GBPS},
    {"read_gbps", offsetof(sim_machine, read_gbps), UNIT_GBPS},
    {"write_back_gbps", offsetof(sim_machine, write_back_gbps), UNIT_GBPS},
    {"stream_gbps", offsetof(sim_machine, stream_gbps), UNIT_GBPS},
    {"domain_gbps", offsetof(sim_machine, domain_gbps), UNIT_GBPS},
    {"node_gbps", offsetof(sim_machine, node_gbps), UNIT_GBPS},
    {"link_gbps", offsetof(sim_machine, link_gbps), UNIT_GBPS},
};

enum { FIELDS = sizeof fields / sizeof fields[0] };

static const struct {
    double min, max;
    const char *range;
} ranges[] = {
    [UNIT_COUNT] = {1, SIM_CORES_MAX, "a whole number from 1 to 1024"},
    [UNIT_BYTES] = {65536, 17179869184.0, "a size from 64K to 16G, as in 512K or 32M"},
    [UNIT_NS] = {0.01, 1e6, "nanoseconds from 0.01 to 1000000"},
    [UNIT_GBPS] = {0.01, 1e6, "GB/s from 0.01 to 1000000"},
};

static double *field_of(sim_machine *machine, int field) {
    return (double *)(void *)((char *)machine + fields[field].offset);
}

static bool parse_value(const char *text, unit unit, double *value) {
    char *end;
    *value = strtod(text, &end);
    if (end == text || !(*value >= 0))
        return false;
    if (unit == UNIT_BYTES && *end != '\0') {
        const char *suffix = strchr("KMG", *end);
        if (suffix == NULL)
            return false;
        *value *= *suffix == 'K' ? 1024.0 : *suffix == 'M' ? 1048576.0 : 1073741824.0;
        end++;
    }
    return *end == '\0' && *value >= ranges[unit].min && *value <= ranges[unit].max &&
           (unit > UNIT_BYTES || *value == floor(*value));
}

/* One line without its comment: "key value", or nothing. `place` names it. */
static void read_field(sim_machine *machine, bool *seen, char *line, const char *place) {
    char *rest = NULL;
    const char *key = strtok_r(line, " \t\r\n", &rest);
    if (key == NULL)
        return;
    const char *text = strtok_r(NULL, "\r\n", &rest);
    text = text != NULL ? text + strspn(text, " \t") : "";
    if (strcmp(key, "name") == 0) {
        snprintf(machine->name, sizeof machine->name, "%s", text);
        return;
    }
    int field = 0;
    while (field < FIELDS && strcmp(key, fields[field].key) != 0)
        field++;
    if (field == FIELDS)
        sim_refuse("%s: '%s' is not a key of a machine file", place, key);
    if (seen[field])
        sim_refuse("%s: '%s' is there twice", place, key);
    seen[field] = true;
    if (!parse_value(text, fields[field].unit, field_of(machine, field)))
        sim_refuse("%s: %s '%s': must be %s", place, key, text, ranges[fields[field].unit].range);
}

static void end_text(char *line) {
    size_t length = strcspn(line, "#\n");
    while (length > 0 && strchr(" \t\r", line[length - 1]) != NULL)
        length--;
    line[length] = '\0';
}

static void read_lines(sim_machine *machine, bool *seen, FILE *file, const char *path) {
    char line[LINE_BYTES_MAX], place[PATH_MAX + 32];
    for (int number = 1; fgets(line, sizeof line, file) != NULL; number++) {
        snprintf(place, sizeof place, "--machine %s:%d", path, number);
        if (number > LINES_MAX || (strchr(line, '\n') == NULL && strlen(line) == sizeof line - 1))
            sim_refuse("%s: more than %d bytes a line or %d lines: not a machine file", place, LINE_BYTES_MAX - 2,
                       LINES_MAX);
        end_text(line);
        read_field(machine, seen, line, place);
    }
    if (ferror(file))
        sim_refuse("--machine %s: cannot be read: %s", path, strerror(errno));
}

static int is_file(const char *path) {
    struct stat found;
    return stat(path, &found) == 0 && !S_ISDIR(found.st_mode);
}

/* The path of the machine that `name` means: a file, or one of those that come with kolo. 0, or -1: there is none. */
static int find_machine(const char *name, char *path, size_t path_bytes) {
    char installed[PATH_MAX];
    if (strchr(name, '/') != NULL || is_file(name))
        return snprintf(path, path_bytes, "%s", name) < (int)path_bytes ? 0 : -1;
    if (name[0] == '\0' || name[0] == '.' || snprintf(installed, sizeof installed, "machines/%s", name) >= PATH_MAX ||
        !installed_path(path, path_bytes, installed))
        return -1;
    return is_file(path) ? 0 : -1;
}

static int is_visible(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

void sim_machine_names_print(FILE *to) {
    char folder[PATH_MAX];
    struct dirent **entries = NULL;
    const bool fits = installed_path(folder, sizeof folder, "machines");
    const int count = fits ? scandir(folder, &entries, is_visible, alphasort) : -1;
    fprintf(to, count > 0 ? "These machines come with kolo:\n" : "No machines are installed with kolo.\n");
    for (int i = 0; i < count; i++) {
        fprintf(to, "  %s\n", entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
}

void sim_machine_read(sim_machine *machine, const char *name) {
    bool seen[FIELDS] = {false};
    char path[PATH_MAX];
    *machine = (sim_machine){.name = ""};
    if (find_machine(name, path, sizeof path) != 0) {
        message_print("--machine '%s': neither a file nor a machine that comes with kolo", name);
        sim_machine_names_print(stderr);
        exit(2);
    }
    FILE *file = fopen(path, "re");
    if (file == NULL)
        sim_refuse("--machine %s: cannot be opened: %s", path, strerror(errno));
    read_lines(machine, seen, file, path);
    fclose(file);
    for (int field = 0; field < FIELDS; field++)
        if (!seen[field])
            sim_refuse("--machine %s: '%s' is missing: add it, %s", path, fields[field].key,
                       ranges[fields[field].unit].range);
    const double domains = machine->sockets * machine->nodes * machine->domains;
    if (domains > SIM_DOMAINS_MAX || domains * machine->cores > SIM_CORES_MAX || domains * machine->cores < 2)
        sim_refuse("--machine %s: %.0f L3 domains of %.0f cores: at most %d domains and 2 to %d cores can be modelled",
                   path, domains, machine->cores, SIM_DOMAINS_MAX, SIM_CORES_MAX);
    if (machine->name[0] == '\0')
        snprintf(machine->name, sizeof machine->name, "%.*s", (int)sizeof machine->name - 1, path);
}

void sim_machine_write(const sim_machine *machine, FILE *file, const char *comment) {
    fputs(comment, file);
    fprintf(file, "%-20s%s\n", "name", machine->name);
    for (int field = 0; field < FIELDS; field++) {
        const double value = *field_of((sim_machine *)machine, field);
        fprintf(file, "%-20s%.*f\n", fields[field].key, fields[field].unit > UNIT_BYTES ? 2 : 0, value);
    }
}

uint32_t sim_machine_domains(const sim_machine *machine) {
    return (uint32_t)(machine->sockets * machine->nodes * machine->domains);
}

uint32_t sim_machine_cores(const sim_machine *machine) {
    return sim_machine_domains(machine) * (uint32_t)machine->cores;
}

uint32_t sim_machine_domain(const sim_machine *machine, uint32_t core) {
    return core / (uint32_t)machine->cores;
}

uint32_t sim_machine_node(const sim_machine *machine, uint32_t core) {
    return sim_machine_domain(machine, core) / (uint32_t)machine->domains;
}

uint32_t sim_machine_socket(const sim_machine *machine, uint32_t core) {
    return sim_machine_node(machine, core) / (uint32_t)machine->nodes;
}

sim_distance sim_machine_distance(const sim_machine *machine, uint32_t a, uint32_t b) {
    if (sim_machine_domain(machine, a) == sim_machine_domain(machine, b))
        return SIM_DOMAIN;
    if (sim_machine_node(machine, a) == sim_machine_node(machine, b))
        return SIM_NODE;
    return sim_machine_socket(machine, a) == sim_machine_socket(machine, b) ? SIM_SOCKET : SIM_MACHINE;
}

static struct {
    uint32_t ranks;
    uint32_t lanes; /* at least 1 */
    uint32_t cores; /* of each rank */
} places;

void sim_places_set(const sim_machine *machine, uint32_t ranks, uint32_t lanes) {
    places.ranks = ranks;
    places.lanes = lanes ? lanes : 1;
    places.cores = lanes ? sim_machine_cores(machine) / ranks : 1;
}

uint32_t sim_threads(void) {
    return places.ranks * places.lanes;
}

uint32_t sim_lanes(void) {
    return places.lanes;
}

uint32_t sim_rank_of(uint32_t thread) {
    return thread / places.lanes;
}

uint32_t sim_lane_of(uint32_t thread) {
    return thread % places.lanes;
}

uint32_t sim_rank_core(uint32_t rank) {
    return rank * places.cores;
}

uint32_t sim_lane_core(uint32_t rank, uint32_t lane) {
    return sim_rank_core(rank) + lane * places.cores / places.lanes;
}

uint32_t sim_core_of(uint32_t thread) {
    return sim_lane_core(sim_rank_of(thread), sim_lane_of(thread));
}

uint32_t sim_rank(void) {
    return sim_rank_of(sim_self());
}

uint32_t sim_core(void) {
    return sim_core_of(sim_self());
}

void sim_thread_name(uint32_t thread, char *text, size_t text_bytes) {
    if (places.lanes == 1)
        snprintf(text, text_bytes, "rank %u", thread);
    else
        snprintf(text, text_bytes, "lane %u of rank %u", sim_lane_of(thread), sim_rank_of(thread));
}
