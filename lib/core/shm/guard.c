/* Guards: locks by which other processes see that this process's address space still exists. */
#include "shm/guard.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sync/thread.h"
#include "base/file.h"

#define FIRST_PLACE (UINT64_C(1) << 40) /* behind whatever a job's file may hold */

uint64_t kolo_guard_place(uint64_t epoch, uint32_t rank) {
    return FIRST_PLACE + epoch * KOLO_RANKS_MAX + rank;
}

static struct flock lock_of(short type, uint64_t place) {
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)place, .l_len = 1};
}

bool kolo_guard_take(int fd, uint64_t place) {
    struct flock lock = lock_of(F_WRLCK, place);
    KOLO_POINT("guard.taking");
    const bool taken = fcntl(fd, F_OFD_SETLK, &lock) == 0;
    KOLO_POINT("guard.taken");
    return taken;
}

void kolo_guard_drop(int fd, uint64_t place) {
    struct flock lock = lock_of(F_UNLCK, place);
    KOLO_POINT("guard.dropping");
    fcntl(fd, F_OFD_SETLK, &lock);
    KOLO_POINT("guard.dropped");
}

bool kolo_guard_held(int fd, uint64_t place) {
    struct flock lock = lock_of(F_WRLCK, place);
    return fcntl(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

/* One guard of this process, the newest first. */
struct guard {
    struct guard *older;
    struct kolo_shared_guard where;
    uint64_t users; /* communicators */
    void *page;     /* keeps the open file description whose lock it is */
    int fd;         /* of another description of that file, to look at locks; -1: another guard has one for that file */
};

static struct {
    uint64_t forks; /* see sync/thread.h */
    struct guard *newest;
} own;

static void lock(void) {
    const uint64_t forks = kolo_common_lock();
    for (struct guard *guard; own.forks != forks && (guard = own.newest); free(guard)) {
        own.newest = guard->older; /* the parent's, whose pages this process has not inherited */
        kolo_file_close(guard->fd, guard->where.device, guard->where.inode);
    }
    own.forks = forks;
}

/* Returns a guard in that file; needs_fd: the one that has the file's descriptor. */
static struct guard *find(uint64_t device, uint64_t inode, bool needs_fd) {
    for (struct guard *guard = own.newest; guard; guard = guard->older)
        if (guard->where.device == device && guard->where.inode == inode && (guard->fd >= 0 || !needs_fd))
            return guard;
    return NULL;
}

/* Counts one user of that guard less, if there is one; after the last one, releases it. */
static void release(const struct kolo_shared_guard *used) {
    struct guard **place = &own.newest;
    while (*place && memcmp(&(*place)->where, used, sizeof *used) != 0)
        place = &(*place)->older;
    struct guard *guard = *place;
    if (!guard || --guard->users)
        return;
    *place = guard->older;
    munmap(guard->page, KOLO_PAGE_BYTES);
    struct guard *heir = find(used->device, used->inode, false);
    if (heir && heir->fd < 0)
        heir->fd = guard->fd;
    else
        kolo_file_close(guard->fd, guard->where.device, guard->where.inode);
    free(guard);
}

void kolo_guards_enter(struct kolo_shared_guard *used) {
    lock();
    *used = own.newest ? own.newest->where : (struct kolo_shared_guard){0};
    if (own.newest)
        own.newest->users++;
    kolo_common_unlock();
}

void kolo_guards_leave(const struct kolo_shared_guard *used) {
    lock();
    KOLO_POINT("guard.leaving");
    release(used);
    KOLO_POINT("guard.left");
    kolo_common_unlock();
}

/* Opens a file anew, so that the new description does not have the locks of `fd`'s. Without /proc: a duplicate. */
static int open_anew(int fd) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const int anew = kolo_file_raise(open(path, O_RDWR | O_CLOEXEC));
    return anew >= 0 ? anew : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

/* Fills in a guard. A failure leaves no descriptor and no mapping behind. */
static bool make(struct guard *guard, int fd, uint64_t place) {
    struct stat found;
    if (fstat(fd, &found) < 0)
        return false;
    guard->where = (struct kolo_shared_guard){found.st_dev, found.st_ino, place};
    if (!find(found.st_dev, found.st_ino, true) && (guard->fd = open_anew(fd)) < 0)
        return false;
    KOLO_POINT("guard.opened");
    guard->page = mmap(NULL, KOLO_PAGE_BYTES, PROT_NONE, MAP_SHARED, fd, 0);
    if (guard->page != MAP_FAILED) {
        madvise(guard->page, KOLO_PAGE_BYTES, MADV_DONTFORK);
        return true;
    }
    if (guard->fd >= 0)
        close(guard->fd);
    return false;
}

bool kolo_guards_add(int fd, uint64_t place, struct kolo_shared_guard *used) {
    struct guard *guard = malloc(sizeof *guard);
    if (!guard)
        return false;
    lock();
    *guard = (struct guard){.older = own.newest, .users = 1, .fd = -1};
    const bool made = make(guard, fd, place);
    if (made) {
        own.newest = guard;
        release(used);
        *used = guard->where;
    }
    KOLO_POINT("guard.added");
    kolo_common_unlock();
    if (!made)
        free(guard);
    return made;
}

bool kolo_guard_is_lost(const struct kolo_shared_guard *guard) {
    bool lost = false;
    if (guard->place == 0)
        return false;
    lock();
    struct guard *with = find(guard->device, guard->inode, true);
    if (with && !kolo_file_is(with->fd, guard->device, guard->inode)) /* the program has closed it */
        with->fd = -1;
    else if (with)
        lost = !kolo_guard_held(with->fd, guard->place);
    kolo_common_unlock();
    return lost;
}

bool kolo_guards_have_file(uint64_t device, uint64_t inode) {
    lock();
    const bool have = find(device, inode, true) != NULL;
    kolo_common_unlock();
    return have;
}
