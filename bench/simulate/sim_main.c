/* kolo-simulate: predicts all-reduce times on a machine that is described in a file.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim_calibrate.h"
#include "sim_machine.h"
#include "sim_options.h"
#include "sim_report.h"
#include "sim_validate.h"

static int run(const sim_options *options) {
    if (options->calibrate_path != NULL)
        return sim_calibrate(options->calibrate_path, stdout);
    sim_machine machine;
    char reason[512];
    if (sim_machine_read(&machine, options->machine_path, reason, sizeof reason) != 0) {
        fprintf(stderr, "kolo-simulate: --machine %s\n", reason);
        return 2;
    }
    if (options->validate_path != NULL)
        return sim_validate(options, &machine);
    return sim_report_predictions(options, &machine);
}

int main(int argc, char **argv) {
    sim_options options;
    const sim_action action = sim_options_read(&options, argc, argv);
    int status = action == SIM_ACTION_RUN ? run(&options) : action == SIM_ACTION_EXIT ? 0 : 2;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "kolo-simulate: output was lost: cannot write to standard output: %s\n", strerror(errno));
        status = 2;
    }
    return status;
}
