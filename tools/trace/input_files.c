/* Finding and reading files. */
#include "input_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "messages.h"
#include "trace_read.h"

const char *input_file_shown(const char *path) {
    static char text[512];
    snprintf(text, sizeof text, "%s", path);
    trace_text_clean(text);
    return text;
}

static void add_file(input_files *files, const char *folder, const char *name) {
    if (files->count == INPUT_FILES_MAX) {
        message_print("there are more than %d files: %s is left out", INPUT_FILES_MAX, input_file_shown(name));
        return;
    }
    char *path = NULL;
    if (asprintf(&path, "%s%s%s", folder, folder[0] ? "/" : "", name) > 0)
        files->paths[files->count++] = path;
}

static int by_name(const void *left, const void *right) {
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static void add_folder(input_files *files, const char *path, const char *suffix, const char *hint) {
    DIR *folder = opendir(path);
    if (!folder) {
        message_print("cannot read %s: %s", input_file_shown(path), strerror(errno));
        return;
    }
    const int before = files->count;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        const size_t length = strlen(entry->d_name), end = strlen(suffix);
        if (length > end && strcmp(entry->d_name + length - end, suffix) == 0)
            add_file(files, path, entry->d_name);
    }
    closedir(folder);
    qsort(files->paths + before, (size_t)(files->count - before), sizeof *files->paths, by_name);
    if (files->count == before)
        message_print("there is no file *%s in %s: %s", suffix, input_file_shown(path), hint);
}

void input_files_find(input_files *files, char **paths, const char *suffix, const char *hint) {
    files->count = 0;
    for (char **path = paths; *path; path++) {
        struct stat found;
        if (stat(*path, &found) == 0 && S_ISDIR(found.st_mode))
            add_folder(files, *path, suffix, hint);
        else
            add_file(files, "", *path);
    }
}

unsigned char *input_file_load(const char *path, uint64_t file_bytes_max, size_t bytes_max, size_t *length,
                               void (*after_reading)(int fd, unsigned char *bytes, size_t length)) {
    struct stat found;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    unsigned char *bytes = NULL;
    *length = 0;
    if (fd >= 0 && fstat(fd, &found) == 0) {
        const size_t whole = (uint64_t)found.st_size < bytes_max ? (size_t)found.st_size : bytes_max;
        if (!S_ISREG(found.st_mode) || (uint64_t)found.st_size > file_bytes_max)
            errno = S_ISREG(found.st_mode) ? EFBIG : EINVAL;
        else
            bytes = malloc(whole + 1);
        for (ssize_t got = 1; bytes && *length < whole && got > 0; *length += got > 0 ? (size_t)got : 0)
            got = pread(fd, bytes + *length, whole - *length, (off_t)*length);
    }
    if (!bytes)
        message_print("cannot read %s: %s", input_file_shown(path),
                      errno == EINVAL ? "it is no regular file" : strerror(errno));
    else if (after_reading)
        after_reading(fd, bytes, *length);
    if (fd >= 0)
        close(fd);
    return bytes;
}
