/* Files that appear whole: see new_file.h. */
#include "base/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

enum { LINKS_MAX = 40, TRIES = 8, SHOWN_MAX = 200 /* of a path */ };

/* Appends the reason to the message, which begins with the caller's path, and returns -error. */
static int fail(struct kolo_new_file *file, int error, const char *format, ...) __attribute__((format(printf, 3, 4)));

static int fail(struct kolo_new_file *file, int error, const char *format, ...) {
    const size_t used = strlen(file->message);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(file->message + used, sizeof file->message - used, format, arguments);
    va_end(arguments);
    return -error;
}

static int fail_system(struct kolo_new_file *file, int error) {
    return fail(file, error, "%s", strerror(error));
}

/* file->place = where `path` leads, whether or not there is a file. */
static int follow(struct kolo_new_file *file, const char *path) {
    char target[PATH_MAX], folder[PATH_MAX];
    if (strlen(path) >= sizeof file->place)
        return fail_system(file, ENAMETOOLONG);
    strcpy(file->place, path);
    for (int links = 0; links < LINKS_MAX; links++) {
        const ssize_t length = readlink(file->place, target, sizeof target - 1);
        if (length < 0) /* it is no link, or nothing is there */
            return 0;
        target[length] = 0;
        strcpy(folder, file->place);
        const char *from = target[0] == '/' ? "" : dirname(folder), *slash = target[0] == '/' ? "" : "/";
        if (snprintf(file->place, sizeof file->place, "%s%s%s", from, slash, target) >= (int)sizeof file->place)
            return fail_system(file, ENAMETOOLONG);
    }
    return fail_system(file, ELOOP);
}

/* Whether the open file is the one at file->path. */
static bool is_there(const struct kolo_new_file *file) {
    struct stat named;
    return lstat(file->path, &named) == 0 && kolo_file_is(file->fd, named.st_dev, named.st_ino);
}

/* Removes the file that a process left when it ended. */
static int remove_left(struct kolo_new_file *file) {
    struct stat found;
    const int fd = kolo_file_open_own(file->path, &found);
    if (fd == -ENOENT)
        return 0;
    if (fd < 0)
        return fail(file, EEXIST, "'%.*s' is in the way: remove it", SHOWN_MAX, file->path);
    const bool is_locked = flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
    const int error = !is_locked && unlink(file->path) < 0 ? errno : 0;
    close(fd);
    if (is_locked)
        return fail(file, EBUSY, "'%.*s' is being written by another save", SHOWN_MAX, file->path);
    return error ? fail_system(file, error) : 0;
}

/* Opens a new file that is this process's alone. */
static int create(struct kolo_new_file *file, mode_t mode) {
    for (int tries = 0; tries < TRIES; tries++) {
        file->fd = open(file->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        if (file->fd < 0 && errno != EEXIST)
            return fail_system(file, errno);
        if (file->fd < 0) {
            const int rc = remove_left(file);
            if (rc < 0)
                return rc;
            continue;
        }
        flock(file->fd, LOCK_EX | LOCK_NB); /* unless another process takes it for one that was left, just now */
        if (is_there(file))
            return 0;
        close(file->fd);
    }
    return fail(file, EBUSY, "'%.*s' is being written by another save", SHOWN_MAX, file->path);
}

static int write_all(int fd, const uint8_t *bytes, size_t count) {
    while (count > 0) {
        const ssize_t wrote = write(fd, bytes, count);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return -1;
        bytes += wrote;
        count -= (size_t)wrote;
    }
    return 0;
}

static int write_beside(struct kolo_new_file *file, const char *path, mode_t most, const void *bytes, size_t count) {
    struct stat old;
    snprintf(file->message, sizeof file->message, "cannot write '%.*s': ", SHOWN_MAX, path);
    int rc = follow(file, path);
    if (rc < 0)
        return rc;
    const bool is_old = stat(file->place, &old) == 0;
    if (is_old && !S_ISREG(old.st_mode))
        return S_ISDIR(old.st_mode) ? fail_system(file, EISDIR)
                                    : fail(file, EINVAL, "it is not a regular file: give the name of a file");
    if (snprintf(file->path, sizeof file->path, "%s.new-%ld", file->place, (long)getpid()) >= (int)sizeof file->path)
        return fail_system(file, ENAMETOOLONG);
    const mode_t mode = is_old ? old.st_mode & most : most;
    rc = create(file, mode);
    if (rc < 0)
        return rc;
    const bool lacks_mode = is_old && fchmod(file->fd, mode) < 0 && errno != EPERM && errno != ENOTSUP &&
                            errno != ENOSYS; /* which say that the file system has no modes */
    if (lacks_mode || write_all(file->fd, bytes, count) < 0 || fsync(file->fd) < 0) {
        rc = fail_system(file, errno);
        kolo_new_file_drop(file);
    }
    return rc;
}

int kolo_new_file_write(struct kolo_new_file *file, const char *path, mode_t mode, const void *bytes, size_t count) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &file->signals);
    const int rc = write_beside(file, path, mode, bytes, count);
    if (rc < 0)
        pthread_sigmask(SIG_SETMASK, &file->signals, NULL);
    return rc;
}

/* Writes the file's name to the disk, too. A folder that this process may not read, or whose file system cannot do
 * that, is left as it is: nothing more can be done there. */
static int sync_folder(const struct kolo_new_file *file) {
    char copy[PATH_MAX];
    strcpy(copy, file->place);
    const int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    const int error = fsync(fd) < 0 && errno != EINVAL && errno != EROFS ? errno : 0;
    close(fd);
    return error;
}

int kolo_new_file_name(struct kolo_new_file *file) {
    if (rename(file->path, file->place) < 0) {
        const int rc = fail_system(file, errno);
        kolo_new_file_drop(file);
        return rc;
    }
    close(file->fd);
    const int error = sync_folder(file);
    pthread_sigmask(SIG_SETMASK, &file->signals, NULL);
    return error ? fail(file, error, "it is there, but its folder is not on the disk yet: %s", strerror(error)) : 0;
}

void kolo_new_file_drop(struct kolo_new_file *file) {
    unlink(file->path);
    close(file->fd);
    pthread_sigmask(SIG_SETMASK, &file->signals, NULL);
}
