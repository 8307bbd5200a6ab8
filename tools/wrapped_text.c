#include "wrapped_text.h"

#include <stdio.h>
#include <string.h>

enum { COLUMNS = 80, GAP_COLUMN_MAX = 24 };

/* Where the text of a line begins. */
static int text_column(const char *line, int length) {
    const int spaces = (int)strspn(line, " ");
    for (int at = spaces; at < length && at < GAP_COLUMN_MAX; at++)
        if (strncmp(line + at, "  ", 2) == 0)
            return at + (int)strspn(line + at, " ");
    return spaces;
}

static void print_line(const char *line, int length, int indent, int column) {
    const int begin = column, below = indent + text_column(line, length);
    for (int at = 0; at < length;) {
        const int spaces = (int)strspn(line + at, " "), word = (int)strcspn(line + at + spaces, " \n");
        if (column + spaces + word > COLUMNS && column > begin) {
            printf("\n%*s", below, "");
            column = below;
        } else {
            printf("%*s", spaces, "");
            column += spaces;
        }
        printf("%.*s", word, line + at + spaces);
        column += word;
        at += spaces + word;
    }
    putchar('\n');
}

void wrapped_text_print(const char *text, int indent, int column) {
    for (;;) {
        const int length = (int)strcspn(text, "\n");
        print_line(text, length, indent, column);
        text += length;
        if (!*text || !*++text)
            return;
        if (*text != '\n')
            printf("%*s", indent, "");
        column = indent;
    }
}
