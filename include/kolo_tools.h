/* kolo_tools: what kolo sees of a machine and would do on it, for tools such as kolo-info and kolo-tune. No function
 * here needs a communicator.
 *
 * As in kolo.h, functions return 0 or a negative KOLO_ERR_*, with kolo_error_message() to tell more. Structs begin with
 * their size, which the caller sets to sizeof; a NULL struct and a size that was not set are KOLO_ERR_ARG. Strings that
 * come back as pointers belong to kolo or to the environment. Nothing blocks. Any thread may call at any time, as long
 * as none changes the environment meanwhile.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KOLO_TOOLS_H
#define KOLO_TOOLS_H

#include "kolo.h"

/* What a collective has, as bits; 0 where there is no such collective. Never fails. */
#define KOLO_HAS_OP                1u                   /* it reduces */
#define KOLO_HAS_ROOT              2u                   /* all ranks name one */
#define KOLO_HAS_COUNTS            4u                   /* one for each block */
#define KOLO_HAS_BLOCKS            8u                   /* one for each rank, on some side */
#define KOLO_HAS_CHOICE(algorithm) (16u << (algorithm)) /* a profile's band may have that algorithm */
#define KOLO_HAS_CHOICES           (0xffffu << 4)       /* any: otherwise the collective has no bands in a profile */
KOLO_API unsigned kolo_collective_has(kolo_collective collective);

/* The machine as this process sees it. */
typedef struct kolo_machine {
    size_t machine_bytes;     /* sizeof(kolo_machine); set by the caller */
    char cpu_model[64];       /* as in /proc/cpuinfo; "": not there */
    char isa[128];            /* instruction sets found that matter here, e.g. "avx2 avx512" */
    char kernels[32];         /* the reduction kernels in use, e.g. "avx512" */
    uint32_t cpus_online;     /* logical CPUs of the machine */
    uint32_t cpus_allowed;    /* CPUs in this process's affinity mask */
    uint32_t quota_millicpus; /* CPU limit of the control group, in thousandths of a CPU; 0: none */
    uint32_t numa_nodes;      /* at least 1 */
    uint32_t l3_domains;      /* groups of allowed CPUs that share a last-level cache; at least 1 */
    uint64_t l1d_bytes;       /* of one core; 0: unknown, here and below */
    uint64_t l2_bytes;        /* of one core */
    uint64_t l3_bytes;        /* of one L3 domain */
    uint64_t memory_bytes;    /* of the machine, or what the control group may use if that is less */
    uint64_t shm_total_bytes; /* size of /dev/shm; 0: not mounted or not readable */
    uint64_t shm_free_bytes;  /* of that, free */
    int io_uring;             /* 0: usable; else the negative errno with which it is refused */
    int membarrier;           /* 0: usable; else the negative errno */
    int pidfd;                /* 0: usable; else the negative errno */
    int several_machines;     /* 1: the ranks of a communicator may be on several; 0: built with KOLO_MACHINES=OFF */
} kolo_machine;

/* Fills *machine. KOLO_ERR_ARG also where KOLO_CPU cannot be read. */
KOLO_API int kolo_machine_query(kolo_machine *machine);

/* What would run for a call, and how. */
typedef struct kolo_plan {
    size_t plan_bytes;        /* sizeof(kolo_plan); set by the caller */
    kolo_algorithm algorithm; /* never AUTO; DIRECT: out of other ranks' memory if the kernel lets them; else ONESHOT
                               * where the collective has only one */
    size_t chunk_bytes;       /* bytes of the message that one pipeline step covers */
    size_t chunks;            /* how many such steps */
    size_t slot_bytes;        /* bytes of one slot */
    size_t segment_bytes;     /* of the segment for that many ranks */
    int stream;               /* 1: results are stored past the caches */
    int tuned;                /* 1: by a profile that kolo-tune measured; 0: by the defaults */
    char tuning[512];         /* which profile, or why none, in words */
    size_t rank_bytes;        /* of each rank's own memory for the communicator, apart from the segment */
    int descriptors;          /* of each rank, at most, however many communicators of the same processes there are */
} kolo_plan;

/* Fills *plan for a collective with a message of `count` elements between `ranks` ranks of this machine, under
 * `options` (NULL: from the environment), as if one thread moved all of it, also where each rank has several. `op`
 * means nothing for a collective that does not reduce. KOLO_ERR_ARG also as the collective and kolo_comm_create, and
 * for KOLO_ALLOC, KOLO_FREE and the like, which have no plan. */
KOLO_API int kolo_plan_query(kolo_plan *plan, const kolo_options *options, int ranks, kolo_collective collective,
                             size_t count, kolo_dtype dtype, kolo_op op);

/* A profile is a file of text in which kolo-tune writes what it measured; lib/core/plan/profile.h of the sources
 * describes it. It has a section for each collective and number of ranks that was measured. A section has bands, by
 * message size: each has an algorithm and a chunk. Messages that are larger than the last band allows were not
 * measured, and have the default. */
#define KOLO_PROFILE_SECTIONS   32   /* of a profile, at most */
#define KOLO_PROFILE_BANDS      16   /* of a section, at most */
#define KOLO_PROFILE_PATH_BYTES 4097 /* of a path, its NUL included, at most */
#define KOLO_PROFILE_TEXT_BYTES 2048 /* of a section as text, its NUL included, at most */

typedef struct kolo_profile_band {
    uint64_t bytes_max;       /* of a message; larger than that of the band before; UINT64_MAX: any size */
    kolo_algorithm algorithm; /* one of KOLO_HAS_CHOICE: it gives the same bits as all others do */
    uint32_t chunk_bytes;     /* of a message, that one pipeline step covers; a multiple of 128, 1024 .. 2^30 */
} kolo_profile_band;

typedef struct kolo_profile_section {
    size_t section_bytes;       /* sizeof(kolo_profile_section); set by the caller */
    kolo_collective collective; /* one with KOLO_HAS_CHOICES */
    int ranks;                  /* 2 .. KOLO_RANKS_MAX */
    int has_stream;             /* 0: stream_bytes_min was not measured, and has the default */
    int bands;                  /* 0 .. KOLO_PROFILE_BANDS */
    uint64_t stream_bytes_min;  /* results of messages from here on are stored past the caches; UINT64_MAX: none */
    kolo_profile_band band[KOLO_PROFILE_BANDS];
} kolo_profile_section;

/* Fills in where kolo looks for a profile if KOLO_TUNE_FILE names none. KOLO_ERR_ARG also if there is no such place. */
KOLO_API int kolo_profile_default_path(char path[KOLO_PROFILE_PATH_BYTES]);

/* Fills *section with the one at `index`, from 0, of the profile `path`. KOLO_ERR_ARG also for an index past the last
 * one; and for every index if kolo ignores the profile here: the message says why. */
KOLO_API int kolo_profile_section_get(const char *path, size_t index, kolo_profile_section *section);

/* Writes a section as text; NULL: the lines that come before all sections, for this machine. They end in a newline.
 * KOLO_ERR_ARG also for a section that kolo_profile_section_get would refuse. */
KOLO_API int kolo_profile_format(const kolo_profile_section *section, char text[KOLO_PROFILE_TEXT_BYTES]);

/* A name of this user's in /dev/shm by which the ranks of a job meet. It is removed as soon as all ranks have come. If
 * rank 0 is killed before that, it stays until the user's next job that meets by a name, or kolo_job_name_remove,
 * removes it. */
typedef struct kolo_job_name {
    size_t job_name_bytes; /* sizeof(kolo_job_name); set by the caller */
    char path[256];
    uint32_t pid;  /* of rank 0, in its pid namespace; 0: the file of that name is no job's */
    int stale;     /* 1: rank 0 is gone, or there is none; 0: it lives, or that cannot be known */
    int64_t age_s; /* seconds since the file got the name */
} kolo_job_name;

/* Fills *name with the one at `index`, from 0, in no order. KOLO_ERR_ARG also for an index past the last one.
 * KOLO_ERR_SYSTEM: /dev/shm cannot be read. */
KOLO_API int kolo_job_name_get(size_t index, kolo_job_name *name);

/* Removes a stale name. KOLO_ERR_ARG: `path` is not such a name. KOLO_ERR_STATE: its rank 0 lives, or that cannot be
 * known. KOLO_ERR_SYSTEM: it cannot be removed. */
KOLO_API int kolo_job_name_remove(const char *path);

/* An environment variable: one that kolo reads, or one that begins with KOLO_ but that nothing reads, and that is
 * probably misspelt. Rank 0 logs those of the second kind, once per process, at level warn; kolorun reports them before
 * it starts ranks. */
typedef struct kolo_variable {
    size_t variable_bytes;     /* sizeof(kolo_variable); set by the caller */
    char name[64];             /* "KOLO_RANK"; cut short where it is longer */
    const char *meaning;       /* one line; NULL: nothing reads it */
    const char *default_value; /* in words where it is not a constant; NULL likewise */
    const char *value;         /* its present value, that of a secret hidden; NULL: not set, or nothing reads it */
    const char *nearest;       /* where nothing reads it: the variable of kolo's that is most like it; NULL: none is */
    char mistake[192];         /* likewise: "KOLO_ALG is not a variable of kolo; did you mean KOLO_ALGO?"; else "" */
} kolo_variable;

/* Fills *variable with the one at `index`, from 0: first those that kolo reads, then the others.
 * KOLO_ERR_ARG also for an index past the last one. */
KOLO_API int kolo_variable_get(size_t index, kolo_variable *variable);

#endif
