/* Printing a sample, as tables or as JSON. */
#ifndef KOLO_TOP_REPORT_H
#define KOLO_TOP_REPORT_H

#include "top_sample.h"

/* Whether tables have colours; at first they have none. */
void top_report_set_colour(bool on);

void top_report_table(const top_sample *sample);

/* One object on one line. */
void top_report_json(const top_sample *sample);

#endif
