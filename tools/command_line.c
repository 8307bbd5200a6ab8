#include "command_line.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name_distance.h"
#include "kolo.h"
#include "messages.h"
#include "printed_text.h"

enum { COLUMN_MAX = 24, HELP_BYTES = 2048 };

static unsigned completion_shell;

/* Those that all programs have. */
enum { HELP, VERSION, COMPLETION, COMMON_OPTIONS };
static const command_option command_options_common[COMMON_OPTIONS] = {
    [HELP] = {.names = "-h, --help", .help = "print this"},
    [VERSION] = {.names = "--version", .help = "print the version"},
    [COMPLETION] = {"--completion SHELL", "print what completes this command line in bash or zsh",
                    TO_CHOICE(completion_shell, completion_shell_name)},
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
    if (length + 2 > column)
        printf("%s\n%*s", text, column, "");
    else
        printf("%-*s", column, text);
    int used = 0;
    for (unsigned i = 0; *option->help == '(' && option->name_of && option->name_of(i) && used < HELP_BYTES; i++)
        used += snprintf(text + used, (size_t)(HELP_BYTES - used), "%s ", option->name_of(i));
    snprintf(text + used, (size_t)(HELP_BYTES - used), "%s", option->help);
    wrapped_text_print(text, column, column);
}

/* Prints --help. */
static void command_help_print(const command_line *line) {
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
    for (int i = 0; i < COMMON_OPTIONS; i++)
        print_option(&command_options_common[i], has_letters, column);
    if (line->after) {
        putchar('\n');
        wrapped_text_print(line->after, 0, 0);
    }
}

enum { MESSAGE_BYTES = 512, WORD_BYTES = 64 };

/* An option as it stands on the command line. */
typedef struct typed_option {
    const command_option *option;
    const char *word;
    int length;        /* of it without the value */
    const char *value; /* NULL: none */
} typed_option;

void command_line_refuse(const command_line *line, const char *format, ...) {
    char message[MESSAGE_BYTES]; /* a longer one is cut: it quotes what was typed */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (line->silent)
        message_left_to_another();
    message_print("%s; see %s --help", message, line->program);
    exit(line->mistake_status ? line->mistake_status : COMMAND_LINE_MISTAKE);
}

/* Of the ranks of kolorun one prints the long text. Other launchers' variables may be those of a pod or a shell. */
static _Noreturn void print_and_exit(const command_line *line, int common) {
    if (common == HELP && line->silent && getenv("KOLO_RANK"))
        exit(EXIT_SUCCESS);
    if (common == HELP)
        command_help_print(line);
    else if (common == COMPLETION)
        command_completion_print(line, command_options_common, COMMON_OPTIONS, completion_shell);
    else
        printf("%s %s\n", line->program, kolo_version());
    exit(message_unless_written() == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* NULL past the last. */
static const command_option *option_at(const command_line *line, int index) {
    const int common = index - line->options_count;
    return common < 0 ? &line->options[index] : common < COMMON_OPTIONS ? &command_options_common[common] : NULL;
}

/* What --help calls its value; NULL: it shows none. */
static const char *value_name(const command_option *option) {
    const char *last = strrchr(option->names, ' ');
    return last && last[1] != '-' ? last + 1 : NULL;
}

static bool takes_value(const command_option *option) {
    return value_name(option) || option->integer;
}

static const char *long_name(const command_option *option, size_t *length) {
    const char *name = option->names ? strstr(option->names, "--") : NULL;
    *length = name ? strcspn(name, " ") : 0;
    return name;
}

/* The option with that name, or the only one with a long name that begins so. */
static const command_option *find_name(const command_line *line, const char *typed, size_t length) {
    const command_option *option, *found = NULL;
    bool several = false;
    for (int i = 0; (option = option_at(line, i)); i++) {
        const char *name = option->names;
        for (size_t bytes; name && *name == '-'; name += bytes + strspn(name + bytes, ", ")) {
            bytes = strcspn(name, ", ");
            /* "--np" is also "-np", but "-ranks" is not "--ranks". */
            const size_t skipped = typed[1] == '-' && name[1] != '-' && bytes > 2;
            if (length - skipped > bytes || strncmp(name, typed + skipped, length - skipped) != 0)
                continue;
            if (length - skipped == bytes)
                return option;
            several |= found && found != option && typed[1] == '-';
            found = typed[1] == '-' ? option : NULL;
        }
    }
    if (several && length > 2)
        command_line_refuse(line, "option '%.*s' is ambiguous", (int)length, typed);
    return length > 2 ? found : NULL;
}

/* The name that differs least from what is typed, in half of its letters at most. */
typedef struct nearest_name {
    const char *typed;
    size_t typed_length;
    const char *name; /* NULL: none so far */
    size_t name_length;
    size_t apart;
} nearest_name;

static void consider(nearest_name *nearest, const char *name, size_t length) {
    const size_t longer = nearest->typed_length > length ? nearest->typed_length : length;
    const size_t apart = kolo_name_distance(nearest->typed, nearest->typed_length, name, length);
    if (2 * apart > longer || (nearest->name && apart >= nearest->apart))
        return;
    nearest->name = name;
    nearest->name_length = length;
    nearest->apart = apart;
}

static _Noreturn void refuse_unknown(const command_line *line, const char *typed, size_t typed_length) {
    const size_t dashes = strspn(typed, "-");
    nearest_name nearest = {.typed = typed + dashes, .typed_length = typed_length - dashes};
    const command_option *option;
    size_t length;
    for (int i = 0; nearest.typed_length > 1 && (option = option_at(line, i)); i++) {
        const char *name = long_name(option, &length);
        if (name)
            consider(&nearest, name + 2, length - 2);
    }
    if (nearest.name)
        command_line_refuse(line, "option '%.*s' is unknown (did you mean --%.*s?)", (int)typed_length, typed,
                            (int)nearest.name_length, nearest.name);
    command_line_refuse(line, "option '%.*s' is unknown", (int)typed_length, typed);
}

static bool read_whole(const command_option *option, const char *text, uint64_t *value) {
    static const char units[] = "KMGkmg";
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    const char *unit = option->bytes && *end ? strchr(units, *end) : NULL;
    const int shift = unit ? 10 * ((int)(unit - units) % 3 + 1) : 0;
    if (text[0] < '0' || text[0] > '9' || errno || end[unit != NULL] || *value > UINT64_MAX >> shift)
        return false;
    *value <<= shift;
    return *value >= option->low && *value <= option->high;
}

static bool read_number(const command_option *option, const char *text, double *value) {
    char *end;
    *value = strtod(text, &end);
    return strspn(text, "0123456789.e-") == strlen(text) && end != text && !*end && *value >= option->least &&
           *value <= option->most;
}

static bool read_choice(const command_option *option, const char *text, unsigned *value) {
    const char *name;
    for (unsigned i = 0; (name = option->name_of(i)); i++)
        if (strcmp(name, text) == 0) {
            *value = i;
            return true;
        }
    return option->read && !option->read(text);
}

/* One value, or the one of that number in a list. */
static bool store(const command_option *option, const char *text, int index) {
    uint64_t whole;
    if (option->choice)
        return read_choice(option, text, &option->choice[index]);
    if (option->number)
        return read_number(option, text, option->number);
    if (!read_whole(option, text, &whole))
        return false;
    if (option->integer)
        option->integer[index] = (int)whole;
    else
        (option->bytes ? option->bytes : option->count)[index] = (size_t)whole;
    return true;
}

static bool store_list(const command_option *option, const char *text) {
    char word[WORD_BYTES];
    int count = 0;
    for (size_t length;; text += length + 1) {
        length = strcspn(text, ",");
        if (length >= sizeof word || count == option->list_max)
            return false;
        snprintf(word, sizeof word, "%.*s", (int)length, text);
        if (!store(option, word, count))
            return false;
        *option->list_count = ++count;
        if (!text[length])
            return true;
    }
}

static void format_bytes(char *text, size_t text_bytes, uint64_t bytes) {
    static const char *const units[] = {"", "K", "M", "G"};
    int unit = 0;
    for (; bytes && bytes % 1024 == 0 && unit < 3; unit++)
        bytes /= 1024;
    snprintf(text, text_bytes, "%llu%s", (unsigned long long)bytes, units[unit]);
}

/* "auto, core or none" */
static void format_choices(char *text, size_t text_bytes, const char *(*name_of)(unsigned)) {
    size_t used = 0;
    for (unsigned i = 0; name_of(i) && used < text_bytes; i++)
        used += (size_t)snprintf(text + used, text_bytes - used, "%s%s",
                                 i == 0            ? ""
                                 : !name_of(i + 1) ? " or "
                                                   : ", ",
                                 name_of(i));
}

unsigned command_line_choose(const command_line *line, const char *typed, const char *(*name_of)(unsigned)) {
    nearest_name nearest = {.typed = typed, .typed_length = strlen(typed)};
    char names[HELP_BYTES] = "";
    const char *name;
    for (unsigned i = 0; (name = name_of(i)); i++) {
        if (strcmp(typed, name) == 0)
            return i;
        consider(&nearest, name, strlen(name));
    }
    format_choices(names, sizeof names, name_of);
    if (nearest.name)
        command_line_refuse(line, "'%s' is unknown (did you mean %s?); give %s", typed, nearest.name, names);
    command_line_refuse(line, "'%s' is unknown; give %s", typed, names);
}

/* Writes what the value has to be. */
static void format_wanted(char *text, size_t text_bytes, const command_option *option) {
    char wanted[MESSAGE_BYTES / 2], low[32], high[32], most[64] = "";
    if (option->list_count)
        snprintf(most, sizeof most, ", or up to %d with commas between", option->list_max);
    if (option->choice) {
        format_choices(wanted, sizeof wanted, option->name_of);
    } else if (option->number) {
        snprintf(wanted, sizeof wanted, "a number from %.10g to %.10g", option->least, option->most);
    } else if (option->bytes) {
        format_bytes(low, sizeof low, option->low);
        format_bytes(high, sizeof high, option->high);
        snprintf(wanted, sizeof wanted, "a size from %s to %s, as in 65536, 64K or 16M", low, high);
    } else {
        snprintf(wanted, sizeof wanted, "a whole number from %llu to %llu", (unsigned long long)option->low,
                 (unsigned long long)option->high);
    }
    snprintf(text, text_bytes, "%s%s", wanted, most);
}

static void take(const command_line *line, const typed_option *typed) {
    const command_option *option = typed->option;
    const char *wanted = NULL;
    char values[MESSAGE_BYTES / 2];
    if (option == &command_options_common[HELP] || option == &command_options_common[VERSION])
        print_and_exit(line, (int)(option - command_options_common));
    if (option->flag)
        *option->flag = true;
    if (option->text) {
        *option->text = typed->value;
        wanted = *typed->value ? NULL : value_name(option);
    } else if (option->read && !option->choice) {
        wanted = option->read(typed->value);
    } else if (!option->flag &&
               !(option->list_count ? store_list(option, typed->value) : store(option, typed->value, 0))) {
        format_wanted(values, sizeof values, option);
        wanted = values;
    }
    if (wanted)
        command_line_refuse(line, "%.*s '%s': give %s", typed->length, typed->word, typed->value, wanted);
    if (option == &command_options_common[COMPLETION])
        print_and_exit(line, COMPLETION);
}

/* Reads the option at the beginning of `words`. Returns how many words it has. */
static int read_option(command_line *line, char *const *words) {
    typed_option typed = {.word = words[0], .length = (int)strcspn(words[0], "=")};
    bool has_next_value = false;
    if (typed.word[1] == '-') {
        typed.option = find_name(line, typed.word, (size_t)typed.length);
        typed.value = typed.word[typed.length] ? typed.word + typed.length + 1 : NULL;
    } else if (!(typed.option = find_name(line, typed.word, strlen(typed.word)))) {
        const command_option *letter = find_name(line, typed.word, 2); /* its value may stand right behind it */
        if (letter && takes_value(letter))
            typed = (typed_option){letter, typed.word, 2, typed.word + 2};
    }
    if (!typed.option)
        refuse_unknown(line, typed.word, (size_t)typed.length);
    const bool may_lack = typed.option->integer && !value_name(typed.option);
    if (typed.value && !takes_value(typed.option))
        command_line_refuse(line, "option '%.*s' takes no value", typed.length, typed.word);
    if (!typed.value && may_lack)
        has_next_value = typed.word[1] != '-' && words[1] && words[1][0] >= '0' && words[1][0] <= '9';
    else if (!typed.value && takes_value(typed.option))
        has_next_value = true;
    if (has_next_value && !words[1])
        command_line_refuse(line, "option '%s' needs a value", typed.word);
    if (has_next_value)
        typed.value = words[1];
    if (!typed.value && may_lack)
        typed.value = "1";
    take(line, &typed);
    if (typed.option >= line->options && typed.option < line->options + line->options_count)
        line->given |= UINT64_C(1) << (typed.option - line->options);
    return 1 + has_next_value;
}

char **command_line_read(command_line *line, int argc, char **argv) {
    int arguments = 0;
    bool has_options = true;
    for (int at = 1; at < argc;) {
        char *const word = argv[at];
        if (has_options && word[0] == '-' && word[1]) {
            has_options = strcmp(word, "--") != 0;
            at += has_options ? read_option(line, argv + at) : 1;
            continue;
        }
        if (line->runs_program)
            return argv + at;
        if (arguments == line->arguments_max)
            command_line_refuse(line, "argument '%s': is not expected", word);
        argv[1 + arguments++] = word;
        at++;
    }
    argv[argc > 0 ? 1 + arguments : 0] = NULL;
    return argc > 0 ? argv + 1 : argv;
}

bool command_line_has(const command_line *line, const char *name) {
    size_t length;
    for (int i = 0; i < line->options_count; i++) {
        const char *own = long_name(&line->options[i], &length);
        if (own && strncmp(own, name, length) == 0 && !name[length])
            return line->given >> i & 1;
    }
    return false;
}
