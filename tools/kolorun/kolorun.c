/* kolorun: starts the ranks of a kolo job on this machine, which may be one of several. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "binding.h"
#include "launch.h"
#include "kolo_tools.h"
#include "launch_options.h"
#include "messages.h"

/* Were one of the descriptors 0 to 2 closed, the next file would take its number and be mistaken for it. */
static int standard_descriptors_open(void) {
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    return fd >= 0 ? close(fd) : -errno;
}

/* Prints what is wrong and returns false if it cannot be done as asked. */
static bool ranks_place(struct binding *binding, const struct launch_options *options) {
    const int rc = binding_choose(binding, options->ranks, options->bind);
    if (rc == -ERANGE)
        message_print("--bind core: %d ranks do not fit %u allowed CPU%s; use fewer ranks or\n"
                      "         --bind none",
                      options->ranks, (unsigned)binding->cpus, binding->cpus == 1 ? "" : "s");
    else if (rc < 0)
        message_print("cannot choose CPUs for the ranks: %s", strerror(-rc));
    return rc == 0;
}

/* For all ranks, which say nothing of it: unless KOLO_LOG wants no warnings. */
static void warn_of_unknown_variables(void) {
    const char *log = getenv("KOLO_LOG");
    kolo_variable variable = {.variable_bytes = sizeof variable};
    if (log && (strstr(log, "off") || strstr(log, "error")))
        return;
    for (size_t i = 0; kolo_variable_get(i, &variable) == KOLO_OK; i++)
        if (variable.meaning == NULL)
            message_print("%s", variable.mistake);
}

int main(int argc, char **argv) {
    int rc = standard_descriptors_open();
    if (rc < 0) {
        message_print("cannot open /dev/null: %s", strerror(-rc));
        return EXIT_LAUNCHER;
    }
    const struct launch_options *options = launch_options_read(argc, argv);
    warn_of_unknown_variables();
    rc = options->output_folder != NULL ? rank_files_prepare(options->output_folder) : 0;
    if (rc < 0) {
        message_print("--output: cannot use folder '%s': %s", options->output_folder, strerror(-rc));
        return EXIT_LAUNCHER;
    }
    struct binding binding;
    if (!ranks_place(&binding, options))
        return EXIT_LAUNCHER;
    const int segment_fd = launch_segment_create(options);
    if (segment_fd < 0) {
        message_print("cannot create the job's shared file: %s", strerror(-segment_fd));
        return EXIT_LAUNCHER;
    }
    const int exit_code = job_run(options, &binding, segment_fd);
    binding_close(&binding);
    return exit_code;
}
