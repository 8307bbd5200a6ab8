/* By the MPI's own functions, in pieces that their ints can count. Contiguous elements are just copied. */
#include "types/packing.h"

#include <string.h>

/* BEYOND_BOTTOM: in place of MPI_BOTTOM, from where a datatype has addresses. That is NULL, which MPICH's MPI_Pack and
 * MPI_Unpack refuse. */
enum { PIECE_BYTES = 1 << 30, BEYOND_BOTTOM = 4096 };

/* Elements for the MPI: `buffer` and a handle of their datatype, made for it if `is_made`. */
struct packable {
    const void *buffer;
    mpi_word handle[1]; /* as the MPI has it in memory */
    bool is_made;
};

/* 0 or an MPI error. */
static int open_packable(struct packable *packable, const void *buffer, const struct mpi_type *type) {
    static const int one = 1;
    static const mpi_count back = -BEYOND_BOTTOM;
    *packable = (struct packable){.buffer = buffer, .is_made = !buffer};
    if (buffer)
        return 0;
    packable->buffer = (const void *)(uintptr_t)BEYOND_BOTTOM;
    const int rc = mpi_host.Type_create_hindexed(1, &one, &back, type->handle, packable->handle);
    packable->is_made = rc == 0;
    return rc != 0 ? rc : mpi_host.Type_commit(packable->handle);
}

static mpi_word packable_handle(const struct packable *packable, const struct mpi_type *type) {
    return packable->is_made ? mpi_word_load(packable->handle) : type->handle;
}

static void close_packable(struct packable *packable) {
    if (packable->is_made)
        mpi_host.Type_free(packable->handle);
}

static size_t piece_elements(const struct mpi_type *type, size_t left) {
    const size_t most = type->bytes < PIECE_BYTES ? PIECE_BYTES / (type->bytes ? type->bytes : 1) : 1;
    return left < most ? left : most;
}

int mpi_pack(const void *buffer, size_t count, const struct mpi_type *type, void *packed, mpi_word comm) {
    struct packable from;
    if (count * type->bytes == 0) /* Open MPI refuses a NULL buffer even then */
        return 0;
    if (type->is_contiguous) {
        memcpy(packed, buffer, count * type->bytes);
        return 0;
    }
    int rc = open_packable(&from, buffer, type);
    for (size_t done = 0, now; rc == 0 && done < count; done += now) {
        int position = 0;
        now = piece_elements(type, count - done);
        const size_t bytes = now * type->bytes;
        rc = mpi_host.Pack(mpi_element(from.buffer, type, (ptrdiff_t)done), (int)now, packable_handle(&from, type),
                           (char *)packed + done * type->bytes, (int)bytes, &position, comm);
    }
    close_packable(&from);
    return rc;
}

int mpi_unpack(const void *packed, void *buffer, size_t count, const struct mpi_type *type, mpi_word comm) {
    struct packable to;
    if (count * type->bytes == 0)
        return 0;
    if (type->is_contiguous) {
        memcpy(buffer, packed, count * type->bytes);
        return 0;
    }
    int rc = open_packable(&to, buffer, type);
    for (size_t done = 0, now; rc == 0 && done < count; done += now) {
        int position = 0;
        now = piece_elements(type, count - done);
        const size_t bytes = now * type->bytes;
        rc = mpi_host.Unpack((const char *)packed + done * type->bytes, (int)bytes, &position,
                             mpi_element(to.buffer, type, (ptrdiff_t)done), (int)now, packable_handle(&to, type), comm);
    }
    close_packable(&to);
    return rc;
}
