/* Predefined datatypes are found in a hash table that never changes after setup. Nothing is kept of derived ones. */
#include "types/datatypes.h"

#include <limits.h>

#include "types/handle_map.h"

static struct mpi_type predefined[MPI_TYPES];
static struct mpi_handle_map map;

#define TYPE_KIND(name, kind, bytes)  MPI_KIND_##kind,
#define TYPE_BYTES(name, kind, bytes) bytes,
#define TYPE_TEXT(name, kind, bytes)  "MPI_" #name,
static const char *const type_names[MPI_TYPES] = {MPI_TYPE_NAMES(TYPE_TEXT)};
static const enum mpi_kind kinds[MPI_TYPES] = {MPI_TYPE_NAMES(TYPE_KIND)};
static const size_t usual_bytes[MPI_TYPES] = {MPI_TYPE_NAMES(TYPE_BYTES)};

/* Only Open MPI may be asked: its handles exist even where the type does not. MPICH's say the size themselves, except
 * for those of pairs. */
static size_t find_bytes(enum mpi_type_index index) {
    enum { SIZED = 0x4c };
    const mpi_word handle = mpi_host.is.types[index];
    int bytes = 0;
    if (mpi_host.is.knows_sizes)
        return mpi_host.Type_size(handle, &bytes) == 0 && bytes > 0 ? (size_t)bytes : 0;
    if (mpi_host.is.handle_bytes == 4 && handle >> 24 == SIZED)
        return handle >> 8 & 0xff;
    return usual_bytes[index];
}

/* Up to how many times their usual size Fortran's default types may have here, as its compiler was told; 0: all others,
 * which must be as they are here. */
static unsigned times_usual(enum mpi_type_index index) {
    switch (index) {
    case MPI_TYPE_INTEGER_INDEX:
    case MPI_TYPE_LOGICAL_INDEX:
    case MPI_TYPE_REAL_INDEX:
    case MPI_TYPE_COMPLEX_INDEX:
    case MPI_TYPE_2INTEGER_INDEX:
    case MPI_TYPE_2REAL_INDEX:
        return 2;
    case MPI_TYPE_DOUBLE_PRECISION_INDEX:
    case MPI_TYPE_DOUBLE_COMPLEX_INDEX:
    case MPI_TYPE_2DOUBLE_PRECISION_INDEX:
        return 1;
    default:
        return 0;
    }
}

/* A pair is as C has it: aligned as its larger part is. */
static ptrdiff_t find_extent(enum mpi_type_index index, size_t bytes) {
    const size_t value = bytes - sizeof(int), align = value > sizeof(int) ? value : sizeof(int);
    return (ptrdiff_t)(kinds[index] == MPI_KIND_PAIR ? (bytes + align - 1) / align * align : bytes);
}

void mpi_types_setup(void) {
    for (int i = 0; i < MPI_TYPES; i++) {
        const mpi_word handle = mpi_host.is.types[i];
        const size_t bytes = handle ? find_bytes((enum mpi_type_index)i) : 0;
        const unsigned times = times_usual((enum mpi_type_index)i);
        if (!bytes || (bytes != usual_bytes[i] && bytes != times * usual_bytes[i]))
            continue;
        predefined[i] = (struct mpi_type){.handle = handle, .bytes = bytes, .kind = kinds[i]};
        predefined[i].index = (enum mpi_type_index)i;
        predefined[i].extent = find_extent((enum mpi_type_index)i, bytes);
        predefined[i].is_contiguous = predefined[i].extent == (ptrdiff_t)bytes;
        predefined[i].is_unsure = times > 0 && !mpi_host.is.knows_sizes && mpi_host.is.handle_bytes > 4;
        mpi_handle_map_add(&map, handle, (unsigned)i);
    }
}

/* How a type was made. */
struct making {
    mpi_count integers, addresses, large, types;
    int combiner;
};

/* Of types that _c functions made only the _c form tells, and the other one ends the program. False: the MPI fails. */
static bool get_making(mpi_word handle, struct making *making) {
    int integers, addresses, types;
    if (mpi_host.Type_get_envelope_c)
        return mpi_host.Type_get_envelope_c(handle, &making->integers, &making->addresses, &making->large,
                                            &making->types, &making->combiner) == 0;
    if (mpi_host.Type_get_envelope(handle, &integers, &addresses, &types, &making->combiner) != 0)
        return false;
    *making = (struct making){integers, addresses, 0, types, making->combiner};
    return true;
}

static bool get_parts(mpi_word handle, const struct making *making, mpi_word *parts) {
    enum { MOST = 4 };
    int integers[MOST];
    mpi_count addresses[MOST], large[MOST];
    if (making->integers > MOST || making->addresses > MOST || making->large > MOST || making->types != 1)
        return false;
    if (mpi_host.Type_get_contents_c)
        return mpi_host.Type_get_contents_c(handle, making->integers, making->addresses, making->large, making->types,
                                            integers, addresses, large, parts) == 0;
    return mpi_host.Type_get_contents(handle, (int)making->integers, (int)making->addresses, (int)making->types,
                                      integers, addresses, parts) == 0;
}

/* Nobody may free what the MPI has made by itself; not all of it has a name. */
static bool is_predefined(int combiner) {
    return combiner == mpi_host.is.combiner_named || combiner == mpi_host.is.combiner_value_index ||
           (combiner >= mpi_host.is.combiner_f90_real && combiner <= mpi_host.is.combiner_f90_integer);
}

/* Whether a type is made of one other, again and again without gaps: then that is in *inner, and the caller's if
 * *owned. */
static bool is_repeated(mpi_word handle, mpi_word *inner, bool *owned) {
    struct making making = {0};
    mpi_word parts[1] = {0};
    if (!get_making(handle, &making))
        return false;
    if (making.combiner != mpi_host.is.combiner_dup && making.combiner != mpi_host.is.combiner_contiguous)
        return false;
    if (!get_parts(handle, &making, parts))
        return false;
    *inner = mpi_word_load(parts);
    *owned = !(get_making(*inner, &making) && is_predefined(making.combiner));
    return true;
}

/* A derived type without gaps may still have its parts in another order. Only a repetition of a type that is contiguous
 * is certainly contiguous. */
static bool is_contiguous(mpi_word handle) {
    unsigned index;
    mpi_word inner;
    bool owned;
    if (mpi_handle_map_find(&map, handle, &index))
        return predefined[index].is_contiguous;
    if (!is_repeated(handle, &inner, &owned))
        return false;
    const bool contiguous = is_contiguous(inner);
    if (owned)
        mpi_host.Type_free(&inner);
    return contiguous;
}

const struct mpi_type *mpi_type_find(mpi_word handle) {
    unsigned index;
    return mpi_handle_map_find(&map, handle & mpi_host.handle_mask, &index) ? &predefined[index] : NULL;
}

const struct mpi_type *mpi_type_passed(mpi_word handle) {
    const struct mpi_type *const type = mpi_type_find(handle);
    int bytes = 0;
    if (!type || !type->is_unsure)
        return type;
    return mpi_host.Type_size(type->handle, &bytes) == 0 && (size_t)bytes == type->bytes ? type : NULL;
}

const char *mpi_type_name(const struct mpi_type *type) {
    return type_names[type->index];
}

const struct mpi_type *mpi_type_describe(struct mpi_type *type, mpi_word handle) {
    int bytes = 0;
    mpi_count lower = 0, extent = 0, large = 0;
    handle &= mpi_host.handle_mask;
    if (handle == mpi_host.is.type_null || handle == 0)
        return NULL;
    if (mpi_host.Type_size(handle, &bytes) != 0 || mpi_host.Type_get_extent(handle, &lower, &extent) != 0)
        return NULL;
    large = bytes;
    if (bytes < 0 && (!mpi_host.Type_size_x || mpi_host.Type_size_x(handle, &large) != 0))
        return NULL;
    *type = (struct mpi_type){.handle = handle, .bytes = (size_t)large, .extent = extent, .index = MPI_TYPES};
    type->is_contiguous = extent == large && lower == 0 && is_contiguous(handle);
    return type;
}
