/* kolorun: starts the ranks of a kolo job on this machine, which may be one of several.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "binding.h"
#include "job.h"
#include "launch.h"
#include "launch_options.h"

/* Were one of the descriptors 0 to 2 closed, the next file would take its number and be mistaken for it. */
static int standard_descriptors_open(void) {
    int fd;
    do {
        fd = open("/dev/null", O_RDWR);
        if (fd < 0)
            return -errno;
    } while (fd <= STDERR_FILENO);
    close(fd);
    return 0;
}

/* Sets *cpus to the CPUs of the ranks, or to NULL if they are not to be bound. Prints what is wrong and returns
 * -1 if it cannot be done as asked. */
static int ranks_place(const struct launch_options *options, int **cpus) {
    *cpus = NULL;
    if (options->bind == BIND_NONE)
        return 0;
    size_t count = 0;
    int rc = binding_allowed_cpus(cpus, &count);
    if (rc == 0 && (size_t)options->ranks <= count)
        rc = binding_order_by_core(*cpus, count, SYSFS_CPUS);
    if (rc == 0 && (size_t)options->ranks <= count)
        return 0;
    free(*cpus);
    *cpus = NULL;
    if (options->bind == BIND_AUTO)
        return 0;
    if (rc < 0)
        fprintf(stderr, "kolorun: --bind core: cannot find out the allowed CPUs: %s\n", strerror(-rc));
    else
        fprintf(stderr, "kolorun: --bind core: %d ranks do not fit %zu allowed CPU%s; use fewer ranks or --bind none\n",
                options->ranks, count, count == 1 ? "" : "s");
    return -1;
}

int main(int argc, char **argv) {
    struct launch_options options;
    int exit_code;
    int rc = standard_descriptors_open();
    if (rc < 0) {
        fprintf(stderr, "kolorun: cannot open /dev/null: %s\n", strerror(-rc));
        return EXIT_LAUNCHER;
    }
    if (!launch_options_parse(&options, argc, argv, &exit_code))
        return exit_code;
    int *cpus;
    if (ranks_place(&options, &cpus) < 0)
        return EXIT_LAUNCHER;
    rc = launch_segment_create(options.ranks, options.size, options.rendezvous);
    if (rc < 0) {
        fprintf(stderr, "kolorun: cannot create the job's shared file: %s\n", strerror(-rc));
        return EXIT_LAUNCHER;
    }
    exit_code = job_run(&options, cpus);
    free(cpus);
    return exit_code;
}
