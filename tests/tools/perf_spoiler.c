/* Preloaded into kolo-perf, spoils calls of kolo, which --check has to find. SPOILED says which: "sums" of all-reduces,
 * and what kolo_recv gives. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kolo.h"

static bool is_spoiled(const char *what) {
    const char *spoiled = getenv("SPOILED");
    return spoiled && strcmp(spoiled, what) == 0;
}

#define NEXT(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

int kolo_allreduce(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op) {
    const int status = NEXT(kolo_allreduce)(comm, send, recv, count, dtype, op);
    if (is_spoiled("sums") && (op == KOLO_SUM || op == KOLO_AVG))
        memset(recv, 0, count * kolo_dtype_bytes(dtype));
    return status;
}

int kolo_start(kolo_comm *comm, const kolo_call *call, kolo_request **request) {
    kolo_call started = *call;
    if (is_spoiled("sums") && started.op == KOLO_SUM)
        started.op = KOLO_MAX;
    return NEXT(kolo_start)(comm, &started, request);
}

int kolo_recv(kolo_comm *comm, void *buffer, size_t count, kolo_dtype dtype, int from, int tag,
              kolo_received *received) {
    const int status = NEXT(kolo_recv)(comm, buffer, count, dtype, from, tag, received);
    if (is_spoiled("sums"))
        memset(buffer, 0, count * kolo_dtype_bytes(dtype));
    return status;
}
