/* What came before a barrier is there after it, at the first test. The standard does not promise that, but programs
 * count on it: they test once where MPIs, whose barriers look after all that is under way, have always said yes.
 *
 *     mpirun -n 2 ./mpi_single_tests ROUNDS */
#include <stdio.h>
#include <stdlib.h>

#include "mpi_testing.h"

enum { TESTER = 1, TAG = 7, LIMIT_S = 60 };

static int number, sum;
static MPI_Request request = MPI_REQUEST_NULL;
static MPI_Message message = MPI_MESSAGE_NULL;
static MPI_Win window;
static MPI_Group others; /* the tester's are all but itself, theirs is the tester */
static bool is_open;     /* the window, for them */

/* Before the barrier. */

static void begin_message(void) {
    if (world_rank == 0)
        MPI_Send(&number, 1, MPI_INT, TESTER, TAG, MPI_COMM_WORLD);
}

static void begin_receive(void) {
    if (world_rank == TESTER)
        MPI_Irecv(&number, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    begin_message();
}

static void begin_sum(void) {
    MPI_Iallreduce(&world_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    if (world_rank != TESTER)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void begin_epoch(void) {
    is_open = true;
    if (world_rank == TESTER) {
        MPI_Win_post(others, 0, window);
    } else {
        MPI_Win_start(others, 0, window);
        MPI_Win_complete(window);
    }
}

/* After it: whether the answer is yes. */

static bool test_probe(void) {
    int flag = 0;
    MPI_Iprobe(0, TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    return flag;
}

static bool test_matched_probe(void) {
    int flag = 0;
    MPI_Improbe(0, TAG, MPI_COMM_WORLD, &flag, &message, MPI_STATUS_IGNORE);
    return flag;
}

static bool test_one(void) {
    int flag = 0;
    MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    return flag;
}

static bool test_all(void) {
    int flag = 0;
    MPI_Status status;
    MPI_Testall(1, &request, &flag, &status);
    return flag;
}

static bool test_any(void) {
    int flag = 0, index;
    MPI_Testany(1, &request, &index, &flag, MPI_STATUS_IGNORE);
    return flag;
}

static bool test_some(void) {
    int done = 0, index;
    MPI_Status status;
    MPI_Testsome(1, &request, &done, &index, &status);
    return done == 1;
}

static bool test_status(void) {
    int flag = 0;
    MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
    return flag;
}

static bool test_window(void) {
    int flag = 0;
    MPI_Win_test(window, &flag);
    is_open = !flag;
    return flag;
}

/* Whatever the answer was. */

static void end_message(void) {
    if (message == MPI_MESSAGE_NULL)
        MPI_Recv(&number, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Mrecv(&number, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
}

static void end_request(void) {
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void end_epoch(void) {
    if (is_open)
        MPI_Win_wait(window);
}

static const struct single {
    const char *name;
    void (*begin)(void);
    bool (*test)(void);
    void (*end)(void); /* the tester's */
} singles[] = {{"MPI_Iprobe", begin_message, test_probe, end_message},
               {"MPI_Improbe", begin_message, test_matched_probe, end_message},
               {"MPI_Test of a receive", begin_receive, test_one, end_request},
               {"MPI_Testall of a receive", begin_receive, test_all, end_request},
               {"MPI_Testany of a receive", begin_receive, test_any, end_request},
               {"MPI_Testsome of a receive", begin_receive, test_some, end_request},
               {"MPI_Request_get_status of a receive", begin_receive, test_status, end_request},
               {"MPI_Test of a sum", begin_sum, test_one, end_request},
               {"MPI_Testall of a sum", begin_sum, test_all, end_request},
               {"MPI_Testany of a sum", begin_sum, test_any, end_request},
               {"MPI_Testsome of a sum", begin_sum, test_some, end_request},
               {"MPI_Request_get_status of a sum", begin_sum, test_status, end_request},
               {"MPI_Win_test", begin_epoch, test_window, end_epoch}};

static void run_single(const struct single *single, int rounds) {
    int yes = 0;
    watch(LIMIT_S, single->name);
    for (int round = 0; round < rounds; round++) {
        single->begin();
        MPI_Barrier(MPI_COMM_WORLD);
        if (world_rank == TESTER) {
            yes += single->test();
            single->end();
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    expect(world_rank != TESTER || yes == rounds, "%s says yes %d times of %d", single->name, yes, rounds);
}

int main(int argc, char **argv) {
    job_begin(&argc, &argv, MPI_THREAD_SINGLE);
    MPI_Group all;
    const int tester = TESTER;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    if (world_rank == TESTER)
        MPI_Group_excl(all, 1, &tester, &others);
    else
        MPI_Group_incl(all, 1, &tester, &others);
    MPI_Win_create(&number, sizeof number, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    for (size_t i = 0; i < sizeof singles / sizeof *singles; i++)
        run_single(&singles[i], argc > 1 ? atoi(argv[1]) : 30);
    MPI_Win_free(&window);
    MPI_Group_free(&others);
    MPI_Group_free(&all);
    return job_end();
}
