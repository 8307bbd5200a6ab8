/* A machine file from what kolo-perf limits has measured. */
#ifndef SIM_CALIBRATE_H
#define SIM_CALIBRATE_H

#include <stdio.h>

/* Reads kolo-perf's rows from `path`, and this machine's caches, and writes a machine file. Ends the program at a
 * mistake. */
void sim_calibrate(const char *path, FILE *machine_file);

#endif
