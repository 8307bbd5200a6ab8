/* Maps the buffers of kolo_alloc, of all ranks side by side. */
#include "shm/region.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/status.h"
#include "cpu/limits/memory.h"
#include "shm/segment.h"
#include "sync/point.h"

#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21U << 26)
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define HUGE_PAGE_BYTES ((size_t)2 << 20)

size_t kolo_region_part_bytes(size_t bytes, uint32_t parts) {
    const size_t page_bytes = bytes >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : KOLO_PAGE_BYTES;
    if (bytes > PTRDIFF_MAX / parts - page_bytes)
        return 0;
    return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

/* A file of huge pages, or -1 if the pool has fewer than `bytes` left. A shared mapping reserves them for the file,
 * which keeps them when the mapping goes: no later access can fail. */
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

int kolo_region_create(size_t part_bytes, uint32_t parts) {
    const size_t bytes = part_bytes * parts;
    struct rlimit file; /* beyond which sizing it would end the process with SIGXFSZ */
    if (getrlimit(RLIMIT_FSIZE, &file) == 0 && bytes > file.rlim_cur)
        return kolo_fail(KOLO_ERR_NO_SPACE,
                         "kolo_alloc: a file of %zu bytes needed, and this process may write %llu: raise that limit "
                         "(ulimit -f)",
                         bytes, (unsigned long long)file.rlim_cur);
    int fd = part_bytes % HUGE_PAGE_BYTES == 0 ? create_huge(bytes) : -1;
    if (fd >= 0)
        return fd;
    const uint64_t available_bytes = kolo_memory_available();
    if (bytes > available_bytes)
        return kolo_fail(KOLO_ERR_NO_SPACE,
                         "kolo_alloc: %zu bytes for each of %u ranks are %zu in all, and %" PRIu64
                         " are available: free buffers, ask for less, or raise the memory limit",
                         part_bytes, parts, bytes, available_bytes);
    fd = kolo_memory_file_create("kolo-alloc", 0);
    if (fd < 0)
        return kolo_fail_system(-fd, "kolo_alloc: creating a memfd");
    if (ftruncate(fd, (off_t)bytes) < 0) {
        const int rc = kolo_fail_system(errno, "kolo_alloc: sizing a memfd to %zu bytes", bytes);
        close(fd);
        return rc;
    }
    return fd;
}

/* Each owner is the first to touch its part, so that the pages come from its own NUMA node. */
static int fill(uint8_t *part, size_t part_bytes, int fd, off_t offset) {
    if (madvise(part, part_bytes, MADV_POPULATE_WRITE) == 0)
        return 0;
    int error = errno;
    if (error == EINVAL) /* a kernel before 5.14 */
        error = posix_fallocate(fd, offset, (off_t)part_bytes);
    if (error == 0)
        return 0;
    if (error == ENOMEM || error == ENOSPC || error == EFAULT)
        return kolo_fail(KOLO_ERR_NO_SPACE, "kolo_alloc: the system does not have %zu bytes of memory left: %s",
                         part_bytes, strerror(error));
    return kolo_fail_system(error, "kolo_alloc: filling %zu bytes", part_bytes);
}

int kolo_region_map(struct kolo_region *region, int fd, size_t part_bytes, uint32_t parts, uint32_t own) {
    const size_t bytes = part_bytes * parts;
    uint8_t *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED && errno == ENOMEM)
        return kolo_fail(KOLO_ERR_NO_SPACE,
                         "kolo_alloc: no address space for %zu bytes: ask for less, or raise its limit (ulimit -v)",
                         bytes);
    if (base == MAP_FAILED)
        return kolo_fail_system(errno, "kolo_alloc: mapping %zu bytes", bytes);
    if (part_bytes % HUGE_PAGE_BYTES == 0)
        madvise(base, bytes, MADV_HUGEPAGE); /* refused where the system has none for shared memory */
    KOLO_POINT("region.mapped");
    const int rc = fill(base + own * part_bytes, part_bytes, fd, (off_t)(own * part_bytes));
    if (rc < 0) {
        munmap(base, bytes);
        return rc;
    }
    *region = (struct kolo_region){.base = base, .part_bytes = part_bytes, .parts = parts};
    return 0;
}

void kolo_region_leave(struct kolo_region *region, uint32_t own) {
    KOLO_POINT("region.leaving");
    madvise(region->base + own * region->part_bytes, region->part_bytes, MADV_REMOVE);
    KOLO_POINT("region.returned");
    kolo_region_forget(region);
}

void kolo_region_forget(struct kolo_region *region) {
    munmap(region->base, region->part_bytes * region->parts);
    region->base = NULL;
}
