/* Text as people and programs read it: quantities, strings in JSON, paragraphs. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct quantity_text {
    char text[32];
} quantity_text;

/* How long ago something was: "90 s", "45 min", "3 h", "5 d". */
quantity_text age_text(int64_t seconds);

/* "512 B", "1.5 MiB": at most one decimal. */
quantity_text bytes_text(uint64_t bytes);

/* How many decimals a number is shown with: it has four digits, or all that stand before the point. */
int shown_decimals(double value);

/* Bytes of the letter outside ASCII that begins there; 0: it is not UTF-8. */
int letter_bytes(const char *at);

/* Prints the first letters of `text`, or all and spaces: so many columns. */
void column_print(const char *text, int columns);

/* Writes a string in JSON; null for NULL. A byte that is not part of UTF-8 is taken as Latin-1, so that any text gives
 * valid JSON. */
void json_text_print(FILE *to, const char *text);

/* Writes "name": value, "name": value in JSON. `format` has them as for printf, with a space or the end of a line
 * between two, before the first or behind the last, as in "steps=%zu loss=%.9g way=\"%s\"", and may have braces around
 * them; no value has a space or a brace in it. A number that is not finite becomes null. */
void json_pairs_print(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes an array in JSON of values[0 .. count-1], likewise. */
void json_floats_print(FILE *to, const float *values, size_t count);

/* Prints the lines of `text` for a terminal of 80 columns, each from `indent` on but for the first, which begins at
 * `column`, where the cursor is. A line that is too long is broken between words, and goes on below its own text: that
 * begins after the line's spaces or, as in "  name   what it is", after its first gap of two spaces or more. */
void wrapped_text_print(const char *text, int indent, int column);
