/* The record of each process that this one watches, and its pidfd, whatever communicators it is in. */
#include "comm/failure/peers.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sync/thread.h"
#include "base/file.h"
#include "comm/failure/process.h"

enum { BUCKETS = 256 };

#define PIDFS_MAGIC 0x50494446 /* linux/magic.h of 6.9 */

struct kolo_peer {
    struct kolo_peer *next; /* of its bucket */
    uint32_t pid;
    uint64_t start, pid_namespace;
    uint32_t users;         /* communicators */
    int pidfd;              /* -1: none */
    uint64_t device, inode; /* of the pidfd */
    bool is_unique;         /* device and inode tell it from other pidfds */
    struct kolo_ending ending;
};

static struct {
    uint64_t forks; /* see sync/thread.h */
    uint32_t pidfds;
    struct kolo_peer *buckets[BUCKETS];
} known;

/* Returns whether the descriptor's number still means that pidfd. Before Linux 6.9 all pidfds have one inode, which
 * other files have, too. There /proc, if it is mounted, shows the pid of a pidfd, -1 once that process is gone. */
static bool pidfd_is_own(const struct kolo_peer *peer) {
    char path[64], text[512], *line;
    if (!kolo_file_is(peer->pidfd, peer->device, peer->inode))
        return false;
    if (peer->is_unique)
        return true;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", peer->pidfd);
    const ssize_t length = kolo_file_read(path, text, sizeof text - 1);
    if (length < 0)
        return true;
    text[length] = '\0';
    line = strstr(text, "\nPid:");
    const long pid = line ? strtol(line + strlen("\nPid:"), NULL, 10) : 0;
    return pid == (long)peer->pid || pid == -1;
}

/* Forgets a number that now means another file. */
static void forget_pidfd(struct kolo_peer *peer) {
    peer->pidfd = -1;
    known.pidfds--;
}

static void drop_pidfd(struct kolo_peer *peer) {
    if (peer->pidfd < 0)
        return;
    if (pidfd_is_own(peer))
        close(peer->pidfd);
    forget_pidfd(peer);
}

static struct kolo_peer **bucket_of(uint32_t pid) {
    return &known.buckets[pid % BUCKETS];
}

static void forget_all(void) {
    for (uint32_t i = 0; i < BUCKETS; i++)
        for (struct kolo_peer *peer = known.buckets[i], *next; peer; peer = next) {
            next = peer->next;
            drop_pidfd(peer);
            free(peer);
        }
    memset(known.buckets, 0, sizeof known.buckets);
    known.pidfds = 0;
}

void kolo_peers_lock(void) {
    const uint64_t forks = kolo_common_lock();
    if (known.forks != forks)
        forget_all(); /* the parent's */
    known.forks = forks;
}

struct kolo_peer *kolo_peer_hold(const struct kolo_shared_process *process) {
    struct kolo_peer **bucket = bucket_of(process->pid), *peer = *bucket;
    while (peer && (peer->pid != process->pid || peer->start != process->start ||
                    peer->pid_namespace != process->pid_namespace))
        peer = peer->next;
    if (!peer) {
        peer = malloc(sizeof *peer);
        if (!peer)
            return NULL;
        *peer = (struct kolo_peer){.next = *bucket,
                                   .pid = process->pid,
                                   .start = process->start,
                                   .pid_namespace = process->pid_namespace,
                                   .pidfd = -1};
        *bucket = peer;
    }
    peer->users++;
    return peer;
}

void kolo_peer_release(struct kolo_peer *peer) {
    if (--peer->users > 0)
        return;
    struct kolo_peer **place = bucket_of(peer->pid);
    while (*place != peer)
        place = &(*place)->next;
    *place = peer->next;
    drop_pidfd(peer);
    free(peer);
}

/* wait_status: as waitpid tells it; -1: not known. */
static void note_end(struct kolo_peer *peer, int wait_status) {
    peer->ending = (struct kolo_ending){.cause = KOLO_CAUSE_ENDED};
    if (wait_status >= 0 && WIFSIGNALED(wait_status))
        peer->ending = (struct kolo_ending){KOLO_CAUSE_KILLED, WTERMSIG(wait_status)};
    else if (wait_status >= 0 && WIFEXITED(wait_status))
        peer->ending = (struct kolo_ending){KOLO_CAUSE_EXITED, WEXITSTATUS(wait_status)};
    drop_pidfd(peer);
}

/* Returns whether this process may open one more pidfd: at least half of its descriptors are left to the program. */
static bool may_open(void) {
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) < 0 || known.pidfds < limit.rlim_cur / 2;
}

/* Opens the peer's pidfd, then checks the start time: from then on the descriptor stands for that process alone. */
static void open_pidfd(struct kolo_peer *peer) {
    struct kolo_process found;
    struct stat file;
    struct statfs system;
    KOLO_POINT("liveness.opening");
    errno = EMFILE;
    const int fd = kolo_file_raise(may_open() ? (int)syscall(SYS_pidfd_open, peer->pid, 0) : -1);
    const int error = errno;
    KOLO_POINT("liveness.opened");
    if (fd < 0 && error == ESRCH)
        note_end(peer, -1);
    if (fd < 0)
        return;
    if (fstat(fd, &file) < 0) {
        close(fd);
        return;
    }
    peer->pidfd = fd;
    peer->device = file.st_dev;
    peer->inode = file.st_ino;
    peer->is_unique = fstatfs(fd, &system) == 0 && system.f_type == PIDFS_MAGIC;
    known.pidfds++;
    if (kolo_process_read(peer->pid, &found) == 0 && peer->start != 0 && found.start != peer->start)
        note_end(peer, -1);
}

/* Checks a peer whose pidfd says that it has ended. A pidfd that others may be taken for is not believed alone. */
static void check_end(struct kolo_peer *peer) {
    if (peer->is_unique || !kolo_process_alive(peer->pid, peer->start))
        note_end(peer, kolo_process_wait_status(peer->pidfd, peer->pid, peer->start));
    else
        forget_pidfd(peer);
}

void kolo_peers_poll(struct kolo_peer *const *peers, uint32_t count) {
    struct pollfd asked[KOLO_PEERS_POLLED];
    for (uint32_t i = 0; i < count; i++)
        asked[i] = (struct pollfd){.fd = peers[i] && !peers[i]->ending.cause ? peers[i]->pidfd : -1, .events = POLLIN};
    if (poll(asked, count, 0) <= 0)
        return;
    for (uint32_t i = 0; i < count; i++)
        if (asked[i].fd >= 0 && asked[i].revents && !peers[i]->ending.cause)
            kolo_peer_examine(peers[i]);
}

void kolo_peer_examine(struct kolo_peer *peer) {
    if (peer->ending.cause)
        return;
    if (peer->pidfd >= 0 && !pidfd_is_own(peer))
        forget_pidfd(peer);
    if (peer->pidfd < 0)
        open_pidfd(peer);
    struct pollfd asked = {.fd = peer->pidfd, .events = POLLIN};
    if (peer->ending.cause)
        return;
    if (peer->pidfd >= 0 && poll(&asked, 1, 0) > 0)
        check_end(peer);
    else if (peer->pidfd < 0 && !kolo_process_alive(peer->pid, peer->start))
        note_end(peer, kolo_process_wait_status(-1, peer->pid, peer->start));
}

struct kolo_ending kolo_peer_ending(const struct kolo_peer *peer) {
    return peer->ending;
}
