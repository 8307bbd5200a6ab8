#include "mpi_layouts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MARGIN = 512, PATTERN = 0xa5, RETIRED_MAX = 24 };

/* Buffers of calls that are over. */
static struct retired {
    unsigned char *memory;
    size_t bytes;
    unsigned char rubbish;
} retired[RETIRED_MAX];
static unsigned retirements;

/* Makes a type of single elements at `places`, in units of elements, by hindexed. */
static void make_indexed(struct layout *layout, int elements, const int *places) {
    int lengths[LAYOUT_ELEMENTS_MAX];
    MPI_Aint offsets[LAYOUT_ELEMENTS_MAX];
    layout->elements = elements;
    for (int i = 0; i < elements; i++) {
        lengths[i] = 1;
        offsets[i] = layout->offsets[i] = places[i] * (ptrdiff_t)layout->element->bytes;
    }
    MPI_Type_create_hindexed(elements, lengths, offsets, layout->element->type, &layout->type);
}

static void make_vector(struct layout *layout) {
    MPI_Type_vector(3, 2, 3, layout->element->type, &layout->type);
    layout->elements = 6;
    for (int i = 0; i < 6; i++)
        layout->offsets[i] = (i / 2 * 3 + i % 2) * (ptrdiff_t)layout->element->bytes;
}

/* Size and extent are those of an array, but the order is another. */
static void make_struct(struct layout *layout) {
    static const int order[] = {2, 0, 1};
    int lengths[3] = {1, 1, 1};
    MPI_Aint offsets[3];
    MPI_Datatype types[3];
    layout->elements = 3;
    for (int i = 0; i < 3; i++) {
        types[i] = layout->element->type;
        offsets[i] = layout->offsets[i] = order[i] * (ptrdiff_t)layout->element->bytes;
    }
    MPI_Type_create_struct(3, lengths, offsets, types, &layout->type);
}

static void make_resized(struct layout *layout, MPI_Aint lower, MPI_Aint extent) {
    MPI_Type_create_resized(layout->element->type, lower, extent, &layout->type);
    layout->elements = 1;
    layout->offsets[0] = 0;
}

static void make_nested(struct layout *layout) {
    MPI_Datatype inner;
    MPI_Type_contiguous(2, layout->element->type, &inner);
    MPI_Type_create_hvector(2, 1, 3 * (MPI_Aint)layout->element->bytes, inner, &layout->type);
    MPI_Type_free(&inner);
    layout->elements = 4;
    for (int i = 0; i < 4; i++)
        layout->offsets[i] = (i / 2 * 3 + i % 2) * (ptrdiff_t)layout->element->bytes;
}

static void make_subarray(struct layout *layout) {
    const int sizes[] = {3, 4}, parts[] = {2, 2}, starts[] = {1, 1};
    MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, layout->element->type, &layout->type);
    layout->elements = 4;
    for (int i = 0; i < 4; i++)
        layout->offsets[i] = ((1 + i / 2) * 4 + 1 + i % 2) * (ptrdiff_t)layout->element->bytes;
}

static void make_contiguous(struct layout *layout) {
    MPI_Datatype inner;
    MPI_Type_contiguous(2, layout->element->type, &inner);
    MPI_Type_contiguous(2, inner, &layout->type);
    MPI_Type_free(&inner);
    layout->elements = 4;
    for (int i = 0; i < 4; i++)
        layout->offsets[i] = i * (ptrdiff_t)layout->element->bytes;
}

void layout_make(struct layout *layout, const struct element *element, int which) {
    static const char *const names[LAYOUTS] = {
        "plain", "contiguous", "vector",   "permuted struct",     "resized", "hindexed", "negative",
        "dup",   "nested",     "subarray", "negative lower bound"};
    static const int spread[] = {3, 0, 5, 1}, negative[] = {-2, 1, -4};
    const MPI_Aint bytes = (MPI_Aint)element->bytes;
    *layout = (struct layout){.name = names[which], .element = element, .elements = 1, .extent = bytes};
    switch (which) {
    case 0:
        layout->type = element->type;
        return;
    case 1:
        make_contiguous(layout);
        break;
    case 2:
        make_vector(layout);
        break;
    case 3:
        make_struct(layout);
        break;
    case 4:
        make_resized(layout, 0, 3 * bytes);
        break;
    case 5:
        make_indexed(layout, 4, spread);
        break;
    case 6:
        make_indexed(layout, 3, negative);
        break;
    case 7:
        MPI_Type_dup(element->type, &layout->type);
        break;
    case 8:
        make_nested(layout);
        break;
    case 9:
        make_subarray(layout);
        break;
    default:
        make_resized(layout, -bytes, 2 * bytes);
    }
    MPI_Type_commit(&layout->type);
    MPI_Aint lower, extent;
    MPI_Type_get_extent(layout->type, &lower, &extent);
    layout->extent = extent;
}

void layout_free(struct layout *layout) {
    if (layout->type != layout->element->type)
        MPI_Type_free(&layout->type);
}

void region_make(struct region *region, const struct layout *layout, ptrdiff_t items) {
    const size_t margin = MARGIN + 12 * layout->element->bytes;
    *region = (struct region){.layout = layout, .bytes = 2 * margin + (size_t)(items * layout->extent)};
    region->memory = malloc(region->bytes);
    region->expected = malloc(region->bytes);
    region->seen = malloc(region->bytes);
    region->touched = calloc(region->bytes, 1);
    memset(region->memory, PATTERN, region->bytes);
    memset(region->expected, PATTERN, region->bytes);
    region->address = region->memory + margin / 16 * 16;
}

void region_scribble(struct region *region) {
    static unsigned char rubbish;
    region->rubbish = rubbish += 37;
    memcpy(region->seen, region->memory, region->bytes);
    memset(region->memory, rubbish, region->bytes);
}

static ptrdiff_t offset_of(const struct region *region, ptrdiff_t from, ptrdiff_t index) {
    const struct layout *layout = region->layout;
    return region->address - region->memory + (from + index / layout->elements) * layout->extent +
           layout->offsets[index % layout->elements];
}

void region_put(struct region *region, ptrdiff_t from, ptrdiff_t index, struct value value) {
    element_store(region->layout->element, region->memory + offset_of(region, from, index), value);
    region_expect(region, from, index, value);
}

void region_expect(struct region *region, ptrdiff_t from, ptrdiff_t index, struct value value) {
    const ptrdiff_t offset = offset_of(region, from, index);
    element_store(region->layout->element, region->expected + offset, value);
    memset(region->touched + offset, 2, region->layout->element->bytes);
    region->touched[offset] = 1;
}

void region_ignore(struct region *region, ptrdiff_t from, ptrdiff_t index) {
    memset(region->touched + offset_of(region, from, index), 2, region->layout->element->bytes);
}

const char *region_problem(const struct region *region) {
    static char text[200];
    const struct element *element = region->layout->element;
    const ptrdiff_t start = region->address - region->memory;
    for (size_t i = 0; i < region->bytes; i++) {
        if (region->touched[i] == 0 && region->seen[i] != region->expected[i]) {
            snprintf(text, sizeof text, "byte %td, which belongs to no element, is now %02x", (ptrdiff_t)i - start,
                     region->seen[i]);
            return text;
        }
        if (region->touched[i] != 1)
            continue;
        const struct value is = element_load(element, region->seen + i),
                           due = element_load(element, region->expected + i);
        if (!values_equal(element, is, due)) {
            snprintf(text, sizeof text, "the element at byte %td is (%Lg, %Lg) instead of (%Lg, %Lg)",
                     (ptrdiff_t)i - start, is.parts[0], is.parts[1], due.parts[0], due.parts[1]);
            return text;
        }
    }
    return NULL;
}

/* Looks at what is there, and frees it. */
static const char *end_retired(struct retired *old) {
    static char text[200];
    const char *problem = NULL;
    for (size_t i = 0; i < old->bytes && !problem; i++)
        if (old->memory[i] != old->rubbish) {
            snprintf(text, sizeof text, "byte %zu of %zu of a buffer of an earlier call is now %02x instead of %02x", i,
                     old->bytes, old->memory[i], old->rubbish);
            problem = text;
        }
    free(old->memory);
    *old = (struct retired){.memory = NULL};
    return problem;
}

const char *region_retire(struct region *region) {
    struct retired *place = &retired[retirements++ % RETIRED_MAX];
    const char *problem = end_retired(place);
    *place = (struct retired){region->memory, region->bytes, region->rubbish};
    free(region->expected);
    free(region->seen);
    free(region->touched);
    return problem;
}

const char *regions_end(void) {
    const char *problem = NULL;
    for (int i = 0; i < RETIRED_MAX; i++) {
        const char *of_this = end_retired(&retired[i]);
        problem = problem ? problem : of_this;
    }
    return problem;
}
