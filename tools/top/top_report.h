/* Printing a sample, as tables or as JSON. */
#ifndef KOLO_TOP_REPORT_H
#define KOLO_TOP_REPORT_H

#include <stdbool.h>

#include "top_sample.h"

/* Whether tables have colours; at first they have none. */
void top_report_set_colour(bool on);

void top_report_table(const top_sample *sample);

/* One object on one line. */
void top_report_json(const top_sample *sample);

/* The list of a user's running jobs, which kolo-top shows where it is not told at which to look, as a table or as one
 * JSON object; the program's exit status. */
int top_list_print(bool json);

#endif
