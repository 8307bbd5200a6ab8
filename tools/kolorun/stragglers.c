/* Finding them by what /proc and kolo_watch.h show; nothing of it disturbs the ranks. */
#include "stragglers.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kolo.h"
#include "kolo_watch.h"
#include "messages.h"
#include "processes.h"

#define LIST_BYTES 200

static bool is_stopped(char state) {
    return state == 'T' || state == 't';
}

static void tell_stopped(const struct watched_job *job) {
    bool stopped[KOLO_RANKS_MAX] = {false};
    char list[LIST_BYTES];
    for (int rank = 0; rank < job->ranks; rank++)
        stopped[rank] = job->pids[rank] > 0 && is_stopped(process_state("/proc", job->pids[rank]));
    const int count = message_list_format(list, sizeof list, "rank", stopped, job->ranks, job->first_rank);
    if (count > 0)
        message_print("%s %s stopped, by a signal such as SIGSTOP or by a debugger", list, count == 1 ? "is" : "are");
}

/* The rank for which `rank` waits in the end: itself where it waits for nobody. */
static int end_of_wait(const kolo_watched_rank *seen, int ranks, int rank) {
    for (int steps = 0; steps < ranks; steps++) {
        const int next = seen[rank].waits_for;
        if (next < 0 || next >= ranks || is_stopped(seen[rank].process))
            return rank;
        rank = next;
    }
    return rank;
}

static const char *activity(char state) {
    return is_stopped(state) ? "stopped"
           : state == 'R'    ? "running"
           : state == 'D'    ? "blocked in the kernel"
           : state == 0      ? "no longer there"
                             : "sleeping";
}

/* The number that kolorun has given to a rank of the communicator, which may count them in another way. */
static int number_of(const struct watched_job *job, int pid, int rank) {
    for (int i = 0; i < job->ranks; i++)
        if (job->pids[i] == pid)
            return job->first_rank + i;
    return rank;
}

static void tell_awaited(const kolo_watched_rank *rank, int number, int waiting, const kolo_watched_call *call) {
    char place[80] = "before its first call";
    const char *name = call != NULL ? kolo_name(KOLO_NAME_COLLECTIVE, call->collective) : NULL;
    if (rank->calls > 0)
        snprintf(place, sizeof place, "%s its call %llu (%s)", rank->calls > rank->calls_ended ? "in" : "after",
                 (unsigned long long)rank->calls, name != NULL ? name : "unknown");
    message_print("%d other%s wait%s for rank %d (pid %d), which is %s, %s", waiting, waiting == 1 ? "" : "s",
                  waiting == 1 ? "s" : "", number, rank->pid, activity(rank->process), place);
}

static void tell_absent(const struct watched_job *job, const bool *absent, int ranks) {
    char list[LIST_BYTES];
    if (message_list_format(list, sizeof list, "rank", absent, ranks, job->first_rank) > 0)
        message_print("%s never came to kolo_comm_create, where the others wait", list);
}

/* Names the ranks that a communicator still lacks, or else the one for which most of the others wait, if any do. */
static void look_at_waits(const struct watched_job *job, const kolo_watch *watch, int index, int ranks) {
    static kolo_watched_rank seen[KOLO_RANKS_MAX];
    bool absent[KOLO_RANKS_MAX] = {false};
    int waiting[KOLO_RANKS_MAX] = {0}, most = 0;
    for (int rank = 0; rank < ranks; rank++) {
        seen[rank] = (kolo_watched_rank){.rank_bytes = sizeof seen[rank]};
        if (kolo_watch_rank(watch, index, rank, &seen[rank]) < 0)
            return;
        absent[rank] = seen[rank].pid == 0;
    }
    tell_absent(job, absent, ranks);
    for (int rank = 0; rank < ranks; rank++) {
        const int end = end_of_wait(seen, ranks, rank);
        waiting[end] += end != rank;
    }
    for (int rank = 1; rank < ranks; rank++)
        if (waiting[rank] > waiting[most])
            most = rank;
    if (waiting[most] == 0)
        return;
    kolo_watched_call call = {.call_bytes = sizeof call};
    const bool is_known = kolo_watch_call(watch, index, most, seen[most].calls, &call) == 0;
    tell_awaited(&seen[most], number_of(job, seen[most].pid, most), waiting[most], is_known ? &call : NULL);
}

/* Returns whether there are communicators. */
static bool tell_waits(const struct watched_job *job) {
    char target[16];
    kolo_watch *watch;
    bool any = false;
    snprintf(target, sizeof target, "%d", (int)getpid());
    if (kolo_watch_open(&watch, target) < 0)
        return false;
    const int count = kolo_watch_search(watch, NULL);
    for (int index = 0; index < count; index++) {
        kolo_watched_comm comm = {.comm_bytes = sizeof comm};
        if (kolo_watch_read(watch, index, &comm) < 0)
            continue;
        any = true;
        if (!comm.over && comm.failure == 0 && comm.ranks <= KOLO_RANKS_MAX)
            look_at_waits(job, watch, index, comm.ranks);
    }
    kolo_watch_close(watch);
    return any;
}

/* True if the process has the file open a second time, or mapped: then it has called kolo_comm_create. */
static bool has_come(pid_t pid, const struct stat *segment) {
    char path[64], maps[1 << 16], line[64];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *folder = opendir(path);
    for (const struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        struct stat found;
        count += fstatat(dirfd(folder), entry->d_name, &found, 0) == 0 && found.st_dev == segment->st_dev &&
                 found.st_ino == segment->st_ino;
    }
    if (folder != NULL)
        closedir(folder);
    process_text_read("/proc", pid, "maps", maps, sizeof maps);
    snprintf(line, sizeof line, " %llu ", (unsigned long long)segment->st_ino);
    for (const char *at = strstr(maps, line); at != NULL; at = strstr(at + 1, line))
        if (strncmp(at + strlen(line) + strspn(at + strlen(line), " "), "/memfd:kolo", 11) == 0)
            return true;
    return count > 1;
}

/* Before there is a communicator: names those that have not come, if others have. */
static void tell_who_came(const struct watched_job *job) {
    bool absent[KOLO_RANKS_MAX] = {false};
    struct stat segment;
    int came = 0;
    if (job->segment_fd < 0 || fstat(job->segment_fd, &segment) != 0)
        return;
    for (int rank = 0; rank < job->ranks; rank++) {
        absent[rank] = job->pids[rank] <= 0 || !has_come(job->pids[rank], &segment);
        came += !absent[rank];
    }
    if (came > 0)
        tell_absent(job, absent, job->ranks);
}

void stragglers_tell(const struct watched_job *job) {
    tell_stopped(job);
    if (!tell_waits(job))
        tell_who_came(job);
}
