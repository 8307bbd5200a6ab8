/* Strings in JSON. */
#ifndef KOLO_TOOLS_JSON_TEXT_H
#define KOLO_TOOLS_JSON_TEXT_H

#include <stdio.h>

/* Writes a string; null for NULL. A byte that is not part of UTF-8 is taken as Latin-1, so that any text gives valid
 * JSON. */
void json_text_print(FILE *to, const char *text);

#endif
