/* They lie at a place that is known from that of the program, built or installed. */
#include "sim_catalogue.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_file(const char *path) {
    struct stat found;
    return stat(path, &found) == 0 && !S_ISDIR(found.st_mode);
}

/* SIM_MACHINES is the way there from the program's folder. */
static int find_folder(char *path, size_t path_bytes) {
    char program[PATH_MAX] = "";
    if (readlink("/proc/self/exe", program, sizeof program - 1) <= 0)
        return -1;
    const char *slash = strrchr(program, '/');
    const int length = slash != NULL ? (int)(slash - program) : 0;
    return snprintf(path, path_bytes, "%.*s/%s", length, program, SIM_MACHINES) < (int)path_bytes ? 0 : -1;
}

int sim_catalogue_find(const char *name, char *path, size_t path_bytes) {
    char folder[PATH_MAX + sizeof SIM_MACHINES];
    if (strchr(name, '/') != NULL || is_file(name))
        return snprintf(path, path_bytes, "%s", name) < (int)path_bytes ? 0 : -1;
    if (name[0] == '\0' || name[0] == '.' || find_folder(folder, sizeof folder) != 0 ||
        snprintf(path, path_bytes, "%s/%s", folder, name) >= (int)path_bytes)
        return -1;
    return is_file(path) ? 0 : -1;
}

static int is_visible(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

void sim_catalogue_print(FILE *to) {
    char folder[PATH_MAX + sizeof SIM_MACHINES];
    struct dirent **entries = NULL;
    const int count = find_folder(folder, sizeof folder) == 0 ? scandir(folder, &entries, is_visible, alphasort) : -1;
    fprintf(to, count > 0 ? "These machines come with kolo:\n" : "No machines are installed with kolo.\n");
    for (int i = 0; i < count; i++) {
        fprintf(to, "  %s\n", entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
}
