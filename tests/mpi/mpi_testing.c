#include "mpi_testing.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FAILURES_MAX = 20, EXIT_HANGS = 3 };

int world_rank, world_size;
static int failures;
static const char *watched = "";

static void print_failure(const char *format, va_list arguments) {
    char text[1000];
    vsnprintf(text, sizeof text, format, arguments);
    fprintf(stderr, "rank %d of %d: %s\n", world_rank, world_size, text);
    fflush(stderr);
    if (++failures == FAILURES_MAX)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print_failure(format, arguments);
    va_end(arguments);
}

bool expect(bool right, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (!right)
        print_failure(format, arguments);
    va_end(arguments);
    return right;
}

static void print_piece(const char *piece) {
    if (write(STDERR_FILENO, piece, strlen(piece)) < 0)
        _exit(EXIT_HANGS);
}

static void end_hang(int number) {
    (void)number;
    const char rank[] = {(char)('0' + world_rank % 10), 0};
    print_piece("rank ");
    print_piece(rank);
    print_piece(" hangs: ");
    print_piece(watched);
    print_piece("\n");
    sleep(1); /* the others, too, are to say where they are */
    _exit(EXIT_HANGS);
}

void watch(int seconds, const char *where) {
    watched = where;
    signal(SIGALRM, end_hang);
    alarm((unsigned)seconds);
}

void job_begin(int *argc, char ***argv, int threads_wanted) {
    int threads;
    if (threads_wanted == MPI_THREAD_SINGLE)
        MPI_Init(argc, argv);
    else
        MPI_Init_thread(argc, argv, threads_wanted, &threads);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (threads_wanted != MPI_THREAD_SINGLE && threads < threads_wanted) {
        if (world_rank == 0)
            printf("skipped: this MPI has no support for such threads\n");
        MPI_Finalize();
        exit(77);
    }
}

int job_end(void) {
    int all = 0;
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return all != 0;
}
