#include "launched_rank.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

/* Launchers, in the order in which kolo asks them. */
static const struct launcher {
    const char *rank;
    const char *size;
} launchers[] = {
    {"KOLO_RANK", "KOLO_SIZE"},       {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},         {"RANK", "WORLD_SIZE"},
    {"SLURM_PROCID", "SLURM_NTASKS"},
};

static bool read_number(const char *name, int min, int max, int *number) {
    const char *text = getenv(name);
    if (text == NULL)
        return false;
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < min || value > max)
        return false;
    *number = (int)value;
    return true;
}

launched_rank launched_rank_guess(void) {
    launched_rank guess = {0, 1};
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        int size;
        int rank;
        if (read_number(launchers[i].size, 1, 1 << 20, &size) && read_number(launchers[i].rank, 0, size - 1, &rank)) {
            guess = (launched_rank){rank, size};
            break;
        }
    }
    return guess;
}
