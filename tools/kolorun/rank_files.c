#include "rank_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "messages.h"

int rank_files_prepare(const char *folder) {
    char path[PATH_MAX];
    struct stat found;
    if (snprintf(path, sizeof path, "%s/", folder) >= (int)sizeof path)
        return -ENAMETOOLONG;
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            return -errno;
        *slash = '/';
    }
    if (stat(path, &found) != 0 || !S_ISDIR(found.st_mode))
        return -ENOTDIR;
    return access(path, W_OK | X_OK) == 0 ? 0 : -errno;
}

void rank_files_path(char *path, size_t path_bytes, const char *folder, int rank, int stream) {
    snprintf(path, path_bytes, "%s/rank-%d.%s", folder, rank, stream == 0 ? "out" : "err");
}

int rank_files_open(const char *folder, int rank, bool again, int fds[RANK_FILES]) {
    for (int stream = 0; stream < RANK_FILES; stream++) {
        char path[PATH_MAX];
        rank_files_path(path, sizeof path, folder, rank, stream);
        fds[stream] = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (again ? 0 : O_TRUNC), 0666);
        if (fds[stream] >= 0)
            continue;
        const int error = errno;
        if (stream > 0)
            close(fds[0]);
        message_print("--output: cannot open '%s': %s", path, strerror(error));
        return -error;
    }
    return 0;
}
