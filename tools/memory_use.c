/* kolo-info --memory: what ranks take of memory, measured: teams of forked processes create communicators, and each
 * process reads in /proc what it has then and did not have before. */
#include "memory_use.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kolo.h"
#include "kolo_table.h"
#include "forked_team.h"
#include "messages.h"
#include "printed_text.h"

enum { LANES = 2, TABLE_ROWS = 1024, TABLE_COLUMNS = 256 };

/* What a rank does beside an all-reduce of 8 bytes. */
enum use { USE_DEFAULT, USE_BACKGROUND, USE_LANES, USE_TABLE, USES };

static const char *const use_names[] = {"default", "background", "lanes", "table"};

/* Of one rank, in KiB: its own, and its part of what is shared; -1: not known. */
struct taken {
    int64_t own_kib, shared_kib;
};

struct team {
    int ranks, shm_fd;
    enum use use;
    struct taken *taken; /* one for each rank, in shared memory */
    char *reason;        /* of a failure, likewise */
};

enum { REASON_BYTES = 512 };

static struct taken read_taken(void) {
    struct taken taken = {-1, -1};
    char line[128];
    int64_t kib;
    FILE *rollup = fopen("/proc/self/smaps_rollup", "r");
    while (rollup && fgets(line, sizeof line, rollup)) {
        if (sscanf(line, "Pss_Anon: %" SCNd64, &kib) == 1)
            taken.own_kib = kib;
        if (sscanf(line, "Pss_Shmem: %" SCNd64, &kib) == 1)
            taken.shared_kib = kib;
    }
    if (rollup)
        fclose(rollup);
    return taken;
}

static int call(kolo_comm *comm, enum use use, kolo_request **request) {
    double data = 1;
    if (use != USE_BACKGROUND)
        return kolo_allreduce(comm, &data, &data, 1, KOLO_F64, KOLO_SUM);
    const int rc = kolo_iallreduce(comm, &data, &data, 1, KOLO_F64, KOLO_SUM, request);
    return rc < 0 ? rc : kolo_request_wait(*request);
}

#if KOLO_HAVE_TABLE
static int make_table(kolo_comm *comm, kolo_table **table) {
    kolo_table_options options = KOLO_TABLE_OPTIONS_INIT;
    options.rows = TABLE_ROWS;
    options.columns = TABLE_COLUMNS;
    return kolo_table_create(comm, &options, table);
}
#endif

/* A rank's whole life. */
static int live(void *argument, int rank) {
    const struct team *team = argument;
    kolo_options options = KOLO_OPTIONS_INIT;
    kolo_request *request = NULL;
    kolo_comm *comm = NULL;
    options.rank = rank;
    options.size = team->ranks;
    options.shm_fd = team->shm_fd;
    options.progress = team->use == USE_BACKGROUND ? 1 : -1;
    options.threads = team->use == USE_LANES ? LANES : 1;
    const struct taken before = read_taken();
    if (before.own_kib < 0 || before.shared_kib < 0) {
        snprintf(team->reason, REASON_BYTES, "no Pss_Anon and Pss_Shmem in /proc/self/smaps_rollup");
        return EXIT_FAILURE;
    }
    int rc = kolo_comm_create(&comm, &options);
    if (rc == 0)
        rc = call(comm, team->use, &request);
#if KOLO_HAVE_TABLE
    kolo_table *table = NULL;
    if (rc == 0 && team->use == USE_TABLE)
        rc = make_table(comm, &table);
#endif
    /* Behind the first barrier all have what they take; before the second one nobody leaves. */
    if (rc == 0)
        rc = kolo_barrier(comm);
    const struct taken after = read_taken();
    team->taken[rank] = (struct taken){after.own_kib - before.own_kib, after.shared_kib - before.shared_kib};
    if (rc == 0)
        rc = kolo_barrier(comm);
    if (rc < 0)
        snprintf(team->reason, REASON_BYTES, "%s", kolo_error_message());
    return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS; /* all ends with the process */
}

/* Returns 0 with the mean of a team's ranks, or -1 after a message. */
static int measure(int ranks, enum use use, struct taken *mean) {
    const size_t bytes = (size_t)ranks * sizeof(struct taken) + REASON_BYTES;
    struct taken *shared = forked_team_allocate(bytes);
    struct team team = {ranks, memfd_create("kolo-info", 0), use, shared, shared ? (char *)(shared + ranks) : NULL};
    forked_failure failure = {0};
    int rc = shared && team.shm_fd >= 0 ? forked_team_run(ranks, live, &team, &failure) : -1;
    if (rc != 0)
        message_print("no memory use of %d ranks (%s): %s", ranks, use_names[use],
                      shared && team.reason[0] ? team.reason : "their processes could not be started, or were ended");
    *mean = (struct taken){0, 0};
    for (int rank = 0; rank < ranks && rc == 0; rank++) {
        mean->own_kib += shared[rank].own_kib;
        mean->shared_kib += shared[rank].shared_kib;
    }
    mean->own_kib /= ranks;
    mean->shared_kib /= ranks;
    if (team.shm_fd >= 0)
        close(team.shm_fd);
    forked_team_free(shared, bytes);
    return rc != 0 ? -1 : 0;
}

static void print_head(bool json) {
    if (json)
        fputs("{\n  \"memory\": [", stdout);
    else
        printf("memory of a rank once it has made an all-reduce of 8 bytes, in KiB: its own,\n"
               "and its part of what the ranks share. lanes: %d threads a rank; table: 1 MiB\n"
               "%7s  %-10s  %10s  %10s  %10s\n",
               LANES, "ranks", "with", "own", "shared", "together");
}

static void print_row(int ranks, enum use use, const struct taken *mean, bool json, bool first) {
    if (first)
        print_head(json);
    if (json)
        printf("%s\n    {\"ranks\": %d, \"use\": \"%s\", \"own_bytes\": %" PRId64 ", \"shared_bytes\": %" PRId64 "}",
               first ? "" : ",", ranks, use_names[use], mean->own_kib * 1024, mean->shared_kib * 1024);
    else
        printf("%7d  %-10s  %10" PRId64 "  %10" PRId64 "  %10" PRId64 "\n", ranks, use_names[use], mean->own_kib,
               mean->shared_kib, mean->own_kib + mean->shared_kib);
    fflush(stdout);
}

int memory_use_report(int ranks, bool json) {
    static const int usual[] = {2, 16, 64, 256};
    const int *counts = ranks ? &ranks : usual, count = ranks ? 1 : (int)(sizeof usual / sizeof *usual);
    bool first = true;
    int result = 0;
    for (int i = 0; i < count; i++)
        for (int use = 0; use < USES; use++) {
            struct taken mean;
            if (use == USE_TABLE && !KOLO_HAVE_TABLE)
                continue;
            if (measure(counts[i], (enum use)use, &mean) == 0) {
                print_row(counts[i], (enum use)use, &mean, json, first);
                first = false;
            } else
                result = -1;
        }
    if (json && !first)
        puts("\n  ]\n}");
    return message_unless_written() | result;
}
