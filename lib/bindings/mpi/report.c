/* Counts and times of calls, for each function, and why calls were passed on to the MPI. */
#include "report.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "kolo_tools.h"
#include "calls/calls.h"
#include "types/operations.h"

enum { REASONS = 32, REASON_BYTES = 128 };

static struct { uint64_t calls[2], ns[2]; /* in kolo, and passed on */ } counted[MPI_FUNCTIONS];

static struct {
    char why[REASON_BYTES];
    uint64_t calls;
} reasons[REASONS];

int64_t mpi_report_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* A reduction that kolo does not have: the state has what it was asked for last. */
static void explain_reduction(const char *name, const struct mpi_state *state, char *why) {
    const char *const operation = mpi_operation_name(state->reduction_op);
    const struct mpi_type *const type = mpi_type_find(state->reduction_type);
    if (!operation)
        snprintf(why, REASON_BYTES, "%s with an operation of the program's own", name);
    else if (!type)
        snprintf(why, REASON_BYTES, "%s of a datatype that is derived, or that kolo does not know", name);
    else
        snprintf(why, REASON_BYTES, "%s of %s with %s, which kolo does not have", name, mpi_type_name(type), operation);
}

static void explain(unsigned function, mpi_word comm, char *why) {
    const struct mpi_state *const state = mpi_state_find(comm);
    const bool reduces = kolo_collective_has(mpi_call_collective(function)) & KOLO_HAS_OP;
    const bool is_between = function <= MPI_Reduce_INDEX; /* made on several machines, too */
    char name[32];
    snprintf(name, sizeof name, "MPI_%s", mpi_function_names[function]);
    if (!state)
        snprintf(why, REASON_BYTES,
                 "outside MPI_Init and MPI_Finalize, or a communicator that the program has not made");
    else if (state->is_left)
        snprintf(why, REASON_BYTES, "%s", state->why);
    else if (reduces && !state->reduction)
        explain_reduction(name, state, why);
    else if (!state->kolo && !state->machines && state->calls > 0)
        snprintf(why, REASON_BYTES, "a communicator's first calls (KOLO_MPI=after:N)");
    else if (state->machines && !is_between)
        snprintf(why, REASON_BYTES, "%s by ranks on several machines", name);
    else if (state->machines && function == MPI_Bcast_INDEX)
        snprintf(why, REASON_BYTES, "%s of much data, or none, by ranks on several machines", name);
    else
        snprintf(why, REASON_BYTES, "%s with arguments that the MPI is to refuse%s", name,
                 state->machines ? ", or of no data" : "");
}

static void add_reason(const char *why) {
    int i = 0;
    while (i < REASONS - 1 && reasons[i].calls && strcmp(reasons[i].why, why) != 0)
        i++;
    snprintf(reasons[i].why, REASON_BYTES, "%s", reasons[i].calls && i == REASONS - 1 ? "other reasons" : why);
    reasons[i].calls++;
}

void mpi_report_add(unsigned function, int64_t began, bool passed, mpi_word comm) {
    counted[function].calls[passed]++;
    counted[function].ns[passed] += (uint64_t)(mpi_report_now() - began);
    if (passed) {
        char why[REASON_BYTES];
        explain(function, comm, why);
        add_reason(why);
    }
}

void mpi_report_print(void) {
    int rank = 0;
    mpi_host.Comm_rank(mpi_host.is.comm_world, &rank);
    if (rank != 0)
        return;
    fprintf(stderr, "kolo: collectives of rank 0, under %s (%s)\n", mpi_host.is.family, mpi_host.soname);
    fprintf(stderr, "kolo: %-26s %12s %12s %12s %12s\n", "", "in kolo", "ms", "passed on", "ms");
    for (int i = 0; i < MPI_FUNCTIONS; i++)
        if (counted[i].calls[0] + counted[i].calls[1])
            fprintf(stderr, "kolo: MPI_%-22s %12llu %12.3f %12llu %12.3f\n", mpi_function_names[i],
                    (unsigned long long)counted[i].calls[0], (double)counted[i].ns[0] / 1e6,
                    (unsigned long long)counted[i].calls[1], (double)counted[i].ns[1] / 1e6);
    for (int i = 0; i < REASONS && reasons[i].calls; i++)
        fprintf(stderr, "kolo: passed on %llu times: %s\n", (unsigned long long)reasons[i].calls, reasons[i].why);
}
