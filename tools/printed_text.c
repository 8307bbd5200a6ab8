#include "printed_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MINUTE = 60, HOUR = 60 * MINUTE, DAY = 24 * HOUR };

quantity_text age_text(int64_t seconds) {
    quantity_text age;
    if (seconds < 2 * MINUTE)
        snprintf(age.text, sizeof age.text, "%" PRId64 " s", seconds);
    else if (seconds < 2 * HOUR)
        snprintf(age.text, sizeof age.text, "%" PRId64 " min", seconds / MINUTE);
    else if (seconds < 2 * DAY)
        snprintf(age.text, sizeof age.text, "%" PRId64 " h", seconds / HOUR);
    else
        snprintf(age.text, sizeof age.text, "%" PRId64 " d", seconds / DAY);
    return age;
}

quantity_text bytes_text(uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    quantity_text size;
    int unit = 0;
    double value = (double)bytes;
    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    const uint64_t tenths = (uint64_t)(value * 10 + 0.5);
    snprintf(size.text, sizeof size.text, "%.*f %s", tenths % 10 != 0, (double)tenths / 10, units[unit]);
    return size;
}

int shown_decimals(double value) {
    return value < 9.9995 ? 3 : value < 99.995 ? 2 : value < 999.95 ? 1 : 0;
}

int letter_bytes(const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    const int bytes = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    const int low = at[0] == 0xe0 ? 0xa0 : at[0] == 0xf0 ? 0x90 : 0x80;
    const int high = at[0] == 0xed ? 0x9f : at[0] == 0xf4 ? 0x8f : 0xbf;
    if (at[0] < 0xc2 || at[0] > 0xf4 || at[1] < low || at[1] > high)
        return 0;
    for (int i = 2; i < bytes; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    return bytes;
}

void column_print(const char *text, int columns) {
    int bytes = 0;
    for (; columns > 0 && text[bytes]; columns--)
        bytes += letter_bytes(text + bytes) > 0 ? letter_bytes(text + bytes) : 1;
    printf("%.*s%*s", bytes, text, columns, "");
}

void json_text_print(FILE *to, const char *text) {
    if (!text) {
        fputs("null", to);
        return;
    }
    putc('"', to);
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        const int bytes = letter_bytes((const char *)at);
        if (bytes > 0) {
            fwrite(at, 1, (size_t)bytes, to);
            at += bytes - 1;
        } else if (*at == '"' || *at == '\\')
            fprintf(to, "\\%c", *at);
        else if (*at < 0x20 || *at >= 0x7f)
            fprintf(to, "\\u%04x", *at);
        else
            putc(*at, to);
    }
    putc('"', to);
}

/* Null where a number is not finite. */
static const char *json_value(const char *printed) {
    const char first = printed[printed[0] == '-'];
    return first == 'n' || first == 'i' ? "null" : printed;
}

void json_pairs_print(FILE *to, const char *format, ...) {
    char text[1536];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (const char *at = text; *at;) {
        if (strchr("{} \n", *at)) {
            fputs(*at == '{' ? "{" : *at == '}' ? "}" : *at == ' ' ? ", " : ",\n  ", to);
            at++;
            continue;
        }
        const int name = (int)strcspn(at, "=");
        const char *value = at + name + 1, *shown = json_value(value);
        const size_t length = strcspn(value, " \n}");
        fprintf(to, "\"%.*s\": %.*s", name, at, (int)(shown == value ? length : strlen(shown)), shown);
        at = value + length;
    }
}

void json_floats_print(FILE *to, const float *values, size_t count) {
    putc('[', to);
    for (size_t i = 0; i < count; i++) {
        char text[32];
        snprintf(text, sizeof text, "%.9g", (double)values[i]);
        fprintf(to, "%s%s", i > 0 ? ", " : "", json_value(text));
    }
    putc(']', to);
}

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
