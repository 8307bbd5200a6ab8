/* A /dev/shm that is too small for the slots, or for anything: memory that no mount limits takes its place, or the
 * error tells need and limit; never a bus error. Needs the right to mount, in a mount namespace of its own. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "harness.h"

static void run_allreduce(struct rank *rank) {
    enum { COUNT = 300000 };
    float *data = malloc(COUNT * sizeof *data);
    for (size_t i = 0; i < COUNT; i++)
        data[i] = (float)(rank->rank + (int)(i % 100));
    int status = kolo_allreduce(rank->comm, data, data, COUNT, KOLO_F32, KOLO_SUM);
    bool right = expect_status(rank, status, 0, "kolo_allreduce");
    const float ranks = (float)rank->ranks;
    for (size_t i = 0; right && i < COUNT; i++)
        right = expect(rank, data[i] == ranks * (ranks - 1) / 2 + ranks * (float)(i % 100), "element %zu is wrong", i);
    free(data);
}

/* With no room for the job file itself, rank 0 must say so; the others then wait in vain. */
static void run_without_room(struct rank *rank) {
    kolo_comm *comm = NULL;
    rank->options.create_timeout_ms = 1000;
    int status = kolo_comm_create(&comm, &rank->options);
    if (rank->rank == 0 && expect_status(rank, status, KOLO_ERR_NO_SPACE, "kolo_comm_create"))
        expect_message(rank, "kolo_comm_create", "bytes needed", "0 free", "enlarge", NULL);
    if (rank->rank != 0)
        expect_status(rank, status, KOLO_ERR_TIMEOUT, "kolo_comm_create");
}

static bool mount_shm(const char *size) {
    char options[64];
    snprintf(options, sizeof options, "size=%s,mode=1777", size);
    return mount("tmpfs", "/dev/shm", "tmpfs", 0, options) == 0;
}

static void run_mounted(const char *size) {
    for (int ranks = 2; ranks <= 4; ranks += 2)
        for (int by_descriptor = 0; by_descriptor < 2; by_descriptor++)
            harness_run(&(struct team){.ranks = ranks, .by_descriptor = by_descriptor, .run = run_allreduce});
    expect(NULL, umount("/dev/shm") == 0, "umount of /dev/shm of %s: %s", size, strerror(errno));
}

static void run_full(void) {
    char page[4096] = {0};
    int fd = open("/dev/shm/full", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    expect(NULL, fd >= 0 && write(fd, page, sizeof page) == sizeof page, "/dev/shm/full: %s", strerror(errno));
    harness_run(&(struct team){.ranks = 2, .creates_itself = true, .run = run_without_room});
    harness_run(&(struct team){.ranks = 2, .by_descriptor = true, .run = run_allreduce});
    close(fd);
}

int main(int argc, char **argv) {
    static const char *const sizes[] = {"1m", "16k", "8k"};
    harness_begin(argc, argv, "Creates communicators where /dev/shm is too small.");
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        harness_skip("no right to make a mount namespace (needs root)");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (!mount_shm(sizes[i]))
            harness_skip("no right to mount a tmpfs");
        run_mounted(sizes[i]);
    }
    if (expect(NULL, mount_shm("4k"), "mount: %s", strerror(errno)))
        run_full();
    return harness_end();
}
