#include "held_time.h"

#include <dirent.h>
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness.h"

enum { LOOK_MS = 5, CHAIN = 3 };

/* All threads of a process count as one. */
static struct held {
    _Atomic bool marked;
    _Atomic int64_t late_ns, marked_late_ns;
    struct {
        _Atomic pid_t pid;
        _Atomic int64_t marked_ns, last_ns; /* at the mark and, once it has left, at its end */
    } ranks[HARNESS_RANKS_MAX];
} * held;

void held_begin(void) {
    held = mmap(NULL, sizeof *held, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (held == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
}

void held_team(void) {
    atomic_store(&held->marked, false);
    for (int rank = 0; rank < HARNESS_RANKS_MAX; rank++) {
        atomic_store(&held->ranks[rank].pid, 0);
        atomic_store(&held->ranks[rank].last_ns, 0);
    }
}

/* Of all threads of a process; 0 if it is gone. */
static int64_t process_held_ns(pid_t pid) {
    char path[300];
    int64_t sum_ns = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        int64_t ns = 0;
        snprintf(path, sizeof path, "/proc/%d/task/%s/schedstat", (int)pid, entry->d_name);
        FILE *file = *entry->d_name == '.' ? NULL : fopen(path, "re");
        if (file && fscanf(file, "%*d %" SCNd64, &ns) == 1)
            sum_ns += ns;
        if (file)
            fclose(file);
    }
    if (directory)
        closedir(directory);
    return sum_ns;
}

void held_enter(int rank, pid_t pid) {
    atomic_store(&held->ranks[rank].pid, pid);
}

void held_leave(int rank) {
    if (atomic_load(&held->marked)) /* nobody asks otherwise */
        atomic_store(&held->ranks[rank].last_ns, process_held_ns(getpid()));
}

void held_await(pid_t pid) {
    struct pollfd ended = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
    while (ended.fd >= 0) {
        const int64_t begin_ns = now_ns();
        if (poll(&ended, 1, LOOK_MS) != 0)
            break;
        const int64_t late_ns = now_ns() - begin_ns - LOOK_MS * INT64_C(1000000);
        atomic_fetch_add(&held->late_ns, late_ns > 0 ? late_ns : 0);
    }
    if (ended.fd >= 0)
        close(ended.fd);
}

void held_mark(void) {
    for (int rank = 0; rank < HARNESS_RANKS_MAX; rank++) {
        const pid_t pid = atomic_load(&held->ranks[rank].pid);
        if (pid)
            atomic_store(&held->ranks[rank].marked_ns, process_held_ns(pid));
    }
    atomic_store(&held->marked_late_ns, atomic_load(&held->late_ns));
    atomic_store(&held->marked, true);
}

int64_t held_since_mark_ns(void) {
    int64_t most_ns[CHAIN] = {0}, sum_ns = atomic_load(&held->late_ns) - atomic_load(&held->marked_late_ns);
    if (!atomic_load(&held->marked))
        return 0;
    for (int rank = 0; rank < HARNESS_RANKS_MAX; rank++) {
        const pid_t pid = atomic_load(&held->ranks[rank].pid);
        const int64_t last_ns = atomic_load(&held->ranks[rank].last_ns);
        int64_t ns = pid == 0 ? 0 : (last_ns ? last_ns : process_held_ns(pid)) - held->ranks[rank].marked_ns;
        for (int i = 0; i < CHAIN; i++) /* the largest first */
            if (ns > most_ns[i]) {
                const int64_t less_ns = most_ns[i];
                most_ns[i] = ns;
                ns = less_ns;
            }
    }
    for (int i = 0; i < CHAIN; i++)
        sum_ns += most_ns[i];
    return sum_ns;
}
