/* What MPI_Init leaves for kolo to use: tables of the MPI's handles, and a communicator of its own, in which no message
 * is ever sent. A probe there makes the MPI look after all that is under way, for all communicators. */
#include "mpi_life.h"

#include <stdio.h>
#include <string.h>

#include "base/environment.h"
#include "communicators/making.h"
#include "communicators/pool.h"
#include "communicators/states.h"
#include "report.h"
#include "types/operations.h"

enum { AFTER_DEFAULT = 4, AFTER_MAX = 1000000000, COMMS_DEFAULT = 16, COMMS_MAX = 1024 };

static struct {
    bool has_begun, is_ready, is_verbose;
    uint64_t after;
    int64_t comms;
    mpi_word private[1]; /* communicator, as the MPI has it in memory */
} life;

static const char *const switches[] = {"off", "on", NULL};

/* False: KOLO_MPI=off, or a value that makes no sense, which is told. */
static bool read_settings(void) {
    int rc = 0;
    const int on = kolo_environment_choice(&rc, KOLO_VARIABLE_MPI, switches, 1);
    life.after = (uint64_t)kolo_environment_integer(&rc, KOLO_VARIABLE_MPI_AFTER, 0, AFTER_MAX, AFTER_DEFAULT);
    life.comms = kolo_environment_integer(&rc, KOLO_VARIABLE_MPI_COMMS, 0, COMMS_MAX, COMMS_DEFAULT);
    life.is_verbose = kolo_environment_integer(&rc, KOLO_VARIABLE_MPI_VERBOSE, 0, 1, 0) == 1;
    if (rc < 0)
        fprintf(stderr, "kolo: all is left to the MPI: %s\n", kolo_error_message());
    return rc == 0 && on;
}

void mpi_life_begin(void) {
    bool is_ready = true;
    if (life.has_begun) /* where an MPI's MPI_Init calls MPI_Init_thread, which is ours */
        return;
    life.has_begun = true;
    if (!read_settings())
        return;
    if (mpi_types_setup() != 0 || mpi_operations_setup() < 0 || mpi_states_setup() != 0)
        is_ready = false;
    const mpi_word world = mpi_host.is.comm_world;
    if (mpi_host.Comm_dup(world, life.private) != 0)
        is_ready = false;
    else
        mpi_host.Comm_set_errhandler(mpi_word_load(life.private), mpi_host.is.errors_return);
    mpi_report_on = life.is_verbose;
    life.is_ready = mpi_agree(world, is_ready) > 0;
}

void mpi_life_finalize(void) {
    if (life.is_ready && life.is_verbose)
        mpi_report_print();
}

void mpi_life_end(void) {
    life.is_ready = false;
    mpi_states_end();
    mpi_pool_end();
}

bool mpi_life_is_ready(void) {
    return life.is_ready;
}

uint64_t mpi_life_after(void) {
    return life.after;
}

int64_t mpi_life_comms(void) {
    return life.comms;
}

bool mpi_life_is_verbose(void) {
    return life.is_verbose;
}

void mpi_life_progress(void *context) {
    int flag;
    (void)context;
    mpi_host.Iprobe(mpi_host.is.any_source, mpi_host.is.any_tag, mpi_word_load(life.private), &flag,
                    (void *)mpi_host.is.status_ignore);
}
