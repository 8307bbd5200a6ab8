/* An error of kolo becomes one of the MPI, word by word. */
#include "communicators/failing.h"

#include <stdio.h>
#include <string.h>

#include "kolo_tools.h"
#include "calls/calls.h"
#include "communicators/machines.h"
#include "types/operations.h"

/* kolo counts the ranks of a machine, the program those of its communicator. */
static void say_rank(const struct mpi_state *state, int place) {
    for (int rank = 0; rank < state->size; rank++)
        if (state->machines->ranks[rank].machine == state->machines->machine &&
            state->machines->ranks[rank].place == place)
            fprintf(stderr, "kolo: on this machine rank %d is rank %d of %d\n", place, rank, state->size);
}

static int fail(const struct mpi_state *state, mpi_word comm, int rc, const char *message) {
    const bool is_process = rc == KOLO_ERR_PEER_DEAD && mpi_host.is.err_proc_failed;
    const int code = is_process ? mpi_host.is.err_proc_failed : mpi_host.is.err_other;
    kolo_failure failure = {.failure_bytes = sizeof failure};
    kolo_comm *const kolo = state->machines ? state->machines->near : state->kolo;
    const bool is_broken = kolo_comm_failure(kolo, &failure) == 0 && failure.status != 0;
    char text[MPI_WORDING_BYTES];
    mpi_word_message(state, state->machines ? state->machines->place : state->rank,
                     is_broken ? failure.message : message, text);
    fprintf(stderr, "kolo: rank %d of %d: %s\n", state->rank, state->size, text);
    if (!is_broken && kolo) /* of this rank alone: the others would wait for it */
        kolo_comm_abort(kolo, code);
    if (state->machines && is_broken)
        say_rank(state, failure.rank);
    fflush(stderr);
    mpi_host.Comm_call_errhandler(comm, code);
    return code;
}

int mpi_fail(const struct mpi_state *state, mpi_word comm, int rc) {
    return fail(state, comm, rc, kolo_error_message());
}

int mpi_fail_before(const struct mpi_state *state, mpi_word comm, const char *message) {
    return fail(state, comm, KOLO_ERR_SYSTEM, message);
}

int mpi_fail_packing(const struct mpi_state *state, mpi_word comm) {
    return mpi_fail_before(state, comm, "no memory for packed data, or the MPI cannot pack it");
}

/* Messages. */

static bool is_word(const char *at, size_t bytes, const char *word) {
    return strlen(word) == bytes && strncmp(at, word, bytes) == 0;
}

/* The MPI's function for the collective that the word is the name of; MPI_FUNCTIONS: none. */
static unsigned find_function(const char *at, size_t bytes) {
    unsigned i = 0;
    while (i < MPI_FUNCTIONS && !is_word(at, bytes, kolo_name(KOLO_NAME_COLLECTIVE, (int)mpi_call_collective(i))))
        i++;
    return i;
}

/* Puts the MPI's word for that of kolo at `at`, which has so many bytes, or the same. What is moved goes as bytes. */
static int translate(const char *at, size_t bytes, char *text, size_t text_bytes) {
    const unsigned function = find_function(at, bytes);
    if (function < MPI_FUNCTIONS)
        return snprintf(text, text_bytes, "MPI_%s", mpi_function_names[function]);
    if (is_word(at, bytes, "u8") || is_word(at, bytes, "kolo_comm_destroy"))
        return snprintf(text, text_bytes, "%s", *at == 'u' ? "bytes" : "MPI_Finalize");
    return snprintf(text, text_bytes, "%.*s", (int)bytes, at);
}

/* A word, or one character that is in none. */
static size_t word_bytes(const char *at) {
    const size_t bytes = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return bytes ? bytes : 1;
}

/* " (1024 MPI_DOUBLE, MPI_SUM)" for "allreduce of 1024 f64, sum", at `call`; nothing where that is not known. */
static void describe_own(const struct mpi_state *state, const char *call, char *own, size_t own_bytes) {
    const unsigned function = find_function(call, word_bytes(call));
    const struct mpi_reduction *const reduction = state->reduction;
    unsigned long long count;
    *own = '\0';
    if (function == MPI_FUNCTIONS || sscanf(call, "%*s of %llu ", &count) != 1)
        return;
    if (!(kolo_collective_has(mpi_call_collective(function)) & KOLO_HAS_OP)) {
        if (state->type && count % state->type->bytes == 0)
            snprintf(own, own_bytes, " (%llu %s)", count / state->type->bytes, mpi_type_name(state->type));
    } else if (reduction) {
        snprintf(own, own_bytes, " (%llu %s, %s)", count / reduction->parts,
                 mpi_type_name(mpi_type_find(state->reduction_type)), mpi_operation_name(state->reduction_op));
    }
}

const char *mpi_word_unnamed(const char *message, int rank) {
    char begin[40];
    const int bytes = snprintf(begin, sizeof begin, "rank %d: ", rank);
    return strncmp(message, begin, (size_t)bytes) == 0 ? message + bytes : message;
}

void mpi_word_message(const struct mpi_state *state, int rank, const char *message, char text[MPI_WORDING_BYTES]) {
    char begin[40], own[120] = "";
    size_t used = 0;
    snprintf(begin, sizeof begin, "rank %d calls ", rank);
    const char *const found = strstr(message, begin), *const call = found ? found + strlen(begin) : NULL;
    for (const char *at = mpi_word_unnamed(message, rank);
         *at && used + sizeof own + sizeof begin < MPI_WORDING_BYTES;) {
        const size_t bytes = word_bytes(at);
        if (at == call)
            describe_own(state, call, own, sizeof own);
        const bool ends_own = call && at > call && *at == ',';
        if (ends_own) {
            used += (size_t)snprintf(text + used, MPI_WORDING_BYTES - used, "%s", own);
            *own = '\0';
        }
        used += (size_t)translate(at, bytes, text + used, MPI_WORDING_BYTES - used);
        at += bytes;
    }
    snprintf(text + used, MPI_WORDING_BYTES - used, "%s", own);
}
