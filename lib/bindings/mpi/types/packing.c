/* By the MPI's own functions, in pieces that their ints can count. An element that is larger goes as a message to this
 * rank itself, in which no int counts bytes. Contiguous elements are just copied. */
#include "types/datatypes.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "host/mpi_host.h"

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

/* So many bytes of packed data. */
static int make_packed(size_t bytes, mpi_word *handle) {
    const size_t count = bytes / PIECE_BYTES + 1;
    int *const lengths = malloc(count * sizeof *lengths);
    mpi_count *const places = malloc(count * sizeof *places);
    int rc = lengths && places ? 0 : mpi_host.is.err_other;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        lengths[i] = i < count - 1 ? PIECE_BYTES : (int)(bytes % PIECE_BYTES);
        places[i] = (mpi_count)(i * PIECE_BYTES);
    }
    if (rc == 0)
        rc = mpi_host.Type_create_hindexed((int)count, lengths, places, mpi_host.is.types[MPI_TYPE_PACKED_INDEX],
                                           handle);
    free(lengths);
    free(places);
    return rc != 0 ? rc : mpi_host.Type_commit(handle);
}

/* One element that no int counts the bytes of, from `packed` or to it. */
static int move_large(void *element, mpi_word type, void *packed, size_t bytes, bool packs) {
    enum { TAG = 1 };
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* threads would take each other's */
    const mpi_word comm = mpi_progress_comm();
    mpi_word handle[1] = {0};
    int rank = 0, rc = mpi_host.Comm_rank(comm, &rank);
    if (rc != 0 || (rc = make_packed(bytes, handle)) != 0)
        return rc;
    const mpi_word whole = mpi_word_load(handle);
    pthread_mutex_lock(&lock);
    rc = mpi_host.Sendrecv(packs ? element : packed, 1, packs ? type : whole, rank, TAG, packs ? packed : element, 1,
                           packs ? whole : type, rank, TAG, comm, (void *)mpi_host.is.status_ignore);
    pthread_mutex_unlock(&lock);
    mpi_host.Type_free(handle);
    return rc;
}

/* `packs`: from the buffer to `packed`, or else the other way. */
static int move(const void *buffer, size_t count, const struct mpi_type *type, char *packed, bool packs,
                mpi_word comm) {
    struct packable packable;
    int rc = open_packable(&packable, buffer, type);
    const mpi_word handle = rc == 0 ? packable_handle(&packable, type) : 0;
    for (size_t done = 0, now; rc == 0 && done < count; done += now, packed += now * type->bytes) {
        void *const element = mpi_element(packable.buffer, type, (ptrdiff_t)done);
        int position = 0;
        now = piece_elements(type, count - done);
        if (type->bytes > INT_MAX)
            rc = move_large(element, handle, packed, type->bytes, packs);
        else if (packs)
            rc = mpi_host.Pack(element, (int)now, handle, packed, (int)(now * type->bytes), &position, comm);
        else
            rc = mpi_host.Unpack(packed, (int)(now * type->bytes), &position, element, (int)now, handle, comm);
    }
    close_packable(&packable);
    return rc;
}

int mpi_pack(const void *buffer, size_t count, const struct mpi_type *type, void *packed, mpi_word comm) {
    if (count * type->bytes == 0) /* Open MPI refuses a NULL buffer even then */
        return 0;
    if (!type->is_contiguous)
        return move(buffer, count, type, packed, true, comm);
    memcpy(packed, buffer, count * type->bytes);
    return 0;
}

int mpi_unpack(const void *packed, void *buffer, size_t count, const struct mpi_type *type, mpi_word comm) {
    if (count * type->bytes == 0)
        return 0;
    if (!type->is_contiguous)
        return move(buffer, count, type, (char *)packed, false, comm);
    memcpy(buffer, packed, count * type->bytes);
    return 0;
}
