#include "terminal_colour.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool terminal_has_colour(int fd) {
    const char *none = getenv("NO_COLOR"), *kind = getenv("TERM");
    return isatty(fd) && !(none && *none) && kind && strcmp(kind, "dumb") != 0;
}
