/* Whether what is written to a descriptor may have colours. */
#ifndef KOLO_TOOLS_TERMINAL_COLOUR_H
#define KOLO_TOOLS_TERMINAL_COLOUR_H

#include <stdbool.h>

/* True for a terminal that shows them, unless NO_COLOR is set. */
bool terminal_has_colour(int fd);

#endif
