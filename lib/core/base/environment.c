/* The list of all environment variables, and the functions that read their values. */
#include "base/environment.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kolo_tools.h"
#include "base/status.h"

struct descriptor {
    const char *name;
    const char *meaning;
    const char *default_value;
};

static const struct descriptor table[KOLO_VARIABLES] = {
    [KOLO_VARIABLE_RANK] = {"KOLO_RANK", "this process's rank, 0 to size-1", "the launcher's, else 0"},
    [KOLO_VARIABLE_SIZE] = {"KOLO_SIZE", "number of ranks, 1 to 1024", "the launcher's, else 1"},
    [KOLO_VARIABLE_JOB] = {"KOLO_JOB", "name that all ranks of the job share", "the launcher's"},
    [KOLO_VARIABLE_SHM_FD] = {"KOLO_SHM_FD", "inherited descriptor of the job's shared file, instead of a name",
                              "none; kolorun sets it"},
    [KOLO_VARIABLE_RENDEZVOUS] = {"KOLO_RENDEZVOUS",
                                  "HOST:PORT of rank 0's machine, where ranks on several machines meet",
                                  "from MASTER_ADDR or Slurm if the launcher uses several machines, else none"},
    [KOLO_VARIABLE_LOCAL_RANK] = {"KOLO_LOCAL_RANK", "rank among those of this machine", "KOLO_RANK"},
    [KOLO_VARIABLE_LOCAL_SIZE] = {"KOLO_LOCAL_SIZE", "ranks on this machine", "KOLO_SIZE"},
    [KOLO_VARIABLE_RESTARTS] = {"KOLO_RESTARTS", "how often kolorun has restarted this rank, for the program to read",
                                "none; kolorun sets it"},
    [KOLO_VARIABLE_ALGO] = {"KOLO_ALGO",
                            "all-reduce algorithm: auto, oneshot, mesh, ring, central, tree, direct; behind auto or"
                            " tree the ranks in a group of each level of a tree: none, or powers of two, as in"
                            " tree:8:64; rank 0 decides",
                            "auto; levels by where the ranks run"},
    [KOLO_VARIABLE_WAIT] = {"KOLO_WAIT", "how to wait: auto, spin, yield, sleep", "auto: by ranks, cores and quota"},
    [KOLO_VARIABLE_PROGRESS] = {"KOLO_PROGRESS", "1: a thread of each communicator carries out calls in the background",
                                "0"},
    [KOLO_VARIABLE_THREADS] = {"KOLO_THREADS", "threads with which each rank moves its data, 1 to 64; rank 0 decides",
                               "1"},
    [KOLO_VARIABLE_CPU] = {"KOLO_CPU",
                           "instruction sets to use: avx512bf16, avx512, avx2, neon, portable, comma-separated",
                           "all that the CPU has"},
    [KOLO_VARIABLE_SLOT_BYTES] = {"KOLO_SLOT_BYTES", "bytes of one chunk slot, of 4 a rank; rank 0 decides",
                                  "256 KiB; less from 257 ranks times threads on"},
    [KOLO_VARIABLE_SINGLE_COPY] = {"KOLO_SINGLE_COPY",
                                   "bytes of a block from which scatter, allgather and all-to-all read it out of the"
                                   " other ranks' memory, where the kernel lets them: auto, off, or a number; rank 0"
                                   " decides",
                                   "auto: by processor and ranks"},
    [KOLO_VARIABLE_TUNE_FILE] = {"KOLO_TUNE_FILE", "profile measured by kolo-tune, or none; rank 0 decides",
                                 "kolo/tune in $XDG_CONFIG_HOME or ~/.config"},
    [KOLO_VARIABLE_NET] =
        {"KOLO_NET",
         "how machines are linked, comma-separated: auto, uring or poll; zero_copy: io_uring sends without copying;"
         " and, as rank 0 decides, threads:N that move a machine's data, 1 to 8; streams:N, data sockets of each such"
         " thread to each other machine, 1 to 16; servers:N, machines that reduce for all in central; wire:bf16: f32"
         " travels as bf16, half the bytes, rounded; quorum:any: after a failure any part goes on, not only the"
         " majority of the machines, where something else sees to it that there is one",
         "auto: uring unless the system refuses it; threads:1,streams:4,servers:1,wire:none,quorum:majority"},
    [KOLO_VARIABLE_NET_ADDR] = {"KOLO_NET_ADDR", "interface or address of this machine for the links to others",
                                "the one that leads to rank 0"},
    [KOLO_VARIABLE_NET_ALGO] = {"KOLO_NET_ALGO",
                                "all-reduce between machines: auto, mesh, ring, tree, central; rank 0 decides", "auto"},
    [KOLO_VARIABLE_NET_ORDER] = {"KOLO_NET_ORDER",
                                 "float sums over machines: node, each one's ranks first, or rank, the same bits as on"
                                 " one machine; rank 0 decides",
                                 "node"},
    [KOLO_VARIABLE_NET_SILENCE_MS] = {"KOLO_NET_SILENCE_MS",
                                      "a machine that sends nothing for so long, in ms, counts as lost; rank 0 decides",
                                      "10000"},
    [KOLO_VARIABLE_TIMEOUT_MS] = {"KOLO_TIMEOUT_MS", "longest wait for a peer within a call, in ms; 0: no limit",
                                  "300000"},
    [KOLO_VARIABLE_CREATE_TIMEOUT_MS] = {"KOLO_CREATE_TIMEOUT_MS",
                                         "longest wait for all ranks at creation, in ms; 0: no limit", "60000"},
    [KOLO_VARIABLE_SECRET_FILE] = {"KOLO_SECRET_FILE",
                                   "file with the secret that ranks on several machines share, mode 0600", "none"},
    [KOLO_VARIABLE_SECRET] = {"KOLO_SECRET",
                              "the secret itself, 16 characters or more, if there is no file; none: ranks do not"
                              " authenticate each other",
                              "not set: it is needed on several machines"},
    [KOLO_VARIABLE_LOG] =
        {"KOLO_LOG",
         "messages on standard error: off, error, warn, info; warn,stall:N or stall:N: after N ms of waiting within a"
         " call warn tells who is missing and what it does, and again each time the wait has doubled; 0: never",
         "off; kolorun sets warn; stall:10000"},
    [KOLO_VARIABLE_TRACE] = {"KOLO_TRACE", "directory for a trace of what each rank does, see kolo_trace.h",
                             "no trace"},
    [KOLO_VARIABLE_TRACE_BYTES] = {"KOLO_TRACE_BYTES",
                                   "size of a rank's trace, which keeps the newest events, 131072 to 4294967296",
                                   "4194304"},
    [KOLO_VARIABLE_DUMP] = {"KOLO_DUMP",
                            "directory to which a rank whose communicator fails writes the last calls of all ranks",
                            "none"},
    [KOLO_VARIABLE_MPI] =
        {"KOLO_MPI",
         "on (1), off (0): whether libkolo-mpi.so makes an MPI program's collectives; comma-separated, verbose:"
         " MPI_Finalize tells what ran in kolo, what was left to the MPI, and why; after:N: how many of a"
         " communicator's collectives the MPI makes before kolo does; comms:N: for how many communicators kolo does,"
         " at a time",
         "on,after:4,comms:16"},
};

const char *kolo_environment_name(kolo_variable_index variable) {
    return table[variable].name;
}

const char *kolo_environment_text(kolo_variable_index variable) {
    const char *text = getenv(table[variable].name);
    return text && *text ? text : NULL;
}

void kolo_environment_describe(kolo_variable_index variable, struct kolo_variable *described) {
    const struct descriptor *found = &table[variable];
    const char *value = getenv(found->name);
    snprintf(described->name, sizeof described->name, "%s", found->name);
    described->meaning = found->meaning;
    described->default_value = found->default_value;
    described->value = value && variable == KOLO_VARIABLE_SECRET ? "(hidden)" : value;
}

static bool read_integer(const char *text, int64_t low, int64_t high, int64_t *value) {
    char *end;
    errno = 0;
    const long long parsed = strtoll(text, &end, 10);
    const bool starts_well = *text == '-' || (*text >= '0' && *text <= '9');
    if (!starts_well || end == text || *end != '\0' || errno == ERANGE || parsed < low || parsed > high)
        return false;
    *value = parsed;
    return true;
}

int kolo_integer_parse(const char *name, const char *text, int64_t low, int64_t high, int64_t *value) {
    if (!read_integer(text, low, high, value))
        return kolo_fail(KOLO_ERR_ARG, "%s=%.64s: must be a whole number from %" PRId64 " to %" PRId64, name, text, low,
                         high);
    return 0;
}

int64_t kolo_environment_integer(int *rc, kolo_variable_index variable, int64_t low, int64_t high, int64_t value) {
    const char *text = kolo_environment_text(variable);
    if (text && *rc == 0)
        *rc = kolo_integer_parse(table[variable].name, text, low, high, &value);
    return value;
}

int kolo_environment_choice(int *rc, kolo_variable_index variable, const char *const *names, int index) {
    const char *text = kolo_environment_text(variable);
    if (!text || *rc < 0)
        return index;
    char known[256] = "";
    for (int i = 0; names[i]; i++) {
        const char *colon = strchr(names[i], ':');
        if (colon ? strncmp(text, names[i], (size_t)(colon + 1 - names[i])) == 0 : strcmp(text, names[i]) == 0)
            return i;
        kolo_text_add(known, sizeof known, "%s%s", i ? ", " : "", names[i]);
    }
    *rc = kolo_fail(KOLO_ERR_ARG, "%s=%.64s: must be one of %s", table[variable].name, text, known);
    return index;
}

static bool takes_number(const struct kolo_list_item *item) {
    return item->name[strlen(item->name) - 1] == ':';
}

/* Returns the item whose name `text` has or, where that takes a number, begins with; NULL: there is none. */
static const struct kolo_list_item *find_listed(const struct kolo_list_item *items, const char *text) {
    for (; items->name; items++)
        if (takes_number(items) ? strncmp(text, items->name, strlen(items->name)) == 0 : strcmp(text, items->name) == 0)
            return items;
    return NULL;
}

static int refuse_listed(kolo_variable_index variable, const struct kolo_list_item *items, const char *text) {
    char known[256] = "";
    for (const struct kolo_list_item *item = items; item->name; item++)
        kolo_text_add(known, sizeof known, "%s%s%s", *known ? ", " : "", item->name, takes_number(item) ? "N" : "");
    return kolo_fail(KOLO_ERR_ARG, "%s=%.128s: \"%.64s\" is none of %s", table[variable].name,
                     kolo_environment_text(variable), text, known);
}

void kolo_environment_list(int *rc, kolo_variable_index variable, const struct kolo_list_item *items) {
    const char *next = kolo_environment_text(variable);
    while (next && *rc == 0) {
        char text[64];
        const size_t length = strcspn(next, ",");
        snprintf(text, sizeof text, "%.*s", (int)(length < sizeof text ? length : sizeof text), next);
        const struct kolo_list_item *const item = find_listed(items, text);
        if (!item)
            *rc = refuse_listed(variable, items, text);
        else if (!takes_number(item))
            *item->value = item->low;
        else if (!read_integer(text + strlen(item->name), item->low, item->high, item->value))
            *rc = kolo_fail(KOLO_ERR_ARG, "%s=%.128s: %s must be a whole number from %" PRId64 " to %" PRId64,
                            table[variable].name, kolo_environment_text(variable), text, item->low, item->high);
        next = next[length] ? next + length + 1 : NULL;
    }
}
