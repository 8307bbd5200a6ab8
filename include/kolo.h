/* kolo: all-reduce and other collectives between the processes of one many-core machine. This header is for programs;
 * kolo_tools.h is for tools that ask about the machine and about plans, kolo_watch.h for tools that look at running
 * jobs.
 *
 * Results: a function that returns int returns 0 or a negative KOLO_ERR_*, unless its comment says otherwise. Handles
 * come out through a parameter and are set only on success. Nothing here prints (unless KOLO_LOG asks for it), exits,
 * aborts the process or installs a signal handler. Counts are in elements, sizes in bytes.
 *
 * Threads: one thread at a time uses a communicator. (Builds with assertions refuse a second thread's call with
 * KOLO_ERR_STATE; the communicator stays usable.) A process may hold many communicators, and several threads of one
 * process may each be a rank. A collective blocks until this rank's part is done and `recv` holds the result; those in
 * the background, kolo_i*, return at once. Every rank of a communicator makes the same calls in the same order.
 *
 * Errors: after any error but KOLO_ERR_ARG and KOLO_ERR_UNSUPPORTED the communicator is broken for every rank, and the
 * contents of the output buffer are undefined. Then only the queries, kolo_comm_failure, kolo_comm_shrink,
 * kolo_comm_abort, kolo_comm_destroy, kolo_free and kolo_request_* may be called; all other calls return
 * KOLO_ERR_STATE. kolo_error_message() says in words what happened.
 *
 * Deadlines count only time in which the waiting process could run. A job that is stopped as a whole (Ctrl-Z, a
 * suspended virtual machine) therefore goes on when it is continued. If one rank alone is stopped, the others return
 * KOLO_ERR_TIMEOUT at their deadline.
 *
 * Structs that begin with a size: set that field to sizeof the struct before the call (KOLO_OPTIONS_INIT does); without
 * it the call returns KOLO_ERR_ARG. New versions only add fields at the end, so that programs and libraries of
 * different versions work together. Of a struct that the library fills, fields that only the caller knows are set to 0.
 * Of a struct that it reads, fields that only the library knows have their defaults, and those that only the caller
 * knows must be 0.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KOLO_H
#define KOLO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KOLO_VERSION_MAJOR 0
#define KOLO_VERSION_MINOR 1
#define KOLO_VERSION_PATCH 0

#if defined(__GNUC__)
#define KOLO_API __attribute__((visibility("default")))
#else
#define KOLO_API
#endif

#define KOLO_RANKS_MAX 1024 /* ranks of one communicator */

/* Values. */

enum {
    KOLO_OK = 0,
    KOLO_ERR_ARG = -1,         /* an argument, option or environment variable is wrong; nothing was done */
    KOLO_ERR_SYSTEM = -2,      /* a system call failed */
    KOLO_ERR_NO_SPACE = -3,    /* no room for the shared segment */
    KOLO_ERR_TIMEOUT = -4,     /* a peer did not come before the deadline */
    KOLO_ERR_PEER_DEAD = -5,   /* a peer ended, or left the communicator, while it was still needed */
    KOLO_ERR_MISMATCH = -6,    /* ranks made different calls, or have different settings */
    KOLO_ERR_ABORTED = -7,     /* a rank called kolo_comm_abort */
    KOLO_ERR_VERSION = -8,     /* ranks run versions of kolo that cannot share a segment */
    KOLO_ERR_UNSUPPORTED = -9, /* legal, but not available in this build or on this machine; nothing was done */
    KOLO_ERR_STATE = -10       /* the communicator is broken, or was inherited through fork */
};

/* Element types. F16 is IEEE binary16, BF16 the upper half of a binary32. Both are accumulated in binary32 and rounded
 * once, to nearest, ties to even. */
typedef enum kolo_dtype {
    KOLO_I8,
    KOLO_U8,
    KOLO_I16,
    KOLO_U16,
    KOLO_I32,
    KOLO_U32,
    KOLO_I64,
    KOLO_U64,
    KOLO_F16,
    KOLO_BF16,
    KOLO_F32,
    KOLO_F64,
    KOLO_DTYPES /* how many there are */
} kolo_dtype;

/* Reductions. Integer overflow wraps. AVG divides the sum, in the type of accumulation, by the number of ranks
 * (integers: toward zero). MIN and MAX order -0 below +0 and return NaN if any input is NaN. A NaN in a result of two
 * or more ranks is always the dtype's positive quiet NaN without payload. BAND, BOR and BXOR are for integers only. */
typedef enum kolo_op {
    KOLO_SUM,
    KOLO_PROD,
    KOLO_MIN,
    KOLO_MAX,
    KOLO_AVG,
    KOLO_BAND,
    KOLO_BOR,
    KOLO_BXOR,
    KOLO_OPS /* how many there are */
} kolo_op;

/* How a collective moves its data. AUTO chooses by collective, message size, number of ranks and dtype. */
typedef enum kolo_algorithm {
    KOLO_ALGORITHM_AUTO,
    KOLO_ALGORITHM_ONESHOT, /* every rank reads what it needs from the ranks that have it, and reduces all of it */
    KOLO_ALGORITHM_MESH,    /* direct reduce-scatter, then direct all-gather */
    KOLO_ALGORITHM_RING,    /* 2(N-1) steps between neighbours; float sums associate in ring order */
    KOLO_ALGORITHM_CENTRAL, /* like a parameter server: rank 0 reduces for all */
    KOLO_ALGORITHM_DIRECT,  /* without copies, where all buffers are of kolo_alloc; elsewhere as AUTO */
    KOLO_ALGORITHM_TREE,    /* mesh within groups of near ranks, then between the groups; see KOLO_TREE_LEVELS */
    KOLO_ALGORITHMS         /* how many there are */
} kolo_algorithm;

typedef enum kolo_collective {
    KOLO_BARRIER,
    KOLO_BROADCAST,
    KOLO_ALLREDUCE,
    KOLO_ALLGATHER,
    KOLO_ALLGATHERV,
    KOLO_REDUCE,
    KOLO_REDUCE_SCATTER,
    KOLO_REDUCE_SCATTERV,
    KOLO_GATHER,
    KOLO_GATHERV,
    KOLO_SCATTER,
    KOLO_SCATTERV,
    KOLO_ALLTOALL,
    KOLO_ALLTOALLV,
    KOLO_SCAN,
    KOLO_EXSCAN,
    KOLO_ALLOC,
    KOLO_FREE,
    KOLO_SPLIT,
    KOLO_DUP,
    KOLO_GROW,
    KOLO_COLLECTIVES /* how many there are */
} kolo_collective;

/* Names are constant strings; NULL where there is no such value. Never fail, never block. */
KOLO_API const char *kolo_strerror(int status);                        /* "timeout", ...; never NULL */
KOLO_API const char *kolo_version(void);                               /* "0.1.0" */
KOLO_API const char *kolo_dtype_name(kolo_dtype dtype);                /* "f32", ... */
KOLO_API size_t kolo_dtype_bytes(kolo_dtype dtype);                    /* of one element; 0: no such dtype */
KOLO_API const char *kolo_op_name(kolo_op op);                         /* "sum", ... */
KOLO_API int kolo_op_supports(kolo_op op, kolo_dtype dtype);           /* 1 or 0 */
KOLO_API const char *kolo_algorithm_name(kolo_algorithm algorithm);    /* "mesh", ... */
KOLO_API const char *kolo_collective_name(kolo_collective collective); /* "allreduce", ... */
KOLO_API int kolo_collective_has_op(kolo_collective collective);       /* 1: it reduces; 0 */
KOLO_API int kolo_collective_has_root(kolo_collective collective);     /* 1: all ranks name one; 0 */
KOLO_API int kolo_collective_has_counts(kolo_collective collective);   /* 1: one for each block; 0 */

/* What went wrong in the calling thread's last failed call: names the value, the rank and what to do. Never NULL; valid
 * until the thread's next call that fails. */
KOLO_API const char *kolo_error_message(void);

/* Communicators. */

typedef struct kolo_comm kolo_comm; /* a communicator: one rank's place in a group of ranks */

/* How to create a communicator. Begin with KOLO_OPTIONS_INIT. A field that keeps its initial value is taken from the
 * environment variable named here, else it has the default. Strings stay the caller's. */
typedef struct kolo_options {
    size_t options_bytes;     /* sizeof(kolo_options); set by KOLO_OPTIONS_INIT */
    int rank;                 /* 0 .. size-1. -1: KOLO_RANK, else the launcher's variable */
    int size;                 /* 1 .. KOLO_RANKS_MAX. -1: KOLO_SIZE, else the launcher's variable */
    const char *job;          /* a name that all ranks share; letters, digits, '.', '_', '-'. NULL: KOLO_JOB, else the
                                 launcher's */
    int shm_fd;               /* instead of a job name: an inherited descriptor of an empty shared file, which stays
                                 the caller's. -1: KOLO_SHM_FD, unless job is given */
    kolo_algorithm algorithm; /* for all calls; rank 0's choice binds all ranks. AUTO: KOLO_ALGO, else by plan */
    int64_t timeout_ms;       /* longest wait for a peer within a call; 0: no limit. -1: KOLO_TIMEOUT_MS, else 300000 */
    int64_t create_timeout_ms; /* longest wait for all ranks to come; 0: no limit. -1: KOLO_CREATE_TIMEOUT_MS, else
                                  60000 */
    size_t slot_bytes;         /* of one of the four slots through which a rank's data goes; rank 0's choice binds all
                                  ranks. 0: KOLO_SLOT_BYTES, else by the number of ranks */
    const char *rendezvous;    /* "HOST:PORT" of rank 0's machine, where ranks on several machines meet; "": all ranks
                                  are on this machine. NULL: KOLO_RENDEZVOUS, unless shm_fd is given, else the
                                  launcher's */
    int progress;              /* 1: a thread of this communicator carries out calls in the background; -1: none does.
                                  0: KOLO_PROGRESS, else none */
} kolo_options;

#define KOLO_OPTIONS_INIT                                                                                              \
    { sizeof(kolo_options), -1, -1, NULL, -1, KOLO_ALGORITHM_AUTO, -1, -1, 0, NULL, 0 }

/* Creates a communicator together with all other ranks, on each of them or on none. Blocks until all have come or
 * create_timeout_ms has passed. options NULL: everything from the environment; with nothing there, a communicator of
 * one rank. The caller owns *comm and ends it with kolo_comm_destroy. Communicators of the same job name are created
 * one after another. KOLO_ERR_ARG: an option or variable is wrong. KOLO_ERR_TIMEOUT: the message lists the ranks that
 * never came. KOLO_ERR_NO_SPACE: the message gives need and limit. KOLO_ERR_MISMATCH: two ranks have the same number,
 * or name different sizes. KOLO_ERR_VERSION, KOLO_ERR_PEER_DEAD, KOLO_ERR_SYSTEM: as above. */
KOLO_API int kolo_comm_create(kolo_comm **comm, const kolo_options *options);

/* Leaves the communicator and frees it, with its buffers of kolo_alloc; requests in flight fail. Waits for no rank; on
 * several machines up to 200 ms for the others to take what has been sent to them. NULL is fine. In a forked child it
 * frees only the child's copy. Always 0. */
KOLO_API int kolo_comm_destroy(kolo_comm *comm);

/* Breaks the communicator for all ranks: their present or next call returns KOLO_ERR_ABORTED. `code` is for the caller
 * to choose; kolo_comm_failure shows it. Waits for nobody. The caller's own later calls return KOLO_ERR_STATE.
 * KOLO_ERR_STATE: it was broken before, or inherited through fork. */
KOLO_API int kolo_comm_abort(kolo_comm *comm, int code);

/* Makes a new communicator of the ranks that are left of a broken one, whatever broke it. Collective among them: they
 * agree on which ranks are left, even if another one dies meanwhile. *shrunk has those ranks in their old order, with
 * the old settings; a rank that is left alone gets a communicator of one rank. Blocks until every rank has come or
 * ended, at most the communicator's timeout for each wait; a rank that lives but has not come by then is left out for
 * good. The old communicator stays broken, and its owner still destroys it; buffers of kolo_alloc go with it.
 *     The survivors may not all have got equally far: the last all-reduce or barrier, and with it up to four
 * broadcasts, may have succeeded on some and failed on others. So they first have to agree where to go on, e.g. by an
 * all-reduce (MAX) of how far each has got and a broadcast from one that has got furthest, as kolo-train does.
 *     On several machines the lowest rank that is left on each, its leader, speaks for it, and waits for two to three
 * times the timeout. A machine that cannot be reached, or does not come, may be going on by itself. Therefore a group
 * of ranks goes on only if it is larger than all others that might, or as large and with the lowest rank; all others
 * fail.
 *     - If a leader has ended, the other ranks of its machine go on with another machine's leader. It takes two seconds
 *       until ranks of another machine are believed to have ended as well.
 *     - A machine whose leader is stopped might be going on. If it has other ranks, or the rest is not enough without
 *       it, it is waited for until its other ranks have left the leader out; otherwise only as long as
 *       KOLO_NET_SILENCE_MS says. When the leader is continued, it learns that it is left out.
 *     KOLO_ERR_ARG: NULL argument. KOLO_ERR_STATE: comm is not broken, has been shrunk already, or was inherited
 * through fork. KOLO_ERR_TIMEOUT: the others went on without this rank, or may be doing so. KOLO_ERR_PEER_DEAD: on
 * several machines, no leader is left. KOLO_ERR_NO_SPACE, KOLO_ERR_SYSTEM: on every survivor; they may try again.
 * KOLO_ERR_VERSION: the segment is damaged. */
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
 * and `comm` stays usable. TIMEOUT, PEER_DEAD, MISMATCH, ABORTED, STATE: as kolo_allreduce. */
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
typedef int kolo_join_check(void *context, const kolo_joiner *joiner, char *why);

/* How to take in processes. Begin with KOLO_GROW_INIT. */
typedef struct kolo_grow_options {
    size_t grow_bytes;      /* sizeof(kolo_grow_options) */
    int listener;           /* of kolo_comm_listen */
    int64_t timeout_ms;     /* longest wait for all to be ready; -1: 10000 */
    kolo_join_check *check; /* called on rank 0 for each process that asks; NULL: all are taken */
    void *context;          /* for `check` */
} kolo_grow_options;

#define KOLO_GROW_INIT                                                                                                 \
    { sizeof(kolo_grow_options), -1, -1, NULL, NULL }

/* Takes in the processes that wait at the listener; does not wait for any to come. Collective. If some are taken,
 * *grown is a communicator of comm's ranks, in their order, followed by the new ones. Then `comm` is broken for all its
 * ranks, as by kolo_comm_abort, and its owner still destroys it. If no process waits, *grown becomes NULL. All ranks of
 * `comm` move to *grown or all stay, even if some end meanwhile. KOLO_ERR_ARG, UNSUPPORTED: as kolo_comm_listen.
 * Another error: no process was taken in (they may ask again), and `comm` stays usable unless kolo_comm_failure says
 * that it is broken. */
KOLO_API int kolo_comm_grow(kolo_comm *comm, const kolo_grow_options *options, kolo_comm **grown);

/* How to join. Begin with KOLO_JOIN_INIT. */
typedef struct kolo_join_options {
    size_t join_bytes;            /* sizeof(kolo_join_options) */
    const char *job;              /* the name under which the others listen */
    const void *message;          /* for their check */
    size_t message_bytes;         /* at most KOLO_JOIN_BYTES */
    int64_t timeout_ms;           /* longest wait for all to be ready, once it is taken; -1: 10000 */
    void (*asked)(void *context); /* called when this process has asked, and begins to wait for an answer; or NULL */
    void *context;                /* for `asked` */
} kolo_join_options;

#define KOLO_JOIN_INIT                                                                                                 \
    { sizeof(kolo_join_options), NULL, NULL, 0, -1, NULL, NULL }

/* Asks the ranks that listen under that name to take this process in, and blocks until they answer. *comm is the
 * communicator that their kolo_comm_grow makes; its timeouts and the like are this process's own, from the environment.
 * KOLO_ERR_ARG: nobody listens under that name. KOLO_ERR_MISMATCH: this process was refused; the message says why.
 * KOLO_ERR_PEER_DEAD, TIMEOUT: the others have ended, or went on without this process; it may ask again.
 * KOLO_ERR_SYSTEM: also if the name is another user's. */
KOLO_API int kolo_comm_join(kolo_comm **comm, const kolo_join_options *options);

/* These return what they say, never fail and never block. comm is not NULL. */
KOLO_API int kolo_comm_rank(const kolo_comm *comm);       /* 0 .. size-1 */
KOLO_API int kolo_comm_size(const kolo_comm *comm);       /* number of ranks */
KOLO_API int kolo_comm_local_rank(const kolo_comm *comm); /* among the ranks of this machine */
KOLO_API int kolo_comm_local_size(const kolo_comm *comm); /* ranks on this machine */
KOLO_API int kolo_comm_node(const kolo_comm *comm);       /* this machine's index, 0 .. nodes-1 */
KOLO_API int kolo_comm_nodes(const kolo_comm *comm);      /* number of machines */

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
    KOLO_CAUSE_FAILED,   /* SYSTEM */
    KOLO_CAUSE_SILENT,   /* TIMEOUT: nothing has come from its machine for KOLO_NET_SILENCE_MS */
    KOLO_CAUSE_EXECED    /* PEER_DEAD: started another program (exec) without kolo_comm_destroy */
} kolo_cause;

/* The failure that broke a communicator, the same on every rank. */
typedef struct kolo_failure {
    size_t failure_bytes; /* sizeof(kolo_failure); set by the caller */
    int status;           /* KOLO_ERR_PEER_DEAD, TIMEOUT, MISMATCH, ABORTED or SYSTEM; 0: not broken */
    int rank;             /* the rank at fault, or the one that called abort */
    int reporter;         /* the rank that found it */
    int code;             /* of kolo_comm_abort, or as `cause` says; else 0 */
    uint64_t call;        /* index of the reporter's call on this communicator, from 1; 0: outside a call */
    char message[384];    /* the same in words */
    kolo_cause cause;
} kolo_failure;

/* Fills *failure. Never blocks. KOLO_ERR_ARG: NULL argument, or failure_bytes was not set. */
KOLO_API int kolo_comm_failure(const kolo_comm *comm, kolo_failure *failure);

/* What this rank has done on this communicator since its creation. */
typedef struct kolo_stats {
    size_t stats_bytes;               /* sizeof(kolo_stats); set by the caller */
    uint64_t calls;                   /* collectives begun; kolo_free is not counted */
    uint64_t calls_by_algorithm[16];  /* those for which an algorithm was chosen, by kolo_algorithm */
    uint64_t payload_bytes;           /* sum of the calls' message sizes */
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

/* Fills *stats. Never blocks. KOLO_ERR_ARG: NULL argument, or stats_bytes was not set. */
KOLO_API int kolo_comm_stats(const kolo_comm *comm, kolo_stats *stats);

/* Collectives. */

/* recv[i] = op over all ranks of send[i], for i in 0 .. count-1, the same bits on every rank. Both have room for
 * `count` elements of any alignment. In place if send == recv; otherwise the two must not overlap. The result depends
 * only on the inputs, the number of ranks, dtype and op: inputs are combined as a balanced binary tree over the ranks,
 * split at the largest power of two below their number. With one rank the input is copied. Sums, products and averages
 * of floats have two exceptions.
 *     - KOLO_ALGORITHM_RING combines in the order of the ring.
 *     - On several machines each machine's ranks are combined first, then the machines (with KOLO_NET_ALGO=ring in the
 *       order of that ring), so that the bits also depend on which ranks share a machine. KOLO_NET_ORDER=rank gives the
 *       bits of one machine, however the ranks are spread, for more bytes between the machines. KOLO_NET_WIRE=bf16
 *       rounds every f32 on its way to another machine.
 *     KOLO_ALGORITHM_RING, KOLO_NET_ALGO and KOLO_NET_WIRE are for this collective alone: the others that reduce give
 * its bits without them.
 *     KOLO_ERR_ARG: bad dtype or op, an op that the dtype lacks, NULL with count > 0, overlap, size overflow.
 * KOLO_ERR_TIMEOUT, PEER_DEAD, MISMATCH, ABORTED, STATE, SYSTEM: see above. */
KOLO_API int kolo_allreduce(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op);

/* Copies buffer[0 .. count-1] of rank `root` to every other rank's buffer. The root may return before the others have
 * copied, and waits for nobody where the message is not small. Therefore, if ranks name different roots, or differ in
 * another way, some broadcasts may return 0 before every rank gets KOLO_ERR_MISMATCH: on one machine up to four, and
 * the error names the first call that differed. A kolo_barrier after the last broadcast makes sure that all ranks hear
 * of it; kolo_comm_destroy does not. Errors as kolo_allreduce; KOLO_ERR_ARG also for a root outside 0 .. size-1. */
KOLO_API int kolo_broadcast(kolo_comm *comm, void *buffer, size_t count, kolo_dtype dtype, int root);

/* recv[r * count + i] = send[i] of rank r, for each rank r and i in 0 .. count-1, on every rank: recv has room for
 * size * count elements. In place: send is this rank's block of recv, recv + rank * count; otherwise the two must not
 * overlap. Any alignment. Blocks until this rank has all blocks. Errors as kolo_allreduce. */
KOLO_API int kolo_allgather(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype);

/* The same with blocks of any length: rank r contributes counts[r] elements, which every rank gets at recv +
 * offsets[r]. counts and offsets have `size` entries, in elements; offsets NULL: one block behind the other. All ranks
 * pass the same counts, and offsets of their own. In place: send is recv + offsets[rank]. Errors as kolo_allreduce;
 * MISMATCH also where counts differ. */
KOLO_API int kolo_allgatherv(kolo_comm *comm, const void *send, void *recv, const size_t *counts, const size_t *offsets,
                             kolo_dtype dtype);

/* As kolo_allreduce, with the same bits, but only rank `root` gets the result; elsewhere recv is not used and may be
 * NULL. In place on the root: send == recv. A rank that is not the root returns when its part is done, which may be
 * before the root has the result: what kolo_broadcast says of its root. */
KOLO_API int kolo_reduce(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op,
                         int root);

/* recv[i] = op over all ranks of their send[rank * count + i], for i in 0 .. count-1: send has a block of `count`
 * elements for each rank, recv one block. The bits are those of kolo_allreduce. In place: recv is this rank's block of
 * send, send + rank * count. Errors as kolo_allreduce. */
KOLO_API int kolo_reduce_scatter(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype,
                                 kolo_op op);

/* The same with blocks of any length, one behind the other: that of rank r has counts[r] elements. All ranks pass the
 * same counts. */
KOLO_API int kolo_reduce_scatterv(kolo_comm *comm, const void *send, void *recv, const size_t *counts, kolo_dtype dtype,
                                  kolo_op op);

/* On rank `root`, recv[r * count + i] = send[i] of rank r; elsewhere recv is not used and may be NULL. In place on the
 * root: send is its block of recv. A rank that is not the root may return before the root has its data, as the
 * root of kolo_broadcast may. Errors as kolo_allreduce. */
KOLO_API int kolo_gather(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, int root);

/* The same with blocks of any length: each rank says how many elements it sends. On the root counts[r] must be the
 * count of rank r, whose block goes to recv + offsets[r], in elements; offsets NULL: one block behind the other.
 * Elsewhere recv, counts and offsets are not used. MISMATCH also where the root expects another count than a rank
 * sends. */
KOLO_API int kolo_gatherv(kolo_comm *comm, const void *send, size_t count, void *recv, const size_t *counts,
                          const size_t *offsets, kolo_dtype dtype, int root);

/* recv[i] = send[rank * count + i] of rank `root`, whose send has a block of `count` elements for each rank; elsewhere
 * send is not used and may be NULL. In place on the root: recv is its block of send. The root may return first, as that
 * of kolo_broadcast. Errors as kolo_allreduce. */
KOLO_API int kolo_scatter(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, int root);

/* The same with blocks of any length: the root sends counts[r] elements from send + offsets[r] on to rank r, which must
 * be the count that rank r passes. offsets NULL: one block behind the other. Elsewhere send, counts and offsets are not
 * used. MISMATCH also where a rank expects another count than the root sends. */
KOLO_API int kolo_scatterv(kolo_comm *comm, const void *send, const size_t *counts, const size_t *offsets, void *recv,
                           size_t count, kolo_dtype dtype, int root);

/* recv[r * count + i] = send[rank * count + i] of rank r: each rank sends a block of `count` elements to each rank, and
 * gets one from each. In place if send == recv. Errors as kolo_allreduce. */
KOLO_API int kolo_alltoall(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype);

/* The same with blocks of any length: send_counts[r] elements from send + send_offsets[r] on go to rank r, and
 * recv_counts[r] come from it to recv + recv_offsets[r]; offsets NULL: one block behind the other. MISMATCH also where
 * rank r sends another count than this rank expects of it. The two buffers must not overlap, nor blocks of recv. */
KOLO_API int kolo_alltoallv(kolo_comm *comm, const void *send, const size_t *send_counts, const size_t *send_offsets,
                            void *recv, const size_t *recv_counts, const size_t *recv_offsets, kolo_dtype dtype);

/* recv[i] = op over ranks 0 .. rank of send[i], with the bits that kolo_allreduce of those ranks has; AVG divides by
 * their number. In place if send == recv. Errors as kolo_allreduce. */
KOLO_API int kolo_scan(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op);

/* The same without this rank's own input: over ranks 0 .. rank-1. On rank 0 recv keeps what it has. */
KOLO_API int kolo_exscan(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op);

/* Returns when every rank has called it. Errors as kolo_allreduce. */
KOLO_API int kolo_barrier(kolo_comm *comm);

/* Collectives in the background. */

typedef struct kolo_request kolo_request; /* a call in the background */

/* Each of these is the collective of the same name without the i, and returns at once with *request, which the caller
 * gives to kolo_request_wait. Any number may be in flight. The requests of a communicator are carried out, and
 * complete, in the order in which they are issued, and a call that is not in the background comes after all that are
 * in flight: it carries them out first. So every rank makes the same calls in the same order, whether in the
 * background or not; otherwise they fail with MISMATCH. The buffers belong to kolo until the request is complete;
 * counts and offsets are copied.
 *     With kolo_options.progress a thread of the communicator carries requests out. It starts with the first one,
 * sleeps while there are none, and runs on processors that no rank of the communicator may use, if the machine has
 * any, even if the program is not bound to them. It catches no signals.
 *     Otherwise requests are carried out only in calls: in kolo_request_* of any request of the same communicator, and
 * in its other calls. Such a call waits for the other ranks to do the same. So without the thread a rank that blocks
 * on one communicator does nothing for its requests on another one, and ranks that wait there wait for it. Therefore,
 * where ranks have requests in flight on several communicators, all of them wait for those, and make blocking calls,
 * in the same order; kolo_request_wait_all and kolo_request_wait_any go by the order of issue.
 *     KOLO_ERR_ARG at once, as for the collective, also for request NULL. KOLO_ERR_STATE: the communicator is broken.
 * KOLO_ERR_SYSTEM: out of memory, or the thread could not be started; nothing was done. All other errors are the
 * request's: a failure that breaks the communicator completes all requests in flight with it, and so does
 * kolo_comm_abort (ABORTED). kolo_comm_destroy completes them with STATE. In a forked child requests that were in
 * flight fail with STATE. */
KOLO_API int kolo_iallreduce(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op,
                             kolo_request **request);
KOLO_API int kolo_ibroadcast(kolo_comm *comm, void *buffer, size_t count, kolo_dtype dtype, int root,
                             kolo_request **request);
KOLO_API int kolo_ibarrier(kolo_comm *comm, kolo_request **request);
KOLO_API int kolo_iallgather(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype,
                             kolo_request **request);
KOLO_API int kolo_iallgatherv(kolo_comm *comm, const void *send, void *recv, const size_t *counts,
                              const size_t *offsets, kolo_dtype dtype, kolo_request **request);
KOLO_API int kolo_ireduce(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op,
                          int root, kolo_request **request);
KOLO_API int kolo_ireduce_scatter(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype,
                                  kolo_op op, kolo_request **request);
KOLO_API int kolo_ireduce_scatterv(kolo_comm *comm, const void *send, void *recv, const size_t *counts,
                                   kolo_dtype dtype, kolo_op op, kolo_request **request);
KOLO_API int kolo_igather(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, int root,
                          kolo_request **request);
KOLO_API int kolo_igatherv(kolo_comm *comm, const void *send, size_t count, void *recv, const size_t *counts,
                           const size_t *offsets, kolo_dtype dtype, int root, kolo_request **request);
KOLO_API int kolo_iscatter(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, int root,
                           kolo_request **request);
KOLO_API int kolo_iscatterv(kolo_comm *comm, const void *send, const size_t *counts, const size_t *offsets, void *recv,
                            size_t count, kolo_dtype dtype, int root, kolo_request **request);
KOLO_API int kolo_ialltoall(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype,
                            kolo_request **request);
KOLO_API int kolo_ialltoallv(kolo_comm *comm, const void *send, const size_t *send_counts, const size_t *send_offsets,
                             void *recv, const size_t *recv_counts, const size_t *recv_offsets, kolo_dtype dtype,
                             kolo_request **request);
KOLO_API int kolo_iscan(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op,
                        kolo_request **request);
KOLO_API int kolo_iexscan(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op,
                          kolo_request **request);

/* *done = 1 if the request is complete, else 0. Without a progress thread it first carries out the oldest request of
 * the communicator, for which it waits for the other ranks; so a loop that asks until *done is 1 ends. The status comes
 * from kolo_request_wait, which then returns at once. NULL is complete. Always 0, but KOLO_ERR_ARG for done NULL. */
KOLO_API int kolo_request_test(kolo_request *request, int *done);

/* Returns the call's status when it is complete, with its kolo_error_message, and frees the request. NULL: 0. */
KOLO_API int kolo_request_wait(kolo_request *request);

/* Waits for all of them, in the order of issue, and frees them: the array then has NULLs. Entries that are NULL are
 * left out. Returns 0, or the error of the first in the array that has one. KOLO_ERR_ARG: requests is NULL with count >
 * 0. */
KOLO_API int kolo_request_wait_all(kolo_request **requests, size_t count);

/* Waits until one of them is complete and returns its status, as kolo_request_wait; *index says which one, and its
 * entry becomes NULL. Entries that are NULL are left out; if all are, *index is -1. KOLO_ERR_ARG: NULL argument, or a
 * count beyond INT_MAX. */
KOLO_API int kolo_request_wait_any(kolo_request **requests, size_t count, int *index);

/* *fd = an eventfd that is readable when a request of the communicator has completed since it was last read: for event
 * loops, with a progress thread. Reading it gives the number of them, as 8 bytes, and does not block. The same one with
 * each call; it belongs to the communicator, whose kolo_comm_destroy closes it. KOLO_ERR_STATE: inherited through fork.
 * KOLO_ERR_SYSTEM. */
KOLO_API int kolo_comm_eventfd(kolo_comm *comm, int *fd);

/* Memory that all ranks share. */

/* Allocates a buffer of `bytes` for each rank and maps all of them on every rank: an all-reduce whose send and recv lie
 * in such buffers on every rank (anywhere in them) copies nothing. Collective: every rank calls it with the same bytes
 * and blocks until all have come. Each gets its own buffer in *buffer: zeroed, aligned to a page, on its own NUMA node,
 * of huge pages where the system has them. It uses no file name and does not count against the limit of /dev/shm. The
 * communicator owns it: kolo_free or kolo_comm_destroy gives it back.
 *     KOLO_ERR_ARG: comm or buffer is NULL, bytes is 0 or too large. KOLO_ERR_NO_SPACE (the message gives need and
 * limit), KOLO_ERR_SYSTEM: on every rank, and the communicator stays usable. TIMEOUT, PEER_DEAD, MISMATCH (different
 * bytes), ABORTED, STATE: see above. */
KOLO_API int kolo_alloc(kolo_comm *comm, size_t bytes, void **buffer);

/* Frees a buffer of kolo_alloc. Waits for nobody. Every rank frees the same buffers in the same place among its calls,
 * in any order of allocation. NULL is fine, and so is a broken communicator. KOLO_ERR_ARG: not such a buffer.
 * KOLO_ERR_STATE: inherited through fork. */
KOLO_API int kolo_free(kolo_comm *comm, void *buffer);

#ifdef __cplusplus
}
#endif

#endif
