/* The command line of kolo-top. */
#ifndef KOLO_TOP_OPTIONS_H
#define KOLO_TOP_OPTIONS_H

#include <stdbool.h>

typedef struct top_options {
    const char *target; /* a pid or a job's name; NULL: list all jobs */
    double interval_s;
    bool once;
    bool json;
} top_options;

/* Ends the program where there is nothing to do: --help, --version, a mistake. */
top_options top_options_parse(int argc, char **argv);

#endif
