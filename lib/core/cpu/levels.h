/* Levels are the sizes of the groups in which the ranks of a machine reduce before they reduce between groups.
 *
 * A group of a level is an aligned block of consecutive ranks, [g * size, (g + 1) * size), its size a power of two, the
 * last one perhaps partial. The canonical order of a reduction splits at powers of two (see reduce/reducer.h), so such
 * groups, and no others, can be reduced one after another and still give the same bits. The machine therefore decides
 * only the sizes. A wrong size costs time, never a bit. */
#pragma once

#include "cpu/topology.h"

#define KOLO_LEVELS_MAX 4

/* Fills in the sizes of the levels for `ranks` ranks, rank r on the CPUs of *rank_cpus[r], all within those that
 * `topology` was read for: powers of two from 2, ascending, below `ranks`; 0 from the end of the levels on, at once
 * where all ranks are best one group. rank_cpus NULL: any rank may be anywhere. None where ranks outnumber CPUs. */
void kolo_levels_choose(uint32_t sizes[KOLO_LEVELS_MAX], const kolo_topology *topology,
                        const kolo_cpu_set *const *rank_cpus, uint32_t ranks);

/* Parses such sizes in the value of the variable `name`, as in "tree:8:64" or "tree:none". KOLO_ERR_ARG, quoting it. */
int kolo_levels_parse(uint32_t sizes[KOLO_LEVELS_MAX], const char *name, const char *value);
