/* Preloaded into kolo-perf, spoils calls of kolo, which --check has to find. SPOILED says which: "sums" of all-reduces,
 * and what kolo_recv gives; "pushes" to tables, which are lost; or "pulls" of rows by their keys. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kolo.h"
#include "kolo_table.h"

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

int kolo_table_push(kolo_table *table, uint64_t first, uint64_t rows, const void *values) {
    return is_spoiled("pushes") ? KOLO_OK : NEXT(kolo_table_push)(table, first, rows, values);
}

int kolo_table_push_rows(kolo_table *table, const uint64_t *ids, size_t count, const void *values) {
    return is_spoiled("pushes") ? KOLO_OK : NEXT(kolo_table_push_rows)(table, ids, count, values);
}

int kolo_table_pull_rows(kolo_table *table, const uint64_t *ids, size_t count, void *values) {
    const int status = NEXT(kolo_table_pull_rows)(table, ids, count, values);
    if (is_spoiled("pulls"))
        memset(values, 0xee, count); /* no row is shorter */
    return status;
}
