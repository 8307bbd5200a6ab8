/* What kolo-simulate can be asked for. Each ends the program at a mistake in a file. */
#ifndef SIM_COMMANDS_H
#define SIM_COMMANDS_H

#include "sim_machine.h"
#include "sim_options.h"

/* Predictions as a table and as JSON rows: all ranks, sizes and algorithms of the options. 0, or 1 if one failed. */
int sim_report(const sim_options *options, const sim_machine *machine);

/* Predicted beside measured: for each all-reduce row of options->validate_path, the time that the model gives for the
 * same call with the same algorithm. 0, or 1 if a prediction failed. */
int sim_validate(const sim_options *options, const sim_machine *machine);

/* Prints a machine file, from the rows of kolo-perf limits in `path` and this machine's caches. */
void sim_calibrate(const char *path);

#endif
