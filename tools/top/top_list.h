/* The list of a user's running jobs, which kolo-top shows where it is not told at which to look. */
#ifndef KOLO_TOP_LIST_H
#define KOLO_TOP_LIST_H

#include <stdbool.h>

/* Prints it, as a table or as one JSON object; the program's exit status. */
int top_list_print(bool json);

#endif
