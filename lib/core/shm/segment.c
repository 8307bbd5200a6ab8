/* Segments: their allocation, mapping and release. */
#include "shm/segment.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sync/thread.h"
#include "base/file.h"
#include "base/status.h"
#include "cpu/limits.h"
#include "shm/guard.h"

enum {
    CHECKED_BYTES_MIN = 1 << 20,
    PLENTIFUL = 64, /* times what a communicator takes: others rarely use that up before it uses its slots */
    KEPT_SHARE = 16 /* at most one in so many of the descriptors that this process may have */
};

/* Limits that the kernel would enforce with a signal (SIGXFSZ, or a SIGKILL for want of memory) instead of an error. */
static int check_limits(uint64_t end, size_t bytes) {
    struct rlimit file;
    if (getrlimit(RLIMIT_FSIZE, &file) == 0 && end > file.rlim_cur)
        return kolo_fail(
            KOLO_ERR_NO_SPACE,
            "shared memory: a file of %llu bytes needed, and this process may write %llu: raise that limit "
            "(ulimit -f), or set KOLO_SLOT_BYTES lower",
            (unsigned long long)end, (unsigned long long)file.rlim_cur);
    /* A group at its limit gets the little memory of a job file back from its caches. */
    const uint64_t available_bytes = bytes < CHECKED_BYTES_MIN ? UINT64_MAX : kolo_memory_available();
    if (bytes > available_bytes)
        return kolo_fail(
            KOLO_ERR_NO_SPACE,
            "shared memory: %zu bytes needed, and memory has %llu left: raise its limit (of the container or "
            "control group), or set KOLO_SLOT_BYTES lower",
            bytes, (unsigned long long)available_bytes);
    return 0;
}

/* What the mount of a file has left; UINT64_MAX: it has no limit, or none that can be seen. */
static uint64_t free_bytes_of(int fd) {
    struct statvfs mount;
    const bool has_limit = fstatvfs(fd, &mount) == 0 && mount.f_blocks > 0;
    return has_limit ? (uint64_t)mount.f_bavail * mount.f_bsize : UINT64_MAX;
}

int kolo_segment_allocate(int fd, uint64_t offset, size_t bytes) {
    const int limited = check_limits(offset + bytes, bytes);
    if (limited < 0)
        return limited;
    const uint64_t free_bytes = free_bytes_of(fd); /* others are not to run out while this fails */
    const int rc = free_bytes < bytes ? ENOSPC : kolo_file_allocate(fd, offset, bytes);
    if (rc == 0)
        return 0;
    if (rc != ENOSPC && rc != ENOMEM && rc != EFBIG)
        return kolo_fail_system(rc, "allocating %zu bytes of shared memory", bytes);
    return kolo_fail(KOLO_ERR_NO_SPACE,
                     "shared memory: %zu bytes needed, %llu free: enlarge it (docker run --shm-size, mount -o "
                     "remount,size=), or set KOLO_SLOT_BYTES below %llu",
                     bytes, (unsigned long long)(free_bytes == UINT64_MAX ? 0 : free_bytes), (unsigned long long)bytes);
}

int kolo_segment_allocate_all(int fd, uint64_t offset, const struct kolo_layout *layout, size_t *bytes,
                              bool *lacks_slots) {
    const bool can_populate = madvise(NULL, 0, KOLO_POPULATE_WRITE) == 0; /* Linux 5.14 */
    *lacks_slots = !layout->internode && can_populate && layout->allocated < free_bytes_of(fd) / PLENTIFUL &&
                   layout->allocated < kolo_memory_available() / PLENTIFUL;
    int rc = kolo_segment_allocate(fd, offset, *lacks_slots ? layout->slots : layout->allocated);
    *bytes = layout->bytes;
    if (rc == 0 && kolo_segment_allocate(fd, offset + layout->bytes - KOLO_PAGE_BYTES, KOLO_PAGE_BYTES) < 0) {
        *bytes = layout->allocated;
        rc = kolo_segment_allocate(fd, offset + layout->allocated - KOLO_PAGE_BYTES, KOLO_PAGE_BYTES);
    }
    return rc;
}

/* The page is written by a system call: it returns an error where memory is missing; a store would end the process. */
static bool provide_page(uint8_t *page) {
    return getrandom(page + KOLO_PAGE_BYTES - 1, 1, GRND_NONBLOCK) == 1 || errno != EFAULT;
}

int kolo_segment_provide(void *pages, size_t bytes) {
    const int limited = check_limits(0, bytes);
    if (limited < 0 || madvise(pages, bytes, KOLO_POPULATE_WRITE) == 0)
        return limited;
    bool provided = errno == EINVAL; /* before Linux 5.14 */
    for (size_t at = 0; provided && at < bytes; at += KOLO_PAGE_BYTES)
        provided = provide_page((uint8_t *)pages + at);
    return provided ? 0
                    : kolo_fail(KOLO_ERR_NO_SPACE,
                                "shared memory: %zu bytes more needed, and there are none: enlarge it (docker run "
                                "--shm-size, mount -o remount,size=)",
                                bytes);
}

int kolo_segment_provide_slots(struct kolo_segment *segment, uint32_t rank) {
    const size_t bytes = KOLO_SLOTS * segment->slot_bytes;
    const int rc = segment->header->ranks == 2 ? kolo_segment_provide(segment->slots, 2 * bytes)
                                               : kolo_segment_provide(segment->slots + rank * bytes, bytes);
    segment->lacks_slots = rc < 0;
    return rc;
}

int kolo_segment_map(int fd, uint64_t offset, size_t bytes, void **address) {
    void *mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
    struct rlimit space;
    if (mapping == MAP_FAILED && errno == ENOMEM && getrlimit(RLIMIT_AS, &space) == 0 &&
        space.rlim_cur != RLIM_INFINITY)
        return kolo_fail(
            KOLO_ERR_NO_SPACE,
            "mapping shared memory: %zu bytes of address space needed beyond what is in use, and this process "
            "may use %llu in all: raise that limit (ulimit -v), or set KOLO_SLOT_BYTES lower",
            bytes, (unsigned long long)space.rlim_cur);
    if (mapping == MAP_FAILED)
        return kolo_fail_system(errno, "mapping %zu bytes of shared memory", bytes);
    madvise(mapping, bytes, MADV_DONTFORK);
    *address = mapping;
    return 0;
}

int kolo_segment_map_all(int fd, uint64_t offset, const struct kolo_layout *layout, size_t *bytes, void **address) {
    int rc = kolo_segment_map(fd, offset, *bytes, address);
    if (rc < 0 && *bytes > layout->allocated) {
        *bytes = layout->allocated;
        rc = kolo_segment_map(fd, offset, *bytes, address);
    }
    return rc;
}

void kolo_segment_view(struct kolo_segment *segment, void *mapping, size_t bytes, uint32_t ranks, size_t slot_bytes,
                       uint32_t internode) {
    const struct kolo_layout layout = kolo_layout_compute(ranks, slot_bytes, internode);
    const bool has_rings = bytes > layout.allocated;
    uint8_t *start = mapping;
    segment->header = mapping;
    segment->members = (void *)(start + layout.members);
    segment->signals = (void *)(start + layout.signals);
    segment->histories = (void *)(start + layout.histories);
    segment->lines = (void *)(start + layout.lines);
    segment->mailboxes = (void *)(start + layout.mailboxes);
    segment->slots = start + layout.slots;
    segment->internode = internode ? (void *)(start + layout.internode) : NULL;
    segment->internode_slots = internode ? start + layout.internode_slots : NULL;
    segment->rings = has_rings ? (void *)(start + layout.rings) : NULL;
    segment->streams = has_rings ? (void *)(start + layout.streams) : NULL;
    segment->slot_bytes = slot_bytes;
    segment->bytes = bytes;
    segment->allocated = layout.allocated;
}

/* Returns true if the page at `address` is certainly on the NUMA node `node`. */
static bool page_is_on(const uint8_t *address, unsigned node) {
    int found;
    return syscall(SYS_get_mempolicy, &found, NULL, 0UL, address, MPOL_F_NODE | MPOL_F_ADDR) == 0 && found == (int)node;
}

void kolo_segment_settle(const struct kolo_segment *segment, uint32_t rank) {
    const size_t bytes = KOLO_SLOTS * segment->slot_bytes;
    uint8_t *own = segment->slots + rank * bytes;
    const size_t later =
        segment->lacks_slots ? (size_t)(segment->slots - (uint8_t *)segment->header) : segment->allocated;
    unsigned node;
    if (segment->bytes > later) /* otherwise a core dump would give memory to all of them */
        madvise((uint8_t *)segment->header + later, segment->bytes - later, MADV_DONTDUMP);
    if (segment->lacks_slots)
        return;
    madvise(own, bytes, KOLO_POPULATE_WRITE);
    /* Pages in place, as with one NUMA node, are not moved: for that the kernel looks at all ranks' mappings. */
    if (syscall(SYS_getcpu, NULL, &node, NULL) == 0 && page_is_on(own, node) &&
        page_is_on(own + bytes - KOLO_PAGE_BYTES, node))
        return;
    /* No node is named: that is the calling thread's. Pages that another process has touched stay where they are. */
    syscall(SYS_mbind, own, bytes, MPOL_PREFERRED, NULL, 0UL, MPOL_MF_MOVE);
}

void kolo_segment_lend(struct kolo_segment *segment, int32_t users) {
    kolo_fetch_add(&segment->header->occupancy, (uint64_t)(int64_t)users * KOLO_OCCUPANCY_USER);
}

void kolo_segment_borrow(struct kolo_segment *segment, void *mapping) {
    const uint32_t ranks = segment->header->ranks;
    const uint32_t internode = segment->header->internode;
    const size_t bytes = segment->header->segment_bytes;
    munmap(segment->header, segment->bytes);
    kolo_segment_view(segment, mapping, bytes, ranks, segment->slot_bytes, internode);
    segment->counted = true;
}

/* The number of descriptors that kolo_segment_close has kept. */
static struct {
    uint64_t forks; /* see sync/thread.h */
    uint32_t count;
} kept;

static void lock_kept(void) {
    const uint64_t forks = kolo_common_lock();
    if (kept.forks != forks)
        kept.count = 0;
    kept.forks = forks;
}

/* Counts one more descriptor, if it is needed or the limit allows one more. */
static bool keep(bool needed) {
    struct rlimit limit;
    lock_kept();
    const bool may = kept.count < KOLO_SEGMENTS_KEPT_MAX &&
                     (getrlimit(RLIMIT_NOFILE, &limit) < 0 || kept.count < limit.rlim_cur / KEPT_SHARE);
    kept.count += needed || may;
    kolo_common_unlock();
    return needed || may;
}

void kolo_segment_close(struct kolo_segment *segment, bool needed) {
    struct stat found;
    if (fstat(segment->fd, &found) == 0) {
        segment->device = found.st_dev;
        segment->inode = found.st_ino;
        if ((needed || !kolo_guards_have_file(found.st_dev, found.st_ino)) && keep(needed))
            return;
    }
    KOLO_POINT("segment.closing");
    close(segment->fd);
    KOLO_POINT("segment.closed");
    segment->fd = -1;
}

static void close_kept(const struct kolo_segment *segment) {
    lock_kept();
    kept.count -= kept.count > 0; /* the count is 0 in a forked child */
    kolo_common_unlock();
    kolo_file_close(segment->fd, segment->device, segment->inode);
}

static void close_fd(struct kolo_segment *segment) {
    if (segment->fd >= 0 && segment->inode)
        close_kept(segment);
    else if (segment->fd >= 0)
        close(segment->fd);
    segment->fd = -1;
}

/* Pages that the program has locked in memory cannot be given back. */
static void give_back(const struct kolo_segment *segment) {
    if (madvise(segment->header, segment->bytes, MADV_REMOVE) == 0 || errno != EINVAL)
        return;
    munlock(segment->header, segment->bytes);
    madvise(segment->header, segment->bytes, MADV_REMOVE);
}

void kolo_segment_leave(struct kolo_segment *segment) {
    uint64_t mine = KOLO_OCCUPANCY_RANK + (segment->counted ? KOLO_OCCUPANCY_USER : 0);
    KOLO_POINT("segment.leaving");
    uint64_t left = kolo_fetch_add(&segment->header->occupancy, -mine) - mine;
    KOLO_POINT("segment.left");
    /* From here on another thread may remove a counted mapping, unless this one was the last to use it. */
    if (left / KOLO_OCCUPANCY_RANK == 0)
        give_back(segment);
    KOLO_POINT("segment.returned");
    if (!segment->counted || left % KOLO_OCCUPANCY_RANK == 0)
        munmap(segment->header, segment->bytes);
    KOLO_POINT("segment.unmapped");
    close_fd(segment);
    segment->header = NULL;
}

/* The mappings of a dead process went with it: only its place among the ranks is left. */
void kolo_segment_mark_dead(struct kolo_segment *segment, uint32_t rank) {
    KOLO_POINT("segment.marking_dead");
    if (!kolo_compare_and_swap(&segment->members[rank].state, KOLO_MEMBER_PRESENT, KOLO_MEMBER_DEAD))
        return;
    KOLO_POINT("segment.discounting");
    kolo_fetch_add(&segment->header->occupancy, -KOLO_OCCUPANCY_RANK);
    KOLO_POINT("segment.marked_dead");
}

void kolo_segment_forget(struct kolo_segment *segment) {
    close_fd(segment);
    segment->header = NULL;
}
