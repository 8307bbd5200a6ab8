/* Completion of a program's command line in a shell, from the table of its options: what --completion prints. */
#ifndef KOLO_COMMAND_COMPLETION_H
#define KOLO_COMMAND_COMPLETION_H

#include "command_line.h"

/* A value of --completion; NULL past the last. */
const char *completion_shell_name(unsigned shell);

/* Prints it for that shell. `common`: options that the line's table has not. */
void command_completion_print(const command_line *line, const command_option *common, int common_count, unsigned shell);

#endif
