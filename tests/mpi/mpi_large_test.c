/* One element of more than 2 GiB, which no int counts in bytes, with gaps where it arrives. What is sent overlaps, so
 * that 6 GiB of memory suffice: the element packed on each of the two ranks, and received.
 *
 *     mpirun -n 2 ./mpi_large_test */
#include <stdlib.h>
#include <string.h>

#include "mpi_testing.h"

enum { BLOCKS = 2049, BLOCK_BYTES = 1 << 20, GAP_BYTES = 64, STEP_BYTES = 509, LIMIT_S = 120 };

static unsigned char source[BLOCK_BYTES + BLOCKS * STEP_BYTES];

/* Blocks with so many bytes from the beginning of one to that of the next. */
static MPI_Datatype make_type(MPI_Aint stride) {
    MPI_Datatype type;
    MPI_Type_create_hvector(BLOCKS, BLOCK_BYTES, stride, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    return type;
}

static void check(const unsigned char *received) {
    for (size_t i = 0; i < BLOCKS; i++) {
        const unsigned char *const block = received + i * (BLOCK_BYTES + GAP_BYTES);
        expect(memcmp(block, source + i * STEP_BYTES, BLOCK_BYTES) == 0, "block %zu is wrong", i);
        for (size_t at = 0; at < GAP_BYTES; at++)
            expect(block[BLOCK_BYTES + at] == 0, "the gap after block %zu was written", i);
    }
}

int main(int argc, char **argv) {
    job_begin(&argc, &argv, MPI_THREAD_SINGLE);
    const bool sends = world_rank == 0;
    watch(LIMIT_S, "MPI_Bcast of 2 GiB");
    for (size_t i = 0; i < sizeof source; i++)
        source[i] = (unsigned char)(i * 2654435761u >> 20);
    MPI_Datatype type = make_type(sends ? STEP_BYTES : BLOCK_BYTES + GAP_BYTES);
    unsigned char *const buffer = sends ? source : calloc(BLOCKS, BLOCK_BYTES + GAP_BYTES);
    if (expect(buffer != NULL, "no memory")) {
        MPI_Bcast(buffer, 1, type, 0, MPI_COMM_WORLD);
        if (!sends)
            check(buffer);
    }
    if (!sends)
        free(buffer);
    MPI_Type_free(&type);
    return job_end();
}
