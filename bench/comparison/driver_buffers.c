/* SPDX-License-Identifier: Apache-2.0
 */
#include "driver_buffers.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LARGE_BYTES = 2 << 20 };

void *driver_buffer_allocate(size_t bytes) {
    size_t alignment = bytes >= LARGE_BYTES ? LARGE_BYTES : (size_t)sysconf(_SC_PAGESIZE);
    void *buffer;
    if (posix_memalign(&buffer, alignment, bytes) != 0)
        return NULL;
    memset(buffer, 0, bytes); /* no call shall pay for page faults */
    return buffer;
}
