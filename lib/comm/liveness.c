#include "comm/liveness.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/status.h"
#include "shm/layout.h"

enum {
    NOT_OPENED = -1, /* poll ignores negative descriptors */
    NO_PIDFD = -2,
    POLL_BATCH = 64 /* poll refuses more than RLIMIT_NOFILE at once */
};

int kolo_process_read(uint32_t pid, struct kolo_process *process) {
    char path[64], text[1024];
    /* By way of the main thread: under qemu-user, which makes up /proc/<own pid>/stat, that one tells the truth. */
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/task/%" PRIu32 "/stat", pid, pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT && access("/proc/self/stat", F_OK) == 0 ? -ESRCH : -EIO;
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 0)
        return -ESRCH;
    text[length] = '\0';
    /* pid (name) state parent ...; the name may hold spaces and parentheses; the start time is field 22. */
    char *open_mark = strchr(text, '('), *close_mark = strrchr(text, ')');
    if (!open_mark || !close_mark)
        return -EIO;
    *close_mark = '\0';
    snprintf(process->name, sizeof process->name, "%.31s", open_mark + 1);
    if (sscanf(close_mark + 1,
               " %c %" SCNu32 " %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %" SCNu64,
               &process->state, &process->parent, &process->start) != 3)
        return -EIO;
    return 0;
}

uint64_t kolo_process_own_start(void) {
    struct kolo_process process;
    return kolo_process_read((uint32_t)getpid(), &process) == 0 ? process.start : 0;
}

bool kolo_process_alive(uint32_t pid, uint64_t start) {
    struct kolo_process process;
    int rc = kolo_process_read(pid, &process);
    if (rc == -ESRCH)
        return false;
    if (rc < 0)
        return kill((pid_t)pid, 0) == 0 || errno == EPERM;
    return process.state != 'Z' && process.state != 'X' && (start == 0 || process.start == start);
}

int kolo_liveness_create(struct kolo_liveness *liveness, uint32_t ranks) {
    liveness->ranks = ranks;
    liveness->peers = malloc(ranks * sizeof *liveness->peers);
    liveness->ended = calloc(ranks, sizeof *liveness->ended);
    if (!liveness->peers || !liveness->ended)
        return kolo_fail(KOLO_ERR_SYSTEM, "out of memory");
    for (uint32_t rank = 0; rank < ranks; rank++)
        liveness->peers[rank] = (struct pollfd){.fd = NOT_OPENED, .events = POLLIN};
    return 0;
}

void kolo_liveness_destroy(struct kolo_liveness *liveness) {
    for (uint32_t rank = 0; liveness->peers && rank < liveness->ranks; rank++)
        if (liveness->peers[rank].fd >= 0)
            close(liveness->peers[rank].fd);
    free(liveness->peers);
    free(liveness->ended);
}

/* Opens a pidfd for a peer. The start time is checked after that: from then on the descriptor stands for that process
 * and no other. */
static void watch(struct kolo_liveness *liveness, uint32_t rank, const struct kolo_shared_member *member) {
    struct pollfd *peer = &liveness->peers[rank];
    peer->fd = (int)syscall(SYS_pidfd_open, member->pid, 0);
    if (peer->fd < 0)
        peer->fd = NO_PIDFD;
    if (!kolo_process_alive(member->pid, member->start))
        liveness->ended[rank] = true;
}

static void poll_batch(struct kolo_liveness *liveness, uint32_t first) {
    uint32_t left = liveness->ranks - first, count = left < POLL_BATCH ? left : POLL_BATCH;
    if (poll(&liveness->peers[first], count, 0) <= 0)
        return;
    for (uint32_t rank = first; rank < first + count; rank++) {
        struct pollfd *peer = &liveness->peers[rank];
        if (peer->fd < 0 || !peer->revents)
            continue;
        liveness->ended[rank] = true;
        close(peer->fd);
        peer->fd = NO_PIDFD;
    }
}

void kolo_liveness_look(struct kolo_liveness *liveness, const struct kolo_shared_member *members, uint32_t self) {
    const uint32_t own_pid = members[self].pid;
    for (uint32_t rank = 0; rank < liveness->ranks; rank++) {
        if (members[rank].pid == own_pid || liveness->ended[rank])
            continue;
        if (liveness->peers[rank].fd == NOT_OPENED)
            watch(liveness, rank, &members[rank]);
        else if (liveness->peers[rank].fd == NO_PIDFD && !kolo_process_alive(members[rank].pid, members[rank].start))
            liveness->ended[rank] = true;
    }
    for (uint32_t first = 0; first < liveness->ranks; first += POLL_BATCH)
        poll_batch(liveness, first);
}
