/* The command line of kolo-simulate, and what it can ask for. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kolo.h"
#include "sim_machine.h"

enum { SIM_LIST_MAX = 32 };

typedef struct sim_options {
    const char *machine_name;   /* or the path of a file */
    const char *json_path;      /* NULL: none */
    const char *validate_path;  /* NULL: no comparison */
    const char *calibrate_path; /* NULL: no machine file is made */
    int ranks[SIM_LIST_MAX];
    int ranks_count; /* 0: all cores of the machine */
    int lanes[SIM_LIST_MAX];
    int lanes_count; /* 0: ranks have one thread, and rank r runs on core r */
    kolo_algorithm algorithms[SIM_LIST_MAX];
    int algorithms_count; /* 0: AUTO and every one; with lanes AUTO alone */
    size_t min_bytes, max_bytes, factor;
    size_t slot_bytes; /* 0: default */
    kolo_dtype dtype;
    bool in_place;
    bool check;
    uint64_t noise_seed;
    uint64_t skipped_wait; /* 0: none */
} sim_options;

/* Says what is wrong with a file that an option names, and ends the program. */
_Noreturn void sim_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What can be asked for. Each ends the program at a mistake in a file. */

/* Predictions as a table and as JSON rows: all ranks, sizes and algorithms of the options. 0, or 1 if one failed. */
int sim_report(const sim_options *options, const sim_machine *machine);

/* Predicted beside measured: for each all-reduce row of options->validate_path, the time that the model gives for the
 * same call with the same algorithm. 0, or 1 if a prediction failed. */
int sim_validate(const sim_options *options, const sim_machine *machine);

/* Prints a machine file, from the rows of kolo-perf limits in `path` and this machine's caches. */
void sim_calibrate(const char *path);

/* Rows of measurements as kolo-perf writes them: a JSON object on each line. */

/* Calls `take` for each row of the file that `option` names. Ends the program at a mistake. */
void sim_rows_read(const char *option, const char *path, void (*take)(const char *row));

/* The value of `key`, wherever in the row it is; false if it is not there or not of that kind. */
bool sim_row_number(const char *text, const char *key, double *value);
bool sim_row_text(const char *text, const char *key, char *value, size_t value_bytes);
bool sim_row_true(const char *text, const char *key);
