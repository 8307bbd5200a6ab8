/* Predictions as a table and as JSON rows. */
#ifndef SIM_REPORT_H
#define SIM_REPORT_H

#include "sim_machine.h"
#include "sim_options.h"

/* The whole matrix of ranks, sizes and algorithms. 0, or 1 if a prediction failed. Ends the program if a file cannot be
 * written or the machine has too few cores. */
int sim_report(const sim_options *options, const sim_machine *machine);

#endif
