/* Runs a target on each of the files and folders of files that it is given, without libFuzzer. */
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz_target.h"

enum { INPUT_BYTES_MAX = 1 << 20, PATH_BYTES = 4096 };

static unsigned replayed;

static void replay_file(const char *path) {
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(INPUT_BYTES_MAX);
    if (!file || !data) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(1);
    }
    const size_t bytes = fread(data, 1, INPUT_BYTES_MAX, file);
    fclose(file);
    /* In a buffer of just that size, so that a byte too far shows under a sanitizer. */
    uint8_t *input = malloc(bytes ? bytes : 1);
    if (!input)
        exit(1);
    memcpy(input, data, bytes);
    LLVMFuzzerTestOneInput(input, bytes);
    free(input);
    free(data);
    replayed++;
}

static void replay_folder(const char *path) {
    DIR *folder = opendir(path);
    if (!folder) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(1);
    }
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char file[PATH_BYTES];
        if (entry->d_name[0] == '.')
            continue;
        if (snprintf(file, sizeof file, "%s/%s", path, entry->d_name) < (int)sizeof file)
            replay_file(file);
    }
    closedir(folder);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        struct stat found;
        if (stat(argv[i], &found) == 0 && S_ISDIR(found.st_mode))
            replay_folder(argv[i]);
        else
            replay_file(argv[i]);
    }
    printf("%u inputs replayed\n", replayed);
    return replayed ? 0 : 1;
}
