/* Memory of a player's own that kolo_share makes memory of all ranks. */
#ifndef KOLO_TESTS_FAULT_MEMORY_H
#define KOLO_TESTS_FAULT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kolo.h"

/* Shares private memory of `count` numbers, whole pages, as `rank`. It must keep its contents whatever happens: else
 * *is_wrong becomes true. On success *buffer is that memory. Returns kolo_share's status. */
int memory_share(kolo_comm *comm, int rank, int32_t count, int32_t **buffer, bool *is_wrong);

#endif
