/* Adoption is best effort: where the kernel cannot list children, leftovers stay, as they would without it. */
#include "leftover_processes.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/clock.h"

#define ROUNDS_MAX 100
#define ROUND_NS   10000000

void leftover_processes_adopt(void) {
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* Returns how many children there were for the signal; 0: none. */
static int signal_children(int signal_number) {
    FILE *file = fopen("/proc/thread-self/children", "re");
    if (file == NULL)
        return 0;
    int count = 0, pid;
    while (fscanf(file, "%d", &pid) == 1)
        count += pid > 0 && kill(pid, signal_number) == 0;
    fclose(file);
    return count;
}

int leftover_processes_count(void) {
    return signal_children(0);
}

/* A killed process hands its own children on to us: go round until there is none. */
void leftover_processes_kill(void) {
    for (int round = 0; round < ROUNDS_MAX && signal_children(SIGKILL) > 0; round++) {
        pid_t pid;
        do
            pid = waitpid(-1, NULL, WNOHANG);
        while (pid > 0);
        if (pid < 0) /* no child is left */
            return;
        kolo_clock_sleep(ROUND_NS);
    }
}
