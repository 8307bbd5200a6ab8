/* All that the core knows of the library's other parts, each of which a build may leave out: one name a part. */
#pragma once

#include "comm/creation/other_nodes.h"
#include "comm/observer.h"

#if KOLO_HAVE_MACHINES
extern const struct kolo_internode_calls kolo_internode_calls; /* lib/machines */
#endif

#if KOLO_HAVE_TABLE
extern kolo_observed_find_fn kolo_observed_table_find; /* lib/table */
#endif
