/* What is said of an option that getopt_long cannot read. */
#ifndef KOLO_TOOLS_OPTION_MISTAKE_H
#define KOLO_TOOLS_OPTION_MISTAKE_H

#include <getopt.h>
#include <stddef.h>

/* Describes the mistake after getopt_long returned `code`, '?' or ':' (the latter where a value is missing). It names
 * the option as it was typed and, if that is unknown, the one that comes nearest. */
void option_mistake_describe(char *text, size_t text_bytes, const struct option *options, int code, char *const *argv);

#endif
