/* By the MPI's own functions, in pieces that their ints can count. Contiguous elements are just copied. */
#include "types/packing.h"

#include <string.h>

enum { PIECE_BYTES = 1 << 30 };

static size_t piece_elements(const struct mpi_type *type, size_t left) {
    const size_t most = type->bytes < PIECE_BYTES ? PIECE_BYTES / (type->bytes ? type->bytes : 1) : 1;
    return left < most ? left : most;
}

int mpi_pack(const void *buffer, size_t count, const struct mpi_type *type, void *packed, mpi_word comm) {
    if (count * type->bytes == 0) /* Open MPI refuses a NULL buffer even then */
        return 0;
    if (type->is_contiguous) {
        memcpy(packed, buffer, count * type->bytes);
        return 0;
    }
    for (size_t done = 0, now; done < count; done += now) {
        int position = 0;
        now = piece_elements(type, count - done);
        const size_t bytes = now * type->bytes;
        const int rc = mpi_host.Pack(mpi_element(buffer, type, (ptrdiff_t)done), (int)now, type->handle,
                                     (char *)packed + done * type->bytes, (int)bytes, &position, comm);
        if (rc != 0)
            return rc;
    }
    return 0;
}

int mpi_unpack(const void *packed, void *buffer, size_t count, const struct mpi_type *type, mpi_word comm) {
    if (count * type->bytes == 0)
        return 0;
    if (type->is_contiguous) {
        memcpy(buffer, packed, count * type->bytes);
        return 0;
    }
    for (size_t done = 0, now; done < count; done += now) {
        int position = 0;
        now = piece_elements(type, count - done);
        const size_t bytes = now * type->bytes;
        const int rc = mpi_host.Unpack((const char *)packed + done * type->bytes, (int)bytes, &position,
                                       mpi_element(buffer, type, (ptrdiff_t)done), (int)now, type->handle, comm);
        if (rc != 0)
            return rc;
    }
    return 0;
}
