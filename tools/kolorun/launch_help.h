/* What kolorun --help prints.
 */
#ifndef KOLORUN_LAUNCH_HELP_H
#define KOLORUN_LAUNCH_HELP_H

/* Two numbers belong into it: the most ranks, and how often a rank is started again by default. */
extern const char launch_help[];

/* The first line of it. */
#define LAUNCH_USAGE "kolorun -n N [OPTION]... [--] PROGRAM [ARGUMENT]..."

#endif
