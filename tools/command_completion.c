#include "command_line.h"

#include <stdio.h>
#include <string.h>

enum { BASH, ZSH, NAME_BYTES = 64 };

const char *completion_shell_name(unsigned shell) {
    static const char *const names[] = {[BASH] = "bash", [ZSH] = "zsh", NULL};
    return names[shell];
}

typedef struct option_table {
    const command_line *line;
    const command_option *common;
    int count; /* of the line's and the common ones */
} option_table;

/* NULL for a heading. */
static const command_option *option_of(const option_table *table, int index) {
    const int own = table->line->options_count;
    const command_option *option = index < own ? &table->line->options[index] : &table->common[index - own];
    return option->names ? option : NULL;
}

/* Cuts the next name, with its dashes, off *names; false where the value follows or nothing does. */
static bool next_name(const char **names, char name[NAME_BYTES]) {
    const char *at = *names + strspn(*names, ", ");
    const int length = (int)strcspn(at, ", ");
    if (*at != '-')
        return false;
    snprintf(name, NAME_BYTES, "%.*s", length, at);
    *names = at + length;
    return true;
}

/* As --help shows it; "": there is none, or it may be left out. */
static const char *value_of(const command_option *option) {
    const char *last = strrchr(option->names, ' ');
    return last && last[1] != '-' ? last + 1 : "";
}

static bool is_file(const char *value) {
    return strncmp(value, "FILE", 4) == 0 || strncmp(value, "MEASURED", 8) == 0;
}

static void print_words(const char *(*name_of)(unsigned)) {
    for (unsigned i = 0; name_of(i); i++)
        printf("%s%s", i > 0 ? " " : "", name_of(i));
}

/* "-d | --dtype" */
static void print_pattern(const command_option *option) {
    char name[NAME_BYTES];
    const char *names = option->names;
    for (int i = 0; next_name(&names, name); i++)
        printf("%s%s", i > 0 ? " | " : "", name);
}

/* What bash does behind an option with a value. */
static void print_bash_value(const command_option *option) {
    const char *value = value_of(option);
    fputs("    ", stdout);
    print_pattern(option);
    fputs(") ", stdout);
    if (option->name_of && option->list_count) {
        fputs("COMPREPLY=($(compgen -P \"${word%\"${word##*,}\"}\" -W '", stdout);
        print_words(option->name_of);
        fputs("' -- \"${word##*,}\")); return ;;\n", stdout);
    } else if (option->name_of) {
        fputs("COMPREPLY=($(compgen -W '", stdout);
        print_words(option->name_of);
        fputs("' -- \"$word\")); return ;;\n", stdout);
    } else if (is_file(value) || strcmp(value, "DIR") == 0) {
        printf("_kolo_files -%c \"$word\"; return ;;\n", is_file(value) ? 'f' : 'd');
    } else {
        fputs("return ;;\n", stdout);
    }
}

/* Words that are no options: a program and its own line, one of a list, or nothing. */
static void print_bash_arguments(const option_table *table) {
    if (table->line->words_of) {
        fputs("    COMPREPLY=($(compgen -W '", stdout);
        print_words(table->line->words_of);
        fputs("' -- \"$word\"))\n", stdout);
    } else if (table->line->runs_program) {
        fputs("    COMPREPLY=($(compgen -c -- \"$word\"))\n", stdout);
    }
}

/* Finds the program, behind which all words are its own. */
static void print_bash_program(const option_table *table) {
    fputs("    local at=1\n"
          "    while [ $at -lt $COMP_CWORD ]; do\n"
          "        case ${COMP_WORDS[at]} in\n",
          stdout);
    const char *before = "        ";
    for (int i = 0; i < table->count; i++) {
        if (!option_of(table, i) || !*value_of(option_of(table, i)))
            continue;
        fputs(before, stdout);
        print_pattern(option_of(table, i));
        before = " | ";
    }
    fputs(") [ \"${COMP_WORDS[at + 1]}\" = = ] && at=$((at + 1)); at=$((at + 2))\n"
          /* a value with = or : in it is three words or more, too */
          "        while [[ ${COMP_WORDS[at]} == [=:]* ]]; do at=$((at + 2)); done ;;\n"
          "        --) at=$((at + 1)); break ;;\n"
          "        -*) at=$((at + 1)) ;;\n"
          "        *) break ;;\n"
          "        esac\n"
          "    done\n"
          "    if [ $at -lt $COMP_CWORD ]; then\n"
          "        if declare -F _command_offset >/dev/null; then\n"
          "            _command_offset $at\n"
          "        else\n"
          "            _kolo_files -f \"$word\"\n"
          "        fi\n"
          "        return\n"
          "    fi\n",
          stdout);
}

/* "kolo_perf" of kolo-perf: a shell's function. */
static void print_function(const char *program) {
    for (; *program; program++)
        putchar(*program == '-' ? '_' : *program);
}

static void print_bash(const option_table *table) {
    const char *program = table->line->program;
    char name[NAME_BYTES];
    printf("# What %s --completion bash prints.\n"
           "_kolo_files() {\n"
           "    compopt -o filenames 2>/dev/null\n"
           "    mapfile -t COMPREPLY < <(compgen \"$1\" -- \"$2\")\n"
           "}\n"
           "_",
           program);
    print_function(program);
    fputs("() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
          "    COMPREPLY=()\n"
          "    if [ \"$word\" = = ]; then\n" /* --option=value is three words */
          "        word=\n"
          "    elif [ \"$before\" = = ]; then\n"
          "        before=${COMP_WORDS[COMP_CWORD - 2]}\n"
          "    fi\n",
          stdout);
    if (table->line->runs_program)
        print_bash_program(table);
    fputs("    case $before in\n", stdout);
    for (int i = 0; i < table->count; i++)
        if (option_of(table, i) && *value_of(option_of(table, i)))
            print_bash_value(option_of(table, i));
    fputs("    esac\n    if [ \"${word:0:1}\" = - ]; then\n        COMPREPLY=($(compgen -W '", stdout);
    for (int i = 0; i < table->count; i++) {
        const char *names = option_of(table, i) ? option_of(table, i)->names : "";
        while (next_name(&names, name))
            printf(" %s", name);
    }
    fputs("' -- \"$word\"))\n        return\n    fi\n", stdout);
    print_bash_arguments(table);
    fputs("}\ncomplete -F _", stdout);
    print_function(program);
    printf(" %s\n", program);
}

/* The first line of a help, up to a colon or the end of its sentence, within quotes and brackets. */
static void print_zsh_help(const char *help) {
    for (const char *at = help; *at && *at != '\n' && strncmp(at, ". ", 2) != 0; at++) {
        if (strchr("[]:\\", *at))
            putchar('\\');
        fputs(*at == '\'' ? "'\\''" : (char[]){*at, '\0'}, stdout);
    }
}

/* ":VALUE:what to offer" */
static void print_zsh_value(const command_option *option) {
    const char *value = value_of(option);
    if (!*value)
        return;
    const char *dots = strpbrk(value, ":[,");
    printf(":%.*s:", (int)(dots ? dots - value : (long)strlen(value)), value);
    if (option->name_of) {
        fputs(option->list_count ? "_sequence compadd - " : "(", stdout);
        print_words(option->name_of);
        fputs(option->list_count ? "" : ")", stdout);
    } else if (is_file(value) || strcmp(value, "DIR") == 0) {
        fputs(is_file(value) ? "_files" : "_files -/", stdout);
    }
}

static void print_zsh(const option_table *table) {
    const char *program = table->line->program;
    char name[NAME_BYTES];
    printf("#compdef %s\n# What %s --completion zsh prints.\n_arguments", program, program);
    for (int i = 0; i < table->count; i++) {
        const command_option *option = option_of(table, i);
        const char *names = option ? option->names : "";
        while (next_name(&names, name)) {
            const bool is_long = name[1] == '-';
            printf(" \\\n    '%s%s[", name, !*value_of(option) ? "" : is_long ? "=" : "+");
            print_zsh_help(option->help);
            putchar(']');
            print_zsh_value(option);
            putchar('\'');
        }
    }
    if (table->line->words_of) {
        fputs(" \\\n    '1:what:(", stdout);
        print_words(table->line->words_of);
        fputs(")'", stdout);
    } else if (table->line->runs_program) {
        fputs(" \\\n    '(-)1:program:_command_names -e' '*::arguments:_normal'", stdout);
    }
    putchar('\n');
}

void command_completion_print(const command_line *line, const command_option *common, int common_count,
                              unsigned shell) {
    const option_table table = {line, common, line->options_count + common_count};
    if (shell == BASH)
        print_bash(&table);
    else
        print_zsh(&table);
}
