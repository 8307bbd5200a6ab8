/* Regions: buffers that ranks share, mapped with the parts of all ranks side by side. */
#include "shm/region.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "base/status.h"
#include "cpu/limits.h"
#include "shm/memory_file.h"
#include "shm/segment.h"

#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21U << 26)
#endif

size_t kolo_region_part_bytes(size_t bytes, uint32_t parts) {
    const size_t page_bytes = bytes >= KOLO_HUGE_PAGE_BYTES ? KOLO_HUGE_PAGE_BYTES : KOLO_PAGE_BYTES;
    if (bytes > PTRDIFF_MAX / parts - page_bytes)
        return 0;
    return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

bool kolo_region_may_be_pooled(const struct kolo_region_shape *shape) {
    return !shape->small_pages && !shape->unpooled && shape->part_bytes % KOLO_HUGE_PAGE_BYTES == 0;
}

/* Returns a file of huge pages, or -1 if the pool has fewer than `bytes` left. A shared mapping reserves pages for the
 * file, which keeps them when the mapping goes; but a control group may still refuse them when they are filled. */
static int create_huge(size_t bytes) {
    const int fd = kolo_memory_file_create("kolo-alloc", MFD_HUGETLB | MFD_HUGE_2MB);
    if (fd < 0)
        return -1;
    void *trial = MAP_FAILED;
    if (ftruncate(fd, (off_t)bytes) == 0)
        trial = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (trial != MAP_FAILED) {
        munmap(trial, bytes);
        return fd;
    }
    close(fd);
    return -1;
}

static int refuse_size(const struct kolo_region_shape *shape, size_t bytes, uint64_t available_bytes) {
    if (shape->parts == 1)
        return kolo_fail(KOLO_ERR_NO_SPACE,
                         "%s: %zu bytes needed, and %" PRIu64
                         " are available: free buffers, ask for less, or raise the memory limit",
                         shape->function, bytes, available_bytes);
    return kolo_fail(KOLO_ERR_NO_SPACE,
                     "%s: %zu bytes for each of %u ranks are %zu in all, and %" PRIu64
                     " are available: free buffers, ask for less, or raise the memory limit",
                     shape->function, shape->part_bytes, shape->parts, bytes, available_bytes);
}

int kolo_region_create(const struct kolo_region_shape *shape) {
    const size_t bytes = shape->part_bytes * shape->parts;
    struct rlimit file; /* a larger file would end the process with SIGXFSZ */
    if (getrlimit(RLIMIT_FSIZE, &file) == 0 && bytes > file.rlim_cur)
        return kolo_fail(KOLO_ERR_NO_SPACE,
                         "%s: a file of %zu bytes needed, and this process may write %llu: raise that limit "
                         "(ulimit -f)",
                         shape->function, bytes, (unsigned long long)file.rlim_cur);
    int fd = kolo_region_may_be_pooled(shape) ? create_huge(bytes) : -1;
    if (fd >= 0)
        return fd;
    const uint64_t available_bytes = kolo_memory_available();
    if (bytes > available_bytes && !shape->lazily)
        return refuse_size(shape, bytes, available_bytes);
    fd = kolo_memory_file_create("kolo-alloc", 0);
    if (fd < 0)
        return kolo_fail_system(-fd, "%s: creating a memfd", shape->function);
    if (ftruncate(fd, (off_t)bytes) < 0) {
        const int rc = kolo_fail_system(errno, "%s: sizing a memfd to %zu bytes", shape->function, bytes);
        close(fd);
        return rc;
    }
    return fd;
}

static int refuse_memory(const char *function, size_t bytes, int error) {
    if (error == ENOMEM || error == ENOSPC || error == EFAULT) /* EFAULT: where a store would raise SIGBUS */
        return kolo_fail(KOLO_ERR_NO_SPACE, "%s: the system does not have %zu bytes of memory left: %s", function,
                         bytes, strerror(error == EFAULT ? ENOMEM : error));
    return kolo_fail_system(error, "%s: filling %zu bytes", function, bytes);
}

/* Each owner is the first to touch its part, so that the pages come from its own NUMA node. */
static int fill(const char *function, uint8_t *memory, size_t bytes, int fd, off_t offset) {
    if (bytes == 0 || madvise(memory, bytes, KOLO_POPULATE_WRITE) == 0)
        return 0;
    int error = errno;
    if (error == EINVAL) /* a kernel before 5.14 */
        error = kolo_file_allocate(fd, (uint64_t)offset, bytes);
    return error ? refuse_memory(function, bytes, error) : 0;
}

int kolo_region_populate(const char *function, uint8_t *memory, size_t bytes) {
    const uintptr_t begin = (uintptr_t)memory / KOLO_PAGE_BYTES * KOLO_PAGE_BYTES;
    const size_t all = kolo_whole_pages((uintptr_t)memory + bytes - begin);
    if (bytes == 0 || madvise((void *)begin, all, KOLO_POPULATE_WRITE) == 0 || errno == EINVAL)
        return 0;
    return refuse_memory(function, bytes, errno);
}

/* Returns the bytes of `shape` that this rank fills, and their offset: its own part. If there is only one part, the
 * rank fills a slice of whole pages of it: about the slice that it owns of a message of that size. */
static size_t own_share(const struct kolo_region_shape *shape, size_t *offset) {
    if (shape->parts == shape->ranks) {
        *offset = shape->rank * shape->part_bytes;
        return shape->part_bytes;
    }
    const size_t page_bytes = shape->part_bytes % KOLO_HUGE_PAGE_BYTES == 0 ? KOLO_HUGE_PAGE_BYTES : KOLO_PAGE_BYTES;
    const size_t pages = shape->part_bytes / page_bytes;
    *offset = pages * shape->rank / shape->ranks * page_bytes;
    return pages * (shape->rank + 1) / shape->ranks * page_bytes - *offset;
}

int kolo_region_map(struct kolo_region *region, int fd, const struct kolo_region_shape *shape) {
    const size_t bytes = shape->part_bytes * shape->parts;
    uint8_t *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED && errno == ENOMEM)
        return kolo_fail(KOLO_ERR_NO_SPACE,
                         "%s: no address space for %zu bytes: ask for less, or raise its limit (ulimit -v)",
                         shape->function, bytes);
    if (base == MAP_FAILED)
        return kolo_fail_system(errno, "%s: mapping %zu bytes", shape->function, bytes);
    if (!shape->small_pages && shape->part_bytes % KOLO_HUGE_PAGE_BYTES == 0)
        madvise(base, bytes, MADV_HUGEPAGE); /* refused where the system has none for shared memory */
    KOLO_POINT("region.mapped");
    size_t offset, share_bytes = own_share(shape, &offset);
    const int rc = shape->lazily ? 0 : fill(shape->function, base + offset, share_bytes, fd, (off_t)offset);
    if (rc < 0) {
        munmap(base, bytes);
        return rc;
    }
    *region = (struct kolo_region){.base = base,
                                   .own = base + (shape->parts == 1 ? 0 : shape->rank * shape->part_bytes),
                                   .part_bytes = shape->part_bytes,
                                   .parts = shape->parts,
                                   .rank = shape->rank};
    return 0;
}

void kolo_region_leave(struct kolo_region *region) {
    KOLO_POINT("region.leaving");
    if (region->parts > 1 && !region->adopted.inode) /* otherwise other ranks or forked children may still use it */
        madvise(region->own, region->part_bytes, MADV_REMOVE);
    KOLO_POINT("region.returned");
    kolo_region_forget(region);
}

void kolo_region_forget(struct kolo_region *region) {
    if (region->adopted.inode)
        kolo_adoption_end(&region->adopted);
    munmap(region->base, region->part_bytes * region->parts);
    region->base = NULL;
}
