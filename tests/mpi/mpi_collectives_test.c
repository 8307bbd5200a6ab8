/* Every blocking collective of MPI, on every predefined type with every operation that the standard allows, and on
 * derived types, on communicators of all kinds. It is right without kolo, so that it shows what differs with it.
 *
 *     mpirun -n 3 ./mpi_collectives_test [--quick] [--strict]
 *
 * --strict: also what the MPIs themselves do wrong. Open MPI 4.1 and MPICH 4.0 take some unsigned types for signed in
 * minima and maxima, or the other way round. MPICH 4.0 crashes in a large MPI_Reduce in place whose root isn't rank 0,
 * and of pairs with a gap it truncates long messages: in MPI_Alltoallv_c in place of derived types, for one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mpi_calls.h"
#include "mpi_testing.h"
#include "splitmix64.h"

enum { LIMIT_S = 120 };

static bool quick;
static long calls, left_out;
static uint64_t draws = 1;

static bool is_wrong_in_mpi(const struct call *call) {
#ifdef MPICH
    const bool is_ours = is_strict && call->collective != CALL_ALLTOALLW;
    const struct element *element = call->element;
    const bool has_gap = element->number == NUMBER_PAIR && element->bytes > element->sizes[0] + element->sizes[1];
    const bool is_reduced_at_root = call->collective == CALL_REDUCE && call->in_place && call->root > 0;
    return !is_ours && call->count > 100 && (has_gap || is_reduced_at_root);
#else
    (void)call;
    return false;
#endif
}

static void run(struct call call, const char *communicator) {
    if (is_wrong_in_mpi(&call)) {
        left_out++;
        return;
    }
    call.draw = random_next(&draws);
    const char *problem = call_run(&call);
    calls++;
    expect(!problem, "%s on %s: %s", call_words(&call), communicator, problem);
}

/* Not all ranks have been in the same communicators before. */
static void begin(const char *communicator) {
    draws = strlen(communicator);
    watch(LIMIT_S, communicator);
}

/* In place and not, with counts that are MPI_Count where there are such. */
static void run_forms(struct call call, const char *communicator) {
    const bool is_mean = call_traits[call.collective].works_in_place;
    for (int form = 0; form < 4; form++) {
        call.in_place = form & 1;
        call.large = form & 2;
        call.rubbish = calls & 1;
        if ((!call.in_place || is_mean) && (!call.large || call_has_large(call.collective)))
            run(call, communicator);
    }
}

static void run_every_reduction(MPI_Comm comm, const char *name) {
    static const int counts[] = {0, 5, 300};
    int size;
    MPI_Comm_size(comm, &size);
    for (int e = 0; e < mpi_elements_count; e++)
        for (int o = 0; o < OPERATIONS; o++)
            for (int c = 0; c < CALLS; c++)
                for (int n = 0; n < 3; n++) {
                    const bool is_left_out = quick && (e + 3 * o + c + n) % 16;
                    if (call_traits[c].reduces && operation_exists(&mpi_operations[o], &mpi_elements[e]) &&
                        !is_left_out)
                        run_forms((struct call){.collective = (enum collective)c,
                                                .comm = comm,
                                                .element = &mpi_elements[e],
                                                .operation = &mpi_operations[o],
                                                .count = counts[n],
                                                .root = (e + o) % size},
                                  name);
                }
}

static void run_every_movement(MPI_Comm comm, const char *name) {
    static const int counts[] = {0, 1, 7, 900};
    int size;
    MPI_Comm_size(comm, &size);
    for (int e = 0; e < mpi_elements_count; e++)
        for (int c = 0; c < CALLS; c++)
            for (int n = 0; n < 4 && element_exists(&mpi_elements[e]); n++)
                if (!call_traits[c].reduces && !(quick && (e + c + n) % 8))
                    run_forms((struct call){.collective = (enum collective)c,
                                            .comm = comm,
                                            .element = &mpi_elements[e],
                                            .count = counts[n],
                                            .root = (e + n) % size},
                              name);
}

static void run_derived(MPI_Comm comm, const char *name, int rounds) {
    static const char *const names[] = {"MPI_INT",  "MPI_DOUBLE",    "MPI_SHORT",       "MPI_DOUBLE_INT",
                                        "MPI_CHAR", "MPI_SHORT_INT", "MPI_LONG_DOUBLE", "MPI_C_DOUBLE_COMPLEX"};
    static const int counts[] = {0, 12, 12, 120, 1200};
    int size;
    begin(name);
    MPI_Comm_size(comm, &size);
    for (int round = 0; round < rounds; round++)
        for (int c = CALL_BCAST; c < CALLS; c++)
            for (int e = round % 2; e < 8 && !call_traits[c].reduces; e += 2)
                run_forms((struct call){.collective = (enum collective)c,
                                        .comm = comm,
                                        .element = element_named(names[e]),
                                        .count = counts[(round + e + c) % 5],
                                        .root = round % size,
                                        .derived = true},
                          name);
}

/* All collectives with a type or two, each root, and sizes between small and large. */
static void run_few(MPI_Comm comm, const char *name, int largest) {
    const struct element *const elements[] = {element_named("MPI_DOUBLE"), element_named("MPI_UNSIGNED_CHAR")};
    int size;
    begin(name);
    MPI_Comm_size(comm, &size);
    for (int c = 0; c < CALLS; c++)
        for (int root = 0; root < size; root++)
            for (int count = 1, n = 0; count <= largest; count *= 50, n++)
                run_forms((struct call){.collective = (enum collective)c,
                                        .comm = comm,
                                        .element = elements[n % 2],
                                        .operation = call_traits[c].reduces ? &mpi_operations[n % 4] : NULL,
                                        .count = count,
                                        .root = root},
                          name);
}

static void run_communicators(void) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    run_few(comm, "a copy", quick ? 3000 : 125000);
    run_derived(comm, "a copy", quick ? 1 : 4);
    MPI_Comm again;
    MPI_Comm_dup(comm, &again);
    MPI_Comm_free(&comm); /* what is made of it outlives it */
    run_few(again, "a copy of a copy", 50);
    MPI_Comm_free(&again);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &comm);
    run_few(comm, "ranks reversed", 2500);
    run_derived(comm, "ranks reversed", quick ? 1 : 4);
    MPI_Comm_free(&comm);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2 ? 0 : world_rank == 0 ? MPI_UNDEFINED : 1, 0, &comm);
    if (comm != MPI_COMM_NULL) {
        run_few(comm, "a split", 2500);
        MPI_Comm_free(&comm);
    }
    const int periods[] = {1};
    MPI_Cart_create(MPI_COMM_WORLD, 1, &world_size, periods, 0, &comm);
    run_few(comm, "a grid", 50);
    MPI_Comm_free(&comm);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    run_few(MPI_COMM_SELF, "self", 2500);
    run_derived(MPI_COMM_SELF, "self", 1);
}

/* A datatype of addresses, from MPI_BOTTOM on, as MPI-IO of MPICH has. */
static void run_addresses(void) {
    static const int lengths[] = {1, 1};
    const MPI_Datatype types[] = {MPI_LONG_LONG, MPI_INT};
    struct {
        long long large;
        int small;
    } mine, all[MPI_RANKS_MAX];
    MPI_Aint places[2];
    MPI_Datatype absolute, relative;
    MPI_Get_address(&mine.large, &places[0]);
    MPI_Get_address(&mine.small, &places[1]);
    MPI_Type_create_struct(2, lengths, places, types, &absolute);
    places[1] -= places[0];
    places[0] = 0;
    MPI_Type_create_struct(2, lengths, places, types, &relative);
    MPI_Type_commit(&absolute);
    MPI_Type_commit(&relative);
    for (int root = 0; root < world_size; root++) {
        mine.large = world_rank + (1LL << 40);
        mine.small = -world_rank - 1;
        memset(all, 0, sizeof all);
        MPI_Gather(MPI_BOTTOM, 1, absolute, all, 1, relative, root, MPI_COMM_WORLD);
        for (int rank = 0; world_rank == root && rank < world_size; rank++)
            expect(all[rank].large == rank + (1LL << 40) && all[rank].small == -rank - 1,
                   "gathered from addresses of rank %d: %lld, %d", rank, all[rank].large, all[rank].small);
        MPI_Bcast(MPI_BOTTOM, 1, absolute, root, MPI_COMM_WORLD);
        expect(mine.large == root + (1LL << 40) && mine.small == -root - 1, "broadcast to addresses: %lld, %d",
               mine.large, mine.small);
    }
    MPI_Type_free(&absolute);
    MPI_Type_free(&relative);
}

/* One made of a datatype that the MPI has for Fortran, which nobody may free. */
static void run_fortran_type(void) {
    double numbers[4];
    MPI_Datatype real, pair;
    MPI_Type_create_f90_real(15, 200, &real);
    MPI_Type_contiguous(2, real, &pair);
    MPI_Type_commit(&pair);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 4; i++)
            numbers[i] = world_rank ? -1 : round + i;
        MPI_Bcast(numbers, 2, pair, 0, MPI_COMM_WORLD);
        expect(numbers[0] == round && numbers[3] == round + 3, "numbers of Fortran's: %g, %g", numbers[0], numbers[3]);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Type_free(&pair);
}

static void expect_block(const void *at, int numbers, int value, const char *what) {
    const int *const block = at;
    expect(block[0] == value && block[numbers - 1] == value, "%s blocks of their own: from %d to %d instead of %d",
           what, block[0], block[numbers - 1], value);
}

/* Blocks that were allocated one by one, those sent and those received in turn: nothing can be read between them. */
static void run_single_blocks(void) {
    const int page = (int)sysconf(_SC_PAGESIZE), numbers = page / (int)sizeof(int);
    const size_t bytes = 4 * (size_t)world_size * (size_t)page;
    int *const sent = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int *const received = sent + 2 * numbers;
    int counts[MPI_RANKS_MAX], places[MPI_RANKS_MAX];
    for (int rank = 0; rank < world_size; rank++) {
        counts[rank] = numbers;
        places[rank] = 4 * numbers * rank;
        mprotect(sent + places[rank], (size_t)page, PROT_READ | PROT_WRITE);
        mprotect(received + places[rank], (size_t)page, PROT_READ | PROT_WRITE);
    }
    for (int root = 0; root < world_size; root++) {
        for (int rank = 0; rank < world_size; rank++)
            for (int i = 0; i < numbers; i++)
                sent[places[rank] + i] = 100 * root + 10 * world_rank + rank;
        MPI_Alltoallv(sent, counts, places, MPI_INT, received, counts, places, MPI_INT, MPI_COMM_WORLD);
        for (int rank = 0; rank < world_size; rank++)
            expect_block(received + places[rank], numbers, 100 * root + 10 * rank + world_rank, "MPI_Alltoallv");
        MPI_Scatterv(sent, counts, places, MPI_INT, received, numbers, MPI_INT, root, MPI_COMM_WORLD);
        expect_block(received, numbers, 110 * root + world_rank, "MPI_Scatterv");
        MPI_Gatherv(received, numbers, MPI_INT, sent, counts, places, MPI_INT, root, MPI_COMM_WORLD);
        for (int rank = 0; world_rank == root && rank < world_size; rank++)
            expect_block(sent + places[rank], numbers, 110 * root + rank, "MPI_Gatherv");
        MPI_Allgatherv(received, numbers, MPI_INT, sent, counts, places, MPI_INT, MPI_COMM_WORLD);
        for (int rank = 0; rank < world_size; rank++)
            expect_block(sent + places[rank], numbers, 110 * root + rank, "MPI_Allgatherv");
    }
    munmap(sent, bytes);
}

/* Blocks of which one is received at the bottom of memory and another at the top: all else lies between them, what is
 * sent included, and what is allocated for the call. */
static void run_far_blocks(void) {
    enum { NUMBERS = 1 << 14, BYTES = NUMBERS * sizeof(int) }; /* as large as an int needs to count them from there */
    const size_t bytes = (MPI_RANKS_MAX + 1) * (size_t)BYTES;
    char room[2 * BYTES], *const top = room + BYTES - (uintptr_t)room % BYTES;
    char *const mapped = mmap((void *)0x10000000, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *const bottom = mapped + BYTES - (uintptr_t)mapped % BYTES;
    int *const sent = malloc(bytes), counts[MPI_RANKS_MAX], order[MPI_RANKS_MAX], places[MPI_RANKS_MAX];
    MPI_Datatype type;
    MPI_Type_contiguous(NUMBERS, MPI_INT, &type);
    MPI_Type_commit(&type);
    for (int rank = 0; rank < world_size; rank++) {
        counts[rank] = 1;
        order[rank] = places[rank] = rank;
        for (int i = 0; i < NUMBERS; i++)
            sent[rank * NUMBERS + i] = 10 * world_rank + rank;
    }
    places[0] = (int)((top - bottom) / BYTES);
    MPI_Alltoallv(sent, counts, order, type, bottom, counts, places, type, MPI_COMM_WORLD);
    for (int rank = 0; rank < world_size; rank++)
        expect_block(bottom + (ptrdiff_t)places[rank] * BYTES, NUMBERS, 10 * rank + world_rank, "MPI_Alltoallv");
    MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, type, bottom, counts, places, type, MPI_COMM_WORLD); /* back */
    for (int rank = 0; rank < world_size; rank++)
        expect_block(bottom + (ptrdiff_t)places[rank] * BYTES, NUMBERS, 10 * world_rank + rank, "MPI_Alltoallv, back:");
    MPI_Allgatherv(sent, 1, type, bottom, counts, places, type, MPI_COMM_WORLD);
    for (int rank = 0; rank < world_size; rank++)
        expect_block(bottom + (ptrdiff_t)places[rank] * BYTES, NUMBERS, 10 * rank, "MPI_Allgatherv");
    MPI_Type_free(&type);
    munmap(mapped, bytes);
    free(sent);
}

int main(int argc, char **argv) {
    job_begin(&argc, &argv, MPI_THREAD_SINGLE);
    for (int i = 1; i < argc; i++) {
        quick |= strcmp(argv[i], "--quick") == 0;
        is_strict |= strcmp(argv[i], "--strict") == 0;
    }
    if (world_size > MPI_RANKS_MAX) {
        fail("at most %d ranks", MPI_RANKS_MAX);
        return job_end();
    }
    watch(LIMIT_S, "reductions");
    run_every_reduction(MPI_COMM_WORLD, "world");
    watch(LIMIT_S, "movements");
    run_every_movement(MPI_COMM_WORLD, "world");
    run_derived(MPI_COMM_WORLD, "world", quick ? 2 : 20);
    run_communicators();
    run_addresses();
    run_single_blocks();
    run_far_blocks();
    run_fortran_type();
    watch(LIMIT_S, "what kolo leaves to the MPI");
    run_own_operations();
    run_between_communicators();
    watch(LIMIT_S, "errors");
#ifndef MPICH /* as Debian builds it, it checks no arguments and crashes */
    run_errors();
#endif
    const char *problem = regions_end();
    expect(!problem, "%s", problem);
    if (world_rank == 0)
        printf("%ld calls, %ld left out\n", calls, left_out);
    return job_end();
}
