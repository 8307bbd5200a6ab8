/* A program outside kolo's tree: sums one number over all ranks.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <kolo.h>

#include <stdio.h>

int main(void) {
    kolo_comm *comm = NULL;
    if (kolo_comm_create(&comm, NULL) < 0) {
        fprintf(stderr, "consumer: %s\n", kolo_error_message());
        return 1;
    }
    float one = 1, sum = 0;
    int status = kolo_allreduce(comm, &one, &sum, 1, KOLO_F32, KOLO_SUM);
    int size = kolo_comm_size(comm);
    kolo_comm_destroy(comm);
    if (status < 0 || sum != (float)size) {
        fprintf(stderr, "consumer: %g instead of %d: %s\n", sum, size, kolo_strerror(status));
        return 1;
    }
    printf("consumer: kolo %s, %d rank(s)\n", kolo_version(), size);
    return 0;
}
