/* What a library's shim and the driver know of one another. The driver (driver.c) has the command line and, from
 * perf_sampler.c, the buffers, the timing loop and the verification; it is the same for every library. A shim makes the
 * library's calls. */
#pragma once

#include <stddef.h>

#include "kolo.h" /* its types; kolo's shim alone measures it */

/* Exit statuses, beside 0 and the 2 of a bad command line. */
enum { DRIVER_FAILED = 1, DRIVER_UNSUPPORTED = 3 };

/* Each function returns 0 or another number, then after a line on stderr; begin also DRIVER_UNSUPPORTED, without one,
 * where the library lacks the collective or the dtype. */
typedef struct driver_shim {
    /* Joins the other ranks; the dtype is KOLO_F32 or KOLO_BF16. *library is set to the library's name and version. */
    int (*begin)(kolo_collective collective, kolo_dtype dtype, int *rank, int *ranks, const char **library);
    /* That collective, as kolo.h has it: sums, from rank 0 or to it, `count` elements of the message or of a block. In
     * an all-reduce the two may be the same; a broadcast has `recv` alone. */
    int (*call)(const void *send, void *recv, size_t count);
    int (*end)(void);
} driver_shim;

/* A driver's whole life. Returns the exit status of the process. */
int driver_run(int argc, char **argv, const driver_shim *shim);
