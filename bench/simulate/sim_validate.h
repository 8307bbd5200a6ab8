/* Predicted beside measured. */
#ifndef SIM_VALIDATE_H
#define SIM_VALIDATE_H

#include "sim_machine.h"
#include "sim_options.h"

/* For each all-reduce row of options->validate_path, the time that the model gives for the same call with the same
 * algorithm. 0, or 1 if a prediction failed. Ends the program if the file cannot be used. */
int sim_validate(const sim_options *options, const sim_machine *machine);

#endif
