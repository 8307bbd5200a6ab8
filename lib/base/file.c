#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

ssize_t kolo_file_read(const char *path, char *text, size_t room) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -errno;
    struct stat found;
    ssize_t status = fstat(fd, &found) < 0 ? -errno : S_ISREG(found.st_mode) ? 0 : -EINVAL;
    size_t used = 0;
    while (status == 0 && used < room) {
        const ssize_t more = read(fd, text + used, room - used);
        if (more == 0)
            break;
        if (more > 0)
            used += (size_t)more;
        else if (errno != EINTR)
            status = -errno;
    }
    close(fd);
    return status < 0 ? status : (ssize_t)used;
}
