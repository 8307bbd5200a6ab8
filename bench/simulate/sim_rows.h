/* Rows of measurements as kolo-perf writes them: a JSON object on each line. */
#ifndef SIM_ROWS_H
#define SIM_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { SIM_ROW_BYTES_MAX = 2048, SIM_ROWS_MAX = 100000 };

/* Reads the next row's text, without empty lines. 1; 0 at the end; -1 with the line in *number if it is no object. */
int sim_row_next(FILE *file, char text[SIM_ROW_BYTES_MAX], int *number);

/* The value of `key`, wherever in the row it is; false if it is not there or not of that kind. */
bool sim_row_number(const char *text, const char *key, double *value);
bool sim_row_text(const char *text, const char *key, char *value, size_t value_bytes);
bool sim_row_true(const char *text, const char *key);

#endif
