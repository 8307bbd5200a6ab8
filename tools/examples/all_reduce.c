/* Each rank gets the average of all ranks' numbers.
 *
 *     cc all_reduce.c -o all_reduce $(pkg-config --cflags --libs kolo)
 *     kolorun -n 2 ./all_reduce
 *
 * Each rank prints a line, in any order:
 *
 *     rank 0 of 2: 1 2 0.5
 *     rank 1 of 2: 1 2 0.5
 */
#include <kolo.h>
#include <stdio.h>

int main(void) {
    kolo_comm *comm;
    if (kolo_comm_create(&comm, NULL) < 0) { /* the launcher tells rank, size */
        fprintf(stderr, "%s\n", kolo_error_message());
        return 1;
    }
    int rank = kolo_comm_rank(comm), size = kolo_comm_size(comm);
    float x[3] = {1, 2, (float)rank};
    int rc = kolo_allreduce(comm, x, x, 3, KOLO_F32, KOLO_AVG);
    if (rc < 0)
        fprintf(stderr, "%s\n", kolo_error_message());
    else
        printf("rank %d of %d: %g %g %g\n", rank, size, x[0], x[1], x[2]);
    kolo_comm_destroy(comm);
    return rc < 0;
}
