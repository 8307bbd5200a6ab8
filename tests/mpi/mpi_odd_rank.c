/* One rank is unlike the others.
 *
 *     mpirun -n 2 ./mpi_odd_rank CASE [RANK LEFT | RANK | COLLECTIVE]
 *
 * sums: all make all-reduces; what is odd was there before. descriptors: the same, and RANK has LEFT descriptors left.
 * session: the same, behind a session of RANK, which it begins before MPI_Init; there are some since MPI 4.
 * memory: RANK has no memory while they copy a communicator.
 * spawn: all spawn one process, and then make them with it. The others: the last rank alone makes an all-reduce with a
 * negative count, while the others wait for it. fatal: with the default error handler. again: that rank gets its error
 * and calls once more, as the others do. barrier: it goes on to a barrier, which without kolo is a hang, or worse.
 * block: it gathers a larger block. own: it expects a larger block of itself than it sends, in COLLECTIVE, whose root
 * it is. exit: it ends. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "mpi_testing.h"

enum { LIMIT_S = 25 /* less than kolo waits for a rank that does not come */, SUMS = 20 };

static MPI_Comm comm; /* MPI_COMM_WORLD is still needed for the end */

static int sum_ranks(int count, int *sum) {
    *sum = -1;
    return MPI_Allreduce(&world_rank, sum, count, MPI_INT, MPI_SUM, comm);
}

static void expect_sum(int code, const int *sum) {
    expect(code == MPI_SUCCESS && *sum == world_size * (world_size - 1) / 2, "the sum is %d, code %d", *sum, code);
}

static void make_sums(void) {
    int sum;
    for (int round = 0; round < SUMS; round++)
        expect_sum(sum_ranks(1, &sum), &sum);
}

/* While this is true, kolo gets no memory from here, by the C library's name that all libraries call. */
static bool has_no_memory;

void *__libc_calloc(size_t count, size_t bytes);

void *calloc(size_t count, size_t bytes) {
    Dl_info caller;
    const bool is_refused = has_no_memory && dladdr(__builtin_return_address(0), &caller) && caller.dli_fname &&
                            strstr(caller.dli_fname, "libkolo-mpi");
    return is_refused ? NULL : __libc_calloc(count, bytes);
}

/* For good: nothing else is done with this process. */
static void leave_descriptors(int left) {
    struct rlimit few;
    int fd, last = -1;
    getrlimit(RLIMIT_NOFILE, &few);
    few.rlim_cur = 256;
    setrlimit(RLIMIT_NOFILE, &few);
    while ((fd = open("/dev/null", O_RDONLY)) >= 0)
        last = fd;
    for (; left > 0; left--)
        close(last--);
}

/* The processes of both worlds in one communicator. */
static void make_sums_with_spawned(const char *program) {
    char *arguments[] = {"spawn", NULL};
    MPI_Comm parent, both;
    MPI_Comm_free(&comm);
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL)
        MPI_Comm_spawn(program, arguments, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &both, MPI_ERRCODES_IGNORE);
    else
        both = parent;
    MPI_Intercomm_merge(both, parent != MPI_COMM_NULL, &comm);
    const int rank = world_rank, size = world_size;
    MPI_Comm_rank(comm, &world_rank);
    MPI_Comm_size(comm, &world_size);
    make_sums();
    world_rank = rank;
    world_size = size;
    MPI_Comm_disconnect(&both);
}

/* The last rank's block is larger than what the others send. */
static void gather_blocks(bool is_last) {
    enum { ELEMENTS = 8, RANKS_MAX = 8 };
    double sent[ELEMENTS + 1] = {0}, received[RANKS_MAX * (ELEMENTS + 1)];
    const int count = ELEMENTS + is_last;
    const int code = MPI_Allgather(sent, count, MPI_DOUBLE, received, count, MPI_DOUBLE, comm);
    expect(code != MPI_SUCCESS, "blocks of two sizes got no error");
}

/* The last rank receives a larger block from itself than it sends: its counts are upper bounds. */
static void move_own(bool is_last, const char *collective) {
    enum { ELEMENTS = 4, RANKS_MAX = 8, ROOM = RANKS_MAX * 2 * ELEMENTS };
    int sent[ROOM] = {0}, received[ROOM], counts[RANKS_MAX], most[RANKS_MAX], places[RANKS_MAX];
    const int root = world_size - 1, bound = ELEMENTS * (1 + is_last);
    int code = MPI_SUCCESS;
    for (int rank = 0; rank < world_size; rank++) {
        counts[rank] = ELEMENTS;
        most[rank] = rank == root ? bound : ELEMENTS;
        places[rank] = 2 * rank * ELEMENTS;
    }
    if (strcmp(collective, "Gather") == 0)
        code = MPI_Gather(sent, ELEMENTS, MPI_INT, received, bound, MPI_INT, root, comm);
    else if (strcmp(collective, "Gatherv") == 0)
        code = MPI_Gatherv(sent, ELEMENTS, MPI_INT, received, most, places, MPI_INT, root, comm);
    else if (strcmp(collective, "Scatter") == 0)
        code = MPI_Scatter(sent, ELEMENTS, MPI_INT, received, bound, MPI_INT, root, comm);
    else if (strcmp(collective, "Alltoallv") == 0)
        code = MPI_Alltoallv(sent, counts, places, MPI_INT, received, most, places, MPI_INT, comm);
    const bool waits_for_none = root != world_rank && strstr(collective, "Gather"); /* and so may have gone on */
    if (waits_for_none && code == MPI_SUCCESS)
        code = MPI_Barrier(comm);
    expect(code != MPI_SUCCESS, "an own block of two sizes got no error");
}

static void run_wrong(const char *what, const char *collective) {
    int sum;
    const bool is_last = world_rank == world_size - 1, is_again = strcmp(what, "again") == 0;
    MPI_Comm_set_errhandler(comm, strcmp(what, "fatal") == 0 ? MPI_ERRORS_ARE_FATAL : MPI_ERRORS_RETURN);
    for (int round = 0; round < 3; round++)
        expect_sum(sum_ranks(1, &sum), &sum);
    if (is_last && strcmp(what, "exit") == 0)
        _exit(0);
    if (strcmp(what, "block") == 0) {
        gather_blocks(is_last);
        return;
    }
    if (strcmp(what, "own") == 0) {
        move_own(is_last, collective);
        return;
    }
    int class = MPI_SUCCESS, code = sum_ranks(is_last ? -1 : 1, &sum);
    if (is_last && code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    expect(!is_last || class == MPI_ERR_COUNT, "a negative count gave class %d", class);
    if (is_again) {
        expect_sum(is_last ? sum_ranks(1, &sum) : code, &sum);
        expect_sum(sum_ranks(1, &sum), &sum);
    } else {
        expect((is_last ? MPI_Barrier(comm) : code) != MPI_SUCCESS, "ranks in different collectives got no error");
    }
}

/* The launcher tells the rank as MPICH's does. */
static void begin_session(int rank) {
#if MPI_VERSION >= 4
    MPI_Session session;
    const char *const own = getenv("PMI_RANK");
    if (own && atoi(own) == rank)
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
#else
    (void)rank;
#endif
}

int main(int argc, char **argv) {
    const char *const what = argc > 1 ? argv[1] : "again";
    const bool has_session = strcmp(what, "session") == 0;
    if (has_session)
        begin_session(atoi(argv[argc - 1]));
    job_begin(&argc, &argv, MPI_THREAD_SINGLE);
    watch(LIMIT_S, what);
    const bool has_none = strcmp(what, "memory") == 0;
    has_no_memory = has_none && world_rank == atoi(argv[argc - 1]);
    const int code = MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    expect((code != MPI_SUCCESS) == has_no_memory, "a copy of a communicator: code %d", code);
    has_no_memory = false;
    const bool has_few = strcmp(what, "descriptors") == 0 && argc == 4;
    if (has_few && world_rank == atoi(argv[2]))
        leave_descriptors(atoi(argv[3]));
    if (strcmp(what, "spawn") == 0)
        make_sums_with_spawned(argv[0]);
    else if (has_few || has_session || strcmp(what, "sums") == 0)
        make_sums();
    else if (!has_none)
        run_wrong(what, argv[argc - 1]);
    MPI_Comm_free(&comm);
    return job_end();
}
