/* What kolo-trace writes of a job, and the words that these have in common. */
#pragma once

#include <stdio.h>

#include "printed_text.h"
#include "trace_figures.h"

/* The timeline in Chrome's trace-event format, written as it is gone through. */
void trace_timeline_write(FILE *to, const trace_figures *figures);

/* The summary. */
void trace_summary_print(const trace_figures *figures);
void trace_summary_write_json(FILE *to, const trace_figures *figures);
void trace_page_write(FILE *to, const trace_figures *figures);

/* "3.14 ms": three digits. */
quantity_text trace_time_text(double ns);

/* "64 KiB": the least size of a class; "-" for none. */
quantity_text trace_size_text(int size_class);

/* How long one of these calls took, of those that ended; "-": none did. */
quantity_text trace_call_text(const trace_collective_row *row);

/* "1.25" or "-": 10^9 bytes a second. */
quantity_text trace_rate_text(double bytes, double ns);

/* Share in per cent. */
double trace_percent(double part, double whole);

enum { TRACE_SENTENCE_BYTES = 512 };

/* Who is late, in a sentence. */
const char *trace_verdict(const trace_figures *figures, char text[TRACE_SENTENCE_BYTES]);

/* What is missing of a process, in words; "" if nothing is. */
const char *trace_missing(const trace_process *process, char text[TRACE_SENTENCE_BYTES]);

/* The time of a rank in all states, and what it would be if the work were spread evenly, so that nobody waited. */
int64_t trace_rank_ns(const trace_rank *rank);
int64_t trace_without_waiting_ns(const trace_figures *figures);

/* Share of communication in the background for which the program did not wait, in per cent; -1: there was none. */
double trace_hidden_percent(const trace_rank *rank);
