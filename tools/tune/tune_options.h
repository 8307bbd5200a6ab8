/* The command line of kolo-tune. */
#ifndef KOLO_TUNE_OPTIONS_H
#define KOLO_TUNE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

enum { TUNE_RANK_COUNTS_MAX = 24 };

typedef struct tune_options {
    int ranks[TUNE_RANK_COUNTS_MAX];
    int rank_counts;    /* 0: by the CPUs */
    const char *output; /* NULL: where kolo looks for it */
    const char *check;  /* NULL: measure */
    size_t max_bytes;
    double seconds; /* to measure, for each rank count */
    bool quick;
    bool unbound;
} tune_options;

/* Ends the program where there is nothing to do: --help, --version, a mistake. */
tune_options tune_options_parse(int argc, char **argv);

#endif
