#include "tune_profile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FORMAT = 1, LINE_BYTES = 256, PROFILE_BYTES_MAX = 64 << 10, SECTIONS_MAX = 32 };

static int complain(const char *what, const char *path) {
    fprintf(stderr, "kolo-tune: %s %s: %s\n", what, path, strerror(errno));
    return -1;
}

int tune_profile_default_path(char path[TUNE_PATH_BYTES]) {
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int length = 0;
    if (config && config[0] == '/')
        length = snprintf(path, TUNE_PATH_BYTES, "%s/kolo/tune", config);
    else if (home && home[0] == '/')
        length = snprintf(path, TUNE_PATH_BYTES, "%s/.config/kolo/tune", home);
    if (length > 0 && length < TUNE_PATH_BYTES)
        return 0;
    fputs("kolo-tune: no directory for the profile: set HOME or XDG_CONFIG_HOME, or use --output FILE\n", stderr);
    return -1;
}

static void directory_of(const char *path, char directory[TUNE_PATH_BYTES]) {
    char copy[TUNE_PATH_BYTES];
    snprintf(copy, sizeof copy, "%s", path);
    snprintf(directory, TUNE_PATH_BYTES, "%s", dirname(copy));
}

/* The directory and those above it, for the user alone, as a configuration directory should be. */
static int make_directories(const char *directory) {
    char part[TUNE_PATH_BYTES + 1];
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
    char temporary[TUNE_PATH_BYTES + 16];
    snprintf(temporary, sizeof temporary, "%s/tune.XXXXXX", directory);
    const int fd = mkstemp(temporary);
    if (fd < 0)
        return complain("cannot write into the directory", directory);
    close(fd);
    return unlink(temporary) == 0 ? 0 : complain("cannot remove", temporary);
}

int tune_profile_prepare(const char *path, bool makes_directories) {
    char directory[TUNE_PATH_BYTES];
    struct stat found;
    if (strlen(path) + 16 >= TUNE_PATH_BYTES) {
        errno = ENAMETOOLONG;
        return complain("cannot write", path);
    }
    directory_of(path, directory);
    if (makes_directories && make_directories(directory) < 0)
        return -1;
    if (stat(path, &found) == 0 && !S_ISREG(found.st_mode)) {
        fprintf(stderr, "kolo-tune: %s is not a regular file\n", path);
        return -1;
    }
    return try_directory(directory);
}

void tune_profile_write_head(FILE *file, const kolo_machine *machine) {
    fprintf(file,
            "kolo-profile %d\nkolo %s\ncpu-model %s\ncpus %" PRIu32 "\nl2-bytes %" PRIu64 "\nl3-bytes %" PRIu64 "\n",
            FORMAT, kolo_version(), machine->cpu_model, machine->cpus_online, machine->l2_bytes, machine->l3_bytes);
}

static void write_way(FILE *file, const tune_space *space, int way) {
    fprintf(file, "%s chunk %zu\n", kolo_algorithm_name(tune_space_algorithm(space, way)),
            tune_space_chunk_bytes(space, way));
}

static void write_stream(FILE *file, uint64_t bytes_min) {
    if (bytes_min == UINT64_MAX)
        fputs("stream-from never\n", file);
    else
        fprintf(file, "stream-from %" PRIu64 "\n", bytes_min);
}

void tune_profile_write_section(FILE *file, const tune_space *space, const tune_choice *choice) {
    fprintf(file, "\nranks %d\n", space->ranks);
    if (choice->settled || choice->stream_bytes_min != UINT64_MAX)
        write_stream(file, choice->stream_bytes_min);
    for (int i = 0; i < choice->bands; i++) {
        if (choice->band[i].bytes_max == UINT64_MAX)
            fputs("rest ", file);
        else
            fprintf(file, "up-to %" PRIu64 " ", choice->band[i].bytes_max);
        write_way(file, space, choice->band[i].way);
    }
    if (!choice->settled)
        fputs("rest default\n", file);
}

/* Whether kolo goes by the profile `path` with so many ranks; *plan says why or why not. */
static bool is_used(const char *path, int ranks, kolo_plan *plan) {
    *plan = (kolo_plan){.plan_bytes = sizeof *plan};
    if (setenv("KOLO_TUNE_FILE", path, 1) < 0)
        return false;
    if (kolo_plan_query(plan, NULL, ranks, 1, KOLO_F32, KOLO_SUM) == 0)
        return plan->tuned;
    snprintf(plan->tuning, sizeof plan->tuning, "%s", kolo_error_message());
    return false;
}

/* Opens a file in which sections can be looked for: one that has an end, soon. NULL if there is none. */
static FILE *open_sections(const char *path) {
    struct stat found;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return NULL;
    const bool good = fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && found.st_size <= PROFILE_BYTES_MAX;
    FILE *file = good ? fdopen(fd, "r") : NULL;
    if (!file)
        close(fd);
    return file;
}

/* The number of ranks of a section that begins with this line; 0 for other lines. */
static int section_ranks(const char *line) {
    static const char name[] = "ranks ";
    line += strspn(line, " \t");
    const long ranks = strncmp(line, name, sizeof name - 1) == 0 ? strtol(line + sizeof name - 1, NULL, 10) : 0;
    return ranks >= 2 && ranks <= KOLO_RANKS_MAX ? (int)ranks : 0;
}

static bool contains(const int *ranks, int count, int wanted) {
    bool found = false;
    for (int i = 0; i < count; i++)
        found |= ranks[i] == wanted;
    return found;
}

void tune_profile_keep_sections(FILE *file, const char *path, const int *ranks, int count) {
    FILE *old = open_sections(path);
    char line[LINE_BYTES];
    bool keeps = false;
    kolo_plan plan;
    int sections = count;
    while (old && fgets(line, sizeof line, old)) {
        const int section = section_ranks(line);
        if (section > 0) {
            keeps = sections < SECTIONS_MAX && !contains(ranks, count, section) && is_used(path, section, &plan);
            sections += keeps;
            fputs(keeps ? "\n" : "", file);
        }
        if (keeps && strspn(line, " \t\n") != strlen(line))
            fputs(line, file);
    }
    if (old)
        fclose(old);
}

/* Writes and closes; as the umask has it, not for the user alone as mkstemp does. */
static int finish_file(int fd, const char *text, size_t bytes) {
    const mode_t mask = umask(0);
    umask(mask);
    int result = fchmod(fd, 0666 & ~mask);
    for (size_t done = 0; done < bytes && result == 0;) {
        const ssize_t more = write(fd, text + done, bytes - done);
        if (more >= 0)
            done += (size_t)more;
        else if (errno != EINTR)
            result = -1;
    }
    if (result == 0)
        result = fsync(fd);
    const int error = errno;
    if (close(fd) < 0)
        return -1;
    errno = error;
    return result;
}

int tune_profile_replace(const char *path, const char *text, size_t bytes) {
    char temporary[TUNE_PATH_BYTES + 8];
    snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    const int fd = mkstemp(temporary);
    if (fd < 0)
        return complain("cannot create", temporary);
    if (finish_file(fd, text, bytes) == 0 && rename(temporary, path) == 0)
        return 0;
    complain("cannot write", path);
    unlink(temporary);
    return -1;
}

static void write_trial(FILE *file, const kolo_machine *machine, const tune_space *space, int candidate) {
    tune_profile_write_head(file, machine);
    fprintf(file, "ranks %d\n", space->ranks);
    write_stream(file, tune_candidate_streams(candidate) ? 0 : UINT64_MAX);
    fputs("rest ", file);
    write_way(file, space, tune_candidate_way(candidate));
}

int tune_profile_try(const kolo_machine *machine, const tune_space *space, int candidate) {
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
    write_trial(trial, machine, space, candidate);
    if (fflush(trial) != 0)
        return complain("cannot write", "a trial profile");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (is_used(path, space->ranks, &plan))
        return 0;
    fprintf(stderr, "kolo-tune: a trial profile is not used: %s\n", plan.tuning);
    return -1;
}

int tune_profile_check(const char *path) {
    kolo_plan plan;
    char line[LINE_BYTES];
    char counts[1024] = "";
    int sections = 0;
    FILE *file = open_sections(path);
    while (file && fgets(line, sizeof line, file)) {
        const int ranks = section_ranks(line);
        if (ranks == 0 || !is_used(path, ranks, &plan))
            continue;
        const size_t used = strlen(counts);
        snprintf(counts + used, sizeof counts - used, "%s%d", sections++ ? ", " : "", ranks);
    }
    if (file)
        fclose(file);
    if (sections > 0) {
        printf("%s: used here, with %s ranks\n", path, counts);
        return fflush(stdout) == 0 ? 0 : 1;
    }
    is_used(path, 2, &plan);
    fprintf(stderr, "kolo-tune: %s\n", plan.tuning);
    return 1;
}
