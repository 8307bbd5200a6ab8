/* What SCRIPT_SHARE shares, and rubbish. */
#include "fault_memory.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { RUBBISH = 0x5a5a5a5a, GIVEN_BACK_MAX = 16 };

static struct {
    const int32_t *buffer;
    size_t count;
} given_back[GIVEN_BACK_MAX];
static int buffers;

int memory_share(kolo_comm *comm, int rank, int32_t count, int32_t **buffer, bool *is_wrong) {
    const size_t bytes = (size_t)count * sizeof **buffer;
    int32_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        abort();
    for (int32_t i = 0; i < count; i++)
        memory[i] = i * 3 + rank;
    const int status = kolo_share(comm, memory, bytes);
    for (int32_t i = 0; i < count; i++)
        *is_wrong |= memory[i] != i * 3 + rank;
    if (status == 0)
        *buffer = memory;
    return status;
}

void memory_give_back(int status, int32_t *buffer, size_t count) {
    for (size_t i = 0; i < count; i++)
        buffer[i] = RUBBISH;
    if (status == 0)
        return;
    if (buffers == GIVEN_BACK_MAX)
        abort();
    given_back[buffers].buffer = buffer;
    given_back[buffers++].count = count;
}

bool memory_was_written(void) {
    for (int which = 0; which < buffers; which++)
        for (size_t i = 0; i < given_back[which].count; i++)
            if (given_back[which].buffer[i] != RUBBISH)
                return true;
    return false;
}
