/* What ranks have started and left behind, for instance the program of a shell script that was killed. */
#ifndef KOLORUN_LEFTOVER_PROCESSES_H
#define KOLORUN_LEFTOVER_PROCESSES_H

/* From now on, a process whose parent ends becomes a child of kolorun instead of getting out of reach. */
void leftover_processes_adopt(void);

/* How many children this process has, ranks and adopted ones; 0 where the kernel does not tell. */
int leftover_processes_count(void);

/* Kills the children of this process, and theirs as they are adopted, and waits for their end, but no longer
 * than a second. */
void leftover_processes_kill(void);

#endif
