#include "command_line.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "kolo.h"
#include "option_mistake.h"

enum { EXIT_WRONG = 2 };

void command_line_refuse(const command_line *line, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", line->program);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "; see %s --help\n", line->program);
    va_end(arguments);
    exit(EXIT_WRONG);
}

static _Noreturn void end_printing(void) {
    exit(fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

int command_line_next(const command_line *line, int argc, char **argv) {
    opterr = 0; /* option_mistake_describe says more */
    const int option = getopt_long(argc, argv, ":h", line->options, NULL);
    switch (option) {
    case 'h':
        fputs(line->help, stdout);
        end_printing();
    case 'v':
        printf("%s %s\n", line->program, kolo_version());
        end_printing();
    case ':':
    case '?': {
        char mistake[256];
        option_mistake_describe(mistake, sizeof mistake, line->options, option, argv);
        command_line_refuse(line, "%s", mistake);
    }
    case -1:
        if (argc - optind > line->arguments_max)
            command_line_refuse(line, "argument '%s': is not expected", argv[optind + line->arguments_max]);
    }
    return option;
}
