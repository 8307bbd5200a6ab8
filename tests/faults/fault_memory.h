/* The players' buffers: memory of a player's own that kolo_share makes memory of all ranks, and what becomes of buffers
 * once a call is over. */
#ifndef KOLO_TESTS_FAULT_MEMORY_H
#define KOLO_TESTS_FAULT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kolo.h"

/* Shares private memory of `count` numbers, whole pages, as `rank`. It must keep its contents whatever happens: else
 * *is_wrong becomes true. On success *buffer is that memory. Returns kolo_share's status. */
int memory_share(kolo_comm *comm, int rank, int32_t count, int32_t **buffer, bool *is_wrong);

/* A call that returned `status` is over: fills `count` numbers of its buffer with rubbish, and remembers them where it
 * failed. */
void memory_give_back(int status, int32_t *buffer, size_t count);

/* Whether somebody has written there since. */
bool memory_was_written(void);

#endif
