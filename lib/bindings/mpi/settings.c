/* Settings. */
#include "settings.h"

#include <stddef.h>

#include "base/environment.h"

enum { AFTER_DEFAULT = 4, AFTER_MAX = 1000000000, COMMS_DEFAULT = 16, COMMS_MAX = 1024 };

struct mpi_settings mpi_settings;

int mpi_settings_read(void) {
    int64_t is_on = 1, is_verbose = 0, after = AFTER_DEFAULT;
    int rc = 0;
    mpi_settings.comms = COMMS_DEFAULT;
    const struct kolo_list_item items[] = {
        {"on", 1, 0, &is_on},
        {"off", 0, 0, &is_on},
        {"1", 1, 0, &is_on},
        {"0", 0, 0, &is_on},
        {"verbose", 1, 0, &is_verbose},
        {"after:", 0, AFTER_MAX, &after},
        {"comms:", 0, COMMS_MAX, &mpi_settings.comms},
        {NULL, 0, 0, NULL},
    };
    kolo_environment_list(&rc, KOLO_VARIABLE_MPI, items);
    mpi_settings.is_verbose = is_verbose == 1;
    mpi_settings.after = (uint64_t)after;
    return rc < 0 ? rc : (int)is_on;
}
