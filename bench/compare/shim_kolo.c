/* kolo itself, through its public interface as any program uses it. */
#include <stdio.h>

#include "driver.h"
#include "perf_collectives.h"

static kolo_comm *comm;
static const perf_collective *collective_in_use;
static kolo_dtype dtype_in_use;

static int check(int status) {
    if (status == KOLO_OK)
        return 0;
    fprintf(stderr, "driver: %s\n", kolo_error_message());
    return DRIVER_FAILED;
}

static int begin(kolo_collective collective, kolo_dtype dtype, int *rank, int *ranks, const char **library) {
    static char name[64];
    dtype_in_use = dtype;
    collective_in_use = perf_collective_find(collective);
    if (check(kolo_comm_create(&comm, NULL)) != 0)
        return DRIVER_FAILED;
    *rank = kolo_comm_rank(comm);
    *ranks = kolo_comm_size(comm);
    snprintf(name, sizeof(name), "kolo %s", kolo_version());
    *library = name;
    return 0;
}

static int call(const void *send, void *recv, size_t count) {
    return check(collective_in_use->call(&(perf_call){
        .comm = comm, .send = (void *)send, .recv = recv, .count = count, .dtype = dtype_in_use, .op = KOLO_SUM}));
}

static int end(void) {
    return check(kolo_comm_destroy(comm));
}

int main(int argc, char **argv) {
    static const driver_shim shim = {begin, call, end};
    return driver_run(argc, argv, &shim);
}
