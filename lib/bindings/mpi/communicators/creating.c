/* How ranks come to have a kolo communicator, by the MPI's own collectives on one of theirs.
 *
 * A rank without the library must see nothing of that: it would take what is said to it for the program's own. So the
 * library speaks in communicators of one MPI_COMM_WORLD alone, whose ranks have agreed in MPI_Init (mpi_life.c): they
 * were started together, all with the library. Processes that were spawned, or that have connected, are of another
 * MPI_COMM_WORLD. Whether there are any in a communicator each rank sees for itself, by groups, and all see the same: a
 * communicator with ranks of two worlds lies within none (states.c).
 *
 *     1. Rank 0 tells the name of one in its pool that has the same ranks. All tell whether they have it, too. Then
 * that is it: its ranks share a machine, and nothing else has to be asked.
 *     2. If not, and they share a machine, rank 0 tells a new name. All tell whether they have room for one more.
 *     3. Each opens a file of memory without a name, which rank 0 tells, too, so that nothing is left whatever ends a
 * rank. All tell what came of it. A rank that cannot open it, as in another pid namespace, goes by the name. A rank
 * that has no descriptor left ends it here: in kolo it could not tell the others, and they would wait for it.
 *     4. They create it. Nobody waits there for a rank that waits for something else: all have come to this. A rank
 * that fails from here on tells the others in the file.
 *     5. All tell whether it was created.
 *
 * Where a step fails on a rank, the communicator is the MPI's for good, on all ranks, by what they tell in that step.
 *
 * No lock is held meanwhile: threads of a program may make several communicators at once, in any order. */
#include "communicators/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "communicators/failing.h"
#include "host/mpi_host.h"
#include "settings.h"
#include "shm/memory_file.h"

enum { CREATE_TIMEOUT_MS = 30000 };

/* What rank 0 tells. */
struct proposal {
    char job[MPI_JOB_BYTES];      /* empty: there is none */
    struct kolo_memory_file file; /* for a new one; its inode is 0 if there is none */
};

/* Of the process and the moment: nobody else's on this machine. */
static void invent_job(char *job) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(job, MPI_JOB_BYTES, "mpi-%ld-%llx%08lx", (long)getpid(), (unsigned long long)now.tv_sec, now.tv_nsec);
}

/* fd: of the file for it; -1: under its name. */
static int create(struct mpi_pooled *pooled, int rank, int size, int fd) {
    kolo_options options = KOLO_OPTIONS_INIT;
    options.rank = rank;
    options.size = size;
    options.shm_fd = fd;
    options.job = fd < 0 ? pooled->job : NULL;
    options.rendezvous = "";
    options.timeout_ms = 0;
    options.create_timeout_ms = CREATE_TIMEOUT_MS;
    options.progress = -1; /* a thread that would call the MPI beside the program's */
    const kolo_hooks hooks = {.hooks_bytes = sizeof hooks, .idle = mpi_progress};
    const int rc = kolo_comm_create(&pooled->kolo, &options);
    if (rc == 0)
        kolo_comm_set_hooks(pooled->kolo, &hooks);
    return rc;
}

int mpi_pooled_try(void) {
    struct mpi_pooled alone = {.kolo = NULL};
    invent_job(alone.job);
    const int rc = create(&alone, 0, 1, -1);
    kolo_comm_destroy(alone.kolo);
    return rc;
}

static bool tell(struct proposal *proposal, mpi_word comm) {
    return mpi_host.Bcast(proposal, sizeof *proposal, mpi_host.is.types[MPI_TYPE_BYTE_INDEX], 0, comm) == 0;
}

/* All have it, or it goes back and this returns NULL. */
static struct mpi_pooled *keep(struct mpi_pooled *pooled, mpi_word comm) {
    if (mpi_agree(comm, pooled != NULL) > 0)
        return pooled;
    if (pooled)
        mpi_pool_return(pooled);
    return NULL;
}

struct mpi_pooled *mpi_pooled_again(mpi_word comm, int rank, bool is_ready) {
    struct proposal proposal = {.job = ""};
    struct mpi_pooled *pooled = NULL;
    mpi_word group[1] = {0};
    if (rank == 0 && is_ready && mpi_host.Comm_group(comm, group) == 0) {
        pooled = mpi_pool_take(group);
        mpi_host.Group_free(group);
    }
    if (pooled)
        memcpy(proposal.job, pooled->job, sizeof proposal.job);
    if (!tell(&proposal, comm)) {
        if (pooled)
            mpi_pool_return(pooled);
        return NULL;
    }
    if (!proposal.job[0])
        return NULL;
    if (rank != 0 && is_ready)
        pooled = mpi_pool_take_job(proposal.job, rank);
    return keep(pooled, comm);
}

/* Step 2, with `fd` of the file on rank 0. NULL: some rank cannot. */
static struct mpi_pooled *reserve(struct proposal *proposal, mpi_word comm, int rank, int fd) {
    memset(proposal, 0, sizeof *proposal);
    if (rank == 0)
        invent_job(proposal->job);
    if (fd < 0 || kolo_memory_file_name(fd, &proposal->file) < 0)
        proposal->file.inode = 0;
    if (!tell(proposal, comm))
        return NULL;
    struct mpi_pooled *const pooled = mpi_pool_reserve(mpi_settings.comms);
    if (pooled)
        memcpy(pooled->job, proposal->job, sizeof pooled->job);
    return keep(pooled, comm);
}

/* Step 3, the same on all ranks: what they meet in. A rank that has nothing tells its own number, less all. */
enum { BY_NAME, BY_FILE };

static int choose_place(mpi_word comm, int rank, int size, int fd) {
    const bool has_none = fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM;
    const int place = mpi_agree(comm, fd >= 0 ? BY_FILE : has_none ? rank - size : BY_NAME);
    if (place < 0 && rank == 0 && mpi_settings.is_verbose)
        fprintf(stderr, "kolo: rank %d of %d has no file descriptor left: raise their number (ulimit -n)\n",
                place + size, size);
    return place;
}

/* Steps 3 to 5, the same on all ranks: NULL, or why nothing was created. `fd`: rank 0's, which this closes. */
static const char *create_together(struct mpi_pooled *pooled, const struct proposal *proposal, mpi_word comm, int rank,
                                   int size, int fd) {
    if (rank != 0) /* where there is none, too: that takes a descriptor */
        fd = kolo_memory_file_open(&proposal->file, O_RDWR);
    const int place = choose_place(comm, rank, size, fd);
    if (place == BY_NAME && fd >= 0) {
        close(fd);
        fd = -1;
    }
    const char *why = "a rank has no file descriptor left (ulimit -n)";
    if (place >= 0) {
        const int rc = create(pooled, rank, size, fd);
        if (rc < 0 && mpi_settings.is_verbose)
            fprintf(stderr, "kolo: rank %d of %d: left to the MPI: %s\n", rank, size,
                    mpi_word_unnamed(kolo_error_message(), rank));
        why = mpi_agree(comm, rc) == 0 ? NULL : "no kolo communicator could be created";
    }
    if (fd >= 0)
        close(fd);
    if (why) {
        kolo_comm_destroy(pooled->kolo);
        pooled->kolo = NULL;
    }
    return why;
}

struct mpi_pooled *mpi_pooled_create(mpi_word comm, int rank, int size, const char **why) {
    mpi_word group[1] = {0};
    struct mpi_pooled *pooled = NULL;
    struct proposal proposal;
    int fd = rank == 0 ? kolo_memory_file_create("kolo-mpi", 0) : -1;
    *why = "an error of the MPI";
    const bool has_group = mpi_host.Comm_group(comm, group) == 0;
    if (mpi_agree(comm, has_group) <= 0)
        goto forget_group;
    *why = "the others that KOLO_MPI=comms:N allows are in use";
    pooled = reserve(&proposal, comm, rank, fd);
    if (!pooled)
        goto forget_group;
    *why = create_together(pooled, &proposal, comm, rank, size, fd);
    fd = -1;
    if (*why) {
        mpi_pool_return(pooled);
        pooled = NULL;
        goto forget_group;
    }
    pooled->group[0] = group[0];
forget_group:
    if (has_group && !pooled)
        mpi_host.Group_free(group);
    if (fd >= 0)
        close(fd);
    return pooled;
}
