/* The traces of one job's processes side by side: who was in which communicator, by one clock. */
#pragma once

#include "trace_read.h"

/* A communicator, or a lane of one, as its ranks on one machine have it. */
typedef struct trace_machine_comm {
    int shared;       /* the same number for all machines' parts of a communicator */
    int size;         /* of this part */
    int32_t *process; /* by rank on this machine: index among the job's; -1: its trace is not here */
} trace_machine_comm;

typedef struct trace_job {
    trace_process *processes; /* by rank, and by the time when they began */
    int count;
    trace_machine_comm *comms;
    int comm_count, shared_count;
    int64_t begin_ns, end_ns; /* of all events */
    uint64_t clock_error_ns;  /* between machines, at most; UINT64_MAX: not known */
} trace_job;

/* Reads those of the files, and of the files *.kolotrace in folders, that are of the job that began last; says on
 * standard error which ones it leaves out, and which cannot be read. Returns false, having said why, if none is left.
 */
bool trace_job_open(trace_job *job, char **paths);

/* The second half of that, for processes that have been read: job->processes and job->count. False: no memory. */
bool trace_job_align(trace_job *job);
void trace_job_free(trace_job *job);

/* The process for which `process` waits, sends or receives by an event; -1: none, any, or in no communicator that is
 * known; TRACE_ABSENT: one whose trace is not here. */
enum { TRACE_ABSENT = -2 };
int trace_job_peer(const trace_job *job, const trace_process *process, const trace_event *event);

/* The communicator that an event names, the same number for all ranks; -1: it is not known. */
int trace_job_comm(const trace_job *job, const trace_process *process, const trace_event *event);

/* "rank 3", or, where it is not the only process of that rank, "rank 3 (pid 71)". */
enum { TRACE_PROCESS_NAME_BYTES = 48 };
const char *trace_process_name(const trace_job *job, int process, char text[TRACE_PROCESS_NAME_BYTES]);
