/* The machine files that come with kolo, by name. */
#ifndef SIM_CATALOGUE_H
#define SIM_CATALOGUE_H

#include <stddef.h>
#include <stdio.h>

/* The path of the machine that `name` means: a file, or one of those that come with kolo. 0, or -1: there is none. */
int sim_catalogue_find(const char *name, char *path, size_t path_bytes);

/* Lists what comes with kolo, a name on each line. */
void sim_catalogue_print(FILE *to);

#endif
