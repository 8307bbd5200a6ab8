/* The buffers that every library is called with: ordinary memory from posix_memalign, like kolo-perf's.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef DRIVER_BUFFERS_H
#define DRIVER_BUFFERS_H

#include <stddef.h>

/* Page-aligned, and aligned to 2 MiB from that size on; touched. NULL where memory is short. Free with free(). */
void *driver_buffer_allocate(size_t bytes);

#endif
