/* What the command line of kolorun asks for. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "binding.h"

/* kolorun's own exit codes, as timeout(1) and env(1) have them. */
enum {
    EXIT_TIMED_OUT = 124,
    EXIT_LAUNCHER = 125,   /* kolorun itself failed, or was called wrongly */
    EXIT_CANNOT_RUN = 126, /* the program exists but could not be run */
    EXIT_NOT_FOUND = 127
};

enum failure_mode {
    FAILURE_END,      /* the first rank that fails ends the job */
    FAILURE_CONTINUE, /* the others go on */
    FAILURE_RESTART   /* the others go on, and it is started again */
};

struct launch_options {
    int ranks;              /* on this machine: 1 .. KOLO_RANKS_MAX */
    int first_rank;         /* of them; 0 on the first machine */
    int size;               /* ranks on all machines: 1 .. KOLO_RANKS_MAX */
    const char *rendezvous; /* "HOST:PORT" where ranks of several machines meet; NULL: one machine */
    enum bind_mode bind;
    bool report_bindings;
    bool tag_output;
    const char *output_folder; /* for a file of each rank; NULL: none */
    const char *trace_folder;  /* likewise, KOLO_TRACE */
    const char *work_folder;   /* in which ranks start; NULL: kolorun's own */
    enum failure_mode on_failure;
    int restarts_max;        /* of each rank */
    int64_t timeout_ms;      /* 0: none */
    int64_t grace_ms;        /* from the first failure to SIGTERM for the others */
    int64_t signal_grace_ms; /* from a signal that asks kolorun to end to SIGKILL for the ranks; not after SIGINT */
    char **command;          /* program and arguments, ended by NULL */
    const char **exported;   /* "VAR=VALUE" or "VAR", as -x has them */
    int exported_count;
};

/* Reads the command line. Ends the program at --help, at --version and at a mistake. */
const struct launch_options *launch_options_read(int argc, char **argv);
