#include "tune_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/new_file.h"
#include "messages.h"

static int complain(const char *what, const char *path) {
    return message_print("%s %s: %s", what, path, strerror(errno));
}

/* The directory and those above it, for the user alone, as a configuration directory should be. */
static int make_directories(const char *directory) {
    char part[KOLO_PROFILE_PATH_BYTES + 1];
    snprintf(part, sizeof part, "%s/", directory);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, 0700) < 0 && errno != EEXIST)
            return complain("cannot make the directory", part);
        *slash = '/';
    }
    return 0;
}

/* Permissions alone don't tell whether a file can be created, so one is. */
static int try_directory(const char *directory) {
    char temporary[KOLO_PROFILE_PATH_BYTES + 16];
    snprintf(temporary, sizeof temporary, "%s/tune.XXXXXX", directory);
    const int fd = mkstemp(temporary);
    if (fd < 0)
        return complain("cannot write into the directory", directory);
    close(fd);
    return unlink(temporary) == 0 ? 0 : complain("cannot remove", temporary);
}

int tune_profile_prepare(const char *path, bool makes_directories) {
    char copy[KOLO_PROFILE_PATH_BYTES];
    struct stat found;
    if (strlen(path) + 16 >= KOLO_PROFILE_PATH_BYTES) {
        errno = ENAMETOOLONG;
        return complain("cannot write", path);
    }
    strcpy(copy, path);
    const char *directory = dirname(copy);
    if (makes_directories && make_directories(directory) < 0)
        return -1;
    if (path[strlen(path) - 1] == '/' || (stat(path, &found) == 0 && !S_ISREG(found.st_mode)))
        return message_print("%s is not a regular file", path);
    return try_directory(directory);
}

int tune_profile_write(FILE *file, const kolo_profile_section *section) {
    char text[KOLO_PROFILE_TEXT_BYTES];
    if (kolo_profile_format(section, text) < 0)
        return message_print("%s", kolo_error_message());
    return fputs(text, file) < 0 ? -1 : 0;
}

static bool is_replaced(const kolo_profile_section *section, const tune_space *spaces, int count) {
    bool found = false;
    for (int i = 0; i < count; i++)
        found |= spaces[i].collective == section->collective && spaces[i].ranks == section->ranks;
    return found;
}

int tune_profile_keep_sections(FILE *file, const char *path, const tune_space *spaces, int count) {
    kolo_profile_section section = {.section_bytes = sizeof section};
    int sections = count, result = 0;
    for (size_t i = 0; result == 0 && kolo_profile_section_get(path, i, &section) == 0; i++)
        if (!is_replaced(&section, spaces, count) && sections++ < KOLO_PROFILE_SECTIONS)
            result = tune_profile_write(file, &section);
    if (sections > KOLO_PROFILE_SECTIONS)
        message_print("%s: the last %d of its other sections are left out, as a profile has at most %d", path,
                      sections - KOLO_PROFILE_SECTIONS, KOLO_PROFILE_SECTIONS);
    return result;
}

int tune_profile_replace(const char *path, const char *text, size_t bytes) {
    enum { MODE = 0644 }; /* kolo reads no profile that others could have written */
    struct kolo_new_file file;
    return kolo_new_file_write(&file, path, MODE, text, bytes) < 0 || kolo_new_file_name(&file) < 0
               ? message_print("%s", file.message)
               : 0;
}

static int write_trial(FILE *file, const tune_space *space, int candidate) {
    const tune_way *way = &space->way[tune_candidate_way(candidate)];
    const kolo_profile_section section = {.section_bytes = sizeof section,
                                          .collective = space->collective,
                                          .ranks = space->ranks,
                                          .has_stream = 1,
                                          .stream_bytes_min = tune_candidate_streams(candidate) ? 0 : UINT64_MAX,
                                          .bands = 1,
                                          .band = {{UINT64_MAX, way->algorithm, (uint32_t)way->chunk_bytes}}};
    return tune_profile_write(file, NULL) < 0 ? -1 : tune_profile_write(file, &section);
}

int tune_profile_try(const tune_space *space, int candidate) {
    static FILE *trial; /* has no name, and must stay open as long as it may be read */
    char path[64];
    kolo_plan plan;
    if (trial)
        fclose(trial);
    trial = NULL;
    if (candidate == TUNE_DEFAULT)
        return setenv("KOLO_TUNE_FILE", "none", 1);
    const int fd = memfd_create("kolo-tune", MFD_CLOEXEC);
    /* A memfd is anybody's to write, and such profiles do not count. */
    trial = fd < 0 || fchmod(fd, 0600) < 0 ? NULL : fdopen(fd, "w");
    if (!trial)
        return complain("cannot create", "a trial profile");
    if (write_trial(trial, space, candidate) < 0)
        return -1;
    if (fflush(trial) != 0)
        return complain("cannot write", "a trial profile");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (setenv("KOLO_TUNE_FILE", path, 1) == 0 && tune_space_plan(space, sizeof(float), &plan) == 0 && plan.tuned)
        return 0;
    return message_print("a trial profile is not used: %s", plan.tuning);
}

int tune_profile_check(const char *path) {
    kolo_profile_section section = {.section_bytes = sizeof section};
    kolo_collective before = KOLO_COLLECTIVES;
    if (kolo_profile_section_get(path, 0, &section) < 0) {
        message_print("%s", kolo_error_message());
        return 1;
    }
    printf("%s: used here, for", path);
    for (size_t i = 0; kolo_profile_section_get(path, i, &section) == 0; i++) {
        if (section.collective == before)
            printf(", %d", section.ranks);
        else
            printf("%s %s with %d", i ? " ranks," : "", kolo_name(KOLO_NAME_COLLECTIVE, section.collective),
                   section.ranks);
        before = section.collective;
    }
    puts(" ranks");
    return fflush(stdout) == 0 ? 0 : 1;
}
