#include "node_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "free_port.h"

enum { DEFAULT_STRIDE = 7 }; /* prime to the periods of the callers' loops */

static int files[NODES_MAX];
static char rendezvous[96];
static bool chooses_wait;
static unsigned meetings;

void nodes_open(void) {
    chooses_wait = !getenv("KOLO_WAIT");
    for (int node = 0; node < NODES_MAX; node++)
        files[node] = memfd_create("node", MFD_CLOEXEC);
}

int nodes_lay_out(const int *counts, int *node_of) {
    int ranks = 0;
    for (int node = 0; node < NODES_MAX && counts[node]; node++)
        for (int i = 0; i < counts[node]; i++)
            node_of[ranks++] = node;
    for (int node = 0; node < NODES_MAX; node++)
        if (ftruncate(files[node], 0) < 0)
            abort();
    return ranks;
}

/* A rank counts the ranks of its own node only. It would spin where those of other nodes need the same processor. */
static void choose_wait(void) {
    if (!chooses_wait)
        return;
    if (meetings++ % DEFAULT_STRIDE == 0)
        unsetenv("KOLO_WAIT");
    else
        setenv("KOLO_WAIT", "yield", 1);
}

void nodes_meet_at(const char *address) {
    const int port = free_port(random_seed(1, 0));
    if (port < 0)
        harness_skip("no free port");
    snprintf(rendezvous, sizeof rendezvous, "%s:%d", address, port);
    choose_wait();
}

void nodes_place(kolo_options *options, int node) {
    options->job = NULL;
    options->shm_fd = files[node];
    options->rendezvous = rendezvous;
}
