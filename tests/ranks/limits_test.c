/* The limits that a system sets: descriptors, file size, address space, locked memory, a control group's memory or its
 * huge pages, and a /dev/shm of 64 MB, read-only, absent, or swept while ranks join. Each works or is an error on all
 * ranks that tells need, limit and remedy; none is a signal. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "job_file.h"
#include "kolo_tools.h"

#ifndef __has_feature
#define __has_feature(feature) 0 /* gcc */
#endif
#if defined(__SANITIZE_ADDRESS__)
#define ADDRESS_SPACE_IS_FREE 0 /* the sanitizer's shadow takes it */
#else
#define ADDRESS_SPACE_IS_FREE 1
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define IS_CHECKED 1 /* by what needs memory itself, now and then */
#else
#define IS_CHECKED 0
#endif

enum { MIB = 1 << 20, NO_NETWORK = -2 };

/* A limit that one rank, or all of them, is under; what it must say. */
struct limit {
    const char *what;
    int resource; /* RLIMIT_*; -1: none but the surroundings'; NO_NETWORK: nor any that others are in */
    rlim_t value; /* of it; of RLIMIT_NOFILE and RLIMIT_AS: beyond what is in use */
    int rank;     /* which has it; -1: all */
    bool late;    /* only once the communicator is there, before kolo_alloc */
    int status;   /* wanted of that rank; 1: 0 or KOLO_ERR_SYSTEM */
    const char *words[3];
};

static rlim_t in_use(int resource) {
    unsigned long long pages = 0;
    if (resource == RLIMIT_NOFILE) {
        const int lowest = dup(0);
        close(lowest);
        return (rlim_t)lowest;
    }
    FILE *file = resource == RLIMIT_AS ? fopen("/proc/self/statm", "re") : NULL;
    if (file && fscanf(file, "%llu", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return (rlim_t)pages * 4096;
}

static bool is_limited(const struct rank *rank, const struct limit *limit) {
    return limit->resource >= 0 && (limit->rank < 0 || limit->rank == rank->rank);
}

static struct rlimit set_limit(const struct rank *rank, const struct limit *limit) {
    struct rlimit before;
    getrlimit(limit->resource, &before);
    const struct rlimit now = {in_use(limit->resource) + limit->value, before.rlim_max};
    expect(rank, setrlimit(limit->resource, &now) == 0, "setrlimit: %s", strerror(errno));
    return before;
}

static bool allreduce_once(const struct rank *rank, kolo_comm *comm, const char *what) {
    enum { COUNT = 50000 };
    float *data = calloc(COUNT, sizeof *data);
    const bool right = expect_status(rank, kolo_allreduce(comm, data, data, COUNT, KOLO_F32, KOLO_SUM), 0, what);
    free(data);
    return right;
}

/* The status of whoever has the limit, and what it says; the others must fail with it. */
static void check(const struct rank *rank, const struct limit *limit, int status) {
    const bool concerned = limit->rank < 0 || limit->rank == rank->rank;
    if (concerned && limit->status == 1)
        expect(rank, status == 0 || status == KOLO_ERR_SYSTEM, "%s: status %d: %s", limit->what, status,
               kolo_error_message());
    else if (concerned)
        expect_status(rank, status, limit->status, limit->what);
    if (concerned && status < 0)
        expect_message(rank, limit->what, limit->words[0], limit->words[1], limit->words[2], NULL);
    if (!concerned && limit->status != 1)
        expect(rank, (status == 0) == (limit->status == 0), "%s: another rank gets %d: %s", limit->what, status,
               kolo_error_message());
    record_result(rank, 0, status == 0);
}

static void run_limited(struct rank *rank) {
    const struct limit *limit = rank->team->argument;
    kolo_comm *comm = NULL;
    struct rlimit before = {0};
    void *buffer = NULL;
    /* Where one rank fails before the others have come, they wait for it until then. */
    const bool fails_alone = limit->status != 0 && limit->rank >= 0 && !limit->late;
    rank->options.create_timeout_ms = fails_alone ? 2000 : patience_ms(20000);
    if (is_limited(rank, limit) && !limit->late)
        before = set_limit(rank, limit);
    const int64_t begin_ns = now_ns();
    int status = kolo_comm_create(&comm, &rank->options);
    expect(rank, fails_alone || now_ns() - begin_ns < patience_ms(10000) * 1000000,
           "%s: a rank waited for what cannot come", limit->what);
    if (!limit->late)
        check(rank, limit, status);
    else if (!expect_status(rank, status, 0, limit->what))
        return;
    if (status == 0 && is_limited(rank, limit) && limit->late)
        before = set_limit(rank, limit);
    if (limit->resource == NO_NETWORK && limit->rank == rank->rank)
        expect(rank, unshare(CLONE_NEWNET) == 0, "unshare: %s", strerror(errno));
    if (status == 0 && allreduce_once(rank, comm, limit->what) && limit->late) {
        status = kolo_alloc(comm, 8 * MIB, &buffer);
        check(rank, limit, status);
        allreduce_once(rank, comm, limit->what); /* whatever came of it, the communicator is usable */
    }
    if (is_limited(rank, limit))
        setrlimit(limit->resource, &before);
    kolo_comm_destroy(comm);
}

static void run_limit(const struct limit *limit, bool by_descriptor, size_t slot_bytes) {
    harness_run(&(struct team){.ranks = 2,
                               .slot_bytes = slot_bytes,
                               .by_descriptor = by_descriptor,
                               .creates_itself = true,
                               .run = run_limited,
                               .argument = limit});
}

static void run_resources(void) {
    static const struct limit limits[] = {
        {"RLIMIT_MEMLOCK 0", RLIMIT_MEMLOCK, 0, -1, false, 0, {NULL}},
        {"RLIMIT_MEMLOCK 0 and kolo_alloc", RLIMIT_MEMLOCK, 0, -1, true, 0, {NULL}},
        {"RLIMIT_FSIZE 64 KiB",
         RLIMIT_FSIZE,
         65536,
         0,
         false,
         KOLO_ERR_NO_SPACE,
         {"bytes needed", "65536", "ulimit -f"}},
        {"RLIMIT_FSIZE of the other rank", RLIMIT_FSIZE, 0, 1, false, 0, {NULL}},
        {"RLIMIT_FSIZE and kolo_alloc",
         RLIMIT_FSIZE,
         MIB,
         0,
         true,
         KOLO_ERR_NO_SPACE,
         {"needed", "1048576", "ulimit -f"}},
        {"RLIMIT_AS", RLIMIT_AS, MIB, 0, false, KOLO_ERR_NO_SPACE, {"bytes of address space", "ulimit -v"}},
        {"RLIMIT_AS of the other rank",
         RLIMIT_AS,
         MIB,
         1,
         false,
         KOLO_ERR_NO_SPACE,
         {"bytes of address space", "ulimit -v"}},
        {"RLIMIT_AS and kolo_alloc", RLIMIT_AS, MIB, 1, true, KOLO_ERR_NO_SPACE, {"address space", "ulimit -v"}},
        {"RLIMIT_NOFILE and kolo_alloc", RLIMIT_NOFILE, 0, 0, true, KOLO_ERR_SYSTEM, {"ulimit -n"}},
        {"RLIMIT_NOFILE of the other rank and kolo_alloc", RLIMIT_NOFILE, 0, 1, true, KOLO_ERR_SYSTEM, {"ulimit -n"}},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        for (int by_descriptor = 0; by_descriptor < (arguments.quick ? 1 : 2); by_descriptor++)
            if (ADDRESS_SPACE_IS_FREE || limits[i].resource != RLIMIT_AS)
                run_limit(&limits[i], by_descriptor, MIB);
}

/* From no descriptor at all upward, one more each time, until it works. */
static void run_descriptors(void) {
    for (int rank = 0; rank < 2; rank++)
        for (int by_descriptor = 0; by_descriptor < 2; by_descriptor++) {
            rlim_t spare = 0;
            for (bool works = false; !works && expect(NULL, spare < 8, "8 descriptors are too few"); spare++) {
                const struct limit limit = {"RLIMIT_NOFILE", RLIMIT_NOFILE, spare, rank, false, 1, {"ulimit -n"}};
                run_limit(&limit, by_descriptor, 4096);
                works = recorded_result(0);
                expect(NULL, !works || spare > 0, "it works without a descriptor");
            }
        }
}

/* A second communicator, from no memory at all upward, a little more each time, until there is one. Before that no rank
 * has one, and the first stays usable. */
static void run_second_limited(struct rank *rank) {
    enum { STEP = 4096, STEPS_MAX = 64 * STEP, LARGE_STEP = 64 * STEP };
    const struct limit *limit = rank->team->argument;
    struct limit tight = *limit;
    kolo_comm *comm = NULL, *second = NULL;
    rank->options.threads = 2;
    int status = expect_status(rank, kolo_comm_create(&comm, &rank->options), 0, "kolo_comm_create") ? -1 : 0;
    while (status < 0) {
        struct rlimit before = {0};
        if (is_limited(rank, limit))
            before = set_limit(rank, &tight);
        status = kolo_comm_dup(comm, &second);
        if (is_limited(rank, limit))
            setrlimit(limit->resource, &before);
        if (!expect(rank, status == 0 || status == KOLO_ERR_SYSTEM || status == KOLO_ERR_NO_SPACE, "kolo_comm_dup: %d",
                    status) ||
            !allreduce_once(rank, comm, "the first, after kolo_comm_dup") ||
            (status == 0 && !allreduce_once(rank, second, "the second")))
            break;
        tight.value += tight.value < STEPS_MAX ? STEP : LARGE_STEP;
    }
    kolo_comm_destroy(second);
    kolo_comm_destroy(comm);
}

static void run_second(void) {
    static const struct limit limit = {"RLIMIT_AS and kolo_comm_dup", RLIMIT_AS, 0, 1, false, 0, {NULL}};
    if (!IS_CHECKED)
        harness_run(&(struct team){
            .ranks = 3, .slot_bytes = 4096, .creates_itself = true, .run = run_second_limited, .argument = &limit});
}

/* What messages between two ranks need is more than a limit allows: all but those works. */
static void run_messages_limited(struct rank *rank) {
    const struct limit *limit = rank->team->argument;
    kolo_stats stats = {.stats_bytes = sizeof stats};
    kolo_comm *comm = NULL;
    if (!expect_status(rank, kolo_comm_create(&comm, &rank->options), 0, "kolo_comm_create") ||
        !expect_status(rank, kolo_comm_stats(comm, &stats), 0, "kolo_comm_stats"))
        return;
    kolo_comm_destroy(comm);
    struct limit tight = *limit;
    tight.value += stats.segment_bytes;
    struct rlimit before = {0};
    if (is_limited(rank, limit))
        before = set_limit(rank, &tight);
    if (expect_status(rank, kolo_comm_create(&comm, &rank->options), 0, limit->what)) {
        const int peer = rank->rank ^ 1;
        allreduce_once(rank, comm, limit->what);
        const int status = kolo_send(comm, &peer, 1, KOLO_I32, peer, 0);
        if (limit->resource == RLIMIT_FSIZE || limit->rank == rank->rank) {
            expect_status(rank, status, KOLO_ERR_NO_SPACE, limit->what);
            expect_message(rank, limit->what, "kolo_send", limit->words[0], NULL);
        } else {
            expect_status(rank, status, 0, limit->what);
        }
        allreduce_once(rank, comm, limit->what);
        kolo_comm_destroy(comm);
    }
    if (is_limited(rank, limit))
        setrlimit(limit->resource, &before);
}

static void run_messages(void) {
    static const struct limit limits[] = {
        {"RLIMIT_FSIZE and messages", RLIMIT_FSIZE, MIB, 0, false, KOLO_ERR_NO_SPACE, {"ulimit -f"}},
        {"RLIMIT_AS and messages", RLIMIT_AS, MIB, 1, false, KOLO_ERR_NO_SPACE, {"ulimit -v"}},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (ADDRESS_SPACE_IS_FREE || limits[i].resource != RLIMIT_AS)
            harness_run(&(struct team){.ranks = 12,
                                       .slot_bytes = 4096,
                                       .creates_itself = true,
                                       .run = run_messages_limited,
                                       .argument = &limits[i]});
}

/* /dev/shm in a mount namespace of its own. */

static const struct limit works = {
    .what = "by descriptor, or in memory that no mount limits", .resource = -1, .rank = -1};

struct filled {
    off_t left;
    int threads, direct; /* calls in mapped buffers before */
};

/* A /dev/shm that was nearly empty is filled up behind the creation, but for `left` bytes. A call that passes through
 * slots breaks the communicator on all ranks; others work before it. The survivors' new one is in memory that no mount
 * limits. */
static void run_filled(struct rank *rank) {
    const struct filled *filled = rank->team->argument;
    static float data[MIB];
    struct statvfs mount;
    kolo_comm *broken = NULL, *comm = NULL;
    void *mapped = NULL;
    rank->options.threads = filled->threads;
    if (!expect_status(rank, kolo_comm_create(&broken, &rank->options), 0, "kolo_comm_create"))
        return;
    for (int i = 0; i < filled->direct; i++)
        if ((mapped || expect_status(rank, kolo_alloc(broken, MIB, &mapped), 0, "kolo_alloc")))
            expect_status(rank, kolo_allreduce(broken, mapped, mapped, MIB / 4, KOLO_F32, KOLO_SUM), 0, "direct");
    const int fd = rank->rank == 0 ? open("/dev/shm/filling", O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd >= 0) {
        fstatvfs(fd, &mount);
        expect(rank, posix_fallocate(fd, 0, (off_t)(mount.f_bavail * mount.f_bsize) - filled->left) == 0, "filling");
        close(fd);
    }
    expect_status(rank, kolo_allreduce(broken, data, data, 1, KOLO_F32, KOLO_SUM), 0, "4 bytes");
    expect_status(rank, kolo_broadcast(broken, data, 64, KOLO_F32, 1), 0, "256 bytes");
    for (int times = 0; times < 2; times++) {
        const int status = filled->direct ? kolo_allgather(broken, data + rank->rank * 4096, data, 4096, KOLO_F32)
                                          : kolo_allreduce(broken, data, data, MIB, KOLO_F32, KOLO_SUM);
        expect_status(rank, status, times ? KOLO_ERR_STATE : KOLO_ERR_NO_SPACE, "a mount that is full");
        expect_message(rank, "a mount that is full", "failed in call", "enlarge it", NULL);
    }
    if (expect_status(rank, kolo_comm_shrink(broken, &comm), 0, "kolo_comm_shrink"))
        allreduce_once(rank, comm, "the communicator of all that are left");
    kolo_comm_destroy(comm);
    kolo_comm_destroy(broken);
    if (rank->rank == 0)
        unlink("/dev/shm/filling");
}

enum { COMMS = 40 };

/* More communicators than /dev/shm has room for, made first and used then. */
static void run_many(struct rank *rank) {
    kolo_comm *comms[COMMS] = {NULL};
    char job[64];
    snprintf(job, sizeof job, "%s", rank->options.job);
    for (int i = 0; i < COMMS; i++) {
        char name[80];
        snprintf(name, sizeof name, "%s.%d", job, i);
        rank->options.job = name;
        expect_status(rank, kolo_comm_create(&comms[i], &rank->options), 0, "kolo_comm_create");
    }
    for (int i = 0; i < COMMS; i++)
        allreduce_once(rank, comms[i], "one of many");
    for (int i = 0; i < COMMS; i++)
        kolo_comm_destroy(comms[i]);
}

static void run_mounts(void) {
    static const struct filled filled[] = {{0, 1, 0}, {320 << 10, 1, 0}, {0, 2, 0}, {256 << 10, 1, 4}};
    static const struct limit read_only = {
        "a read-only /dev/shm", -1, 0, -1, false, KOLO_ERR_SYSTEM, {"Read-only", "/dev/shm", "kolorun"}};
    static const struct limit absent = {
        "no /dev/shm", -1, 0, -1, false, KOLO_ERR_SYSTEM, {"No such file", "/dev/shm", "kolorun"}};
    expect(NULL, mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=64m,mode=1777") == 0, "mount: %s", strerror(errno));
    run_limit(&works, false, 0);
    run_limit(&works, false, 10 * MIB); /* 80 MiB for two ranks */
    run_limit(&works, true, 10 * MIB);
    for (size_t i = 0; i < sizeof filled / sizeof *filled; i++)
        harness_run(&(struct team){
            .ranks = 2, .slot_bytes = 65536, .creates_itself = true, .run = run_filled, .argument = &filled[i]});
    harness_run(&(struct team){.ranks = 2, .creates_itself = true, .run = run_many}); /* 84 MiB */
    umount("/dev/shm");
    expect(NULL, mount("tmpfs", "/dev/shm", "tmpfs", MS_RDONLY, "mode=1777") == 0, "mount: %s", strerror(errno));
    run_limit(&read_only, false, 0);
    run_limit(&works, true, 0);
    umount("/dev/shm");
    expect(NULL, mount("tmpfs", "/dev", "tmpfs", 0, "") == 0, "mount: %s", strerror(errno));
    run_limit(&absent, false, 0);
    run_limit(&works, true, 0);
    umount("/dev");
}

/* No /proc: all works. In a network of its own a rank can get no memory of kolo_alloc then, which says why. */
static void run_without_proc(void) {
    static const struct limit no_proc = {"no /proc", -1, 0, -1, true, 0, {NULL}};
    static const struct limit alone = {
        "no /proc and no network", NO_NETWORK, 0, 1, true, KOLO_ERR_SYSTEM, {"/proc", "rank 0's memory", "socket"}};
    expect(NULL, mount("tmpfs", "/proc", "tmpfs", 0, "") == 0, "mount: %s", strerror(errno));
    run_limit(&works, false, 0);
    run_limit(&works, true, 0);
    run_limit(&no_proc, false, 0);
    run_limit(&no_proc, true, 0);
    run_limit(&alone, true, 0);
    umount("/proc");
}

/* The name disappears while rank 0 and rank 1 wait for rank 2. */
static void run_swept(struct rank *rank) {
    kolo_comm *comm = NULL;
    rank->options.size = 3;
    rank->options.create_timeout_ms = patience_ms(20000);
    const int status = kolo_comm_create(&comm, &rank->options);
    if (expect_status(rank, status, KOLO_ERR_SYSTEM, "kolo_comm_create"))
        expect_message(rank, "kolo_comm_create", "rank 0", rank->rank ? "creation failed" : "RemoveIPC=no", NULL);
    expect_prompt(rank, now_ns() - event_ns(), 1000, "noticed the name's end");
}

static void sweep(const struct team *team, const pid_t *pids) {
    const char *path = job_path(team_options()->job, geteuid());
    (void)team;
    (void)pids;
    await_job(NULL, team_options(), 3);
    event_set();
    expect(NULL, unlink(path) == 0, "%s: %s", path, strerror(errno));
}

static void run_sweep(void) {
    harness_run(&(struct team){.ranks = 2, .creates_itself = true, .run = run_swept, .meanwhile = sweep});
}

/* A control group with little memory. */

static bool write_text(const char *directory, const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    const bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return written;
}

static bool read_text(const char *directory, const char *name, char *text, size_t bytes) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "re");
    const bool is_read = file && fgets(text, (int)bytes, file);
    if (file)
        fclose(file);
    return is_read;
}

/* The group has no memory for the way back of shared memory: its contents stay where they are. */
struct group {
    const char *directory, *use; /* the file that says how much is in use */
    long limit_bytes;
};

static void run_way_back(struct rank *rank) {
    enum { SHARED = 3 * MIB, LEFT = 2 * MIB, STEP = MIB / 4 };
    const struct group *group = rank->team->argument;
    kolo_machine machine = {.machine_bytes = sizeof machine};
    expect_status(rank, kolo_machine_query(&machine), 0, "kolo_machine_query");
    expect(rank, machine.memory_bytes == (uint64_t)group->limit_bytes, "the group's limit is not seen");
    uint8_t *shared = mmap(NULL, SHARED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char used[32] = "";
    memset(shared, 1 + rank->rank, SHARED);
    expect_status(rank, kolo_share(rank->comm, shared, SHARED), 0, "kolo_share");
    while (rank->rank == 0 && expect(rank, read_text(group->directory, group->use, used, sizeof used), "no use") &&
           strtol(used, NULL, 10) < group->limit_bytes - LEFT)
        memset(malloc(STEP), 1, STEP);
    expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier");
    expect_status(rank, kolo_free(rank->comm, shared), 0, "kolo_free without memory for the way back");
    expect(rank, shared[0] == 1 + rank->rank && memcmp(shared, shared + 1, SHARED - 1) == 0, "the contents are lost");
}

static void run_grouped(void) {
    static const struct limit segment = {
        "a segment beyond the group's memory",          -1, 0, 0, false, KOLO_ERR_NO_SPACE,
        {"bytes needed", "memory has", "control group"}};
    static const struct limit buffers = {"kolo_alloc beyond the group's memory", -1, 0, 0, true, KOLO_ERR_NO_SPACE,
                                         {"are available", "memory limit"}};
    for (int by_descriptor = 0; by_descriptor < 2; by_descriptor++) {
        run_limit(&segment, by_descriptor, 8 * MIB); /* 64 MiB */
        run_limit(&buffers, by_descriptor, 65536);   /* 16 MiB, of 14 */
    }
}

/* In a process of its own, which the group can be emptied of. */
static void run_group(void) {
    static const char *const kinds[][3] = {{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"},
                                           {"/sys/fs/cgroup", "memory.max", "memory.current"}};
    char group[128], text[32];
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        snprintf(group, sizeof group, "%s/kolo-test-%d", kinds[i][0], (int)getpid());
        if (mkdir(group, 0700) < 0)
            continue;
        snprintf(text, sizeof text, "%d", (int)getpid());
        if (write_text(group, kinds[i][1], "14680064") && write_text(group, "cgroup.procs", text)) {
            run_grouped();
            const struct group larger = {group, kinds[i][2], 64 * MIB}; /* as sanitizers need memory, too */
            if (write_text(group, kinds[i][1], "67108864"))
                harness_run(&(struct team){.ranks = 2, .run = run_way_back, .argument = &larger});
            write_text(kinds[i][0], "cgroup.procs", text);
            rmdir(group);
            return;
        }
        rmdir(group);
    }
    printf("no right to make a control group with a memory limit: left out\n");
}

/* A control group that may have no huge pages, or too few, where there are enough. */

enum { HUGE_PAGES = 16 };

/* Runs ranks in the group. False if it cannot be limited. */
static bool run_without_huge_pages(const char *group, const char *parent) {
    static const char *const maxima[] = {"0", "6291456"};
    static const struct limit limit = {"kolo_alloc of huge pages", -1, 0, 0, true, 0, {NULL}};
    char text[32];
    bool limited = true;
    snprintf(text, sizeof text, "%d", (int)getpid());
    for (int i = 0; limited && i < 2; i++) {
        limited = write_text(group, "hugetlb.2MB.max", maxima[i]) && write_text(group, "cgroup.procs", text);
        if (limited)
            run_limit(&limit, true, 65536);
        write_text(parent, "cgroup.procs", text);
    }
    return limited;
}

static void run_huge_pages(void) {
    static const char *const parents[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"};
    static const char *const system = "/proc/sys/vm", *const pages = "nr_hugepages";
    char before[32] = "", enough[32], there[32] = "", group[128], controllers[256] = "";
    bool done = false;
    const bool is_read = read_text(system, pages, before, sizeof before);
    snprintf(enough, sizeof enough, "%ld", strtol(before, NULL, 10) + HUGE_PAGES);
    const bool enlarged = is_read && write_text(system, pages, enough) && read_text(system, pages, there, sizeof there);
    for (int i = 0; i < 2 && !done && strtol(there, NULL, 10) >= strtol(enough, NULL, 10); i++) {
        read_text(parents[i], "cgroup.subtree_control", controllers, sizeof controllers);
        const bool has = strstr(controllers, "hugetlb") != NULL;
        snprintf(group, sizeof group, "%s/kolo-test-%d", parents[i], (int)getpid());
        if ((!has && !write_text(parents[i], "cgroup.subtree_control", "+hugetlb")) || mkdir(group, 0700) < 0)
            continue;
        done = run_without_huge_pages(group, parents[i]);
        rmdir(group);
        if (!has)
            write_text(parents[i], "cgroup.subtree_control", "-hugetlb");
    }
    if (enlarged)
        write_text(system, pages, before);
    if (!done)
        printf("no right to set huge pages aside, or to make a control group without any: left out\n");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Creates communicators and buffers under the limits that a system may set.");
    run_resources();
    run_messages();
    run_second();
    run_descriptors();
    run_sweep();
    if (ADDRESS_SPACE_IS_FREE) /* nor do sanitizers fit a small group */
        run_group();
    run_huge_pages();
    if (unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0) {
        run_mounts();
        run_without_proc();
    } else {
        printf("no right to make a mount namespace (needs root): left out\n");
    }
    return harness_end();
}
