/* Rows of measurements as kolo-perf writes them: a JSON object on each line. */
#ifndef SIM_ROWS_H
#define SIM_ROWS_H

#include <stdbool.h>
#include <stddef.h>

/* Calls `take` for each row of the file that `option` names. Ends the program at a mistake. */
void sim_rows_read(const char *option, const char *path, void (*take)(const char *row));

/* The value of `key`, wherever in the row it is; false if it is not there or not of that kind. */
bool sim_row_number(const char *text, const char *key, double *value);
bool sim_row_text(const char *text, const char *key, char *value, size_t value_bytes);
bool sim_row_true(const char *text, const char *key);

#endif
