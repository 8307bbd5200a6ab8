/* Telling the user what went wrong, and ending: one line on stderr, with the program's name and the rank that found it.
 * What is wrong in one rank ends the whole job; only the loss of a rank can be survived. */
#pragma once

#include <stddef.h>

#include "kolo.h"

/* Where the job's communicator is, NULL before there is one: it names the rank, and who gives up aborts it. */
void complain_in(kolo_comm *const *job);

/* Prints the line. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

/* The same, and ends the process; the other ranks do not wait for it. give_up_together: all ranks find the same, and
 * rank 0 tells. */
_Noreturn void give_up(const char *format, ...) __attribute__((format(printf, 1, 2), cold));
_Noreturn void give_up_together(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

enum { LOST = -1 }; /* what functions return where the communicator broke under them, and the program goes on */

/* What a call of kolo on `comm` has returned: 0 where it went well. Else says what could not be done and ends the
 * process, or returns LOST. A failure that another rank has found is left to that one to tell, so that the user reads
 * it once, and to exit first, as launchers name the rank that does. */
int check(kolo_comm *comm, int status, const char *cannot);

/* From now on a loss does not end the process: the caller goes on without the ranks that are lost, and tells of it. */
void survive_losses(void);

/* Zeroed memory; and memory that has grown, and keeps what is in it. Want of it ends the process. */
void *allocate(size_t count, size_t bytes) __attribute__((malloc));
void *enlarge(void *memory, size_t count, size_t bytes);
