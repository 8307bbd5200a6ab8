/* Telling the user what went wrong: one line on stderr, with the program's name and the rank that found it. */
#ifndef KOLO_TRAIN_COMPLAIN_H
#define KOLO_TRAIN_COMPLAIN_H

#include "kolo.h"

/* Prints the line and returns -1, so that a caller can write `return complain(comm, ...)`. comm NULL: there is none
 * yet. */
int complain(const kolo_comm *comm, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* What a function returns, instead of -1, when the communicator broke under it. */
enum { COMPLAIN_LOST = -2 };

/* The same for a failed kolo call: adds kolo's own account of it and returns COMPLAIN_LOST. A failure that another rank
 * has found is left to that rank to tell, so that the user reads it once and not once a rank. */
int complain_kolo(const kolo_comm *comm, const char *what) __attribute__((cold));

/* From now on complain_kolo says nothing: the caller goes on without the ranks that are lost, and tells of it. */
void complain_not_of_losses(void);

#endif
