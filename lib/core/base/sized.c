/* Copies structs that begin with their size between versions of the library and its callers. */
#include "base/sized.h"

#include <string.h>

#include "kolo.h"
#include "base/minimum.h"
#include "base/status.h"

static size_t size_of(const void *theirs) {
    size_t bytes;
    memcpy(&bytes, theirs, sizeof bytes);
    return bytes;
}

int kolo_sized_check(const struct kolo_sized *sized, const char *where, const void *theirs) {
    assert(sized->bytes_min <= sized->bytes && sized->bytes <= KOLO_SIZED_BYTES_MAX);
    if (!theirs)
        return kolo_fail(KOLO_ERR_ARG, "%s: the %s is NULL", where, sized->type);
    const size_t bytes = size_of(theirs);
    if (bytes >= sized->bytes_min && bytes <= KOLO_SIZED_BYTES_MAX)
        return 0;
    return kolo_fail(KOLO_ERR_ARG, "%s: %s is %zu: set this first field to sizeof(%s) before the call", where,
                     sized->field, bytes, sized->type);
}

void kolo_sized_fill(const struct kolo_sized *sized, void *theirs, const void *ours) {
    const size_t bytes = size_of(theirs), known = kolo_minimum(bytes, sized->bytes), own = sizeof bytes;
    memcpy((char *)theirs + own, (const char *)ours + own, known - own);
    memset((char *)theirs + known, 0, bytes - known);
}

int kolo_sized_give(const struct kolo_sized *sized, const char *where, void *theirs, const void *ours) {
    const int rc = kolo_sized_check(sized, where, theirs);
    if (rc == 0)
        kolo_sized_fill(sized, theirs, ours);
    return rc;
}

int kolo_sized_read(const struct kolo_sized *sized, const char *where, void *ours, const void *theirs) {
    const int rc = kolo_sized_check(sized, where, theirs);
    if (rc < 0)
        return rc;
    const size_t bytes = size_of(theirs), known = kolo_minimum(bytes, sized->bytes), own = sizeof bytes;
    for (size_t i = known; i < bytes; i++)
        if (((const char *)theirs)[i])
            return kolo_fail(KOLO_ERR_ARG,
                             "%s: %s is %zu, and byte %zu is set: kolo %s knows only the first %zu bytes of %s; leave"
                             " newer fields zero, or use the library with whose header the program was compiled",
                             where, sized->field, bytes, i, kolo_version(), sized->bytes, sized->type);
    memcpy((char *)ours + own, (const char *)theirs + own, known - own);
    return 0;
}
