/* Calls that kolo leaves to the MPI: operations of the program's own, intercommunicators, wrong arguments. */
#ifndef KOLO_TESTS_MPI_OTHER_CALLS_H
#define KOLO_TESTS_MPI_OTHER_CALLS_H

void run_own_operations(void);
void run_between_communicators(void);
void run_errors(void);

#endif
