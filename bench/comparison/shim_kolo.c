/* kolo itself, through its public interface as any program uses it. */
#include <stdio.h>

#include "driver.h"

static kolo_comm *comm;
static kolo_dtype dtype_in_use;

static int check(int status) {
    if (status == KOLO_OK)
        return 0;
    fprintf(stderr, "driver: %s\n", kolo_error_message());
    return DRIVER_FAILED;
}

static int begin(kolo_dtype dtype, int *rank, int *ranks, const char **library) {
    static char name[64];
    dtype_in_use = dtype;
    if (check(kolo_comm_create(&comm, NULL)) != 0)
        return DRIVER_FAILED;
    *rank = kolo_comm_rank(comm);
    *ranks = kolo_comm_size(comm);
    snprintf(name, sizeof(name), "kolo %s", kolo_version());
    *library = name;
    return 0;
}

static int allreduce(const void *send, void *recv, size_t count) {
    return check(kolo_allreduce(comm, send, recv, count, dtype_in_use, KOLO_SUM));
}

static int end(void) {
    return check(kolo_comm_destroy(comm));
}

int main(int argc, char **argv) {
    static const driver_shim shim = {begin, allreduce, end};
    return driver_run(argc, argv, &shim);
}
