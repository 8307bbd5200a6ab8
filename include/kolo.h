/* kolo: all-reduce between the processes of one many-core machine.
 *
 * Every function that returns int returns 0 or a negative KOLO_ERR_*. Handles come out through the first
 * parameter and are set only on success. Nothing here prints (unless KOLO_LOG asks for it), exits, aborts the
 * process or installs a signal handler. Counts are in elements, sizes in bytes.
 *
 * Threads: a communicator is used by one thread at a time (builds with assertions refuse a second one's call with
 * KOLO_ERR_STATE, and the communicator stays usable). A process may hold many communicators, and several
 * threads of one process may each be a rank. Collectives block until this rank's part is done and `recv`
 * holds the result; every rank of a communicator makes the same calls in the same order.
 *
 * Errors: after any error but KOLO_ERR_ARG and KOLO_ERR_UNSUPPORTED the communicator is broken for every
 * rank, the output buffer is undefined, and only the queries, kolo_comm_failure, kolo_comm_shrink,
 * kolo_comm_abort and kolo_comm_destroy may be called; collectives return KOLO_ERR_STATE.
 * kolo_error_message() tells what happened in words.
 *
 * Deadlines are in time in which the waiting process could run: a job that is stopped as a whole (Ctrl-Z, a suspended
 * virtual machine) goes on when it is continued. A rank that alone is stopped is missed at the others' deadlines.
 *
 * Structs that begin with a size: set it to sizeof before the call (KOLO_OPTIONS_INIT does). Fields are only added, at
 * the end, so that programs and libraries of different versions work together: fields that the caller does not know are
 * not filled, or have their defaults; fields that the library does not know are zeroed, or must be 0. A size that was
 * not set is KOLO_ERR_ARG.
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
    KOLO_ERR_TIMEOUT = -4,     /* the deadline passed before a peer came */
    KOLO_ERR_PEER_DEAD = -5,   /* a peer ended, or left the communicator, while it was still needed */
    KOLO_ERR_MISMATCH = -6,    /* ranks made different calls, or were created with different settings */
    KOLO_ERR_ABORTED = -7,     /* a rank called kolo_comm_abort */
    KOLO_ERR_VERSION = -8,     /* ranks run versions of kolo that cannot share a segment */
    KOLO_ERR_UNSUPPORTED = -9, /* legal, but not available in this build or on this machine; nothing was done */
    KOLO_ERR_STATE = -10       /* the communicator is broken, or was inherited through fork */
};

/* Element types. F16 is IEEE binary16, BF16 the upper half of a binary32; both are accumulated in binary32
 * and rounded once, to nearest, ties to even. */
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

/* Reductions. Integer overflow wraps. AVG divides the sum, in the type of accumulation, by the number of
 * ranks (integers: toward zero). MIN and MAX order -0 below +0 and return NaN if any input is one. A NaN in a
 * result of two or more ranks is always the dtype's positive quiet NaN without payload. BAND, BOR and BXOR
 * are for integers only. */
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

/* How an all-reduce moves its data. */
typedef enum kolo_algorithm {
    KOLO_ALGORITHM_AUTO,    /* chosen by size, rank count and dtype */
    KOLO_ALGORITHM_ONESHOT, /* every rank reads every other rank's input and reduces all of it */
    KOLO_ALGORITHM_MESH,    /* direct reduce-scatter, then direct all-gather */
    KOLO_ALGORITHM_RING,    /* 2(N-1) steps between neighbours; float sums associate in ring order */
    KOLO_ALGORITHM_CENTRAL, /* parameter-server manner: rank 0 reduces for all */
    KOLO_ALGORITHM_DIRECT,  /* in place of all others for buffers of kolo_alloc; AUTO for what is not in them */
    KOLO_ALGORITHM_TREE,    /* mesh within groups of near ranks, then between the groups; see KOLO_TREE_LEVELS */
    KOLO_ALGORITHMS         /* how many there are */
} kolo_algorithm;

typedef enum kolo_collective {
    KOLO_BARRIER,
    KOLO_BROADCAST,
    KOLO_ALLREDUCE,
    KOLO_ALLOC,
    KOLO_FREE,
    KOLO_COLLECTIVES /* how many there are */
} kolo_collective;

KOLO_API const char *kolo_strerror(int status);                        /* "timeout", ...; never NULL */
KOLO_API const char *kolo_version(void);                               /* "0.1.0" */
KOLO_API const char *kolo_dtype_name(kolo_dtype dtype);                /* "f32", ...; NULL if there is none such */
KOLO_API size_t kolo_dtype_bytes(kolo_dtype dtype);                    /* 0 if there is none such */
KOLO_API const char *kolo_op_name(kolo_op op);                         /* "sum", ...; NULL if there is none such */
KOLO_API int kolo_op_supports(kolo_op op, kolo_dtype dtype);           /* 1 or 0 */
KOLO_API const char *kolo_algorithm_name(kolo_algorithm algorithm);    /* "mesh", ...; NULL if there is none such */
KOLO_API const char *kolo_collective_name(kolo_collective collective); /* "allreduce", ...; NULL likewise */

/* What went wrong in the calling thread's last failed call: names the value, the rank and what to do. Never
 * NULL; valid until the thread's next failing call. */
KOLO_API const char *kolo_error_message(void);

/* Life. */

typedef struct kolo_comm kolo_comm; /* a communicator: one rank's place in a group of ranks */

/* How to create a communicator. Begin with KOLO_OPTIONS_INIT; a field that keeps that value is taken from the
 * environment, else from the default. */
typedef struct kolo_options {
    size_t options_bytes;      /* sizeof(kolo_options); set by KOLO_OPTIONS_INIT */
    int rank;                  /* 0 .. size-1; -1: KOLO_RANK, else the launcher's variable */
    int size;                  /* 1 .. KOLO_RANKS_MAX; -1: KOLO_SIZE, else the launcher's variable */
    const char *job;           /* name that all ranks of this communicator share; letters, digits, '.', '_', '-'.
                                  NULL: KOLO_JOB, else the launcher's */
    int shm_fd;                /* inherited descriptor of an empty shared file, instead of a job name; stays the
                                  caller's. -1: KOLO_SHM_FD, unless job is given */
    kolo_algorithm algorithm;  /* AUTO: KOLO_ALGO, else by plan; rank 0's choice binds all */
    int64_t timeout_ms;        /* longest wait for a peer within a call; 0: none. -1: KOLO_TIMEOUT_MS, else 300000 */
    int64_t create_timeout_ms; /* longest wait for all ranks to come; 0: none. -1: KOLO_CREATE_TIMEOUT_MS, else 60000 */
    size_t slot_bytes;         /* bytes of one chunk slot; each rank has KOLO_SLOTS. 0: KOLO_SLOT_BYTES, else by
                                  rank count; rank 0's choice binds all */
    const char *rendezvous;    /* "HOST:PORT" of rank 0's machine, where ranks on several machines meet; "": all are on
                                  this one. NULL: KOLO_RENDEZVOUS, unless shm_fd is given, else the launcher's */
} kolo_options;

#define KOLO_SLOTS 4 /* chunk slots of each rank in the segment */
#define KOLO_OPTIONS_INIT                                                                                              \
    { sizeof(kolo_options), -1, -1, NULL, -1, KOLO_ALGORITHM_AUTO, -1, -1, 0, NULL }

/* Creates a communicator together with all other ranks, on each of them or on none; blocks until all have come or
 * create_timeout_ms has passed. NULL options: everything from the environment; with nothing there, a communicator of
 * one rank. The caller owns *comm and ends it with kolo_comm_destroy. Creations with the same job name follow one
 * another. KOLO_ERR_ARG: an option or variable is wrong. KOLO_ERR_TIMEOUT: the message lists the ranks that never came.
 * KOLO_ERR_NO_SPACE: the message tells need and limit. KOLO_ERR_MISMATCH: duplicate rank, different sizes.
 * KOLO_ERR_VERSION, KOLO_ERR_PEER_DEAD, KOLO_ERR_SYSTEM: as above. */
KOLO_API int kolo_comm_create(kolo_comm **comm, const kolo_options *options);

/* Leaves the communicator and frees it; waits for nobody, but on several machines up to 200 ms for the others to
 * take what has been sent to them. NULL is fine. In a forked child it frees only the child's copy. Always 0. */
KOLO_API int kolo_comm_destroy(kolo_comm *comm);

/* Breaks the communicator for all ranks: their present or next call returns KOLO_ERR_ABORTED. `code` is the
 * caller's own and is shown by kolo_comm_failure. Waits for nobody. The caller's own later calls return
 * KOLO_ERR_STATE. KOLO_ERR_STATE: it was broken before, or inherited through fork. */
KOLO_API int kolo_comm_abort(kolo_comm *comm, int code);

/* Goes on with the ranks that are left of a broken communicator, whatever broke it. Collective among them: they
 * agree on who is left, also when another one dies meanwhile, and each gets in *shrunk a communicator of its own
 * with the ranks in their old order and the old one's settings; one that is left alone gets one of one rank.
 * Blocks until every rank has come or ended, for each wait at most the communicator's timeout; whoever lives but
 * has not come by then is left out for good. The old communicator stays broken, and its owner still destroys it;
 * buffers of kolo_alloc belong to it and go with it.
 *     Not every survivor has got equally far: the last all-reduce or barrier, and with it up to KOLO_SLOTS
 * broadcasts, may have succeeded on some and failed on others. So they first have to agree where to go on, e.g. by
 * an all-reduce (MAX) of how far each has got and a broadcast from one that has got furthest, as kolo-train does.
 *     On several machines each one's lowest rank that is left speaks for it, and waits for two to three times the
 * timeout. A machine that cannot be reached, or does not come, may be going on by itself: so only those ranks go on
 * that are more than all that may, or as many and have the lowest; all others fail. Where the lowest rank of a machine,
 * its leader, has ended, its others go on with another machine's; that they have ended too takes two seconds to be
 * believed. A machine whose leader is stopped counts among those that may be going on. Where it has no other rank, and
 * the rest is enough without it, it is waited for only as long as KOLO_NET_SILENCE_MS says; else until its others have
 * left that one out. When it is continued it learns that it is left out.
 *     KOLO_ERR_ARG: NULL argument. KOLO_ERR_STATE: comm is not broken, has been shrunk already, or was inherited
 * through fork. KOLO_ERR_TIMEOUT: the others went on without this rank, or may be doing so. KOLO_ERR_PEER_DEAD: of
 * several machines no leader is left. KOLO_ERR_NO_SPACE, KOLO_ERR_SYSTEM: on every survivor, which may try again.
 * KOLO_ERR_VERSION: the segment is damaged. */
KOLO_API int kolo_comm_shrink(kolo_comm *comm, kolo_comm **shrunk);

KOLO_API int kolo_comm_rank(const kolo_comm *comm);       /* 0 .. size-1 */
KOLO_API int kolo_comm_size(const kolo_comm *comm);       /* number of ranks */
KOLO_API int kolo_comm_local_rank(const kolo_comm *comm); /* among the ranks of this machine */
KOLO_API int kolo_comm_local_size(const kolo_comm *comm); /* ranks on this machine */
KOLO_API int kolo_comm_node(const kolo_comm *comm);       /* this machine's index, 0 .. nodes-1 */
KOLO_API int kolo_comm_nodes(const kolo_comm *comm);      /* number of machines */

/* How a rank came to be at fault. How a process ended is told by the kernel, from Linux 6.15 on for as long as a peer
 * watches it, before that only until its parent has waited for it; else it is KOLO_CAUSE_ENDED. A rank that is a thread
 * of the finder's process cannot be seen ending: its absence is found at the deadline. */
typedef enum kolo_cause {
    KOLO_CAUSE_NONE,     /* not broken */
    KOLO_CAUSE_KILLED,   /* PEER_DEAD: by a signal, which is in `code` */
    KOLO_CAUSE_EXITED,   /* PEER_DEAD: without kolo_comm_destroy; its exit status is in `code` */
    KOLO_CAUSE_ENDED,    /* PEER_DEAD: in one of those ways; which is not known */
    KOLO_CAUSE_LEFT,     /* PEER_DEAD: by kolo_comm_destroy, while it was still needed */
    KOLO_CAUSE_STOPPED,  /* TIMEOUT: by SIGSTOP and the like, or a debugger */
    KOLO_CAUSE_STALLED,  /* TIMEOUT: alive, as far as can be seen, and does not come */
    KOLO_CAUSE_ABORTED,  /* ABORTED: it called kolo_comm_abort */
    KOLO_CAUSE_MISMATCH, /* MISMATCH: its call, or the reporter's, is not what the others call */
    KOLO_CAUSE_FAILED,   /* SYSTEM */
    KOLO_CAUSE_SILENT,   /* TIMEOUT: its machine has not been heard of for KOLO_NET_SILENCE_MS */
    KOLO_CAUSE_EXECED    /* PEER_DEAD: it has started another program (exec) without kolo_comm_destroy */
} kolo_cause;

/* The failure that broke a communicator, the same on every rank. */
typedef struct kolo_failure {
    size_t failure_bytes; /* sizeof(kolo_failure); set by the caller */
    int status;           /* KOLO_ERR_PEER_DEAD, TIMEOUT, MISMATCH, ABORTED or SYSTEM; 0: not broken */
    int rank;             /* the rank at fault, or that called abort */
    int reporter;         /* the rank that found it */
    int code;             /* kolo_comm_abort's, or as `cause` says; else 0 */
    uint64_t call;        /* index of the reporter's call on this communicator, from 1; 0: outside a call */
    char message[384];    /* the same in words */
    kolo_cause cause;
} kolo_failure;

/* Fills *failure; never blocks. KOLO_ERR_ARG: NULL argument, or failure_bytes was not set. */
KOLO_API int kolo_comm_failure(const kolo_comm *comm, kolo_failure *failure);

/* What this rank has done on this communicator since its creation. */
typedef struct kolo_stats {
    size_t stats_bytes;              /* sizeof(kolo_stats); set by the caller */
    uint64_t calls;                  /* collectives begun */
    uint64_t calls_by_algorithm[16]; /* all-reduces begun, by kolo_algorithm */
    uint64_t payload_bytes;          /* sum of the calls' message sizes */
    uint64_t sent_bytes;             /* data this rank put into the segment for others to read */
    uint64_t received_bytes;         /* data this rank read from what others had put there */
    uint64_t waits_slept;            /* waits that had to sleep in the kernel */
    uint64_t waited_ns;              /* time in waits that went beyond spinning */
    uint64_t segment_bytes;          /* size of the shared segment, all ranks together */
    uint64_t buffer_bytes;           /* of this rank's buffers of kolo_alloc, in whole pages */
    uint64_t net_sent_bytes;         /* that this node, all its ranks together, has sent to other nodes */
    uint64_t net_received_bytes;     /* and received from them, headers included */
    uint64_t net_system_calls;       /* that moved them */
} kolo_stats;

/* Fills *stats; never blocks. KOLO_ERR_ARG: NULL argument, or stats_bytes was not set. */
KOLO_API int kolo_comm_stats(const kolo_comm *comm, kolo_stats *stats);

/* Collectives. */

/* recv[i] = op over all ranks of send[i], for i in 0 .. count-1, the same bits on every rank. send == recv
 * works in place; otherwise the two must not overlap. Any alignment. The result depends on the inputs, the
 * number of ranks, dtype and op only: inputs are combined as a balanced binary tree over the ranks, split at
 * the largest power of two below their number. With one rank the input is copied.
 *     Sums, products and averages of floats have two exceptions. KOLO_ALGORITHM_RING combines in the order of the ring.
 * On several machines each machine's ranks are combined first, then the machines (with KOLO_NET_ALGO=ring in
 * the order of that ring), so that the bits also depend on which ranks share a machine. KOLO_NET_ORDER=rank
 * gives the bits of one machine, however the ranks are spread, for more bytes between the machines.
 * KOLO_NET_WIRE=bf16 rounds every f32 on its way to another machine.
 *     KOLO_ERR_ARG: bad dtype or op, an op that the dtype lacks, NULL with count > 0, overlap, size
 * overflow. KOLO_ERR_TIMEOUT, PEER_DEAD, MISMATCH, ABORTED, STATE, SYSTEM: see above. */
KOLO_API int kolo_allreduce(kolo_comm *comm, const void *send, void *recv, size_t count, kolo_dtype dtype, kolo_op op);

/* buffer[0 .. count-1] of rank `root` is copied to every other rank's buffer. The root waits for nobody
 * and may return before the others have copied. So where ranks name different roots, or differ in another way, some
 * broadcasts may return 0 before every rank gets KOLO_ERR_MISMATCH: on one machine up to KOLO_SLOTS, and the error
 * names the first call that differed. A kolo_barrier after the last broadcast makes sure that all hear of it;
 * kolo_comm_destroy does not. Errors as kolo_allreduce; KOLO_ERR_ARG also for a root outside 0 .. size-1. */
KOLO_API int kolo_broadcast(kolo_comm *comm, void *buffer, size_t count, kolo_dtype dtype, int root);

/* Returns once every rank has called it. Errors as kolo_allreduce. */
KOLO_API int kolo_barrier(kolo_comm *comm);

/* Memory that all ranks share. */

/* A buffer of `bytes` for each rank, which all ranks have mapped: an all-reduce whose send and recv lie in such buffers
 * on every rank (anywhere in them) copies nothing. Collective: every rank calls it with the same bytes, and each gets
 * its own buffer in *buffer, zeroed, aligned to a page, on its own NUMA node, of huge pages where the system has them.
 * No file name, and no limit of /dev/shm, is involved. It belongs to the communicator: kolo_free or kolo_comm_destroy
 * gives it back. KOLO_ERR_ARG: comm or buffer is NULL, bytes is 0 or too large. KOLO_ERR_NO_SPACE (the message tells
 * need and limit), KOLO_ERR_SYSTEM: on every rank, and the communicator stays usable. TIMEOUT, PEER_DEAD, MISMATCH
 * (different bytes), ABORTED, STATE: see above. */
KOLO_API int kolo_alloc(kolo_comm *comm, size_t bytes, void **buffer);

/* Frees a buffer of kolo_alloc. Every rank frees the same buffers in the same place among its calls, in any order of
 * allocation; waits for nobody. NULL is fine, and so is a broken communicator. KOLO_ERR_ARG: not such a buffer.
 * KOLO_ERR_STATE: inherited through fork. */
KOLO_API int kolo_free(kolo_comm *comm, void *buffer);

/* What kolo sees, for tools. */

/* The machine as this process sees it. */
typedef struct kolo_machine {
    size_t machine_bytes;     /* sizeof(kolo_machine); set by the caller */
    char cpu_model[64];       /* as /proc/cpuinfo has it, else "" */
    char isa[128];            /* instruction sets found that matter here, e.g. "avx2 avx512" */
    char kernels[32];         /* the reducer instance in use, e.g. "avx512" */
    uint32_t cpus_online;     /* logical CPUs of the machine */
    uint32_t cpus_allowed;    /* CPUs in this process's affinity mask */
    uint32_t quota_millicpus; /* cgroup CPU limit in thousandths of a CPU; 0: none */
    uint32_t numa_nodes;      /* at least 1 */
    uint32_t l3_domains;      /* groups of allowed CPUs that share a last-level cache; at least 1 */
    uint64_t l1d_bytes;       /* of one core; 0: unknown, here and below */
    uint64_t l2_bytes;        /* of one core */
    uint64_t l3_bytes;        /* of one L3 domain */
    uint64_t memory_bytes;    /* of the machine */
    uint64_t shm_total_bytes; /* size of /dev/shm; 0: not mounted or not readable */
    uint64_t shm_free_bytes;  /* of that, free */
    int io_uring;             /* 0: usable; else the negative errno with which the kernel refuses it */
    int membarrier;           /* 0: usable; else the negative errno */
    int pidfd;                /* 0: usable; else the negative errno */
} kolo_machine;

/* Fills *machine. KOLO_ERR_ARG: NULL or a wrong machine_bytes; or KOLO_CPU cannot be read. */
KOLO_API int kolo_machine_query(kolo_machine *machine);

/* What would run for a call, and how. */
typedef struct kolo_plan {
    size_t plan_bytes;        /* sizeof(kolo_plan); set by the caller */
    kolo_algorithm algorithm; /* never AUTO */
    size_t chunk_bytes;       /* bytes of the message that one pipeline step covers */
    size_t chunks;            /* how many such steps */
    size_t slot_bytes;        /* bytes of one slot */
    size_t segment_bytes;     /* size of the segment for that many ranks */
    int stream;               /* 1: results are stored past the caches */
    int tuned;                /* 1: by a profile that kolo-tune measured; 0: by the defaults */
    char tuning[512];         /* which profile, or why none, in words */
} kolo_plan;

/* The plan for an all-reduce of `count` elements between `ranks` ranks of this machine under `options` (NULL:
 * the environment); no communicator is needed. KOLO_ERR_ARG as kolo_allreduce and kolo_comm_create. */
KOLO_API int kolo_plan_query(kolo_plan *plan, const kolo_options *options, int ranks, size_t count, kolo_dtype dtype,
                             kolo_op op);

/* A name of this user's in /dev/shm by which the ranks of a job meet. It goes as soon as all have come; where rank 0
 * was killed before that it stays, until a job of the same name replaces it or kolo_job_name_remove removes it. */
typedef struct kolo_job_name {
    size_t job_name_bytes; /* sizeof(kolo_job_name); set by the caller */
    char path[256];
    uint32_t pid;  /* of rank 0, in its pid namespace; 0: what bears the name is no job file */
    int stale;     /* 1: rank 0 is gone, or there is none; 0: it lives, or nothing tells */
    int64_t age_s; /* since the file got the name, in seconds */
} kolo_job_name;

/* The name at `index`, from 0, in no order. KOLO_ERR_ARG: past the last one, or NULL, or a wrong job_name_bytes.
 * KOLO_ERR_SYSTEM: /dev/shm cannot be read. */
KOLO_API int kolo_job_name_get(size_t index, kolo_job_name *name);

/* Removes a stale name. KOLO_ERR_STATE: its rank 0 lives, or nothing tells. KOLO_ERR_ARG: not such a name.
 * KOLO_ERR_SYSTEM: it cannot be removed. */
KOLO_API int kolo_job_name_remove(const char *path);

/* One environment variable that kolo reads. */
typedef struct kolo_variable {
    size_t variable_bytes;     /* sizeof(kolo_variable); set by the caller */
    const char *name;          /* "KOLO_RANK" */
    const char *meaning;       /* one line */
    const char *default_value; /* in words where it is not a constant */
    const char *value;         /* as now set, but that of a secret is hidden; NULL: not set */
} kolo_variable;

/* The variable at `index`, from 0. KOLO_ERR_ARG: past the last one, or NULL, or variable_bytes was not set. */
KOLO_API int kolo_variable_get(size_t index, kolo_variable *variable);

/* A variable of the environment that begins with KOLO_ and that nothing reads: a slip, most likely. Rank 0 logs those
 * that it finds, at level warn, once a process; kolorun tells of them before it starts ranks. */
typedef struct kolo_unknown_variable {
    size_t unknown_bytes; /* sizeof(kolo_unknown_variable); set by the caller */
    char name[64];        /* cut short where it is longer */
    const char *nearest;  /* the variable of kolo's that is most like it; NULL: none is */
    char message[192];    /* "KOLO_ALG is not a variable of kolo; did you mean KOLO_ALGO?" */
} kolo_unknown_variable;

/* The one at `index`, from 0. KOLO_ERR_ARG: past the last one, or NULL, or unknown_bytes was not set. */
KOLO_API int kolo_unknown_variable_get(size_t index, kolo_unknown_variable *unknown);

#ifdef __cplusplus
}
#endif

#endif
