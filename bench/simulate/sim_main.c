/* kolo-simulate: predicts all-reduce times on a machine that is described in a file. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "sim_calibrate.h"
#include "sim_catalogue.h"
#include "sim_machine.h"
#include "sim_options.h"
#include "sim_report.h"
#include "sim_validate.h"

static int run(const sim_options *options) {
    sim_machine machine;
    char path[PATH_MAX];
    if (options->calibrate_path != NULL) {
        sim_calibrate(options->calibrate_path, stdout);
        return 0;
    }
    if (sim_catalogue_find(options->machine_name, path, sizeof path) != 0) {
        fprintf(stderr, "kolo-simulate: --machine '%s': neither a file nor a machine that comes with kolo\n",
                options->machine_name);
        sim_catalogue_print(stderr);
        return 2;
    }
    sim_machine_read(&machine, path);
    return options->validate_path != NULL ? sim_validate(options, &machine) : sim_report(options, &machine);
}

int main(int argc, char **argv) {
    int status = run(sim_options_read(argc, argv));
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "kolo-simulate: output was lost: cannot write to standard output: %s\n", strerror(errno));
        status = 2;
    }
    return status;
}
