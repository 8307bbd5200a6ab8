/* The command line of kolo-simulate. */
#ifndef SIM_OPTIONS_H
#define SIM_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kolo.h"

enum { SIM_LIST_MAX = 32 };

typedef struct sim_options {
    const char *machine_name;   /* or the path of a file */
    const char *json_path;      /* NULL: none */
    const char *validate_path;  /* NULL: no comparison */
    const char *calibrate_path; /* NULL: no machine file is made */
    int ranks[SIM_LIST_MAX];
    int ranks_count; /* 0: all cores of the machine */
    kolo_algorithm algorithms[SIM_LIST_MAX];
    int algorithms_count; /* 0: AUTO and every one */
    size_t min_bytes, max_bytes, factor;
    size_t slot_bytes; /* 0: default */
    kolo_dtype dtype;
    bool in_place;
    bool check;
    uint64_t noise_seed;
    uint64_t skipped_wait; /* 0: none */
} sim_options;

/* Reads the command line. Ends the program at --help, at --version and at a mistake. */
const sim_options *sim_options_read(int argc, char **argv);

/* Says what is wrong with a file that an option names, and ends the program. */
_Noreturn void sim_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
