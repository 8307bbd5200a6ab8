/* --help, from the table of options. */
#include "command_line.h"

#include <stdio.h>

#include "wrapped_text.h"

enum { COLUMN_MAX = 24, NAMES_BYTES = 80, HELP_BYTES = 2048 };

const command_option command_options_common[2] = {
    {.name = "help", .letter = 'h', .help = "print this"},
    {.name = "version", .help = "print the version"},
};

/* "  -n, -np, --ranks N". Returns its length. */
static int format_names(char *text, const command_option *option, bool has_letters) {
    int length = snprintf(text, NAMES_BYTES, has_letters ? "      " : "  ");
    if (option->letter && has_letters)
        length = snprintf(text, NAMES_BYTES, "  -%c, ", option->letter);
    if (option->alias)
        length += snprintf(text + length, NAMES_BYTES - (size_t)length, "-%s, ", option->alias);
    return length + snprintf(text + length, NAMES_BYTES - (size_t)length, "--%s%s%s", option->name,
                             option->value ? " " : "", option->value ? option->value : "");
}

/* What the option is for: its choices, if the text does not tell of them itself. */
static void print_help(const command_option *option, int column) {
    char text[HELP_BYTES];
    size_t used = 0;
    for (unsigned i = 0; *option->help == '(' && option->name_of && option->name_of(i) && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s ", option->name_of(i));
    if (used < sizeof text)
        snprintf(text + used, sizeof text - used, "%s", option->help);
    wrapped_text_print(text, column, column);
}

static void print_option(const command_option *option, bool has_letters, int column) {
    char names[NAMES_BYTES];
    if (!option->name) {
        printf("\n%s\n", option->help);
        return;
    }
    const int length = format_names(names, option, has_letters);
    if (length + 2 > column)
        printf("%s\n%*s", names, column, "");
    else
        printf("%-*s", column, names);
    print_help(option, column);
}

void command_help_print(const command_line *line) {
    char names[NAMES_BYTES];
    bool has_letters = false;
    int column = 0;
    for (int i = 0; i < line->options_count; i++)
        has_letters |= line->options[i].letter != 0;
    for (int i = 0; i < line->options_count; i++) {
        const int needed = line->options[i].name ? format_names(names, &line->options[i], has_letters) + 2 : 0;
        if (needed > column && needed <= COLUMN_MAX)
            column = needed;
    }
    wrapped_text_print(line->before, 0, 0);
    if (line->options[0].name)
        putchar('\n');
    for (int i = 0; i < line->options_count; i++)
        print_option(&line->options[i], has_letters, column);
    for (int i = 0; i < 2; i++)
        print_option(&command_options_common[i], has_letters, column);
    putchar('\n');
    wrapped_text_print(line->after, 0, 0);
}
