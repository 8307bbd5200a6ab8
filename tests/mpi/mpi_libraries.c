/* Others' libraries that are built on MPI, at work on numbers that are the same in each run. The compiler is told which
 * one: USE_FFTW, USE_SCALAPACK or USE_HDF5. Each rank prints a checksum of its part of the result, rank 0 the time of a
 * round.
 *
 * mpi_libraries SIZE ROUNDS FILE: of a square matrix; FILE is where HDF5 writes. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "mpi_testing.h"
#include "splitmix64.h"

static int size, rounds;
static uint64_t checksum = 0xcbf29ce484222325; /* FNV-1a */

static void add_to_checksum(const void *data, size_t bytes) {
    for (const unsigned char *byte = data; bytes; bytes--)
        checksum = (checksum ^ *byte++) * 0x100000001b3;
}

/* Of the whole matrix, whichever rank has it: from -1 to 1. */
static double element(int row, int column) {
    uint64_t state = (uint64_t)row * (uint64_t)size + (uint64_t)column;
    return (double)random_next(&state) / (double)(UINT64_C(1) << 63) - 1;
}

static void *allocate(size_t count, size_t bytes) {
    void *const memory = calloc(count, bytes);
    if (!memory)
        exit(2);
    return memory;
}

static double begin_s;

static void begin_rounds(void) {
    MPI_Barrier(MPI_COMM_WORLD);
    begin_s = MPI_Wtime();
}

static void end_rounds(void) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank == 0)
        printf("%.1f us a round\n", (MPI_Wtime() - begin_s) * 1e6 / rounds);
}

#ifdef USE_FFTW
#include <fftw3-mpi.h>

/* Fourier transforms in two dimensions. */
static void work(const char *file) {
    (void)file;
    ptrdiff_t rows, first;
    fftw_mpi_init();
    const ptrdiff_t held = fftw_mpi_local_size_2d(size, size, MPI_COMM_WORLD, &rows, &first);
    fftw_complex *const in = allocate((size_t)held, sizeof *in), *const out = allocate((size_t)held, sizeof *out);
    fftw_plan plan =
        fftw_mpi_plan_dft_2d(size, size, in, out, MPI_COMM_WORLD, FFTW_FORWARD, FFTW_ESTIMATE | FFTW_UNALIGNED);
    for (ptrdiff_t i = 0; i < rows * size; i++)
        in[i][0] = element((int)(first + i / size), (int)(i % size));
    begin_rounds();
    for (int round = 0; round < rounds; round++)
        fftw_execute(plan);
    end_rounds();
    add_to_checksum(out, (size_t)(rows * size) * sizeof *out);
    fftw_destroy_plan(plan);
    fftw_mpi_cleanup();
    free(in);
    free(out);
}
#endif

#ifdef USE_SCALAPACK
void Cblacs_get(int context, int what, int *value);
void Cblacs_gridinit(int *context, const char *order, int rows, int columns);
void Cblacs_gridexit(int context);
void descinit_(int *descriptor, const int *m, const int *n, const int *mb, const int *nb, const int *row,
               const int *column, const int *context, const int *lead, int *info);
void pdgesv_(const int *n, const int *nrhs, double *a, const int *ia, const int *ja, const int *desca, int *pivots,
             double *b, const int *ib, const int *jb, const int *descb, int *info);

/* Systems of linear equations. Ranks have blocks of columns, rank 0 the right side. */
static void work(const char *file) {
    (void)file;
    enum { BLOCK = 32 };
    const int one = 1, none = 0, block = BLOCK;
    int context, info, desc_a[9], desc_b[9], columns = 0;
    Cblacs_get(-1, 0, &context);
    Cblacs_gridinit(&context, "Row", 1, world_size);
    descinit_(desc_a, &size, &size, &block, &block, &none, &none, &context, &size, &info);
    descinit_(desc_b, &size, &one, &block, &block, &none, &none, &context, &size, &info);
    const size_t lead = (size_t)size;
    double *const a = allocate(lead * lead, sizeof *a), *const b = allocate(lead, sizeof *b);
    int *const pivots = allocate(lead + BLOCK, sizeof *pivots);
    begin_rounds();
    for (int round = 0; round < rounds; round++) {
        columns = 0;
        for (int column = 0; column < size; column++)
            if (column / BLOCK % world_size == world_rank) {
                for (int row = 0; row < size; row++)
                    a[(size_t)columns * lead + (size_t)row] = element(row, column);
                columns++;
            }
        for (int row = 0; row < size; row++)
            b[row] = element(size, row);
        pdgesv_(&size, &one, a, &one, &one, desc_a, pivots, b, &one, &one, desc_b, &info);
        expect(info == 0, "pdgesv says %d", info);
    }
    end_rounds();
    add_to_checksum(a, (size_t)columns * lead * sizeof *a);
    add_to_checksum(b, lead * sizeof *b);
    Cblacs_gridexit(context);
    free(a);
    free(b);
    free(pivots);
}
#endif

#ifdef USE_HDF5
#include <hdf5.h>

/* Moves a block of the file's matrix between it and memory, all ranks together. */
static void move(hid_t dataset, const hsize_t first[2], const hsize_t count[2], double *memory, bool writes) {
    const hid_t inside = H5Dget_space(dataset), outside = H5Screate_simple(2, count, NULL),
                together = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_dxpl_mpio(together, H5FD_MPIO_COLLECTIVE);
    H5Sselect_hyperslab(inside, H5S_SELECT_SET, first, NULL, count, NULL);
    const herr_t rc = writes ? H5Dwrite(dataset, H5T_NATIVE_DOUBLE, outside, inside, together, memory)
                             : H5Dread(dataset, H5T_NATIVE_DOUBLE, outside, inside, together, memory);
    expect(rc >= 0, "HDF5 says %d", (int)rc);
    H5Pclose(together);
    H5Sclose(outside);
    H5Sclose(inside);
}

/* Files: each rank writes a block of rows, and reads one of columns. */
static void work(const char *file) {
    const hsize_t whole[2] = {(hsize_t)size, (hsize_t)size}, share = (hsize_t)(size / world_size);
    const hsize_t rows[2] = {share, whole[1]}, row[2] = {share * (hsize_t)world_rank, 0},
                  columns[2] = {whole[0], share}, column[2] = {0, row[0]};
    double *const memory = allocate((size_t)(share * whole[1]), sizeof *memory);
    const hid_t parallel = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(parallel, MPI_COMM_WORLD, MPI_INFO_NULL);
    begin_rounds();
    for (int round = 0; round < rounds; round++) {
        for (hsize_t i = 0; i < share * whole[1]; i++)
            memory[i] = element((int)(row[0] + i / whole[1]), (int)(i % whole[1]));
        const hid_t written = H5Fcreate(file, H5F_ACC_TRUNC, H5P_DEFAULT, parallel),
                    space = H5Screate_simple(2, whole, NULL);
        const hid_t dataset =
            H5Dcreate(written, "matrix", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        move(dataset, row, rows, memory, true);
        H5Dclose(dataset);
        H5Sclose(space);
        H5Fclose(written);
        const hid_t read = H5Fopen(file, H5F_ACC_RDONLY, parallel), again = H5Dopen(read, "matrix", H5P_DEFAULT);
        move(again, column, columns, memory, false);
        H5Dclose(again);
        H5Fclose(read);
    }
    end_rounds();
    add_to_checksum(memory, (size_t)(share * whole[0]) * sizeof *memory);
    H5Pclose(parallel);
    free(memory);
}
#endif

int main(int argc, char **argv) {
    job_begin(&argc, &argv, MPI_THREAD_SINGLE);
    if (argc != 4)
        return 2;
    size = atoi(argv[1]);
    rounds = atoi(argv[2]);
    work(argv[3]);
    printf("rank %d: %016llx\n", world_rank, (unsigned long long)checksum);
    return job_end();
}
