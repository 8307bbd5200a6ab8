/* A tool as profilers are: functions MPI_X, of C and of Fortran, that count and call PMPI_X. Linked into a program, as
 * a library or preloaded, it says at the end what its process has called. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FUNCTIONS_MAX = 16 };

static struct {
    const char *name;
    int calls;
} counts[FUNCTIONS_MAX];

/* What Fortran calls: all arguments are addresses. Those are missing that no library of the process has: each MPI has
 * mpi_f08 by names of its own. */
#pragma weak pmpi_init_
#pragma weak pmpi_finalize_
#pragma weak pmpi_init_f08_
#pragma weak pmpir_init_f08_
#pragma weak pmpi_allreduce_
#pragma weak pmpi_allreduce_f08_
#pragma weak pmpir_allreduce_f08ts_
typedef void fortran_begin(int *error);
typedef void fortran_allreduce(const void *send, void *recv, const int *n, const int *type, const int *op,
                               const int *comm, int *error);
fortran_begin mpi_init_, mpi_finalize_, mpi_init_f08_, pmpi_init_, pmpi_finalize_, pmpi_init_f08_, pmpir_init_f08_;
fortran_allreduce mpi_allreduce_, mpi_allreduce_f08_, mpi_allreduce_f08ts_, pmpi_allreduce_, pmpi_allreduce_f08_,
    pmpir_allreduce_f08ts_;

static void print_counts(void) {
    char line[1000] = "";
    for (int i = 0, used = 0; i < FUNCTIONS_MAX && counts[i].name; i++)
        used += snprintf(line + used, sizeof line - (size_t)used, " %s %d", counts[i].name, counts[i].calls);
    fprintf(stderr, "tool:%s\n", line);
}

static void count(const char *name) {
    int i = 0;
    while (i < FUNCTIONS_MAX - 1 && counts[i].name && strcmp(counts[i].name, name) != 0)
        i++;
    if (i == 0 && !counts[i].name)
        atexit(print_counts);
    counts[i].name = name;
    counts[i].calls++;
}

int MPI_Init(int *argc, char ***argv) {
    count(__func__);
    return PMPI_Init(argc, argv);
}

int MPI_Finalize(void) {
    count(__func__);
    return PMPI_Finalize();
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *made) {
    count(__func__);
    return PMPI_Comm_dup(comm, made);
}

int MPI_Comm_free(MPI_Comm *comm) {
    count(__func__);
    return PMPI_Comm_free(comm);
}

int MPI_Comm_rank(MPI_Comm comm, int *rank) {
    count(__func__);
    return PMPI_Comm_rank(comm, rank);
}

int MPI_Barrier(MPI_Comm comm) {
    count(__func__);
    return PMPI_Barrier(comm);
}

int MPI_Bcast(void *buffer, int n, MPI_Datatype type, int root, MPI_Comm comm) {
    count(__func__);
    return PMPI_Bcast(buffer, n, type, root, comm);
}

int MPI_Allreduce(const void *send, void *recv, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    count(__func__);
    return PMPI_Allreduce(send, recv, n, type, op, comm);
}

int MPI_Reduce(const void *send, void *recv, int n, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
    count(__func__);
    return PMPI_Reduce(send, recv, n, type, op, root, comm);
}

void mpi_init_(int *error) {
    count(__func__);
    pmpi_init_(error);
}

void mpi_finalize_(int *error) {
    count(__func__);
    pmpi_finalize_(error);
}

void mpi_allreduce_(const void *send, void *recv, const int *n, const int *type, const int *op, const int *comm,
                    int *error) {
    count(__func__);
    pmpi_allreduce_(send, recv, n, type, op, comm, error);
}

void mpi_init_f08_(int *error) {
    count(__func__);
    (pmpi_init_f08_ ? pmpi_init_f08_ : pmpir_init_f08_)(error);
}

void mpi_allreduce_f08_(const void *send, void *recv, const int *n, const int *type, const int *op, const int *comm,
                        int *error) {
    count(__func__);
    pmpi_allreduce_f08_(send, recv, n, type, op, comm, error);
}

void mpi_allreduce_f08ts_(const void *send, void *recv, const int *n, const int *type, const int *op, const int *comm,
                          int *error) {
    count(__func__);
    pmpir_allreduce_f08ts_(send, recv, n, type, op, comm, error);
}
