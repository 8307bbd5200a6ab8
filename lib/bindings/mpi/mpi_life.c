/* What MPI_Init makes for kolo to use, and what becomes of it. */
#include "mpi_life.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/creation/launcher.h"
#include "communicators/pool.h"
#include "communicators/states.h"
#include "communicators/failing.h"
#include "host/mpi_host.h"
#include "report.h"
#include "settings.h"
#include "shm/memory_file.h"
#include "types/operations.h"

/* Marks. A rank without the library must see nothing of it: it would take what is said to it for the program's own. So
 * before anything is said in MPI_COMM_WORLD, each rank looks whether all ranks of this machine have the library: one
 * mpirun may start several programs, with it and without. A rank's mark is a socket whose name tells job and rank. It
 * is made before the MPI's own MPI_Init, which ends on no rank before it has begun on all, and stays until all have
 * looked. So all find the same, and where a mark is missing, for whatever reason, none says anything. Behind a session
 * MPI_Init waits for nobody: a rank that has begun one makes no mark, so that the others miss it whenever they look.
 * Ranks of other machines are taken to have what those of this one have, sessions too, since nothing can be asked there
 * but by messages: without the library there, those of this machine wait for ever. */
static struct {
    struct kolo_place place;
    bool has_session;   /* begun before MPI_Init */
    bool is_wrong;      /* the launcher's variables cannot be read, or it has no name for this job */
    int fd, looking_fd; /* two: what has looked for a name cannot be looked for */
} mark = {.fd = -1, .looking_fd = -1};

static socklen_t name_mark(struct sockaddr_un *address, int64_t local_rank) {
    enum { JOB_BYTES_MAX = 64 }; /* its end, where numbers are, tells it from others */
    const size_t job_bytes = strlen(mark.place.job),
                 left_out = job_bytes > JOB_BYTES_MAX ? job_bytes - JOB_BYTES_MAX : 0;
    return kolo_abstract_address(address, "kolo-mpi-%u-%s-%" PRId64, (unsigned)geteuid(), mark.place.job + left_out,
                                 local_rank);
}

static void close_marks(void) {
    if (mark.fd >= 0)
        close(mark.fd);
    if (mark.looking_fd >= 0)
        close(mark.looking_fd);
    mark.fd = mark.looking_fd = -1;
}

void mpi_life_note_session(void) {
    mark.has_session = true;
}

void mpi_life_prepare(void) {
    struct sockaddr_un address;
    if (mark.looking_fd >= 0)
        return;
    mark.is_wrong = kolo_launcher_place(&mark.place, false) < 0 || mark.place.is_spawned;
    if (mark.is_wrong || mark.place.local_rank < 0 || !mark.place.job[0])
        mark.place.local_size = 0; /* not known: all are taken to have it */
    else if (mark.place.local_size < 0 && mark.place.machines == 1)
        mark.place.local_size = mark.place.size; /* Slurm tells the one by the other */
    if (mark.place.local_size <= 0 || mark.has_session)
        return;
    const socklen_t bytes = name_mark(&address, mark.place.local_rank);
    mark.looking_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    mark.fd = mark.looking_fd < 0 ? -1 : socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (mark.fd >= 0)
        bind(mark.fd, (struct sockaddr *)&address, bytes); /* where that fails, a mark is missing for all */
}

static bool all_are_marked(void) {
    struct sockaddr_un address;
    if (mark.is_wrong)
        return false;
    for (int64_t rank = 0; rank < mark.place.local_size; rank++) {
        const socklen_t bytes = name_mark(&address, rank);
        if (connect(mark.looking_fd, (struct sockaddr *)&address, bytes) < 0)
            return false;
    }
    return true;
}

/* False: not by this rank, which says why unless it was asked for. */
static bool get_ready(int rank) {
    const int on = mpi_settings_read();
    int rc = on;
    if (on > 0) {
        mpi_types_setup();
        rc = mpi_operations_setup();
    }
    if (on > 0 && rc >= 0)
        rc = mpi_pooled_try();
    if (rc < 0)
        fprintf(stderr, "kolo: rank %d: all is left to the MPI, on all ranks: %s\n", rank,
                mpi_word_unnamed(kolo_error_message(), 0)); /* of one made alone */
    return on > 0 && rc >= 0;
}

/* The first that the library says to other ranks. All take part whose process has it, whatever their variables are, or
 * those that are not ready would be waited for. The strictest settings of all ranks hold for each. */
static bool agree(int rank, bool is_ready) {
    enum { NOT_READY, AFTER, COMMS, TOLD };
    const int after = (int)mpi_settings.after, comms = (int)mpi_settings.comms;
    const int told[TOLD] = {[NOT_READY] = is_ready ? INT_MAX : rank, [AFTER] = -after, [COMMS] = comms};
    int lowest[TOLD];
    if (mpi_host.Allreduce(told, lowest, TOLD, mpi_host.is.types[MPI_TYPE_INT_INDEX], mpi_host.is.ops[MPI_OP_MIN_INDEX],
                           mpi_host.is.comm_world) != 0)
        return false;
    mpi_settings.after = (uint64_t)-lowest[AFTER];
    mpi_settings.comms = lowest[COMMS];
    if (mpi_settings.is_verbose && lowest[NOT_READY] != INT_MAX && rank == 0)
        fprintf(stderr, "kolo: all is left to the MPI, on all ranks: rank %d has KOLO_MPI=off, or says what is wrong\n",
                lowest[NOT_READY]);
    else if (mpi_settings.is_verbose && (after != -lowest[AFTER] || comms != lowest[COMMS]))
        fprintf(stderr,
                "kolo: rank %d: KOLO_MPI is after:%d,comms:%d, as on other ranks; here it was after:%d,comms:%d\n",
                rank, -lowest[AFTER], lowest[COMMS], after, comms);
    return lowest[NOT_READY] == INT_MAX;
}

void mpi_life_begin(void) {
    static bool has_begun;
    if (has_begun) /* where an MPI's MPI_Init calls MPI_Init_thread, which is ours */
        return;
    has_begun = true;
    int rank = 0;
    mpi_host.Comm_rank(mpi_host.is.comm_world, &rank);
    const bool is_ready = get_ready(rank), is_marked = all_are_marked();
    const bool is_on = is_marked && agree(rank, is_ready);
    close_marks();
    if (!is_marked && mpi_settings.is_verbose)
        fprintf(stderr, "kolo: rank %d: all is left to the MPI: %s\n", rank,
                mark.place.is_spawned ? "MPI_Comm_spawn has started the ranks, and this MPI has no name for them"
                                      : "not all ranks have libkolo-mpi.so preloaded, or one had a session before "
                                        "MPI_Init");
    mpi_settings.is_on = is_on && mpi_agree(mpi_host.is.comm_world, mpi_progress_setup() == 0) > 0;
    mpi_state_begin(0, &mpi_host.is.comm_world);
    mpi_state_begin(0, &mpi_host.is.comm_self);
}

void mpi_life_end(void) {
    mpi_settings.is_on = false;
    mpi_states_end();
    mpi_pool_end();
}
