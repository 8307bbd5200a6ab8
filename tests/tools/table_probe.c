/* A job with a table, on which one rank is slow: each rank pulls, pushes and ends clocks until it is told that it is
 * enough.
 *
 *   table_probe RANK MS STALENESS [CLOCKS]   rank RANK sleeps MS in each clock; after that many, or SIGUSR1, a rank
 *                                            leaves the table, and ends
 *
 * Each rank prints "rank R is process P" when the table is there. Exit code 0, or 1 with kolo's message. */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "kolo.h"
#include "kolo_table.h"

enum { ROWS = 10, COLUMNS = 4 };

static volatile sig_atomic_t enough;

static void end_rank(int number) {
    (void)number;
    enough = 1;
}

static int go_on(kolo_table *table, long pause_ms, long clocks) {
    const struct timespec pause = {.tv_sec = pause_ms / 1000, .tv_nsec = pause_ms % 1000 * 1000000};
    static float rows[ROWS * COLUMNS];
    int status = 0;
    while (status == 0 && !enough && clocks-- > 0) {
        nanosleep(&pause, NULL);
        status = kolo_table_pull(table, 0, ROWS, rows);
        if (status == 0)
            status = kolo_table_push(table, 0, ROWS, rows);
        if (status == 0)
            status = kolo_table_clock(table);
    }
    return status;
}

int main(int argc, char **argv) {
    kolo_comm *comm = NULL;
    kolo_table *table = NULL;
    kolo_table_options options = KOLO_TABLE_OPTIONS_INIT;
    if (argc != 4 && argc != 5)
        return 2;
    struct sigaction action = {.sa_handler = end_rank};
    sigaction(SIGUSR1, &action, NULL);
    options.name = "weights \"a\"\033";
    options.rows = ROWS;
    options.columns = COLUMNS;
    options.staleness = atol(argv[3]);
    int status = kolo_comm_create(&comm, NULL);
    if (status == 0)
        status = kolo_table_create(comm, &options, &table);
    if (status == 0) {
        printf("rank %d is process %d\n", kolo_comm_rank(comm), (int)getpid());
        fflush(stdout);
        status = go_on(table, kolo_comm_rank(comm) == atoi(argv[1]) ? atol(argv[2]) : 1,
                       argc == 5 ? atol(argv[4]) : LONG_MAX);
    }
    if (status < 0)
        fprintf(stderr, "table_probe: %s\n", kolo_error_message());
    kolo_table_destroy(table);
    kolo_comm_destroy(comm);
    return status < 0;
}
