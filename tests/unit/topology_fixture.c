#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "topology_fixture.h"

enum { PATH_BYTES = 512, LINE_BYTES = 512 };

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place) {
    (void)status, (void)type, (void)place;
    return remove(path);
}

void fixture_folder_create(char *root, size_t root_bytes) {
    /* Thousands of files: quick in memory, but some disks take half a minute. */
    const char *place = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    assert_true(snprintf(root, root_bytes, "%s/kolo-topology-XXXXXX", place) < (int)root_bytes);
    assert_non_null(mkdtemp(root));
}

void fixture_folder_remove(const char *root) {
    assert_int_equal(nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
}

void fixture_write(const char *root, const char *path, const char *text, size_t bytes) {
    char whole[PATH_BYTES];
    assert_true(snprintf(whole, sizeof whole, "%s/%s", root, path) < (int)sizeof whole);
    FILE *file = fopen(whole, "w");
    for (char *slash = file ? NULL : strchr(whole + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(whole, 0700); /* where it fails, so does what follows */
        *slash = '/';
    }
    if (!file)
        file = fopen(whole, "w");
    assert_non_null(file);
    assert_true(fwrite(text, 1, bytes, file) == bytes);
    assert_int_equal(fclose(file), 0);
}

kolo_cpu_set fixture_cpus(const char *list) {
    kolo_cpu_set set = {{0}};
    for (const char *at = list; *at;) {
        char *end;
        unsigned long first = strtoul(at, &end, 10), last = first;
        assert_true(end > at);
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (; first <= last && first < KOLO_CPUS_MAX; first++)
            kolo_cpu_set_add(&set, (uint32_t)first);
        assert_true(*end == ',' || *end == '\0');
        at = *end ? end + 1 : end;
    }
    return set;
}

/* The text of a CPU's file. */
static void expand(const char *pattern, const char *list, uint32_t cpu, char *text, size_t text_bytes) {
    if (strcmp(pattern, "%") == 0)
        snprintf(text, text_bytes, "%u\n", (unsigned)cpu);
    else
        snprintf(text, text_bytes, "%s\n", strcmp(pattern, "@") == 0 ? list : pattern);
}

static void write_cpus(const char *root, const char *list, const char *path, const char *pattern) {
    const kolo_cpu_set cpus = fixture_cpus(list);
    for (uint32_t cpu = 0; cpu < KOLO_CPUS_MAX; cpu++) {
        char whole[PATH_BYTES], text[LINE_BYTES];
        if (!kolo_cpu_set_has(&cpus, cpu))
            continue;
        snprintf(whole, sizeof whole, "devices/system/cpu/cpu%u/%s", (unsigned)cpu, path);
        expand(pattern, list, cpu, text, sizeof text);
        fixture_write(root, whole, text, strlen(text));
    }
}

/* Cuts the first word off *line. */
static char *take_word(char **line) {
    char *word = *line + strspn(*line, " ");
    char *end = word + strcspn(word, " ");
    *line = *end ? end + 1 : end;
    *end = '\0';
    return word;
}

static void write_line(const char *root, char *line) {
    line[strcspn(line, "\n")] = '\0';
    if (line[0] == '#' || line[0] == '\0')
        return;
    const char *kind = take_word(&line);
    if (strcmp(kind, "cpus") == 0) {
        const char *list = take_word(&line), *path = take_word(&line);
        write_cpus(root, list, path, line);
    } else {
        char text[LINE_BYTES];
        assert_string_equal(kind, "file");
        const char *path = take_word(&line);
        snprintf(text, sizeof text, "%s\n", line);
        fixture_write(root, path, text, strlen(text));
    }
}

void fixture_read(const char *name, const char *allowed, kolo_topology *topology) {
    char root[PATH_BYTES / 2], path[PATH_BYTES], line[LINE_BYTES];
    const kolo_cpu_set cpus = fixture_cpus(allowed);
    snprintf(path, sizeof path, "%s/%s.txt", TOPOLOGIES, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    fixture_folder_create(root, sizeof root);
    while (fgets(line, sizeof line, file))
        write_line(root, line);
    fclose(file);
    kolo_topology_read_at(topology, &cpus, root);
    fixture_folder_remove(root);
}
