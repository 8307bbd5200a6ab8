/* What a job's traces say as figures: what each rank's time went into, who is late, who waits for whom. */
#pragma once

#include "trace_walk.h"

enum {
    TRACE_BINS = 1000,
    TRACE_MATRIX_MAX = 1024, /* processes: of more there is no matrix */
    TRACE_SIZES = 65,        /* classes of bytes: 0, 1, 2-3, 4-7, ... */
    TRACE_SLOWEST = 10,
    TRACE_RANGES_MAX = 256
};

typedef enum trace_state { TRACE_COMPUTING, TRACE_COMMUNICATING, TRACE_WAITING, TRACE_STATES } trace_state;

/* A collective, as one rank made it, or the creation of a communicator, for which each of its ranks waits, too. */
typedef struct trace_call {
    int64_t begin_ns, end_ns, waited_ns;
    int64_t wait_begin_ns, wait_end_ns; /* of the longest wait; the same: there is none */
    uint64_t number;
    uint64_t bytes; /* of the message as nccl-tests count it; 0: none, or blocks have lengths of their own */
    int32_t process;
    int32_t track;
    int32_t comm; /* as trace_job_comm; -1: not known */
    uint8_t collective;
    bool creates;
    bool unfinished;
} trace_call;

/* The same call on several ranks: calls[first .. first + count - 1], of which each is of another process. */
typedef struct trace_group {
    size_t first;
    int count;
    bool complete;   /* all ranks of the communicator, two at least: only then none was later than `last` */
    size_t last;     /* the call that began last */
    size_t longest;  /* that took longest */
    int64_t late_ns; /* from the median of the other ranks' begins to the last one's */
} trace_group;

/* The end of a clock of a table, as one worker made it: from then on the others need not wait for that clock of it. */
typedef struct trace_table_clock {
    int64_t begin_ns, end_ns;
    uint64_t clock;
    int32_t process;
    int32_t comm;
} trace_table_clock;

/* A communicator. */
typedef struct trace_members {
    int ranks;
    int here; /* whose traces are here */
} trace_members;

typedef struct trace_request {
    int32_t process;
    uint64_t number;
    int64_t issue_ns, done_ns; /* done: 0 where it is not, as far as the trace goes */
    uint8_t collective;
} trace_request;

typedef struct trace_rank {
    int main_track; /* the program's thread with most calls; -1: none */
    int64_t state_ns[TRACE_STATES];
    uint64_t calls, bytes;
    uint64_t exchanged_bytes; /* sent to other machines and received from them */
    int64_t threads_ns;       /* time of the threads whose waits count: the program's, and progress threads */
    int64_t spun_ns;          /* of these waits, in which the thread did not sleep */
    int64_t background_ns;    /* in calls that a thread of kolo's made */
    int64_t exposed_ns;       /* waits of the program's threads outside calls: for those */
    uint64_t matched;         /* calls of which those of all ranks are known */
    uint64_t late_calls;      /* of these, it came last to, by a tenth at least of what is usual for it */
    int64_t late_ns;          /* in those, the median */
    int64_t late_total_ns;    /* in all that it came last to */
    int64_t latest_ns;        /* in one of them */
    int64_t kept_ns;          /* the most that another one waited for its clocks of tables */
} trace_rank;

typedef struct trace_collective_row {
    unsigned collective;
    int size; /* a class */
    uint64_t calls, ended;
    double bytes;     /* of calls that ended, as the next two */
    double ns;        /* from the begin of the last rank to the last end */
    double bus_bytes; /* bytes times the factor of nccl-tests */
} trace_collective_row;

typedef struct trace_range_row {
    char name[TRACE_NAME_BYTES];
    uint64_t count;
    int64_t ns, longest_ns;
} trace_range_row;

typedef struct trace_figures {
    const trace_job *job;
    trace_rank *ranks;
    float (*bins)[TRACE_BINS][TRACE_STATES]; /* of each process: ns */
    double *bytes;                           /* [process * TRACE_BINS + bin] */
    double *waits;                           /* ns of threads_ns, by trace_wait_of; NULL: too many */
    trace_members *comms;                    /* by the number of trace_job_comm */
    trace_call *calls;                       /* by communicator and number */
    size_t call_count;
    trace_group *groups;
    size_t group_count;
    trace_request *requests;
    size_t request_count;
    trace_table_clock *clocks;
    size_t clock_count;
    trace_collective_row *rows; /* by collective and size */
    int row_count;
    uint64_t sizes[TRACE_SIZES]; /* calls of each class */
    size_t slowest[TRACE_SLOWEST];
    int slowest_count;
    trace_range_row *ranges; /* by time; the last one may stand for all others */
    int range_count;
    uint64_t mismatches; /* events that do not fit together */
    uint64_t matched;    /* groups that are complete */
    uint64_t judged;     /* clocks of communicators whose ranks' traces are all here */
    uint64_t failures;
    int straggler; /* a process; -1: none that matters */
} trace_figures;

/* False: no memory. */
bool trace_figures_make(trace_figures *figures, const trace_job *job);
void trace_figures_free(trace_figures *figures);

/* The second half of that: what comes of the calls, once they are known. */
bool trace_calls_match(trace_figures *figures);

/* How long a process waited for another, or for all ranks whose traces are not here: whom == job->count. */
double *trace_wait_of(const trace_figures *figures, int process, int whom);

/* Whether a process waited for a rank whose trace is not here. */
bool trace_waits_for_absent(const trace_figures *figures);

double trace_bin_ns(const trace_job *job); /* at least 1 */
int trace_size_class(uint64_t bytes);
uint64_t trace_size_min(int size_class); /* the least bytes of a class */

/* By what algbw is multiplied to give busbw, as nccl-tests and kolo-perf do. */
double trace_bus_factor(unsigned collective, int ranks);

/* Bytes of a message as nccl-tests count it, of a call of so many elements between so many ranks. */
uint64_t trace_message_bytes(unsigned collective, uint64_t elements, unsigned dtype, int ranks);
