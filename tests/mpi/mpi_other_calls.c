#include "mpi_calls.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mpi_testing.h"

/* Operations of the program's own. */

struct matrix { /* 2 x 2: products depend on the order */
    int32_t cells[4];
};

static void multiply(void *left, void *right, int *length, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *length; i++) {
        const struct matrix a = ((struct matrix *)left)[i], b = ((struct matrix *)right)[i];
        ((struct matrix *)right)[i] = (struct matrix){
            {a.cells[0] * b.cells[0] + a.cells[1] * b.cells[2], a.cells[0] * b.cells[1] + a.cells[1] * b.cells[3],
             a.cells[2] * b.cells[0] + a.cells[3] * b.cells[2], a.cells[2] * b.cells[1] + a.cells[3] * b.cells[3]}};
    }
}

static void add(void *left, void *right, int *length, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *length; i++)
        ((double *)right)[i] += ((double *)left)[i];
}

static struct matrix matrix_of(int rank) {
    return (struct matrix){{1, rank + 1, rank % 2, 1}};
}

static void run_matrices(void) {
    MPI_Op op;
    MPI_Datatype type;
    struct matrix mine = matrix_of(world_rank), product, due = matrix_of(0), next;
    MPI_Op_create(multiply, 0, &op);
    MPI_Type_contiguous(4, MPI_INT32_T, &type);
    MPI_Type_commit(&type);
    int one = 1, code = MPI_Allreduce(&mine, &product, 1, type, op, MPI_COMM_WORLD);
    for (int rank = 1; rank < world_size; rank++) {
        next = matrix_of(rank);
        multiply(&due, &next, &one, &type);
        due = next;
    }
    bool right = code == MPI_SUCCESS;
    for (int i = 0; i < 4; i++)
        right &= product.cells[i] == due.cells[i];
    expect(right, "a product of matrices: code %d, (%d %d %d %d)", code, product.cells[0], product.cells[1],
           product.cells[2], product.cells[3]);
    MPI_Op_free(&op);
    MPI_Type_free(&type);
}

void run_own_operations(void) {
    MPI_Op op;
    run_matrices();
    MPI_Op_create(add, 1, &op);
    for (int root = 0; root < world_size; root++) {
        double mine[2] = {world_rank, 0.5}, sums[2] = {-1, -1};
        MPI_Reduce(mine, sums, 2, MPI_DOUBLE, op, root, MPI_COMM_WORLD);
        expect(world_rank != root || (sums[0] == world_size * (world_size - 1) / 2.0 && sums[1] == world_size * 0.5),
               "an operation of the program's own: %g and %g", sums[0], sums[1]);
    }
    MPI_Op_free(&op);
}

/* Intercommunicators. */

struct halves {
    MPI_Comm local, both;
    int first, size; /* of this half, in ranks of the world */
    int other_first, other_size;
};

static int sum_of_ranks(int first, int size) {
    return size * first + size * (size - 1) / 2;
}

static void run_rooted_between(const struct halves *halves) {
    /* Rank 1 of the second half is the root, or its only rank. */
    const int root_place = world_size - world_size / 2 > 1 ? 1 : 0, root_rank = world_size / 2 + root_place;
    const int root = world_rank == root_rank ? MPI_ROOT : halves->first ? MPI_PROC_NULL : root_place;
    int number = world_rank == root_rank ? 4711 : -1, sum = -1;
    MPI_Bcast(&number, 1, MPI_INT, root, halves->both);
    expect(number == (root == MPI_PROC_NULL ? -1 : 4711), "a broadcast between communicators gave %d", number);
    MPI_Reduce(&world_rank, &sum, 1, MPI_INT, MPI_SUM, root, halves->both);
    expect(sum == (root == MPI_ROOT ? sum_of_ranks(halves->other_first, halves->other_size) : -1),
           "a reduction between communicators gave %d", sum);
}

/* What comes from the other half is divided among this one's ranks, each of which passes a count for each of these. */
static void run_divided_between(const struct halves *halves) {
    typedef int function(const void *, void *, const MPI_Count *, MPI_Datatype, MPI_Op, MPI_Comm);
    function *const reduce_scatter = (function *)dlsym(RTLD_DEFAULT, "MPI_Reduce_scatter_c");
    MPI_Count counts[16];
    int sent[64], got[16] = {0};
    for (int i = 0; i < 16; i++)
        counts[i] = i < halves->size ? halves->other_size : (MPI_Count)1 << 40;
    for (int i = 0; i < halves->size * halves->other_size; i++)
        sent[i] = world_rank;
    if (!reduce_scatter)
        return;
    const int code = reduce_scatter(sent, got, counts, MPI_INT, MPI_SUM, halves->both);
    expect(code == MPI_SUCCESS && got[0] == sum_of_ranks(halves->other_first, halves->other_size),
           "a reduction with large counts between communicators: code %d, %d", code, got[0]);
}

/* A call that is the MPI's. Counts that are not significant may be larger than it can take. */
static void run_insignificant_counts(const struct halves *halves) {
    typedef int move(const void *, MPI_Count, MPI_Datatype, void *, MPI_Count, MPI_Datatype, int, MPI_Comm);
    move *const gather = (move *)dlsym(RTLD_DEFAULT, "MPI_Gather_c"), *const scatter =
                                                                          (move *)dlsym(RTLD_DEFAULT, "MPI_Scatter_c");
    const int root = halves->first ? 0 : world_rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
    const MPI_Count huge = (MPI_Count)1 << 40, at_root = root == MPI_ROOT ? 1 : huge, elsewhere = root == 0 ? 1 : huge;
    int numbers[64] = {0}, number = world_rank;
    if (!gather || !scatter)
        return;
    int code = gather(&number, elsewhere, MPI_INT, numbers, at_root, MPI_INT, root, halves->both);
    for (int i = 0; root == MPI_ROOT && i < halves->other_size; i++)
        expect(numbers[i] == halves->other_first + i, "a gather between communicators: %d", numbers[i]);
    expect(code == MPI_SUCCESS, "a gather between communicators: code %d", code);
    code = scatter(numbers, at_root, MPI_INT, &number, elsewhere, MPI_INT, root, halves->both);
    expect(code == MPI_SUCCESS && number == world_rank, "a scatter between communicators: code %d, %d", code, number);
}

/* As many counts as the other half has ranks: behind them nothing can be read. Those of a rank that sends to a root are
 * not significant. */
static void run_counts_between(const struct halves *halves) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *const pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int *const counts = (int *)(void *)(pages + page) - halves->other_size, *const places = counts - halves->other_size;
    const int root = halves->first ? 0 : world_rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
    const int *const nothing = (int *)(void *)(pages + page);
    MPI_Comm copy; /* MPI_Intercomm_create itself makes none that is known */
    mprotect(pages + page, page, PROT_NONE);
    MPI_Comm_dup(halves->both, &copy);
    for (int i = 0; i < halves->other_size; i++) {
        counts[i] = 1;
        places[i] = i;
    }
    for (int round = 0; round < 5; round++) {
        int all[16] = {0}, gathered[16] = {0};
        MPI_Allgatherv(&world_rank, 1, MPI_INT, all, counts, places, MPI_INT, copy);
        expect(all[halves->other_size - 1] == halves->other_first + halves->other_size - 1,
               "an all-gather with counts between communicators gave %d", all[halves->other_size - 1]);
        const bool has_counts = root == MPI_ROOT;
        MPI_Gatherv(&world_rank, 1, MPI_INT, gathered, has_counts ? counts : nothing, has_counts ? places : nothing,
                    has_counts ? MPI_INT : MPI_DATATYPE_NULL, root, copy);
        expect(!has_counts || gathered[0] == halves->other_first, "a gather between communicators gave %d",
               gathered[0]);
    }
    MPI_Comm_free(&copy);
    munmap(pages, 2 * page);
}

void run_between_communicators(void) {
    struct halves halves;
    if (world_size < 2)
        return;
    const int middle = world_size / 2, second = world_rank >= middle;
    halves.first = second ? middle : 0;
    halves.size = second ? world_size - middle : middle;
    halves.other_first = second ? 0 : middle;
    halves.other_size = world_size - halves.size;
    MPI_Comm_split(MPI_COMM_WORLD, second, 0, &halves.local);
    MPI_Intercomm_create(halves.local, 0, MPI_COMM_WORLD, halves.other_first, 5, &halves.both);
    for (int round = 0; round < 5; round++) { /* longer than any start that kolo leaves to the MPI */
        int sum = -1, all[16];
        MPI_Barrier(halves.both);
        MPI_Allreduce(&world_rank, &sum, 1, MPI_INT, MPI_SUM, halves.both);
        expect(sum == sum_of_ranks(halves.other_first, halves.other_size), "a sum between communicators gave %d", sum);
        MPI_Allgather(&world_rank, 1, MPI_INT, all, 1, MPI_INT, halves.both);
        for (int i = 0; i < halves.other_size; i++)
            expect(all[i] == halves.other_first + i, "an all-gather between communicators gave %d", all[i]);
        run_rooted_between(&halves);
        run_divided_between(&halves);
        run_insignificant_counts(&halves);
    }
    run_counts_between(&halves);
    MPI_Comm merged;
    int highest = -1;
    MPI_Intercomm_merge(halves.both, second, &merged);
    for (int round = 0; round < 5; round++) {
        MPI_Allreduce(&world_rank, &highest, 1, MPI_INT, MPI_MAX, merged);
        expect(highest == world_size - 1, "the maximum of merged communicators was %d", highest);
    }
    MPI_Comm_free(&merged);
    MPI_Comm_free(&halves.both);
    MPI_Comm_free(&halves.local);
}

/* Wrong arguments: the MPI's own error, and the communicator can go on. */

static int handled;

static void note_error(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    MPI_Error_class(*code, &handled);
}

static void expect_class(MPI_Comm comm, int code, int due, const char *what) {
    int class = MPI_SUCCESS, sum = 0;
    MPI_Error_class(code, &class);
    expect(class == due, "%s: error class %d instead of %d", what, class, due);
    MPI_Allreduce(&world_rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    expect(sum == sum_of_ranks(0, world_size), "after %s a sum is %d", what, sum);
}

/* Of bytes that 64 bits do not count: the MPI says so, or kolo. */
static void run_too_many(MPI_Comm comm) {
    typedef int bcast(void *, MPI_Count, MPI_Datatype, int, MPI_Comm);
    typedef int reduce_scatter_block(const void *, void *, MPI_Count, MPI_Datatype, MPI_Op, MPI_Comm);
    bcast *const broadcast = (bcast *)dlsym(RTLD_DEFAULT, "MPI_Bcast_c");
    reduce_scatter_block *const reduce = (reduce_scatter_block *)dlsym(RTLD_DEFAULT, "MPI_Reduce_scatter_block_c");
    double in[4] = {0}, out[4];
    if (!broadcast || !reduce)
        return;
    expect(broadcast(in, (MPI_Count)1 << 61, MPI_DOUBLE, 0, comm) != MPI_SUCCESS, "2^61 doubles got no error");
    expect(reduce(in, out, (MPI_Count)1 << 61, MPI_DOUBLE, MPI_SUM, comm) != MPI_SUCCESS, "2^61 sums got no error");
}

static void run_wrong_arguments(MPI_Comm comm) {
    int in[4] = {0}, out[64] = {0}, nothing[64] = {0};
    run_too_many(comm);
    MPI_Gatherv(in, 0, MPI_INT, out, nothing, NULL, MPI_INT, 0, comm); /* the MPI may miss places, at the root alone */
    MPI_Scatterv(out, nothing, NULL, MPI_INT, in, 0, MPI_INT, 0, comm);
    expect_class(comm, MPI_Allreduce(in, out, -1, MPI_INT, MPI_SUM, comm), MPI_ERR_COUNT, "a negative count");
    expect_class(comm, MPI_Bcast(in, 1, MPI_DATATYPE_NULL, 0, comm), MPI_ERR_TYPE, "no type");
    expect_class(comm, MPI_Allreduce(in, out, 1, MPI_INT, MPI_OP_NULL, comm), MPI_ERR_OP, "no operation");
    expect_class(comm, MPI_Allreduce(in, out, 1, MPI_DOUBLE, MPI_BAND, comm), MPI_ERR_OP, "bits of a double");
    expect_class(comm, MPI_Allreduce(in, out, 1, MPI_INT, MPI_MINLOC, comm), MPI_ERR_OP, "a place without a pair");
    expect_class(comm, MPI_Bcast(in, 1, MPI_INT, world_size, comm), MPI_ERR_ROOT, "a root that is too high");
    expect_class(comm, MPI_Bcast(in, 1, MPI_INT, -7, comm), MPI_ERR_ROOT, "a root below zero");
    expect_class(comm, MPI_Bcast(in, -1, MPI_INT, 0, comm), MPI_ERR_COUNT, "a negative count");
    expect_class(comm, MPI_Reduce(in, out, 1, MPI_INT, MPI_SUM, world_size, comm), MPI_ERR_ROOT, "a root");
    expect_class(comm, MPI_Gather(in, 1, MPI_INT, out, 1, MPI_INT, -9, comm), MPI_ERR_ROOT, "a root");
    expect_class(comm, MPI_Allgather(in, -1, MPI_INT, out, 1, MPI_INT, comm), MPI_ERR_COUNT, "a negative count");
    expect_class(comm, MPI_Alltoall(in, 1, MPI_DATATYPE_NULL, out, 1, MPI_INT, comm), MPI_ERR_TYPE, "no type");
    expect_class(comm, MPI_Scan(in, out, -1, MPI_INT, MPI_SUM, comm), MPI_ERR_COUNT, "a negative count");
    expect_class(comm, MPI_Barrier(MPI_COMM_NULL), MPI_ERR_COMM, "no communicator");
}

void run_errors(void) {
    MPI_Comm comm;
    MPI_Errhandler handler;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int round = 0; round < 3; round++)
        run_wrong_arguments(comm);
    int in = 0, out = 0;
    MPI_Comm_create_errhandler(note_error, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    expect_class(comm, MPI_Allreduce(&in, &out, -1, MPI_INT, MPI_SUM, comm), MPI_ERR_COUNT, "a count, with a handler");
    expect(handled == MPI_ERR_COUNT, "the handler was called with class %d", handled);
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&comm);
}
