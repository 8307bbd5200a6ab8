/* Communicators: how ranks meet, divide into groups, take in new processes and go on after a failure; what failed, and
 * what was done. Part of kolo.h, which says what holds for all calls.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KOLO_COMM_H
#define KOLO_COMM_H

#include "kolo_types.h"

#define KOLO_RANKS_MAX   1024 /* ranks of one communicator */
#define KOLO_THREADS_MAX 64   /* threads with which a rank moves its data */

typedef struct kolo_comm kolo_comm; /* a communicator: one rank's place in a group of ranks */

/* How to create a communicator. Begin with KOLO_OPTIONS_INIT. A field that keeps its initial value is taken from the
 * environment variable named here, else it has the default. Strings stay the caller's. */
typedef struct kolo_options {
    size_t options_bytes;     /* sizeof(kolo_options); set by KOLO_OPTIONS_INIT */
    int rank;                 /* 0 .. size-1. -1: KOLO_RANK, else the launcher's variable */
    int size;                 /* 1 .. KOLO_RANKS_MAX. -1: KOLO_SIZE, else the launcher's variable */
    const char *job;          /* a name that all ranks share: up to 127 letters, digits, '.', '_', '-'. NULL: KOLO_JOB,
                                 else the launcher's */
    int shm_fd;               /* instead of a job name: an inherited descriptor of an empty shared file, which stays
                                 the caller's. -1: KOLO_SHM_FD, unless job is given */
    kolo_algorithm algorithm; /* for all calls; rank 0's choice binds all ranks. AUTO: KOLO_ALGO, else by plan */
    int64_t timeout_ms;       /* longest wait for a peer within a call; 0: no limit. -1: KOLO_TIMEOUT_MS, else 300000 */
    int64_t create_timeout_ms; /* longest wait for all ranks to come; 0: no limit. -1: KOLO_CREATE_TIMEOUT_MS, else
                                  60000 */
    size_t slot_bytes;         /* of one of the four slots through which a rank's data goes, rounded up to whole pages,
                                  at most 2^30; rank 0's choice binds all ranks. 0: KOLO_SLOT_BYTES, else by ranks and
                                  threads */
    const char *rendezvous;    /* "HOST:PORT" of rank 0's machine, where ranks on several machines meet; "": all ranks
                                  are on this machine. NULL: KOLO_RENDEZVOUS, unless shm_fd is given, else the
                                  launcher's */
    int progress;              /* 1: a thread of this communicator carries out calls in the background; -1: none does.
                                  0: KOLO_PROGRESS, else none */
    int threads;               /* with which each rank moves its data, 1 to KOLO_THREADS_MAX; rank 0's choice binds all
                                  ranks. 0: KOLO_THREADS, else 1. See kolo_lanes.h */
} kolo_options;

#define KOLO_OPTIONS_INIT                                                                                              \
    { sizeof(kolo_options), -1, -1, NULL, -1, KOLO_ALGORITHM_AUTO, -1, -1, 0, NULL, 0, 0 }

/* Creates a communicator together with all other ranks, on each of them or on none. Blocks until all have come or
 * create_timeout_ms has passed. options NULL: everything from the environment; with nothing there, a communicator of
 * one rank. The caller owns *comm and ends it with kolo_comm_destroy. Communicators of the same job name are created
 * one after another. KOLO_ERR_ARG: an option or variable is wrong. KOLO_ERR_TIMEOUT: the message lists the ranks that
 * never came. KOLO_ERR_NO_SPACE: the message gives need and limit. KOLO_ERR_MISMATCH: two ranks have the same number,
 * or name different sizes. KOLO_ERR_UNSUPPORTED, VERSION, PEER_DEAD, SYSTEM: see kolo_types.h. */
KOLO_API int kolo_comm_create(kolo_comm **comm, const kolo_options *options);

/* Leaves the communicator and frees it, with its buffers of kolo_alloc; requests in flight fail. Waits for no rank; on
 * several machines up to 200 ms for the others to take what has been sent to them. There the lowest rank of each
 * machine also waits until all workers have left its tables or ended (kolo_table_destroy); kolo_hooks.interrupt ends
 * that wait. NULL is fine. In a forked child it frees only the child's copy. Always 0. */
KOLO_API int kolo_comm_destroy(kolo_comm *comm);

/* Breaks the communicator for all ranks: each returns KOLO_ERR_ABORTED from its present call, or from the next one in
 * which it waits for a rank that does not come any more. A call that needs no such wait, as the others have done their
 * part already or are not needed (a root that broadcasts), still returns 0 with the right result, also if it begins
 * after the abort. `code` is for the caller to choose; kolo_comm_failure shows it. Waits for nobody; a request that a
 * progress thread is carrying out completes within 10 ms. The caller's own later calls return KOLO_ERR_STATE. Another
 * thread of this process may be in a call on the communicator meanwhile, whose wait then ends.
 * KOLO_ERR_ARG: comm is NULL. KOLO_ERR_STATE: it was broken before, or inherited through fork. */
KOLO_API int kolo_comm_abort(kolo_comm *comm, int code);

/* What the program does while a call on the communicator waits. No hook makes a call on it; interrupt may abort it.
 *     interrupt ends a call: for interpreters and others whose signal handlers run later and elsewhere than the signal
 * arrives. It is called about every 100 ms of a wait, between machines and for requests too, in the thread that has
 * called kolo_comm_set_hooks and in no other. A code other than 0 is an abort: the call returns KOLO_ERR_ABORTED, or
 * KOLO_ERR_STATE if another thread carried out requests before it, and so it is for all ranks, as by kolo_comm_abort;
 * unless what it waited for has come by then. So the hook repeats a code until the call has returned.
 * kolo_comm_shrink does not ask.
 *     idle does something for another library that goes on only while it is called, as an MPI is: for programs whose
 * ranks also wait for each other there. It is called whenever the wait yields the processor, and before it sleeps,
 * which is for at most 100 us then; short waits only spin, and do not call it. The thread that waits calls it, which
 * may be the progress thread; with several threads a rank, in waits of the first lane only. It returns soon. */
typedef struct kolo_hooks {
    size_t hooks_bytes;              /* sizeof(kolo_hooks); set by the caller */
    int (*interrupt)(void *context); /* returns 0, or a code with which the call ends; NULL: none */
    void (*idle)(void *context);     /* NULL: none */
    void *context;                   /* for both */
} kolo_hooks;

/* Sets the communicator's hooks in place of those that it had; NULL: it has none any more. Communicators that are made
 * of this one have none of their own. Not while another thread is in a call on the communicator. KOLO_ERR_ARG: comm is
 * NULL, or hooks_bytes was not set. */
KOLO_API int kolo_comm_set_hooks(kolo_comm *comm, const kolo_hooks *hooks);

/* Changes the communicator's timeout_ms for this rank alone: how long a wait for a peer within a call may be, in
 * milliseconds; 0: no limit. Waits that go on, in another thread or in the background, have the new limit from their
 * beginning, within 10 ms: one that is longer already fails then, with KOLO_ERR_TIMEOUT, which breaks the communicator
 * for all ranks. So where ranks have different limits the shortest one counts. Communicators that are made of this one
 * later have the new limit, too, and kolo_comm_shrink waits that long. Waits for nobody. Any thread may call it, also
 * while another one of this process is in a call on the communicator. KOLO_ERR_ARG: comm is NULL, or timeout_ms is
 * negative or more than a year. KOLO_ERR_STATE: inherited through fork. */
KOLO_API int kolo_comm_set_timeout(kolo_comm *comm, int64_t timeout_ms);

/* Makes a new communicator of the ranks that are left of a broken one, whatever broke it. Collective among them: they
 * agree on which ranks are left, even if another one dies meanwhile. *shrunk has those ranks in their old order, with
 * the old settings; a rank that is left alone gets a communicator of one rank. Blocks until every rank has come or
 * ended, at most the communicator's timeout for each wait; a rank that lives but has not come by then is left out for
 * good. The old communicator stays broken, and its owner still destroys it; buffers of kolo_alloc go with it.
 *     The survivors may not all have got equally far: the last all-reduce or barrier, and with it up to sixty
 * broadcasts (of m machines 64 m), may have succeeded on some and failed on others. So they first have to agree where
 * to go on, e.g. by an all-reduce (MAX) of how far each has got and a broadcast from one that has got furthest, as
 * kolo-train does.
 *     On several machines the lowest rank that is left on each, its leader, speaks for it, and waits for two to three
 * times the timeout. A machine that does not come may be going on by itself, whatever the network says of it. Therefore
 * the ranks of more than half of the machines go on, or of half of them and the first; all others fail. Where something
 * else ends all parts of a job but one (Slurm, Kubernetes), KOLO_NET=quorum:any lets every part go on.
 *     - If a leader has ended, the other ranks of its machine go on with another machine's leader. It takes two seconds
 *       until ranks of another machine are believed to have ended as well.
 *     - A machine whose leader is stopped might be going on. If it has other ranks, or the rest is not enough without
 *       it, it is waited for until its other ranks have left the leader out; otherwise only as long as
 *       KOLO_NET_SILENCE_MS says. When the leader is continued, it learns that it is left out.
 *     KOLO_ERR_ARG: NULL argument. KOLO_ERR_STATE: comm is not broken, has been shrunk already, or was inherited
 * through fork. KOLO_ERR_TIMEOUT: the others went on without this rank, or may be doing so. KOLO_ERR_PEER_DEAD: on
 * several machines, no leader is left. KOLO_ERR_NO_SPACE, KOLO_ERR_SYSTEM: on every survivor, or on several machines on
 * those of one, for which the others wait; they may try again. KOLO_ERR_VERSION: the segment is damaged. */
KOLO_API int kolo_comm_shrink(kolo_comm *comm, kolo_comm **shrunk);

/* Divides the ranks into groups: all ranks that pass the same `color` get a communicator of their own in *sub. Its
 * ranks are in the order of their `key`s and, where those are equal, of their ranks in `comm`. A rank with color < 0 is
 * in no group, and its *sub becomes NULL. Collective: every rank of `comm` calls it. *sub has comm's settings:
 * deadlines, algorithm, way of waiting, and the size of slots if one was asked for, else the default for its number of
 * ranks. It is independent of `comm`: each may be used by another thread, may break, and may be destroyed before the
 * other. A group of one rank costs no shared memory. A group may have ranks on several machines: these meet at a free
 * port of the machine of its rank 0, and prove that they know the secret of the job. No wait in the call exceeds comm's
 * timeout.
 *     If a rank ends meanwhile, the call may have succeeded on some ranks, as any call may. Then `comm` is broken, and
 * a *sub that not all of its ranks have breaks in its first call.
 *     KOLO_ERR_ARG: NULL argument. KOLO_ERR_NO_SPACE, KOLO_ERR_SYSTEM: on every rank; no rank has a new communicator,
 * and `comm` stays usable. TIMEOUT, also where a rank was late only for its group, PEER_DEAD, MISMATCH, ABORTED, STATE:
 * as kolo_allreduce. */
KOLO_API int kolo_comm_split(kolo_comm *comm, int color, int key, kolo_comm **sub);

/* Makes a second communicator of the same ranks in the same order, for another thread or library to use. Otherwise as
 * kolo_comm_split. */
KOLO_API int kolo_comm_dup(kolo_comm *comm, kolo_comm **copy);

/* Taking in new processes. A communicator listens under a job's name; other processes ask there to join; kolo_comm_grow
 * takes them in. All of them are on one machine, of one user, and in one network namespace. */

/* Begins to listen. Collective. On every rank *listener becomes a descriptor of the socket at which processes wait to
 * join. The socket exists for as long as one rank has it open, so it outlives rank 0. It belongs to the caller, not to
 * the communicator, and is used further with the communicators that kolo_comm_grow and kolo_comm_shrink make. Before
 * the call *listener is -1, or the descriptor of an earlier call, which the rank keeps: so processes that have joined
 * get one, too. `job` is as in kolo_options; rank 0 decides. KOLO_ERR_ARG: not a job's name, or another one listens
 * under it. KOLO_ERR_UNSUPPORTED: ranks on several machines. KOLO_ERR_SYSTEM: on every rank; `comm` stays usable.
 * TIMEOUT, PEER_DEAD, MISMATCH, ABORTED, STATE: as kolo_allreduce. */
KOLO_API int kolo_comm_listen(kolo_comm *comm, const char *job, int *listener);

/* Closes a listener. why: the answer to the processes that wait there; NULL: none, since other ranks still listen.
 * Always 0. */
KOLO_API int kolo_comm_unlisten(int listener, const char *why);

#define KOLO_JOIN_BYTES      512 /* longest message that a process brings with it, to be checked */
#define KOLO_JOIN_TEXT_BYTES 256 /* longest answer to a process that is refused, its NUL included */

/* A process that wants to join. */
typedef struct kolo_joiner {
    size_t joiner_bytes; /* sizeof(kolo_joiner); set by the library */
    int pid;
    int rank;            /* the rank that it would get */
    const void *message; /* the message that it brings */
    size_t message_bytes;
    const char *refused; /* why it is refused in any case; NULL: the check decides */
} kolo_joiner;

/* Returns whether to take the process in. If not, it writes the answer into `why`, of KOLO_JOIN_TEXT_BYTES. */
typedef int (*kolo_join_check)(void *context, const kolo_joiner *joiner, char *why);

/* How to take in processes. Begin with KOLO_GROW_INIT. */
typedef struct kolo_grow_options {
    size_t grow_bytes;     /* sizeof(kolo_grow_options) */
    int listener;          /* of kolo_comm_listen */
    int64_t timeout_ms;    /* longest wait for all to be ready; 0: no wait, not one without limit. -1: 10000 */
    kolo_join_check check; /* called on rank 0 for each process that asks; NULL: all are taken */
    void *context;         /* for `check` */
} kolo_grow_options;

#define KOLO_GROW_INIT                                                                                                 \
    { sizeof(kolo_grow_options), -1, -1, NULL, NULL }

/* Takes in the processes that wait at the listener, 64 at most; does not wait for any to come. Collective. If some are
 * taken, *grown is a communicator of comm's ranks, in their order, followed by the new ones. Then `comm` is broken for
 * all its ranks, as by kolo_comm_abort, and its owner still destroys it. If no process waits, *grown becomes NULL. All
 * ranks of `comm` move to *grown or all stay, even if some end meanwhile. KOLO_ERR_ARG: grown is NULL, or an option is
 * wrong. KOLO_ERR_UNSUPPORTED: as kolo_comm_listen. Another error: no process was taken in (they may ask again), and
 * `comm` stays usable unless kolo_comm_failure says that it is broken. */
KOLO_API int kolo_comm_grow(kolo_comm *comm, const kolo_grow_options *options, kolo_comm **grown);

/* How to join. Begin with KOLO_JOIN_INIT. */
typedef struct kolo_join_options {
    size_t join_bytes;            /* sizeof(kolo_join_options) */
    const char *job;              /* the name under which the others listen */
    const void *message;          /* for their check */
    size_t message_bytes;         /* at most KOLO_JOIN_BYTES */
    int64_t timeout_ms;           /* longest wait for room among those that ask and, once it is taken, for all to be
                                     ready; 0: no limit. -1: 10000 */
    void (*asked)(void *context); /* called when this process has asked, and begins to wait for an answer; or NULL */
    void *context;                /* for `asked` */
} kolo_join_options;

#define KOLO_JOIN_INIT                                                                                                 \
    { sizeof(kolo_join_options), NULL, NULL, 0, -1, NULL, NULL }

/* Asks the ranks that listen under that name to take this process in, and blocks until they answer. *comm is the
 * communicator that their kolo_comm_grow makes; its timeouts and the like are this process's own, from the environment.
 * KOLO_ERR_ARG: an option is wrong, or nobody listens under that name. KOLO_ERR_MISMATCH: this process was refused; the
 * message says why. KOLO_ERR_PEER_DEAD, TIMEOUT: the others have ended, or went on without this process; it may ask
 * again. KOLO_ERR_SYSTEM: also if the name is another user's. */
KOLO_API int kolo_comm_join(kolo_comm **comm, const kolo_join_options *options);

/* These return what they say, never fail and never block. comm is not NULL. */
KOLO_API int kolo_comm_rank(const kolo_comm *comm);  /* 0 .. size-1 */
KOLO_API int kolo_comm_size(const kolo_comm *comm);  /* number of ranks */
KOLO_API int kolo_comm_nodes(const kolo_comm *comm); /* number of machines */

/* A rank's place in a communicator, and settings that hold there. */
typedef struct kolo_comm_info {
    size_t info_bytes;  /* sizeof(kolo_comm_info); set by the caller */
    int rank, size;     /* as kolo_comm_rank and kolo_comm_size */
    int local_rank;     /* among the ranks of this machine */
    int local_size;     /* ranks on this machine */
    int node, nodes;    /* this machine's index, 0 .. nodes-1, and how many machines there are */
    int lanes;          /* threads a rank, 1 or what rank 0 has chosen: see kolo_lanes.h */
    int64_t timeout_ms; /* this rank's; 0: no limit */
} kolo_comm_info;

/* Fills *info. Never blocks. KOLO_ERR_ARG: NULL argument, or info_bytes was not set. */
KOLO_API int kolo_comm_query(const kolo_comm *comm, kolo_comm_info *info);

/* Why a rank is at fault. The kernel tells how a process ended: from Linux 6.15 on while a peer watches it, before that
 * only until its parent has waited for it; otherwise the cause is KOLO_CAUSE_ENDED. If the rank is a thread of the
 * reporter's process, its end cannot be seen: its absence is found at the deadline. */
typedef enum kolo_cause {
    KOLO_CAUSE_NONE,     /* not broken */
    KOLO_CAUSE_KILLED,   /* PEER_DEAD: killed by a signal, which is in `code` */
    KOLO_CAUSE_EXITED,   /* PEER_DEAD: exited without kolo_comm_destroy; its exit status is in `code` */
    KOLO_CAUSE_ENDED,    /* PEER_DEAD: killed or exited; it is not known which */
    KOLO_CAUSE_LEFT,     /* PEER_DEAD: called kolo_comm_destroy while it was still needed */
    KOLO_CAUSE_STOPPED,  /* TIMEOUT: stopped, by SIGSTOP and the like or by a debugger */
    KOLO_CAUSE_STALLED,  /* TIMEOUT: lives, as far as can be seen, but did not make the call */
    KOLO_CAUSE_ABORTED,  /* ABORTED: called kolo_comm_abort */
    KOLO_CAUSE_MISMATCH, /* MISMATCH: its call, or the reporter's, is not the one that the others make */
    KOLO_CAUSE_FAILED,   /* SYSTEM, NO_SPACE */
    KOLO_CAUSE_SILENT,   /* TIMEOUT: nothing has come from its machine for KOLO_NET_SILENCE_MS */
    KOLO_CAUSE_EXECED    /* PEER_DEAD: started another program (exec) without kolo_comm_destroy */
} kolo_cause;

/* The failure that broke a communicator, the same on every rank; of several at once, machines may have different ones.
 */
typedef struct kolo_failure {
    size_t failure_bytes; /* sizeof(kolo_failure); set by the caller */
    int status;           /* KOLO_ERR_PEER_DEAD, TIMEOUT, MISMATCH, ABORTED, SYSTEM or NO_SPACE; 0: not broken */
    int rank;             /* the rank at fault, or the one that called abort */
    int reporter;         /* the rank that found it */
    int code;             /* of kolo_comm_abort, or as `cause` says; else 0 */
    uint64_t call;        /* index of the reporter's last collective on this communicator, from 1; 0: none yet */
    char message[384];    /* the same in words */
    kolo_cause cause;
} kolo_failure;

/* Fills *failure. Never blocks. KOLO_ERR_ARG: NULL argument, or failure_bytes was not set. */
KOLO_API int kolo_comm_failure(const kolo_comm *comm, kolo_failure *failure);

/* What this rank has done on this communicator since its creation. */
typedef struct kolo_stats {
    size_t stats_bytes;               /* sizeof(kolo_stats); set by the caller */
    uint64_t calls;                   /* collectives begun, but kolo_free; sends and receives ended */
    uint64_t calls_by_algorithm[16];  /* those for which an algorithm was chosen, by kolo_algorithm */
    uint64_t payload_bytes;           /* sum of the calls' message sizes; of an alltoallv all that it sends */
    uint64_t sent_bytes;              /* data that this rank put into the segment for others to read */
    uint64_t received_bytes;          /* data that this rank read from what others had put there */
    uint64_t waits_slept;             /* waits that had to sleep in the kernel */
    uint64_t waited_ns;               /* time in waits that went beyond spinning */
    uint64_t segment_bytes;           /* size of the shared segment, all ranks together */
    uint64_t buffer_bytes;            /* of this rank's buffers of kolo_alloc, in whole pages */
    uint64_t net_sent_bytes;          /* from this machine, all its ranks together, to other machines, with headers */
    uint64_t net_received_bytes;      /* from other machines to this one, with headers */
    uint64_t net_system_calls;        /* that moved those bytes */
    uint64_t calls_by_collective[32]; /* `calls`, by kolo_collective */
} kolo_stats;

/* Fills *stats. Never blocks. A call that a progress thread is making is not counted yet. KOLO_ERR_ARG: NULL argument,
 * or stats_bytes was not set. */
KOLO_API int kolo_comm_stats(const kolo_comm *comm, kolo_stats *stats);

#endif
