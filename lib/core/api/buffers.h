/* Memory that all ranks have mapped, for the library's own calls. */
#pragma once

#include "comm/comm.h"

/* Makes one buffer of `bytes` for all ranks of the machine, as kolo_alloc_with does. But no rank has to give it back in
 * step with the others: kolo_region_leave gives it back, or in a forked child kolo_region_forget. lazily: of small
 * pages, see kolo_region_populate. *fd: a descriptor of its file, for the caller to close, unless `fd` is NULL. */
int kolo_buffer_create(const char *function, kolo_comm *comm, size_t bytes, bool lazily, struct kolo_region *region,
                       int *fd);
