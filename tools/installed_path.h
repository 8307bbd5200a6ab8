/* What is installed with the programs lies in share/kolo beside their folder; in a build folder, too. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Writes the path of what has this name there; false where it does not fit. */
static inline bool installed_path(char *path, size_t path_bytes, const char *name) {
    char program[PATH_MAX] = "";
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    for (int levels = 0; length > 0 && levels < 2; levels++) {
        char *slash = strrchr(program, '/');
        if (slash != NULL)
            *slash = '\0';
    }
    return snprintf(path, path_bytes, "%s/share/kolo/%s", program, name) < (int)path_bytes;
}
