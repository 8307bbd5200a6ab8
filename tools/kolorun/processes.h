/* Processes: what /proc, or a folder of its shape, says of one, and what ranks leave behind. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define PROCESS_STATUS_BYTES 8192

/* Reads the file `name` of a process as text, "" where that does not work. */
void process_text_read(const char *proc, long pid, const char *name, char *text, size_t text_bytes);

/* Finds what stands behind `key` in the status file of a process, to the end of the line; false where there is none. */
bool process_status_read(const char *proc, long pid, const char *key, char *value, size_t value_bytes);

/* The letter of the process's state, 'R', 'S', 'T', ...; 0 where there is no such process. */
char process_state(const char *proc, long pid);

/* What ranks have started and left behind, for instance the program of a shell script that was killed. */

/* To be called before the first rank starts: the children of this process are its caller's, who has become kolorun.
 * From now on, a process whose parent ends becomes a child of kolorun instead of getting out of reach. */
void leftover_processes_adopt(void);

/* To be called when a child that is no rank has been waited for: another process may get its number. */
void leftover_processes_reaped(pid_t pid);

/* SIGINT, SIGTERM, SIGHUP or SIGQUIT. */
bool asks_to_end(int signal_number);

enum reach {
    REACH_RANKS,
    REACH_ALL, /* what they left behind, too */
    REACH_NEW  /* all but those that were sent the last signal that asks to end */
};

/* Sends a signal to children of this process; to the ranks alone where the kernel does not list children. One that asks
 * to end continues them, too. `by_terminal`: those in our process group have it already. Returns how many of them there
 * are. */
int children_signal(const pid_t *ranks, int count, int signal_number, bool by_terminal, enum reach reach);
