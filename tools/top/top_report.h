/* Printing a sample, as tables, as JSON or for Prometheus, and what reports of communicators and of tables have in
 * common. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "printed_text.h"
#include "top_sample.h"

/* Whether tables have colours; at first they have none. */
void top_report_set_colour(bool on);

void top_report_table(const top_sample *sample);

/* One object on one line. */
void top_report_json(FILE *to, const top_sample *sample, bool with_last_calls);

/* Counters of all communicators and tables, in Prometheus' text format. */
void top_report_prometheus(FILE *to, const top_sample *sample);

/* The list of a user's running jobs, which kolo-top shows where it is not told at which to look, as a table or as one
 * JSON object; the program's exit status. */
int top_list_print(bool json);

/* What stands out, where the terminal shows colours. */
typedef enum top_tint { TOP_PLAIN, TOP_BOLD, TOP_RED, TOP_YELLOW } top_tint;

const char *top_tint_begin(top_tint as);
const char *top_tint_end(top_tint as);

/* A number in JSON; null where it is not known. */
quantity_text top_number_text(bool known, double number, int decimals);

/* A process's state letter in JSON; null where there is none. */
quantity_text top_process_text(char process);

/* "12.5k", in five characters at most. */
quantity_text top_rate_text(double rate, const char *unit);

/* In full below a million. */
quantity_text top_count_text(uint64_t count);

bool top_table_is_of(const top_table *table, const top_comm *comm);

/* Those tables of the sample that are of `comm`: for people, and as a member "tables" of an object in JSON. */
void top_tables_print(const top_sample *sample, const top_comm *comm);
void top_tables_print_json(FILE *to, const top_sample *sample, const top_comm *comm);
