/* The command line of a tool that has long options only, and one process: --help and --version, and what is said of
 * mistakes. */
#ifndef KOLO_COMMAND_LINE_H
#define KOLO_COMMAND_LINE_H

#include <getopt.h>

typedef struct command_line {
    const char *program;
    const char *help;
    const struct option *options; /* ended by zeros; 'h' stands for help, 'v' for version */
    int arguments_max;            /* how many words that are no options there may be */
} command_line;

/* The next option, whose value is in optarg; -1 after the last: then argv[optind] is the first argument. Ends the
 * program at --help, at --version and at a mistake. */
int command_line_next(const command_line *line, int argc, char **argv);

/* Says what is wrong, and ends the program with exit status 2. */
_Noreturn void command_line_refuse(const command_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
