/* Text for a terminal of 80 columns. */
#ifndef KOLO_TOOLS_WRAPPED_TEXT_H
#define KOLO_TOOLS_WRAPPED_TEXT_H

/* Prints the lines of `text`, each from `indent` on but for the first, which begins at `column`, where the cursor is.
 * A line that is too long is broken between words, and goes on below its own text: that begins after the line's spaces
 * or, as in "  name   what it is", after its first gap of two spaces or more. */
void wrapped_text_print(const char *text, int indent, int column);

#endif
