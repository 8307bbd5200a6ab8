#include "fault_leftovers.h"

#include <dirent.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Atomic int64_t blocks; /* of the leader's network thread, too */

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *block, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
char *__real_strdup(const char *text); /* which calls a malloc that is not wrapped */
void __real_free(void *block);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
char *__wrap_strdup(const char *text);
void __wrap_free(void *block);
int __wrap_asprintf(char **text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void *counted(void *block) {
    blocks += block != NULL;
    return block;
}

void *__wrap_malloc(size_t bytes) {
    return counted(__real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t bytes) {
    return counted(__real_calloc(count, bytes));
}

void *__wrap_realloc(void *block, size_t bytes) {
    void *moved = __real_realloc(block, bytes);
    return block ? moved : counted(moved);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
    return counted(__real_aligned_alloc(alignment, bytes));
}

char *__wrap_strdup(const char *text) {
    return counted(__real_strdup(text));
}

void __wrap_free(void *block) {
    blocks -= block != NULL;
    __real_free(block);
}

/* Of which the malloc is not wrapped, either. */
int __wrap_asprintf(char **text, const char *format, ...) {
    va_list list;
    va_start(list, format);
    const int length = vasprintf(text, format, list);
    va_end(list);
    blocks += length >= 0;
    return length;
}

static int count_descriptors(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return count;
}

static int count_mappings(void) {
    char line[512];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof line, maps))
        count += strstr(line, "/dev/shm/") != NULL || strstr(line, "/memfd:") != NULL;
    if (maps)
        fclose(maps);
    return count;
}

struct leftovers leftovers_count(void) {
    return (struct leftovers){count_descriptors(), count_mappings(), blocks};
}

const char *leftovers_path(const char *job) {
    static char path[160];
    snprintf(path, sizeof path, "/dev/shm/kolo-%u-%s", (unsigned)geteuid(), job);
    return path;
}

bool leftovers_named(const char *job) {
    return access(leftovers_path(job), F_OK) == 0;
}
