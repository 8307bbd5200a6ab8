#include "launched_rank.h"

#include <stdlib.h>

/* Launchers, in the order and with the witnesses of the table in lib/core/comm/creation/launcher.c. */
static const struct launcher {
    const char *rank;
    const char *size;
    const char *witness; /* NULL: none is needed */
} launchers[] = {
    {"KOLO_RANK", "KOLO_SIZE", NULL},
    {"RANK", "WORLD_SIZE", "MASTER_PORT"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID"},
    {"PMI_RANK", "PMI_SIZE", NULL},
};

launched_rank launched_rank_guess(void) {
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const char *rank = getenv(launchers[i].rank), *size = getenv(launchers[i].size);
        const launched_rank guess = {rank ? atoi(rank) : -1, size ? atoi(size) : 0};
        if (launchers[i].witness && !getenv(launchers[i].witness))
            continue;
        if (guess.rank >= 0 && guess.rank < guess.size)
            return guess;
    }
    return (launched_rank){0, 1};
}
