/* Processes: what /proc and pidfds tell of one. That is its start time, namespace, state, and how it ended. */
#include "comm/failure/process.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"

/* Requests of pidfds that older headers lack: linux/pidfd.h of 6.11 (namespace), 6.13 (info) and 6.15 (exit). */
#define GET_PID_NAMESPACE _IO(0xff, 5)
#define GET_INFO          _IOWR(0xff, 11, struct info)
#define INFO_EXIT         (UINT64_C(1) << 3)

/* The first 64 bytes of the kernel's struct pidfd_info, which is all that the first version had. */
struct info {
    uint64_t mask; /* the fields asked for; afterwards those that the kernel has filled in */
    uint64_t cgroup;
    uint32_t ids[11];
    int32_t exit_code;
};

_Static_assert(sizeof(struct info) == 64, "PIDFD_INFO_SIZE_VER0");

enum { FIELD_STATE = 3, FIELD_PARENT = 4, FIELD_FLAGS = 9, FIELD_THREADS = 20, FIELD_START = 22, FIELD_EXIT_CODE = 52 };

#define FLAG_EXITING 4 /* the kernel's PF_EXITING */

/* Returns true if the pids that /proc shows are those of the caller's namespace. */
static bool proc_is_own(void) {
    char target[24] = "";
    const ssize_t length = readlink("/proc/self", target, sizeof target - 1);
    return length > 0 && strtol(target, NULL, 10) == (long)getpid();
}

static int read_stat(uint32_t pid, uint32_t tid, char *text, size_t room) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/task/%u/stat", pid, tid);
    const ssize_t length = kolo_file_read(path, text, room - 1);
    if (length <= 0)
        return length == 0 || length == -ENOENT || length == -ESRCH ? -ESRCH : -EIO;
    text[length] = '\0';
    return 0;
}

/* Parses "pid (name) state parent ..."; the name may hold spaces and parentheses. */
static int parse_stat(char *text, struct kolo_process *process) {
    char *open_mark = strchr(text, '('), *close_mark = strrchr(text, ')'), *rest;
    if (!open_mark || !close_mark)
        return -EIO;
    *close_mark = '\0';
    *process = (struct kolo_process){.wait_status = -1};
    snprintf(process->name, sizeof process->name, "%.31s", open_mark + 1);
    int field = FIELD_STATE;
    for (char *word = strtok_r(close_mark + 1, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest), field++) {
        if (field == FIELD_STATE)
            process->state = *word;
        else if (field == FIELD_PARENT)
            process->parent = (uint32_t)strtoul(word, NULL, 10);
        else if (field == FIELD_FLAGS)
            process->is_exiting = strtoul(word, NULL, 10) & FLAG_EXITING;
        else if (field == FIELD_THREADS)
            process->threads = (uint32_t)strtoul(word, NULL, 10);
        else if (field == FIELD_START)
            process->start = strtoull(word, NULL, 10);
        else if (field == FIELD_EXIT_CODE)
            process->wait_status = (int32_t)strtol(word, NULL, 10);
    }
    return field > FIELD_START ? 0 : -EIO;
}

int kolo_process_read(uint32_t pid, struct kolo_process *process) {
    char text[1024];
    if (!proc_is_own())
        return -EIO;
    /* Reads the stat of the main thread: qemu-user makes up /proc/<own pid>/stat, but not that one. */
    const int rc = read_stat(pid, pid, text, sizeof text);
    return rc < 0 ? rc : parse_stat(text, process);
}

uint64_t kolo_process_own_start(void) {
    struct kolo_process process;
    return kolo_process_read((uint32_t)getpid(), &process) == 0 ? process.start : 0;
}

uint64_t kolo_process_own_namespace(void) {
    struct stat found;
    if (stat("/proc/self/ns/pid", &found) == 0)
        return (uint64_t)found.st_ino;
    uint64_t number = 0;
    const int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (pidfd < 0)
        return 0;
    const int fd = ioctl(pidfd, GET_PID_NAMESPACE, 0);
    if (fd >= 0 && fstat(fd, &found) == 0)
        number = (uint64_t)found.st_ino;
    if (fd >= 0)
        close(fd);
    close(pidfd);
    return number;
}

bool kolo_process_is_zombie(const struct kolo_process *process) {
    return process->state == 'X' || (process->state == 'Z' && process->threads <= 1);
}

bool kolo_process_alive(uint32_t pid, uint64_t start) {
    struct kolo_process process;
    const int rc = kolo_process_read(pid, &process);
    if (rc == -ESRCH)
        return false;
    if (rc < 0)
        return kill((pid_t)pid, 0) == 0 || errno == EPERM;
    return !kolo_process_is_zombie(&process) && (start == 0 || process.start == start);
}

char kolo_process_activity(uint32_t pid) {
    static const char order[] = "RDSIT"; /* the first of these states that some thread has counts for all */
    char path[64], text[1024];
    const char *most = NULL;
    snprintf(path, sizeof path, "/proc/%u/task", pid);
    DIR *tasks = proc_is_own() ? opendir(path) : NULL;
    for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
        struct kolo_process thread;
        if (*entry->d_name == '.' ||
            read_stat(pid, (uint32_t)strtoul(entry->d_name, NULL, 10), text, sizeof text) < 0 ||
            parse_stat(text, &thread) < 0)
            continue;
        const char *place = thread.state ? strchr(order, thread.state == 't' ? 'T' : thread.state) : NULL;
        if (place && (!most || place < most))
            most = place;
    }
    if (tasks)
        closedir(tasks);
    return !most ? 0 : *most == 'I' ? 'S' : *most;
}

static int reaped_status(int pidfd) {
    struct info info = {.mask = INFO_EXIT};
    if (pidfd < 0 || ioctl(pidfd, GET_INFO, &info) < 0 || !(info.mask & INFO_EXIT))
        return -1;
    return info.exit_code;
}

int kolo_process_wait_status(int pidfd, uint32_t pid, uint64_t start) {
    /* /proc tells until the parent has waited for the process, the pidfd from then on: it is asked before and after. */
    struct kolo_process process;
    int status = reaped_status(pidfd);
    if (status < 0 && kolo_process_read(pid, &process) == 0 && process.start == start &&
        kolo_process_is_zombie(&process))
        status = process.wait_status;
    return status < 0 ? reaped_status(pidfd) : status;
}
