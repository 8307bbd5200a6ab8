/* The command line of a program: one table of its options, by which they are read, checked, refused and explained by
 * --help. --help and --version are there by themselves. */
#ifndef KOLO_COMMAND_LINE_H
#define KOLO_COMMAND_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { COMMAND_LINE_MISTAKE = 2 }; /* the exit status after one */

typedef struct command_option {
    const char *name;  /* NULL: `help` is a heading over the options that follow */
    const char *alias; /* another name, which may also have a single dash: mpirun's -np; NULL: none */
    char letter;       /* of the short form; 0: none */
    bool may_lack;     /* its value may be missing, and is 1 then; only a number may stand apart from the letter */
    const char *value; /* what --help calls its value; NULL: it has none, or one that may be missing */
    const char *help;  /* as in wrapped_text.h; one that begins with '(' stands behind the names of all choices */

    /* Where the value goes. The one that is not NULL says what it has to be. */
    bool *flag;        /* set to true: the option has no value */
    int *integer;      /* from low to high; a list: see list_count */
    size_t *count;     /* from low to high */
    size_t *bytes;     /* from low to high, with K, M or G if need be */
    double *number;    /* from least to most */
    const char **text; /* anything but nothing */
    unsigned *choice;  /* of an enum with names; a list: see list_count */
    /* The rest: takes what is typed, or NULL where there is no value, and returns NULL, or else what should be typed.
     * Beside `choice`, it is asked for words that are none of the names. */
    const char *(*read)(const char *typed);

    const char *(*name_of)(unsigned); /* of each choice; NULL past the last */
    uint64_t low, high;
    double least, most;
    int *list_count; /* not NULL: up to list_max integers or choices with commas between, and here how many there are */
    int list_max;
    unsigned use; /* the program's own remark */
} command_option;

typedef struct command_line {
    const char *program;
    const char *before; /* what --help says before the options and behind them, as in wrapped_text.h */
    const char *after;
    const command_option *options;
    int options_count;  /* 64 at most */
    int arguments_max;  /* how many words that are no options there may be */
    bool runs_program;  /* the first of them ends the options: it is a program, and the rest is its own */
    bool silent;        /* another process of the same job says what there is to say */
    int mistake_status; /* the exit status after a mistake; 0: COMMAND_LINE_MISTAKE */
    uint64_t given;     /* bits by option: those that were there */
} command_line;

/* Reads all options. Returns the words that are none, with a NULL behind the last; they are part of argv. Ends the
 * program at --help, at --version and at a mistake. */
char **command_line_read(command_line *line, int argc, char **argv);

/* True if the option of that name was there. */
bool command_line_has(const command_line *line, const char *name);

/* Says what is wrong, and ends the program. */
_Noreturn void command_line_refuse(const command_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints --help. */
void command_help_print(const command_line *line);

/* Those that all programs have. */
extern const command_option command_options_common[2];

#endif
