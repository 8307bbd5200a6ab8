/* What SCRIPT_SHARE shares. */
#include "fault_memory.h"

#include <stdlib.h>
#include <sys/mman.h>

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
