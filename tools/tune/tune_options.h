/* The command line of kolo-tune. */
#ifndef KOLO_TUNE_OPTIONS_H
#define KOLO_TUNE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

enum { TUNE_EXIT_USAGE = 2, TUNE_RANK_COUNTS_MAX = 24 };

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

/* Fills *options. False: the program ends with *exit_code, what is to be said has been said. */
bool tune_options_parse(tune_options *options, int argc, char **argv, int *exit_code);

#endif
