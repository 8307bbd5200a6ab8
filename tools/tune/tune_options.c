#include "tune_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "command_line.h"
#include "kolo.h"

#define MAX_BYTES_DEFAULT ((size_t)64 << 20)
#define MAX_BYTES_LOW     ((size_t)1 << 10)
#define MAX_BYTES_HIGH    ((size_t)4 << 30)
#define SECONDS_MAX       3600.0

enum { OPTION_RANKS = 256, OPTION_OUTPUT, OPTION_CHECK, OPTION_MAX, OPTION_SECONDS, OPTION_QUICK, OPTION_UNBOUND };

static const struct option long_options[] = {
    {"ranks", required_argument, NULL, OPTION_RANKS},
    {"output", required_argument, NULL, OPTION_OUTPUT},
    {"check", required_argument, NULL, OPTION_CHECK},
    {"max", required_argument, NULL, OPTION_MAX},
    {"seconds", required_argument, NULL, OPTION_SECONDS},
    {"quick", no_argument, NULL, OPTION_QUICK},
    {"unbound", no_argument, NULL, OPTION_UNBOUND},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'v'},
    {NULL, 0, NULL, 0},
};

static const char help_text[] = "usage: kolo-tune [OPTION...]\n"
                                "       kolo-tune --check FILE\n"
                                "\n"
                                "Measures which all-reduce algorithm and chunk is fastest on this machine, for\n"
                                "messages of each size, and writes a profile that kolo follows from then on. Let\n"
                                "nothing else run meanwhile.\n"
                                "\n"
                                "  --ranks LIST    rank counts to measure, as in 2,4,6 (default: the powers of\n"
                                "                  two up to the number of CPUs, and twice that number). A\n"
                                "                  profile counts for exactly the rank counts in it; where the\n"
                                "                  file is a profile of this machine already, its sections for\n"
                                "                  other rank counts are kept\n"
                                "  --output FILE   where to write (default: where kolo looks,\n"
                                "                  $XDG_CONFIG_HOME/kolo/tune or ~/.config/kolo/tune)\n"
                                "  --max SIZE      largest message: bytes, or with K, M or G (default 64M).\n"
                                "                  Larger ones are treated like it if it is 16M or more; else\n"
                                "                  kolo's defaults stay in force for them\n"
                                "  --seconds S     about how long to measure each rank count (default 40)\n"
                                "  --quick         fewer sizes, chunks and repetitions: a few seconds, and a\n"
                                "                  coarser result\n"
                                "  --unbound       leave it to the kernel where ranks run. Otherwise, as with\n"
                                "                  kolorun, each is bound to a core of its own where they fit\n"
                                "                  the CPUs allowed\n"
                                "  --check FILE    only say whether kolo uses that profile on this machine, and\n"
                                "                  if not, why\n"
                                "  --version       print the version\n"
                                "  --help          print this\n"
                                "\n"
                                "The table that it prints compares, for each size, kolo's defaults with what was\n"
                                "chosen: f32 sums, the mean of in place and out of place, medians of the slowest\n"
                                "rank's time over rounds in which all candidates take turns. A change of\n"
                                "algorithm or chunk from one size to the next must gain 3 %. KOLO_ variables do\n"
                                "not count, except KOLO_LOG.\n"
                                "\n"
                                "kolo finds the default file by itself, others through KOLO_TUNE_FILE; rank 0's\n"
                                "profile binds all ranks. One that is damaged, or of another machine or version,\n"
                                "is ignored, and KOLO_LOG=warn says so. KOLO_TUNE_FILE=none switches profiles\n"
                                "off. A profile never changes a result, not by a bit.\n"
                                "\n"
                                "Exit status: 0; 1 where measuring or writing failed or the profile is not used;\n"
                                "2 for a wrong option; 128 + S when ended by signal S.\n"
                                "\n"
                                "example: kolo-tune --ranks 2,4 && kolo-info --ranks 4\n";

static const command_line line = {"kolo-tune", help_text, long_options, .arguments_max = 0};

static void parse_ranks(tune_options *options, const char *text) {
    const char *at = text;
    options->rank_counts = 0;
    do {
        char *end;
        errno = 0;
        const long ranks = strtol(at, &end, 10);
        if (errno || *at < '0' || *at > '9' || (*end && *end != ',') || ranks < 2 || ranks > KOLO_RANKS_MAX)
            command_line_refuse(&line, "--ranks '%s': give numbers from 2 to 1024 with commas between", text);
        for (int i = 0; i < options->rank_counts; i++)
            if (options->ranks[i] == ranks)
                command_line_refuse(&line, "--ranks '%s': a number stands there twice", text);
        if (options->rank_counts == TUNE_RANK_COUNTS_MAX)
            command_line_refuse(&line, "--ranks '%s': give at most 24 numbers", text);
        options->ranks[options->rank_counts++] = (int)ranks;
        at = *end ? end + 1 : NULL;
    } while (at);
}

static size_t parse_max(const char *text) {
    static const char units[] = "KMG";
    char *end;
    errno = 0;
    unsigned long long bytes = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    bool good = !errno && *text >= '0' && *text <= '9' && bytes <= MAX_BYTES_HIGH && (!*end || (unit && !end[1]));
    if (good && unit)
        bytes <<= 10 * (unit - units + 1);
    if (!good || bytes < MAX_BYTES_LOW || bytes > MAX_BYTES_HIGH)
        command_line_refuse(&line, "--max '%s': give a size from 1K to 4G, as in 65536, 64K or 16M", text);
    return (size_t)bytes;
}

static double parse_seconds(const char *text) {
    char *end;
    const double seconds = strtod(text, &end);
    if (strspn(text, "0123456789.") != strlen(text) || end == text || *end || !(seconds > 0) || seconds > SECONDS_MAX)
        command_line_refuse(&line, "--seconds '%s': give a number above 0, up to 3600", text);
    return seconds;
}

static const char *parse_path(const char *option, const char *text) {
    if (!*text)
        command_line_refuse(&line, "%s '%s': give the name of a file", option, text);
    return text;
}

tune_options tune_options_parse(int argc, char **argv) {
    tune_options options = {.max_bytes = MAX_BYTES_DEFAULT};
    for (int option; (option = command_line_next(&line, argc, argv)) != -1;) {
        switch (option) {
        case OPTION_RANKS:
            parse_ranks(&options, optarg);
            break;
        case OPTION_OUTPUT:
            options.output = parse_path("--output", optarg);
            break;
        case OPTION_CHECK:
            options.check = parse_path("--check", optarg);
            break;
        case OPTION_MAX:
            options.max_bytes = parse_max(optarg);
            break;
        case OPTION_SECONDS:
            options.seconds = parse_seconds(optarg);
            break;
        case OPTION_QUICK:
            options.quick = true;
            break;
        case OPTION_UNBOUND:
            options.unbound = true;
            break;
        }
    }
    if (options.seconds == 0)
        options.seconds = options.quick ? 4 : 40;
    return options;
}
