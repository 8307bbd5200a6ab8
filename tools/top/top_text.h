/* What reports of communicators and of tables have in common. */
#ifndef KOLO_TOP_TEXT_H
#define KOLO_TOP_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "printed_text.h"
#include "top_sample.h"

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

/* Those tables of the sample that are of `comm`: for people, and as a member "tables" of an object in JSON. */
void top_tables_print(const top_sample *sample, const top_comm *comm);
void top_tables_print_json(const top_sample *sample, const top_comm *comm);

#endif
