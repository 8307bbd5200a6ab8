/* The ranks: processes of our own, bound to cores, that end with us. */
#ifndef KOLO_TUNE_TEAM_H
#define KOLO_TUNE_TEAM_H

#include "tune_measure.h"

/* From here on signals wait until tune_team_run asks for them, so that nothing is left behind half done. */
int tune_team_block_signals(void);

/* Whether `ranks` ranks get a core each. */
bool tune_team_binds(int ranks, bool unbound);

/* Runs tune_measure as job->space->ranks processes. Returns 0 when all have done their part; a signal's number when
 * one came that is to end the program; -1 after a complaint. No process is left in any case. */
int tune_team_run(const tune_job *job, bool unbound);

#endif
