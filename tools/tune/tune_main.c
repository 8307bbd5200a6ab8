/* kolo-tune: finds out by measuring which algorithm and chunk is fastest on this machine. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "command_line.h"
#include "forked_team.h"
#include "messages.h"
#include "now.h"
#include "printed_text.h"
#include "tune_parts.h"

#define DISTURBED_RATIO 1.25

static void print_row(const tune_space *space, const tune_times *times, const tune_choice *choice, int size) {
    const size_t message_bytes = space->size_bytes[size];
    const int candidate = choice->candidate[size];
    const tune_way *way = &space->way[tune_candidate_way(candidate)];
    const bool same = candidate == space->default_candidate[size];
    const double default_us = times->us[size][TUNE_DEFAULT], tuned_us = same ? default_us : times->us[size][candidate];
    printf("  %8s %11.2f  %-8s %11.2f  %-8s %8s  %-6s %5.2f\n", bytes_text(message_bytes).text, default_us,
           kolo_name(KOLO_NAME_ALGORITHM, space->default_plan[size].algorithm), tuned_us,
           kolo_name(KOLO_NAME_ALGORITHM, way->algorithm),
           way->chunk_bytes < message_bytes ? bytes_text(way->chunk_bytes).text : "whole",
           tune_candidate_streams(candidate) ? "stream" : "", default_us / tuned_us);
}

/* Half of the rounds of the same work then took that much longer than the fastest quarter. */
static void print_disturbed(const tune_space *space, const tune_times *times) {
    int disturbed = 0;
    for (int size = 0; size < space->sizes; size++)
        disturbed += times->us[size][TUNE_DEFAULT] > DISTURBED_RATIO * times->default_low_us[size];
    if (disturbed > 0)
        printf("  disturbed by other work at %d of %d sizes: measure again when the machine is\n"
               "  quiet\n",
               disturbed, space->sizes);
}

/* Prints the table of one collective and rank count on standard output. Returns 0 or -1 after a complaint. */
static int tune_report(const tune_space *space, const tune_times *times, const tune_choice *choice, bool bound) {
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr); /* where progress was shown */
    printf("\n%s, %d ranks, %s: microseconds a call\n", kolo_name(KOLO_NAME_COLLECTIVE, space->collective),
           space->ranks, bound ? "a core each" : "not bound");
    printf("  %8s %11s  %-8s %11s  %-8s %8s  %-6s %5s\n", "message", "default", "", "tuned", "", "chunk", "", "ratio");
    for (int size = 0; size < space->sizes; size++)
        print_row(space, times, choice, size);
    print_disturbed(space, times);
    return message_unless_written();
}

/* Buffers of all ranks together take this part of the memory at most. */
#define MEMORY_PART 4

enum { RANK_COUNTS_MAX = 24 };

static struct {
    unsigned collectives[KOLO_COLLECTIVES]; /* as tune_collective_at counts them */
    int collectives_count;                  /* 0: all of those */
    int ranks[RANK_COUNTS_MAX];
    int rank_counts;    /* 0: by the CPUs */
    const char *output; /* NULL: where kolo looks for it */
    const char *check;  /* NULL: measure */
    size_t max_bytes;
    double seconds; /* to measure, for each rank count; 0: as usual */
    bool quick;
    bool unbound;
} options = {.max_bytes = (size_t)64 << 20};

static const char *name_collective(unsigned index) {
    return kolo_name(KOLO_NAME_COLLECTIVE, tune_collective_at(index)); /* NULL past the last */
}

static const command_option table[] = {
    {"--collective LIST", "(default: all of them; others have one algorithm, and nothing to choose)",
     TO_CHOICES(options.collectives, options.collectives_count, name_collective)},
    {"--ranks LIST",
     "rank counts to measure, as in 2,4,6 (default: the powers of two up to twice the number of CPUs). A profile is "
     "used for exactly the rank counts in it. If the file already is a profile of this machine, its other sections are "
     "kept",
     TO_INTEGERS(options.ranks, options.rank_counts, 2, KOLO_RANKS_MAX)},
    {"--output FILE", "where to write (default: where kolo looks, $XDG_CONFIG_HOME/kolo/tune or ~/.config/kolo/tune)",
     TO_TEXT(options.output)},
    {"--max SIZE",
     "largest message: bytes, or with K, M or G (default 64M). Larger ones are treated like it if it is 16M or "
     "more; else kolo's defaults stay in force for them",
     TO_BYTES(options.max_bytes, 1 << 10, UINT64_C(4) << 30)},
    {"--seconds S", "about how long to measure each collective with each rank count (default 40)",
     TO_NUMBER(options.seconds, 0.001, 3600)},
    {"--quick", "fewer sizes, chunks and repetitions: a few seconds, and a coarser result", TO_FLAG(options.quick)},
    {"--unbound",
     "leave it to the kernel where ranks run. By default, as with kolorun, each is bound to a core of its own if there "
     "are enough CPUs",
     TO_FLAG(options.unbound)},
    {"--check FILE", "only say whether kolo uses that profile on this machine, and if not, why",
     TO_TEXT(options.check)},
};

static command_line line = {
    .program = "kolo-tune",
    .before =
        "usage: kolo-tune [OPTION...]\n"
        "       kolo-tune --check FILE\n"
        "\n"
        "Measures which algorithm and chunk is fastest on this machine, for messages of each size of each collective "
        "that has more than one algorithm, and writes a profile that kolo follows from then on. Let nothing else run "
        "meanwhile.",
    .options = table,
    .options_count = sizeof table / sizeof *table,
    .after =
        "The table that it prints compares, for each size, kolo's defaults with what was chosen: f32 sums, the mean "
        "of in place and out of place, medians of the slowest rank's time over rounds in which all candidates take "
        "turns. A change of algorithm or chunk from one size to the next must gain 3 %. KOLO_ variables have no "
        "effect, except KOLO_LOG.\n"
        "\n"
        "kolo finds the default file by itself, others through KOLO_TUNE_FILE; rank 0's profile binds all ranks. "
        "One that is damaged, or of another machine or version, is ignored, and KOLO_LOG=warn says so. "
        "KOLO_TUNE_FILE=none switches profiles off. A profile never changes a result, not by a bit.\n"
        "\n"
        "Exit status: 0 done; 1 if measuring or writing failed or the profile is not used; 2 for a wrong option; a "
        "shell shows 128 + S where signal S ended it.\n"
        "\n"
        "example: kolo-tune --collective reduce --ranks 2,4 && kolo-info --ranks 4",
};

static void read_options(int argc, char **argv) {
    command_line_read(&line, argc, argv);
    if (options.check && (line.given & (line.given - 1)) != 0)
        command_line_refuse(&line, "--check: measures nothing; leave out the other options");
    for (int i = 0; i < options.rank_counts; i++)
        for (int j = 0; j < i; j++)
            if (options.ranks[i] == options.ranks[j])
                command_line_refuse(&line, "--ranks: %d is in the list twice", options.ranks[i]);
    for (int i = 0; i < options.collectives_count; i++)
        for (int j = 0; j < i; j++)
            if (options.collectives[i] == options.collectives[j])
                command_line_refuse(&line, "--collective: %s is in the list twice",
                                    name_collective(options.collectives[i]));
    if (options.seconds == 0)
        options.seconds = options.quick ? 4 : 40;
}

typedef struct tuning {
    kolo_machine machine;
    char path[KOLO_PROFILE_PATH_BYTES];
    tune_space spaces[KOLO_PROFILE_SECTIONS]; /* for each collective, those of its rank counts */
    tune_choice choices[KOLO_PROFILE_SECTIONS];
    int count;
    tune_times *times; /* shared with the ranks */
} tuning;

/* A forced algorithm or another slot size would be measured instead of what users get. */
static void clear_variables(void) {
    kolo_variable variable = {.variable_bytes = sizeof variable};
    for (size_t i = 0; kolo_variable_get(i, &variable) == 0 && variable.meaning != NULL; i++)
        if (strcmp(variable.name, "KOLO_LOG") != 0)
            unsetenv(variable.name);
    setenv("KOLO_TUNE_FILE", "none", 1);
}

static void choose_rank_counts(int cpus) {
    if (options.rank_counts > 0)
        return;
    for (int ranks = 2; ranks <= 2 * cpus && ranks <= KOLO_RANKS_MAX; ranks *= 2)
        options.ranks[options.rank_counts++] = ranks;
}

static size_t fitting_bytes(const tuning *tuning, int ranks) {
    size_t bytes = options.max_bytes;
    while (bytes > 1024 && 2 * bytes * (size_t)ranks > tuning->machine.memory_bytes / MEMORY_PART)
        bytes /= 2;
    if (bytes < options.max_bytes)
        message_print("%d ranks: messages of up to %zu bytes only, for lack of memory", ranks, bytes);
    return bytes;
}

static void choose_collectives(void) {
    if (options.collectives_count > 0)
        return;
    while (name_collective((unsigned)options.collectives_count)) {
        options.collectives[options.collectives_count] = (unsigned)options.collectives_count;
        options.collectives_count++;
    }
}

static int make_spaces(tuning *tuning) {
    if (options.collectives_count * options.rank_counts > KOLO_PROFILE_SECTIONS)
        return message_print("a profile has %d sections at most, one for each collective and rank count: use "
                             "fewer --ranks, or one --collective",
                             KOLO_PROFILE_SECTIONS);
    size_t bytes[RANK_COUNTS_MAX];
    for (int i = 0; i < options.rank_counts; i++)
        bytes[i] = fitting_bytes(tuning, options.ranks[i]);
    for (int i = 0; i < options.collectives_count; i++)
        for (int j = 0; j < options.rank_counts; j++)
            if (tune_space_make(&tuning->spaces[tuning->count++], tune_collective_at(options.collectives[i]),
                                options.ranks[j], bytes[j], options.quick) < 0)
                return message_print("%s", kolo_error_message());
    return 0;
}

static int prepare(tuning *tuning) {
    clear_variables();
    tuning->machine.machine_bytes = sizeof tuning->machine;
    if (kolo_machine_query(&tuning->machine) < 0)
        return message_print("%s", kolo_error_message());
    choose_rank_counts((int)tuning->machine.cpus_allowed);
    choose_collectives();
    if (make_spaces(tuning) < 0)
        return -1;
    if (!options.output && kolo_profile_default_path(tuning->path) < 0)
        return message_print("%s, or use --output FILE", kolo_error_message());
    if (options.output)
        snprintf(tuning->path, sizeof tuning->path, "%s", options.output);
    if (tune_profile_prepare(tuning->path, !options.output) < 0)
        return -1;
    tuning->times = forked_team_allocate(sizeof *tuning->times);
    return tuning->times ? 0 : message_print("cannot map memory: %s", strerror(errno));
}

/* Measures one collective with one rank count, prints its table, and chooses. Returns 0 or -1 after a complaint. */
static int measure(tuning *tuning, int index, int steps_before, int steps_total, double begin_s) {
    const tune_space *space = &tuning->spaces[index];
    tune_job job = {.space = space,
                    .times = tuning->times,
                    .shm_fd = memfd_create("kolo-tune", MFD_CLOEXEC),
                    .seconds = options.seconds,
                    .quick = options.quick,
                    .steps_before = steps_before,
                    .steps_total = steps_total,
                    .begin_s = begin_s};
    bool bound = !options.unbound;
    if (job.shm_fd < 0)
        return message_print("cannot create the ranks' shared file: %s", strerror(errno));
    const int result = tune_team_run(&job, &bound);
    close(job.shm_fd);
    if (result < 0)
        return result;
    tune_choose(space, tuning->times, &tuning->choices[index]);
    return tune_report(space, tuning->times, &tuning->choices[index], bound);
}

static int measure_all(tuning *tuning) {
    const double begin_s = now_s();
    int steps_before = 0, steps_total = 0, result = 0;
    for (int i = 0; i < tuning->count; i++)
        steps_total += tuning->spaces[i].sizes;
    for (int i = 0; i < tuning->count && result == 0; steps_before += tuning->spaces[i++].sizes)
        result = measure(tuning, i, steps_before, steps_total, begin_s);
    return result;
}

static int save(const tuning *tuning) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    if (!file)
        return message_print("cannot write the profile: %s", strerror(errno));
    fputs("# What kolo-tune measured to be fastest; kolo-tune --help says how kolo uses it.\n", file);
    bool good = tune_profile_write(file, NULL) == 0;
    for (int i = 0; good && i < tuning->count; i++)
        good = tune_profile_write(file, &tuning->choices[i].section) == 0;
    good = good && tune_profile_keep_sections(file, tuning->path, tuning->spaces, tuning->count) == 0;
    int result = -1;
    if (fclose(file) != 0)
        message_print("cannot write the profile: %s", strerror(errno));
    else if (good)
        result = tune_profile_replace(tuning->path, text, bytes);
    free(text);
    return result;
}

/* Says where the profile is, and ends with an error if kolo does not take it. named: the user's KOLO_TUNE_FILE. */
static int conclude(const tuning *tuning, const char *named) {
    printf("\n");
    const int status = tune_profile_check(tuning->path);
    if (status == 0 && (named ? strcmp(named, tuning->path) != 0 : options.output != NULL)) {
        if (named)
            printf("but KOLO_TUNE_FILE is '%s'; ", named);
        printf("to go by this profile: export KOLO_TUNE_FILE=%s'", tuning->path[0] == '/' ? "" : "\"$PWD\"/");
        for (const char *at = tuning->path; *at; at++)
            fputs(*at == '\'' ? "'\\''" : (char[]){*at, '\0'}, stdout);
        puts("'");
    }
    return message_unless_written() == 0 ? status : EXIT_FAILURE;
}

int main(int argc, char **argv) {
    static tuning tuning; /* too large for a stack */
    const char *named = getenv("KOLO_TUNE_FILE");
    read_options(argc, argv);
    if (options.check) {
        clear_variables();
        return tune_profile_check(options.check);
    }
    if (prepare(&tuning) < 0 || measure_all(&tuning) < 0 || save(&tuning) < 0)
        return EXIT_FAILURE;
    return conclude(&tuning, named);
}
