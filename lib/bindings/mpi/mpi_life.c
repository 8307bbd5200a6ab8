/* What MPI_Init makes for kolo to use, and what becomes of it. */
#include "mpi_life.h"

#include "communicators/pool.h"
#include "communicators/states.h"
#include "host/mpi_progress.h"
#include "report.h"
#include "settings.h"
#include "types/operations.h"

void mpi_life_begin(void) {
    static bool has_begun;
    if (has_begun) /* where an MPI's MPI_Init calls MPI_Init_thread, which is ours */
        return;
    has_begun = true;
    if (!mpi_settings_read())
        return;
    mpi_types_setup();
    bool is_ready = mpi_operations_setup() >= 0;
    is_ready &= mpi_progress_setup() == 0; /* collective */
    mpi_settings.is_on = mpi_agree(mpi_host.is.comm_world, is_ready) > 0;
    mpi_state_begin(0, &mpi_host.is.comm_world);
    mpi_state_begin(0, &mpi_host.is.comm_self);
}

void mpi_life_finalize(void) {
    if (mpi_settings.is_on && mpi_settings.is_verbose)
        mpi_report_print();
}

void mpi_life_end(void) {
    mpi_settings.is_on = false;
    mpi_states_end();
    mpi_pool_end();
}
