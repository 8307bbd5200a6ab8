/* --help, from the table of options. */
#include "command_line.h"

#include <stdio.h>
#include <string.h>

#include "printed_text.h"

enum { COLUMN_MAX = 24, HELP_BYTES = 2048 };

const command_option command_options_common[2] = {
    {.names = "-h, --help", .help = "print this"},
    {.names = "--version", .help = "print the version"},
};

static bool has_letter(const command_option *option) {
    return option->names && option->names[1] != '-';
}

/* "  -n, -np, --ranks N", with --ranks below other long names. Returns its length. */
static int format_names(char text[HELP_BYTES], const command_option *option, bool has_letters) {
    const char *names = option->names + (has_letters || !has_letter(option) ? 0 : strlen("-h, "));
    return snprintf(text, HELP_BYTES, "%s%s", has_letters && !has_letter(option) ? "      " : "  ", names);
}

static void print_option(const command_option *option, bool has_letters, int column) {
    char text[HELP_BYTES];
    if (!option->names) {
        printf("\n%s\n", option->help);
        return;
    }
    const int length = format_names(text, option, has_letters);
    printf("%-*s", column, text);
    if (length + 2 > column)
        printf("\n%*s", column, "");
    int used = 0;
    for (unsigned i = 0; *option->help == '(' && option->name_of && option->name_of(i) && used < HELP_BYTES; i++)
        used += snprintf(text + used, (size_t)(HELP_BYTES - used), "%s ", option->name_of(i));
    snprintf(text + used, (size_t)(HELP_BYTES - used), "%s", option->help);
    wrapped_text_print(text, column, column);
}

void command_help_print(const command_line *line) {
    char text[HELP_BYTES];
    bool has_letters = false;
    int column = 0;
    for (int i = 0; i < line->options_count; i++)
        has_letters |= has_letter(&line->options[i]);
    for (int i = 0; i < line->options_count; i++) {
        const int needed = line->options[i].names ? format_names(text, &line->options[i], has_letters) + 2 : 0;
        if (needed > column && needed <= COLUMN_MAX)
            column = needed;
    }
    wrapped_text_print(line->before, 0, 0);
    if (line->options[0].names)
        putchar('\n');
    for (int i = 0; i < line->options_count; i++)
        print_option(&line->options[i], has_letters, column);
    for (int i = 0; i < 2; i++)
        print_option(&command_options_common[i], has_letters, column);
    putchar('\n');
    wrapped_text_print(line->after, 0, 0);
}
