/* A program that closes a library which uses kolo, with communicators that it has not destroyed: their threads, of each
 * kind, go on, and so need the code in which they run. Arguments: the shared library, and one with kolo inside. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "free_port.h"
#include "kolo.h"
#include "kolo_requests.h"

enum { RANKS = 2, TIMES = 3, COUNT = 100000, AWHILE_US = 30000, WRONG = 1 };

/* Which threads there are: one for requests, those of a rank's lanes, one between nodes. */
enum way { PROGRESS, LANES, NODES, WAYS };

static const char *const way_names[] = {"progress", "lanes", "nodes"};

static char rendezvous[TIMES][64];

static bool run_calls(void *library, enum way way, int time, int rank, int file) {
    kolo_options options = KOLO_OPTIONS_INIT;
    options.rank = rank;
    options.size = RANKS;
    options.shm_fd = file;
    options.progress = way == PROGRESS ? 1 : -1;
    options.threads = way == LANES ? 2 : 1;
    options.rendezvous = way == NODES ? rendezvous[time] : "";
    const __typeof__(&kolo_comm_create) create = (__typeof__(create))dlsym(library, "kolo_comm_create");
    const __typeof__(&kolo_iallreduce) start = (__typeof__(start))dlsym(library, "kolo_iallreduce");
    const __typeof__(&kolo_request_wait) await = (__typeof__(await))dlsym(library, "kolo_request_wait");
    const __typeof__(&kolo_error_message) why = (__typeof__(why))dlsym(library, "kolo_error_message");
    static float data[COUNT];
    kolo_comm *comm;
    kolo_request *request;
    if (!create || !start || !await || !why)
        return false;
    const int status = create(&comm, &options) < 0 || start(comm, data, data, COUNT, KOLO_F32, KOLO_SUM, &request) < 0
                           ? -1
                           : await(request);
    if (status < 0)
        fprintf(stderr, "%s: %s\n", way_names[way], why());
    return status == 0;
}

static bool close_it(const char *path, enum way way, int time, int rank, const int *files) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return false;
    }
    const bool ran = run_calls(library, way, time, rank, files[way == NODES ? rank : 0]);
    dlclose(library);
    usleep(AWHILE_US); /* threads wake up */
    if (ran && !dlopen(path, RTLD_NOW | RTLD_NOLOAD))
        fprintf(stderr, "%s: its threads (%s) have lost their code\n", path, way_names[way]);
    return ran && dlopen(path, RTLD_NOW | RTLD_NOLOAD);
}

/* Runs the ranks of one way, each time with a communicator of its own. */
static bool run(const char *path, enum way way) {
    int files[TIMES][RANKS], status, failed = 0;
    for (int i = 0; i < TIMES * RANKS; i++)
        files[i / RANKS][i % RANKS] = memfd_create("ranks", 0);
    for (int time = 0; time < TIMES; time++)
        snprintf(rendezvous[time], sizeof rendezvous[time], "127.0.0.1:%d", free_port((uint64_t)getpid() * TIMES));
    for (int rank = 0; rank < RANKS; rank++) {
        const pid_t pid = fork();
        for (int time = 0; pid == 0 && time < TIMES; time++)
            if (!close_it(path, way, time, rank, files[time]))
                _exit(WRONG);
        if (pid == 0)
            _exit(0);
    }
    while (wait(&status) > 0)
        if (status != 0 && ++failed)
            fprintf(stderr, "%s, %s: a rank ended with wait status %#x\n", path, way_names[way], (unsigned)status);
    for (int i = 0; i < TIMES * RANKS; i++)
        close(files[i / RANKS][i % RANKS]);
    return failed == 0;
}

int main(int argc, char **argv) {
    int failures = 0;
    setenv("KOLO_SECRET", "none", 1);
    for (int i = 1; i < argc; i++)
        for (enum way way = PROGRESS; way < WAYS; way++)
            failures += !run(argv[i], way);
    return failures > 0;
}
