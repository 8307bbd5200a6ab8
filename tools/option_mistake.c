#include "option_mistake.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES_MAX = 48 };

static int least(int a, int b) {
    return a < b ? a : b;
}

/* How many letters to insert, delete, change or swap with their neighbour to get from one word to the other. */
static int distance(const char *from, size_t from_length, const char *to, size_t to_length) {
    int rows[3][NAME_BYTES_MAX + 1]; /* the row for the letters so far, and the two before it */
    int *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= to_length; j++)
        last[j] = (int)j;
    for (size_t i = 1; i <= from_length; i++) {
        row[0] = (int)i;
        for (size_t j = 1; j <= to_length; j++) {
            const bool same = from[i - 1] == to[j - 1];
            row[j] = least(last[j - 1] + !same, least(last[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
        int *const spare = before;
        before = last;
        last = row;
        row = spare;
    }
    return last[to_length];
}

/* The name that differs least from `word`, in half of its letters at most; NULL: none does. */
static const char *nearest_name(const struct option *options, const char *word, size_t length) {
    const char *nearest = NULL;
    int least_distance = INT_MAX;
    for (const struct option *option = options; option->name && length <= NAME_BYTES_MAX; option++) {
        const size_t name_length = strlen(option->name);
        if (name_length > NAME_BYTES_MAX)
            continue;
        const int found = distance(word, length, option->name, name_length);
        if (found < least_distance && 2 * (size_t)found <= (length > name_length ? length : name_length)) {
            least_distance = found;
            nearest = option->name;
        }
    }
    return nearest;
}

static int count_beginning_with(const struct option *options, const char *word, size_t length) {
    int count = 0;
    for (const struct option *option = options; option->name; option++)
        count += strncmp(option->name, word, length) == 0;
    return count;
}

static void describe_unknown(char *text, size_t text_bytes, const struct option *options, const char *typed,
                             const char *name) {
    const size_t length = strcspn(name, "=");
    const int typed_length = (int)(name - typed + (ptrdiff_t)length);
    const char *nearest = nearest_name(options, name, length);
    if (length > 0 && count_beginning_with(options, name, length) > 1)
        snprintf(text, text_bytes, "option '%.*s' is ambiguous", typed_length, typed);
    else if (nearest)
        snprintf(text, text_bytes, "option '%.*s' is unknown (did you mean --%s?)", typed_length, typed, nearest);
    else
        snprintf(text, text_bytes, "option '%.*s' is unknown", typed_length, typed);
}

/* True if `typed` is a long option with a value that the option which getopt_long found does not take. */
static bool has_spare_value(const struct option *options, const char *typed) {
    if (strncmp(typed, "--", 2) != 0 || !strchr(typed, '='))
        return false;
    for (const struct option *option = options; option->name; option++)
        if (option->val == optopt && strncmp(option->name, typed + 2, strcspn(typed + 2, "=")) == 0)
            return true;
    return false;
}

void option_mistake_describe(char *text, size_t text_bytes, const struct option *options, int code, char *const *argv) {
    const char *typed = argv[optind - 1];
    if (code == ':')
        snprintf(text, text_bytes, "option '%s' needs a value", typed);
    else if (optopt == 0)
        describe_unknown(text, text_bytes, options, typed, typed + 2);
    else if (has_spare_value(options, typed))
        snprintf(text, text_bytes, "option '%.*s' takes no value", (int)strcspn(typed, "="), typed);
    else if (typed[0] == '-' && typed[1] == optopt && !typed[2])
        snprintf(text, text_bytes, "option '-%c' is unknown", optopt);
    else if (argv[optind] && argv[optind][0] == '-' && argv[optind][1] == optopt)
        describe_unknown(text, text_bytes, options, argv[optind], argv[optind] + 1); /* as long ones with one dash */
    else
        snprintf(text, text_bytes, "option '-%c' is unknown", optopt);
}
