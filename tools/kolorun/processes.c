/* Files of one process are read as untrusted text. */
#include "processes.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/file.h"

void process_text_read(const char *proc, long pid, const char *name, char *text, size_t text_bytes) {
    char path[512];
    text[0] = '\0';
    if (snprintf(path, sizeof path, "%s/%ld/%s", proc, pid, name) >= (int)sizeof path)
        return;
    const ssize_t bytes = kolo_file_read(path, text, text_bytes - 1);
    text[bytes > 0 ? bytes : 0] = '\0';
}

bool process_status_read(const char *proc, long pid, const char *key, char *value, size_t value_bytes) {
    char status[PROCESS_STATUS_BYTES];
    process_text_read(proc, pid, "status", status, sizeof status);
    const char *at = strstr(status, key);
    while (at != NULL && at != status && at[-1] != '\n')
        at = strstr(at + 1, key);
    if (at == NULL)
        return false;
    at += strlen(key);
    at += strspn(at, " \t");
    const size_t length = strcspn(at, "\n");
    snprintf(value, value_bytes, "%.*s", (int)length, at);
    return length > 0 && length < value_bytes;
}

char process_state(const char *proc, long pid) {
    char state[32];
    return process_status_read(proc, pid, "State:", state, sizeof state) ? state[0] : 0;
}

/* Adoption is best effort: where the kernel cannot list children, leftovers stay, as they would without it. */

#define ROUNDS_MAX 100
#define ROUND_NS   10000000

enum { CHILDREN_MAX = 4096 };

static int inherited[CHILDREN_MAX], inherited_count; /* the caller's children; 0: has been waited for */

static int list_children(int pids[CHILDREN_MAX]) {
    FILE *file = fopen("/proc/thread-self/children", "re");
    int count = 0;
    while (file != NULL && count < CHILDREN_MAX && fscanf(file, "%d", &pids[count]) == 1)
        count++;
    if (file != NULL)
        fclose(file);
    return count;
}

static bool is_inherited(int pid) {
    bool found = false;
    for (int i = 0; i < inherited_count; i++)
        found |= inherited[i] == pid;
    return found;
}

/* Returns how many children there were for the signal; 0: none. */
static int signal_children(int signal_number) {
    int pids[CHILDREN_MAX], count = 0;
    const int children = list_children(pids);
    for (int i = 0; i < children; i++)
        count += pids[i] > 0 && !is_inherited(pids[i]) && kill(pids[i], signal_number) == 0;
    return count;
}

void leftover_processes_adopt(void) {
    inherited_count = list_children(inherited);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
}

void leftover_processes_reaped(pid_t pid) {
    for (int i = 0; i < inherited_count; i++)
        if (inherited[i] == pid)
            inherited[i] = 0;
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
