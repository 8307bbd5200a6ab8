/* kolo-tune: finds out by measuring which all-reduce algorithm and chunk is fastest on this machine.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tune_choice.h"
#include "tune_options.h"
#include "tune_profile.h"
#include "tune_report.h"
#include "tune_team.h"

/* Buffers of all ranks together take this part of the memory at most. */
#define MEMORY_PART 4

typedef struct tuning {
    tune_options options;
    kolo_machine machine;
    char path[TUNE_PATH_BYTES];
    tune_space spaces[TUNE_RANK_COUNTS_MAX];
    tune_choice choices[TUNE_RANK_COUNTS_MAX];
    tune_times *times; /* shared with the ranks */
} tuning;

/* A forced algorithm or another slot size would be measured instead of what users get. */
static void clear_variables(void) {
    kolo_variable variable = {.variable_bytes = sizeof variable};
    for (size_t i = 0; kolo_variable_get(i, &variable) == 0; i++)
        if (strcmp(variable.name, "KOLO_LOG") != 0)
            unsetenv(variable.name);
    setenv("KOLO_TUNE_FILE", "none", 1);
}

static void choose_rank_counts(tune_options *options, int cpus) {
    if (options->rank_counts > 0)
        return;
    for (int ranks = 2; ranks <= 2 * cpus && ranks <= KOLO_RANKS_MAX; ranks *= 2)
        options->ranks[options->rank_counts++] = ranks;
}

static size_t fitting_bytes(const tuning *tuning, int ranks) {
    size_t bytes = tuning->options.max_bytes;
    while (bytes > 1024 && 2 * bytes * (size_t)ranks > tuning->machine.memory_bytes / MEMORY_PART)
        bytes /= 2;
    if (bytes < tuning->options.max_bytes)
        fprintf(stderr, "kolo-tune: %d ranks: messages of up to %zu bytes only, for want of memory\n", ranks, bytes);
    return bytes;
}

static int prepare(tuning *tuning) {
    tune_options *options = &tuning->options;
    clear_variables();
    tuning->machine.machine_bytes = sizeof tuning->machine;
    if (kolo_machine_query(&tuning->machine) < 0) {
        fprintf(stderr, "kolo-tune: %s\n", kolo_error_message());
        return -1;
    }
    choose_rank_counts(options, (int)tuning->machine.cpus_allowed);
    for (int i = 0; i < options->rank_counts; i++)
        if (tune_space_make(&tuning->spaces[i], options->ranks[i], fitting_bytes(tuning, options->ranks[i]),
                            options->quick) < 0) {
            fprintf(stderr, "kolo-tune: %s\n", kolo_error_message());
            return -1;
        }
    if (!options->output && tune_profile_default_path(tuning->path) < 0)
        return -1;
    if (options->output)
        snprintf(tuning->path, sizeof tuning->path, "%s", options->output);
    if (tune_profile_prepare(tuning->path, !options->output) < 0)
        return -1;
    tuning->times = mmap(NULL, sizeof *tuning->times, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (tuning->times != MAP_FAILED)
        return tune_team_block_signals();
    perror("kolo-tune: cannot map memory");
    return -1;
}

/* Measures one rank count. Returns as tune_team_run. */
static int measure(tuning *tuning, int index, int steps_before, int steps_total, double begin_s) {
    tune_job job = {.machine = &tuning->machine,
                    .space = &tuning->spaces[index],
                    .times = tuning->times,
                    .shm_fd = memfd_create("kolo-tune", MFD_CLOEXEC),
                    .seconds = tuning->options.seconds,
                    .quick = tuning->options.quick,
                    .steps_before = steps_before,
                    .steps_total = steps_total,
                    .begin_s = begin_s};
    if (job.shm_fd < 0) {
        perror("kolo-tune: cannot create the ranks' shared file");
        return -1;
    }
    const int result = tune_team_run(&job, tuning->options.unbound);
    close(job.shm_fd);
    return result;
}

static int measure_all(tuning *tuning) {
    const tune_options *options = &tuning->options;
    const double begin_s = tune_now_s();
    int steps_before = 0, steps_total = 0, result = 0;
    for (int i = 0; i < options->rank_counts; i++)
        steps_total += tuning->spaces[i].sizes;
    for (int i = 0; i < options->rank_counts && result == 0; i++) {
        const tune_space *space = &tuning->spaces[i];
        result = measure(tuning, i, steps_before, steps_total, begin_s);
        if (result != 0)
            break;
        tune_choose(space, tuning->times, &tuning->choices[i]);
        result =
            tune_report(space, tuning->times, &tuning->choices[i], tune_team_binds(space->ranks, options->unbound));
        steps_before += space->sizes;
    }
    return result;
}

static int save(const tuning *tuning) {
    const tune_options *options = &tuning->options;
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    if (!file) {
        perror("kolo-tune: cannot write the profile");
        return -1;
    }
    fputs("# What kolo-tune measured to be fastest; kolo-tune --help says how kolo uses it.\n", file);
    tune_profile_write_head(file, &tuning->machine);
    for (int i = 0; i < options->rank_counts; i++)
        tune_profile_write_section(file, &tuning->spaces[i], &tuning->choices[i]);
    tune_profile_keep_sections(file, tuning->path, options->ranks, options->rank_counts);
    int result = fclose(file) == 0 ? 0 : -1;
    if (result < 0)
        perror("kolo-tune: cannot write the profile");
    else
        result = tune_profile_replace(tuning->path, text, bytes);
    free(text);
    return result;
}

/* Says where the profile is, and ends with an error if kolo does not take it. */
static int conclude(const tuning *tuning) {
    printf("\n");
    const int status = tune_profile_check(tuning->path);
    if (status == 0 && tuning->options.output)
        printf("to go by it: export KOLO_TUNE_FILE=%s%s\n", tuning->path[0] == '/' ? "" : "$PWD/", tuning->path);
    return fflush(stdout) == 0 ? status : EXIT_FAILURE;
}

int main(int argc, char **argv) {
    static tuning tuning; /* too large for a stack */
    tuning.options = tune_options_parse(argc, argv);
    if (tuning.options.check) {
        clear_variables();
        return tune_profile_check(tuning.options.check);
    }
    if (prepare(&tuning) < 0)
        return EXIT_FAILURE;
    const int result = measure_all(&tuning);
    if (result > 0)
        return 128 + result;
    if (result < 0 || save(&tuning) < 0)
        return EXIT_FAILURE;
    return conclude(&tuning);
}
