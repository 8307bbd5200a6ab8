/* Settings. */
#include "settings.h"

#include <stddef.h>

#include "base/environment.h"

enum { AFTER_DEFAULT = 4, AFTER_MAX = 1000000000, COMMS_DEFAULT = 16, COMMS_MAX = 1024 };

struct mpi_settings mpi_settings;

/* The odd ones are on. */
static const char *const switches[] = {"off", "on", "0", "1", NULL};

int mpi_settings_read(void) {
    int rc = 0;
    const int on = kolo_environment_choice(&rc, KOLO_VARIABLE_MPI, switches, 1) % 2;
    mpi_settings.after = (uint64_t)kolo_environment_integer(&rc, KOLO_VARIABLE_MPI_AFTER, 0, AFTER_MAX, AFTER_DEFAULT);
    mpi_settings.comms = kolo_environment_integer(&rc, KOLO_VARIABLE_MPI_COMMS, 0, COMMS_MAX, COMMS_DEFAULT);
    mpi_settings.is_verbose = kolo_environment_choice(&rc, KOLO_VARIABLE_MPI_VERBOSE, switches, 0) % 2;
    return rc < 0 ? rc : on;
}
