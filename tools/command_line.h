/* The command line of a program: one table of its options, by which they are read, checked, refused and explained by
 * --help. --help, --version and --completion are there by themselves. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { COMMAND_LINE_MISTAKE = 2 }; /* the exit status after one */

/* A row begins with the first two; one of the macros below says the rest, which needs no more words. */
typedef struct command_option {
    const char *names; /* as --help shows them: "-n, -np, --ranks N". A letter, others and a long one; a word at the end
                        * that begins with no dash stands for the value. NULL: `help` is a heading over what follows */
    const char *help;  /* as in printed_text.h; one that begins with '(' stands behind the names of all choices */

    bool *flag;        /* set to true, also beside `text` */
    int *integer;      /* from low to high. An option that shows no value may have one; 1 where it has none */
    size_t *count;     /* from low to high */
    size_t *bytes;     /* from low to high, with K, M or G if need be */
    double *number;    /* from least to most */
    const char **text; /* anything but nothing */
    unsigned *choice;  /* of an enum with names */
    /* Takes what is typed, or NULL where there is no value, and returns NULL, or else what should be typed. Beside
     * `choice`, it is asked for words that are none of the names. */
    const char *(*read)(const char *typed);

    uint64_t low, high;
    double least, most;
    const char *(*name_of)(unsigned); /* of each choice, or what completion offers for `read`; NULL past the last */
    int *list_count; /* not NULL: up to list_max integers, counts or choices with commas between, and here how many
                        there are */
    int list_max;
    unsigned use; /* the program's own remark */
} command_option;

#define TO_FLAG(to)                  .flag = &(to)
#define TO_INTEGER(to, min, max)     .integer = &(to), .low = (min), .high = (max)
#define TO_COUNT(to, min, max)       .count = &(to), .low = (min), .high = (max)
#define TO_BYTES(to, min, max)       .bytes = &(to), .low = (min), .high = (max)
#define TO_NUMBER(to, min, max)      .number = &(to), .least = (min), .most = (max)
#define TO_TEXT(to)                  .text = &(to)
#define TO_CHOICE(to, names)         .choice = &(to), .name_of = (names)
#define TO_FUNCTION(function)        .read = (function)
#define TO_INTEGERS(to, n, min, max) .integer = (to), .low = (min), .high = (max), LIST(to, n)
#define TO_COUNTS(to, n, min, max)   .count = (to), .low = (min), .high = (max), LIST(to, n)
#define TO_CHOICES(to, n, names)     .choice = (to), .name_of = (names), LIST(to, n)
#define LIST(to, n)                  .list_count = &(n), .list_max = sizeof(to) / sizeof *(to)
#define USED_FOR(uses)               .use = (uses)

typedef struct command_line {
    const char *program;
    const char *before; /* what --help says before the options and behind them, as in printed_text.h */
    const char *after;  /* NULL: nothing */
    const command_option *options;
    int options_count;                 /* 64 at most */
    int arguments_max;                 /* how many words that are no options there may be */
    const char *(*words_of)(unsigned); /* what may be the first of them, for completion; NULL past the last */
    bool runs_program;  /* the first of them ends the options: it is a program, and the rest is its own */
    bool silent;        /* another process of the same job says what there is to say */
    int mistake_status; /* the exit status after a mistake; 0: COMMAND_LINE_MISTAKE */
    uint64_t given;     /* bits by option: those that were there */
} command_line;

/* Reads all options. Returns the words that are none, with a NULL behind the last; they are part of argv. Ends the
 * program at --help, --version and --completion, and at a mistake. */
char **command_line_read(command_line *line, int argc, char **argv);

/* True if the option with that long name, as "--max", was there. */
bool command_line_has(const command_line *line, const char *name);

/* Which of the names, up to the first NULL, a word is. Refuses others, with the nearest name and all of them. */
unsigned command_line_choose(const command_line *line, const char *typed, const char *(*name_of)(unsigned));

/* Says what is wrong, and ends the program. */
_Noreturn void command_line_refuse(const command_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Completion of a program's command line in a shell, from the table of its options: what --completion prints. */

/* A value of --completion; NULL past the last. */
const char *completion_shell_name(unsigned shell);

/* Prints it for that shell. `common`: options that the line's table has not. */
void command_completion_print(const command_line *line, const command_option *common, int common_count, unsigned shell);
