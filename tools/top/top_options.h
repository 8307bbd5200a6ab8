/* The command line of kolo-top. */
#ifndef KOLO_TOP_OPTIONS_H
#define KOLO_TOP_OPTIONS_H

#include <stdbool.h>

enum { TOP_EXIT_USAGE = 2 };

typedef struct top_options {
    const char *target; /* a pid or a job's name */
    double interval_s;
    bool once;
    bool json;
} top_options;

/* Fills *options. False: the program ends with *exit_code, what is to be said has been said. */
bool top_options_parse(top_options *options, int argc, char **argv, int *exit_code);

#endif
