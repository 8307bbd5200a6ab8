#include "shm/guard.h"

#include <fcntl.h>

#include "kolo.h"

#define FIRST_PLACE (UINT64_C(1) << 40) /* behind whatever a job's file may hold */

uint64_t kolo_guard_place(uint64_t epoch, uint32_t rank) {
    return FIRST_PLACE + epoch * KOLO_RANKS_MAX + rank;
}

bool kolo_guard_take(int fd, uint64_t place) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)place, .l_len = 1};
    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

bool kolo_guard_held(int fd, uint64_t place) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)place, .l_len = 1};
    return fcntl(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}
