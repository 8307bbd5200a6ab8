/* The order in which ranks take CPUs, on machines made of files. */
#include "binding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CPUS_MAX 16

static int failures;

static void directory_make(const char *path) {
    if (mkdir(path, 0700) != 0) {
        perror(path);
        exit(1);
    }
}

/* Writes `siblings` as the thread siblings of a CPU. */
static void cpu_make(const char *root, int cpu, const char *siblings) {
    char path[512];
    snprintf(path, sizeof path, "%s/cpu%d", root, cpu);
    directory_make(path);
    snprintf(path, sizeof path, "%s/cpu%d/topology", root, cpu);
    directory_make(path);
    snprintf(path, sizeof path, "%s/cpu%d/topology/thread_siblings_list", root, cpu);
    FILE *file = fopen(path, "w");
    if (file == NULL || fprintf(file, "%s\n", siblings) < 0 || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

static void cpu_remove(const char *root, int cpu) {
    static const char *const parts[] = {"/topology/thread_siblings_list", "/topology", ""};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/cpu%d%s", root, cpu, parts[i]);
        (void)remove(path);
    }
}

/* siblings[c] belongs to CPU c, NULL where it has no file; `allowed` becomes `expected`. */
static void check(const char *name, const char *const siblings[], int machine_cpus, const int *allowed,
                  const int *expected, size_t count) {
    char root[] = "/tmp/binding_test.XXXXXX";
    int cpus[CPUS_MAX];
    if (mkdtemp(root) == NULL) {
        perror(root);
        exit(1);
    }
    for (int cpu = 0; cpu < machine_cpus; cpu++)
        if (siblings[cpu] != NULL)
            cpu_make(root, cpu, siblings[cpu]);
    memcpy(cpus, allowed, count * sizeof *cpus);
    int rc = binding_order_by_core(cpus, count, root);
    if (rc != 0 || memcmp(cpus, expected, count * sizeof *cpus) != 0) {
        printf("%s: status %d, order", name, rc);
        for (size_t i = 0; i < count; i++)
            printf(" %d", cpus[i]);
        printf("\n");
        failures++;
    }
    for (int cpu = 0; cpu < machine_cpus; cpu++)
        cpu_remove(root, cpu);
    rmdir(root);
}

int main(void) {
    static const int all[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const char *const single[] = {"0", "1", "2", "3", "4", "5", "6", "7"};
    static const char *const halves[] = {"0,4", "1,5", "2,6", "3,7", "0,4", "1,5", "2,6", "3,7"};
    static const char *const pairs[] = {"0-1", "0-1", "2-3", "2-3", "4-5", "4-5", "6-7", "6-7"};
    static const char *const quads[] = {"0-3", "0-3", "0-3", "0-3", "4-7", "4-7", "4-7", "4-7"};
    static const char *const broken[] = {"", "x", NULL, NULL, "-4", NULL, NULL, NULL};

    check("one thread a core", single, 8, all, all, 8);
    check("siblings in the upper half", halves, 8, all, all, 8);
    check("siblings side by side", pairs, 8, all, (const int[]){0, 2, 4, 6, 1, 3, 5, 7}, 8);
    check("four threads a core", quads, 8, all, (const int[]){0, 4, 1, 5, 2, 6, 3, 7}, 8);
    check("unreadable", broken, 8, all, all, 8);
    /* Of core 0 only the second thread is allowed: it comes first among its allowed ones. */
    check("part of the machine", pairs, 8, (const int[]){1, 2, 3, 6}, (const int[]){1, 2, 6, 3}, 4);
    check("nothing allowed", single, 8, all, all, 0);
    return failures != 0;
}
