/* Files of one process are read as untrusted text. */
#include "processes.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

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

static bool is_among(const int *pids, int count, int pid) {
    bool found = false;
    for (int i = 0; i < count; i++)
        found |= pids[i] == pid;
    return found;
}

bool asks_to_end(int signal_number) {
    return signal_number == SIGINT || signal_number == SIGTERM || signal_number == SIGHUP || signal_number == SIGQUIT;
}

int children_signal(const pid_t *ranks, int count, int signal_number, bool by_terminal, enum reach reach) {
    static int told[CHILDREN_MAX], told_count;
    int pids[CHILDREN_MAX], found = 0;
    const int children = reach == REACH_RANKS ? 0 : list_children(pids);
    if (children > 0)
        count = children;
    else
        memcpy(pids, ranks, (size_t)count * sizeof *pids);
    for (int i = 0; i < count; i++) {
        if (pids[i] <= 0 || is_among(inherited, inherited_count, pids[i]))
            continue;
        const bool wanted = reach != REACH_NEW || !is_among(told, told_count, pids[i]);
        const bool has_it = by_terminal && getpgid(pids[i]) == getpgrp();
        found += kill(pids[i], wanted && !has_it ? signal_number : 0) == 0;
        if (wanted && asks_to_end(signal_number))
            (void)kill(pids[i], SIGCONT);
    }
    if (asks_to_end(signal_number)) {
        memcpy(told, pids, (size_t)count * sizeof *told);
        told_count = count;
    }
    return found;
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
