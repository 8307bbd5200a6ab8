/* Puts shared pages in the place of private ones, and private ones in the place of shared ones: see adoption.h. */
#include "shm/adoption.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/status.h"
#include "cpu/limits.h"
#include "shm/layout.h"
#include "sync/thread.h"

/* What is copied between two looks at the memory that is left. */
#define PIECE_BYTES (4 * KOLO_HUGE_PAGE_BYTES)

/* One mapping of this process, a line of /proc/self/maps. */
struct mapping {
    uintptr_t begin, end;
    char access[5]; /* "rw-p" */
    unsigned major, minor;
    uint64_t inode; /* 0: anonymous */
    char name[80];
};

/* Finds the first mapping that reaches beyond `address`. Returns false if there is none; *error: if due to /proc. */
static bool find_mapping(uintptr_t address, struct mapping *found, int *error) {
    char line[256]; /* beginnings of lines: names may be longer */
    bool is_found = false, at_begin = true;
    FILE *maps = fopen("/proc/self/maps", "re");
    *error = maps ? 0 : errno;
    while (maps && !is_found && fgets(line, sizeof line, maps)) {
        *found = (struct mapping){0};
        const int fields = sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*x %x:%x %" SCNu64 " %79[^\n]", &found->begin,
                                  &found->end, found->access, &found->major, &found->minor, &found->inode, found->name);
        is_found = at_begin && fields >= 6 && found->end > address;
        at_begin = strchr(line, '\n') != NULL;
    }
    if (maps)
        fclose(maps);
    return is_found;
}

/* Returns the reason why the mapping cannot be adopted; NULL: there is none. */
static const char *objection(const struct mapping *mapping) {
    if (mapping->access[3] == 's')
        return "is shared already";
    if (mapping->inode)
        return "belongs to a file, or is of huge pages of their own";
    if (strncmp(mapping->access, "rw", 2) != 0)
        return "is not both readable and writable";
    if (mapping->name[0] == '[' && strcmp(mapping->name, "[heap]") != 0 && strncmp(mapping->name, "[anon:", 6) != 0)
        return "is a stack, or the kernel's";
    return NULL;
}

int kolo_adoption_check(const char *function, const void *memory, size_t bytes) {
    const uintptr_t begin = (uintptr_t)memory, end = begin + bytes;
    for (uintptr_t at = begin; at < end;) {
        struct mapping mapping;
        int error;
        const bool is_found = find_mapping(at, &mapping, &error);
        if (error)
            return kolo_fail_system(error, "%s: reading /proc/self/maps", function);
        const bool is_mapped = is_found && mapping.begin <= at;
        const char *reason = is_mapped ? objection(&mapping) : "is not mapped";
        if (reason)
            return kolo_fail(
                KOLO_ERR_ARG,
                "%s: of the %zu bytes at %p those at %p cannot be shared: the memory %s %s; private memory "
                "of an allocator or of mmap can",
                function, bytes, memory, (const void *)at, reason, is_mapped ? mapping.name : "");
        at = mapping.end;
    }
    return 0;
}

int kolo_adoption_begin(const char *function, struct kolo_adopted *adopted, void *memory, size_t bytes, void *part,
                        int fd, off_t offset) {
    struct stat file;
    if (fstat(fd, &file) < 0)
        return kolo_fail_system(errno, "%s: looking at a memfd", function);
    kolo_adoption_lock();
    int rc = kolo_adoption_check(function, memory, bytes);
    if (rc == 0) {
        memcpy(part, memory, bytes);
        KOLO_POINT("adoption.copied");
        if (mmap(memory, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, offset) == MAP_FAILED)
            rc = kolo_fail_system(errno, "%s: mapping %zu bytes at %p", function, bytes, memory);
        KOLO_POINT("adoption.mapped");
    }
    kolo_adoption_unlock();
    if (rc < 0)
        return rc;
    *adopted = (struct kolo_adopted){memory, bytes, file.st_dev, file.st_ino};
    madvise(memory, bytes, KOLO_POPULATE_WRITE); /* no page faults later; kernels before 5.14 have them */
    /* The part is not needed at two addresses. Its second mapping stays where this call fails. */
    (void)!mmap(part, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return 0;
}

/* Fills a private copy of `memory`. False: not enough memory. Beyond a control group's limit the kernel would kill this
 * process. Other ranks may be copying, too, so that it looks again at each piece. */
static bool copy_pieces(uint8_t *copy, const uint8_t *memory, size_t bytes) {
    for (size_t piece; bytes; copy += piece, memory += piece, bytes -= piece) {
        piece = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
        if (bytes > kolo_memory_available() || (madvise(copy, piece, KOLO_POPULATE_WRITE) < 0 && errno != EINVAL))
            return false;
        memcpy(copy, memory, piece);
    }
    return true;
}

/* Returns a private copy of `memory`, at an address with the same place in a huge page. NULL: not enough memory. */
static void *copy_apart(const void *memory, size_t bytes) {
    uint8_t *space = mmap(NULL, bytes + KOLO_HUGE_PAGE_BYTES, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED)
        return NULL;
    const size_t before = ((uintptr_t)memory - (uintptr_t)space) % KOLO_HUGE_PAGE_BYTES;
    uint8_t *copy = space + before;
    if (before)
        munmap(space, before);
    munmap(copy + bytes, KOLO_HUGE_PAGE_BYTES - before);
    if (copy_pieces(copy, memory, bytes))
        return copy;
    munmap(copy, bytes);
    return NULL;
}

static void make_private(void *memory, size_t bytes) {
    void *copy = copy_apart(memory, bytes);
    KOLO_POINT("adoption.copied_back");
    if (copy && mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, memory) == MAP_FAILED)
        munmap(copy, bytes);
    KOLO_POINT("adoption.moved_back");
}

void kolo_adoption_end(struct kolo_adopted *adopted) {
    const uintptr_t begin = (uintptr_t)adopted->memory, end = begin + adopted->bytes;
    int error = 0;
    kolo_adoption_lock();
    for (uintptr_t at = begin; at < end;) {
        struct mapping mapping;
        if (!find_mapping(at, &mapping, &error) || mapping.begin >= end)
            break;
        const uintptr_t first = mapping.begin > at ? mapping.begin : at, last = mapping.end < end ? mapping.end : end;
        if (mapping.inode == adopted->inode && makedev(mapping.major, mapping.minor) == adopted->device)
            make_private((void *)first, last - first);
        at = last;
    }
    if (error) /* without /proc the memory counts as adopted, as the program has promised */
        make_private(adopted->memory, adopted->bytes);
    kolo_adoption_unlock();
    adopted->inode = 0;
}
