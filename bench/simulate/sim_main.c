/* kolo-simulate: predicts all-reduce times on a machine that is described in a file. */
#include <stdio.h>

#include "messages.h"
#include "sim_commands.h"

static int run(const sim_options *options) {
    sim_machine machine;
    if (options->calibrate_path != NULL) {
        sim_calibrate(options->calibrate_path);
        return 0;
    }
    sim_machine_read(&machine, options->machine_name);
    return options->validate_path != NULL ? sim_validate(options, &machine) : sim_report(options, &machine);
}

int main(int argc, char **argv) {
    const int status = run(sim_options_read(argc, argv));
    return message_unless_written() < 0 ? 2 : status;
}
