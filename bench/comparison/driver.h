/* What a library's shim and the driver know of one another. The driver (driver.c) has the command line, the buffers,
 * the timing loop and the verification, and is the same for every library; a shim makes the library's calls.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef DRIVER_H
#define DRIVER_H

#include <stddef.h>

typedef enum driver_dtype { DRIVER_F32, DRIVER_BF16 } driver_dtype;

/* Exit statuses, beside 0. */
enum { DRIVER_FAILED = 1, DRIVER_USAGE = 2, DRIVER_UNSUPPORTED = 3 };

/* Each function returns 0 or another number, then after a line on stderr; begin also DRIVER_UNSUPPORTED, without one,
 * where the library cannot sum the dtype. */
typedef struct driver_shim {
    /* Joins the other ranks. *library is set to the library's name and version. */
    int (*begin)(driver_dtype dtype, int *rank, int *ranks, const char **library);
    /* recv = the sum of all ranks' send; the two may be the same. */
    int (*allreduce)(const void *send, void *recv, size_t count);
    int (*end)(void);
} driver_shim;

/* A driver's whole life. Returns the exit status of the process. */
int driver_run(int argc, char **argv, const driver_shim *shim);

#endif
