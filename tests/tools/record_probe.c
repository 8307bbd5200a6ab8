/* Writes a record of a failure (KOLO_DUMP) whose message is its argument: what the library does with any text. */
#include <stdio.h>
#include <string.h>

#include "comm/failure/failure.h"

int main(int argc, char **argv) {
    kolo_comm *comm;
    kolo_failure failure = {.status = KOLO_ERR_ABORTED};
    if (argc != 2 || kolo_comm_create(&comm, NULL) < 0)
        return 2;
    snprintf(failure.message, sizeof failure.message, "%s", argv[1]);
    kolo_failure_record(comm, &failure);
    kolo_failure_record(comm, &failure); /* once is enough */
    kolo_comm_destroy(comm);
    return 0;
}
