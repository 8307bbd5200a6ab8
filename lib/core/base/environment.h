/* The environment variables that kolo reads: one list of all of them, and strict parsers. A value that makes no sense
 * gives KOLO_ERR_ARG with a message that quotes it; it never silently becomes the default. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef enum kolo_variable_index {
    KOLO_VARIABLE_RANK,
    KOLO_VARIABLE_SIZE,
    KOLO_VARIABLE_JOB,
    KOLO_VARIABLE_SHM_FD,
    KOLO_VARIABLE_RENDEZVOUS,
    KOLO_VARIABLE_LOCAL_RANK,
    KOLO_VARIABLE_LOCAL_SIZE,
    KOLO_VARIABLE_RESTARTS,
    KOLO_VARIABLE_ALGO,
    KOLO_VARIABLE_WAIT,
    KOLO_VARIABLE_PROGRESS,
    KOLO_VARIABLE_THREADS,
    KOLO_VARIABLE_CPU,
    KOLO_VARIABLE_SLOT_BYTES,
    KOLO_VARIABLE_SINGLE_COPY,
    KOLO_VARIABLE_TUNE_FILE,
    KOLO_VARIABLE_NET,
    KOLO_VARIABLE_NET_ADDR,
    KOLO_VARIABLE_NET_ALGO,
    KOLO_VARIABLE_NET_ORDER,
    KOLO_VARIABLE_NET_SILENCE_MS,
    KOLO_VARIABLE_TIMEOUT_MS,
    KOLO_VARIABLE_CREATE_TIMEOUT_MS,
    KOLO_VARIABLE_SECRET_FILE,
    KOLO_VARIABLE_SECRET,
    KOLO_VARIABLE_LOG,
    KOLO_VARIABLE_TRACE,
    KOLO_VARIABLE_TRACE_BYTES,
    KOLO_VARIABLE_DUMP,
    KOLO_VARIABLE_MPI,
    KOLO_VARIABLES
} kolo_variable_index;

const char *kolo_environment_name(kolo_variable_index variable);

struct kolo_variable; /* of kolo_tools.h */

/* Sets name, meaning, default_value and value. */
void kolo_environment_describe(kolo_variable_index variable, struct kolo_variable *described);

/* Returns the variable's value; NULL if it is not set, or is empty. */
const char *kolo_environment_text(kolo_variable_index variable);

/* Reads `text`, the value of something called `name`, as a decimal integer from low to high. */
int kolo_integer_parse(const char *name, const char *text, int64_t low, int64_t high, int64_t *value);

/* The functions below can read one variable after another: once a wrong value has set *rc, they do nothing more. */

/* Reads a variable as an integer; returns `value` where it is not set. */
int64_t kolo_environment_integer(int *rc, kolo_variable_index variable, int64_t low, int64_t high, int64_t value);

/* Reads a variable as one of the NULL-terminated names; returns its index, or `index` where it is not set. A name such
 * as "tree:LEVELS" stands for every value that begins with "tree:". */
int kolo_environment_choice(int *rc, kolo_variable_index variable, const char *const *names, int index);

/* An item of a list: a word, which stands for `low`; or, if its name ends in a colon, it and a number. */
struct kolo_list_item {
    const char *name;
    int64_t low, high;
    int64_t *value;
};

/* Reads a variable as a list of items with commas between them, as in "poll,threads:2", and sets the values of those
 * that are named. `items` ends with one without a name. */
void kolo_environment_list(int *rc, kolo_variable_index variable, const struct kolo_list_item *items);
