/* Derived types whose type map the tests know, and buffers of them in which each byte that a call must leave alone is
 * looked at. */
#pragma once

#include "mpi_elements.h"

enum {
    LAYOUT_ELEMENTS_MAX = 6,
    LAYOUT_MULTIPLE = 12,
    LAYOUTS = 11
}; /* of so many elements any layout makes whole items */

struct layout {
    const char *name;
    MPI_Datatype type;
    const struct element *element;
    int elements; /* in one item */
    ptrdiff_t
        offsets[LAYOUT_ELEMENTS_MAX]; /* of each from the item's address, in the order of the type map, in bytes */
    ptrdiff_t extent;                 /* from one item to the next */
};

/* The first is the predefined type itself. */
void layout_make(struct layout *layout, const struct element *element, int which);
void layout_free(struct layout *layout);

/* Memory for items of a layout, with margins. */
struct region {
    const struct layout *layout;
    size_t bytes;
    unsigned char *memory, *expected, *seen;
    unsigned char rubbish;
    unsigned char *touched; /* for each byte: whether an element begins there (1), goes on (2), or none is (0) */
    unsigned char *address; /* of item 0: what MPI is passed */
};

void region_make(struct region *region, const struct layout *layout, ptrdiff_t items);

/* Elements are counted from the item `from`, in the order of the type map. */
void region_put(struct region *region, ptrdiff_t from, ptrdiff_t index, struct value value);
void region_expect(struct region *region, ptrdiff_t from, ptrdiff_t index, struct value value);
void region_ignore(struct region *region, ptrdiff_t from, ptrdiff_t index); /* this element may have any value */

/* As soon as the call is over: keeps a copy of what is there, and fills the memory with rubbish, so that whoever still
 * reads it is wrong, and whoever still writes it is found out. */
void region_scribble(struct region *region);

/* NULL, or what is wrong with the copy, in words that the next call overwrites. */
const char *region_problem(const struct region *region);

/* In place of freeing a region: its rubbish is looked at later, after many others have been retired, or at the end.
 * NULL, or what is wrong with that of the oldest, or of all, which are freed. */
const char *region_retire(struct region *region);
const char *regions_end(void);
