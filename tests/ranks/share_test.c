/* kolo_share: memory of each rank's own becomes memory that all have mapped, and private memory again, with address and
 * contents kept in every case: freed, destroyed, refused on one rank, or ended by a death. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "oracle.h"

enum { PAGE = 4096 };

static unsigned char *map_pages(size_t pages) {
    unsigned char *memory =
        mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* What each page of a rank's memory holds. */
static void fill_page(const struct rank *rank, unsigned char *memory, size_t page) {
    random_fill(memory, PAGE, random_seed((uint64_t)rank->rank, page));
}

static void fill(const struct rank *rank, unsigned char *memory, size_t bytes) {
    for (size_t at = 0; at < bytes; at += PAGE)
        fill_page(rank, memory + at, at / PAGE);
}

/* Expects pages of a memory as `fill` left them. */
static bool expect_pages(const struct rank *rank, const unsigned char *memory, size_t first, size_t end,
                         const char *when) {
    unsigned char kept[PAGE];
    for (size_t page = first; page < end; page++) {
        fill_page(rank, kept, page);
        const size_t at = first_difference(memory + page * PAGE, kept, PAGE);
        if (!expect(rank, at == PAGE, "byte %zu of page %zu of %zu has changed %s", at, page, end, when))
            return false;
    }
    return true;
}

static bool expect_kept(const struct rank *rank, const unsigned char *memory, size_t bytes, const char *when) {
    return expect_pages(rank, memory, 0, bytes / PAGE, when);
}

/* Whether what a forked child writes there is seen here. Leaves the memory as it was. */
static bool is_shared_with_child(volatile unsigned char *memory) {
    const unsigned char before = *memory;
    const pid_t child = fork();
    if (child == 0) {
        *memory = (unsigned char)(before + 1);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    const bool is_seen = *memory != before;
    *memory = before;
    return is_seen;
}

static bool expect_private(const struct rank *rank, unsigned char *memory, size_t bytes) {
    return arguments.threads || expect(rank, !is_shared_with_child(memory) && !is_shared_with_child(memory + bytes - 1),
                                       "the memory is not private again");
}

static uint64_t direct_calls(const struct rank *rank) {
    kolo_stats stats = {.stats_bytes = sizeof stats};
    kolo_comm_stats(rank->comm, &stats);
    return stats.calls_by_algorithm[KOLO_ALGORITHM_DIRECT];
}

/* All-reduces in the memory of all ranks, in place and not, which need no copies. */
static bool reduce_in(struct rank *rank, unsigned char *memory, size_t bytes) {
    const size_t count = bytes / 2 / sizeof(uint32_t) - 1;
    uint32_t *send = (uint32_t *)(void *)memory, *recv = send + count + 1;
    const uint64_t before = direct_calls(rank);
    const uint32_t ranks = (uint32_t)rank->ranks;
    for (size_t i = 0; i < count; i++)
        send[i] = (uint32_t)(i * 3 + (size_t)rank->rank);
    bool right = expect_status(rank, kolo_allreduce(rank->comm, send, recv, count, KOLO_U32, KOLO_SUM), 0, "to recv") &&
                 expect_status(rank, kolo_allreduce(rank->comm, send, send, count, KOLO_U32, KOLO_SUM), 0, "in place");
    for (size_t i = 0; right && i < count; i++) {
        const uint32_t sum = (uint32_t)(i * 3) * ranks + ranks * (ranks - 1) / 2;
        right = expect(rank, send[i] == sum && recv[i] == sum, "element %zu of %zu is %" PRIu32 " and %" PRIu32, i,
                       count, send[i], recv[i]);
    }
    return right && expect(rank, rank->ranks == 1 || direct_calls(rank) == before + 2, "calls had to copy");
}

static void run_mapped(struct rank *rank) {
    static const size_t sizes[] = {1, 2, 40, 513, 1100};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const size_t pages = sizes[i], bytes = pages * PAGE, more = (pages + 2) * PAGE;
        unsigned char *whole = map_pages(pages + 2), *memory = whole + PAGE;
        fill(rank, whole, more);
        if (!expect_status(rank, kolo_share(rank->comm, memory, bytes), 0, "kolo_share"))
            return;
        expect_kept(rank, whole, more, "by kolo_share");
        expect(rank, arguments.threads || is_shared_with_child(memory), "the memory is private");
        expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier");
        if (pages > 1 && !reduce_in(rank, memory, bytes))
            return;
        for (size_t page = 0; page < pages; page++)
            fill_page(rank, memory + page * PAGE, page + 1);
        expect_status(rank, kolo_free(rank->comm, memory), 0, "kolo_free");
        expect_kept(rank, whole, more, "by kolo_free");
        expect_private(rank, memory, bytes);
        expect_status(rank, kolo_free(rank->comm, memory), KOLO_ERR_ARG, "kolo_free twice");
        munmap(whole, more);
    }
}

/* What malloc gave, from its heap and beyond, goes back to it; and no memory or mapping is lost by many rounds. */
static void run_allocated(struct rank *rank) {
    for (int round = 0; round < 20; round++) {
        unsigned char *memory[2];
        const size_t bytes[] = {6 * PAGE, 200 * PAGE};
        for (int i = 0; i < 2; i++) {
            memory[i] = aligned_alloc(PAGE, bytes[i]);
            fill(rank, memory[i], bytes[i]);
            if (!expect_status(rank, kolo_share(rank->comm, memory[i], bytes[i]), 0, "kolo_share"))
                return;
        }
        for (int i = 0; i < 2; i++) {
            expect_kept(rank, memory[i], bytes[i], "while shared");
            expect_status(rank, kolo_free(rank->comm, memory[i]), 0, "kolo_free");
            expect_kept(rank, memory[i], bytes[i], "when freed");
            free(memory[i]);
        }
    }
    kolo_stats stats = {.stats_bytes = sizeof stats};
    kolo_comm_stats(rank->comm, &stats);
    expect(rank, stats.buffer_bytes == 0, "%" PRIu64 " bytes are left", stats.buffer_bytes);
}

/* Destroying the communicator is enough. */
static void run_destroyed(struct rank *rank) {
    const size_t bytes = 50 * PAGE;
    unsigned char *memory = map_pages(50);
    kolo_comm *copy = NULL;
    fill(rank, memory, bytes);
    if (!expect_status(rank, kolo_comm_dup(rank->comm, &copy), 0, "kolo_comm_dup") ||
        !expect_status(rank, kolo_share(copy, memory, bytes), 0, "kolo_share"))
        return;
    kolo_comm_destroy(copy);
    expect_kept(rank, memory, bytes, "by kolo_comm_destroy");
    expect_private(rank, memory, bytes);
    munmap(memory, bytes);
}

/* What the odd rank passes, and why it is refused. */
static void *map_bad(int kind, size_t bytes, const char **why) {
    static const char *const reasons[] = {"does not begin a page", "does not begin a page", "is not mapped",
                                          "readable and writable", "is shared already",     "belongs to a file"};
    unsigned char *memory = map_pages(bytes / PAGE);
    *why = reasons[kind];
    if (kind == 0)
        return NULL;
    if (kind == 1)
        return memory + 8;
    if (kind == 2)
        munmap(memory + PAGE, PAGE);
    if (kind == 3)
        mprotect(memory + PAGE, PAGE, PROT_READ);
    if (kind == 4)
        return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (kind == 5) {
        const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        memory = mmap(memory, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 0);
        close(fd);
    }
    return memory;
}

/* If one rank's memory cannot be shared, no rank's is, and nothing has changed. */
static void run_refused(struct rank *rank) {
    const size_t bytes = 4 * PAGE;
    unsigned char *memory = map_pages(4), *again;
    fill(rank, memory, bytes);
    for (int kind = 0; kind < 6; kind++) {
        char elsewhere[32];
        const char *why;
        const int odd = kind % rank->ranks;
        const bool is_odd = rank->rank == odd;
        snprintf(elsewhere, sizeof elsewhere, "failed on rank %d;", odd);
        void *passed = is_odd ? map_bad(kind, bytes, &why) : memory;
        expect_status(rank, kolo_share(rank->comm, passed, bytes), KOLO_ERR_ARG, "memory that cannot be shared");
        expect_message(rank, "memory that cannot be shared", "kolo_share", is_odd ? why : elsewhere, NULL);
        expect_kept(rank, memory, bytes, "by a kolo_share that was refused");
        expect_private(rank, memory, bytes);
    }
    expect_status(rank, kolo_share(rank->comm, memory, bytes - 1), KOLO_ERR_ARG, "half a page");
    expect_status(rank, kolo_share(rank->comm, memory, 0), KOLO_ERR_ARG, "0 bytes");
    expect_status(rank, kolo_share(NULL, memory, bytes), KOLO_ERR_ARG, "no communicator");
    if (!expect_status(rank, kolo_share(rank->comm, memory, bytes), 0, "kolo_share after errors"))
        return;
    expect_status(rank, kolo_share(rank->comm, memory, bytes), KOLO_ERR_ARG, "shared twice");
    expect_message(rank, "shared twice", "is shared already", NULL);
    expect_status(rank, kolo_alloc(rank->comm, bytes, (void **)&again), 0, "kolo_alloc");
    expect_status(rank, kolo_share(rank->comm, again, bytes), KOLO_ERR_ARG, "a buffer of kolo_alloc");
    expect_status(rank, kolo_free(rank->comm, memory), 0, "kolo_free");
    expect_kept(rank, memory, bytes, "in the end");
    unsigned char *huge = map_pages((size_t)1 << 26); /* 2^38 bytes that nobody has touched */
    if (huge) {
        expect_status(rank, kolo_share(rank->comm, huge, (size_t)1 << 38), KOLO_ERR_NO_SPACE, "2^38 bytes");
        munmap(huge, (size_t)1 << 38);
    }
    munmap(memory, bytes);
}

/* What the program has put in the place of a part of the memory stays. */
static void run_replaced(struct rank *rank) {
    const size_t bytes = 8 * PAGE;
    unsigned char *memory = map_pages(8);
    fill(rank, memory, bytes);
    if (!expect_status(rank, kolo_share(rank->comm, memory, bytes), 0, "kolo_share"))
        return;
    mmap(memory + 2 * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    memset(memory + 2 * PAGE, 99, PAGE);
    munmap(memory + 5 * PAGE, PAGE);
    expect_status(rank, kolo_free(rank->comm, memory), 0, "kolo_free");
    expect_kept(rank, memory, 2 * PAGE, "before what was replaced");
    expect(rank, memory[2 * PAGE] == 99 && memory[3 * PAGE - 1] == 99, "kolo_free took what was there instead");
    expect_pages(rank, memory, 3, 5, "behind what was replaced");
    expect_pages(rank, memory, 6, 8, "behind what was unmapped");
    unsigned char *there =
        mmap(memory + 5 * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    expect(rank, there == memory + 5 * PAGE || arguments.threads, "kolo_free mapped what the program had unmapped");
    munmap(memory, bytes);
}

/* One rank dies: the others return, with their memory as it was. */
static void run_death(struct rank *rank) {
    const size_t bytes = 60 * PAGE;
    const bool shared_before = rank->team->argument != NULL;
    unsigned char *memory = map_pages(60);
    fill(rank, memory, bytes);
    if (shared_before && !expect_status(rank, kolo_share(rank->comm, memory, bytes), 0, "kolo_share"))
        return;
    if (rank->rank == rank->team->victim - 1)
        _exit(0);
    const int status = shared_before ? kolo_barrier(rank->comm) : kolo_share(rank->comm, memory, bytes);
    expect_status(rank, status, KOLO_ERR_PEER_DEAD, "a rank has died");
    expect_kept(rank, memory, bytes, "by a death");
    if (shared_before)
        expect_status(rank, kolo_free(rank->comm, memory), 0, "kolo_free on a broken communicator");
    expect_kept(rank, memory, bytes, "by a death and kolo_free");
    expect_private(rank, memory, bytes);
}

/* A forked child keeps the contents, and has a copy once it has destroyed the communicator. */
static void run_forked(struct rank *rank) {
    const size_t bytes = 10 * PAGE;
    unsigned char *memory = map_pages(10);
    int ready[2];
    fill(rank, memory, bytes);
    if (!expect_status(rank, kolo_share(rank->comm, memory, bytes), 0, "kolo_share") || pipe(ready) < 0)
        return;
    const pid_t child = fork();
    if (child == 0) {
        char byte;
        bool right = read(ready[0], &byte, 1) == 1 && expect_kept(rank, memory, bytes, "in a child, by its parent");
        kolo_comm_destroy(rank->comm);
        right = right && expect_kept(rank, memory, bytes, "in a child, by kolo_comm_destroy");
        memset(memory, 0, bytes);
        _exit(right ? 0 : 1);
    }
    expect_status(rank, kolo_free(rank->comm, memory), 0, "kolo_free");
    expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier");
    int status = -1;
    expect(rank, write(ready[1], "", 1) == 1, "no pipe");
    waitpid(child, &status, 0);
    expect(rank, WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child has other contents");
    expect_kept(rank, memory, bytes, "by a child");
    munmap(memory, bytes);
    close(ready[0]);
    close(ready[1]);
}

/* Threads that pass the same memory: one of them is refused, and so all are. */
static void run_same(struct rank *rank) {
    static unsigned char *memory;
    const size_t bytes = 30 * PAGE;
    const struct rank first = {.rank = 0};
    if (rank->rank == 0) {
        memory = map_pages(30);
        fill(&first, memory, bytes);
    }
    kolo_barrier(rank->comm);
    expect_status(rank, kolo_share(rank->comm, memory, bytes), KOLO_ERR_ARG, "the same memory on all ranks");
    kolo_barrier(rank->comm);
    expect_kept(&first, memory, bytes, "by ranks that all passed it");
    kolo_barrier(rank->comm);
    if (rank->rank == 0)
        munmap(memory, bytes);
}

static void run_mismatch(struct rank *rank) {
    unsigned char *memory = map_pages(4);
    fill(rank, memory, 4 * PAGE);
    const int status = kolo_share(rank->comm, memory, rank->rank == 1 ? 3 * PAGE : 4 * PAGE);
    expect_status(rank, status, KOLO_ERR_MISMATCH, "different bytes");
    expect_message(rank, "different bytes", "share of 16384 bytes", "share of 12288 bytes", NULL);
    expect_kept(rank, memory, 4 * PAGE, "by a mismatch");
    munmap(memory, 4 * PAGE);
}

static void run_teams(int ranks) {
    static const struct {
        void (*run)(struct rank *rank);
        bool needs_peers, needs_processes, needs_threads, has_victim, shared_before;
    } runs[] = {
        {.run = run_mapped},
        {.run = run_allocated},
        {.run = run_destroyed},
        {.run = run_refused, .needs_peers = true},
        {.run = run_replaced},
        {.run = run_forked, .needs_processes = true},
        {.run = run_same, .needs_peers = true, .needs_threads = true},
        {.run = run_mismatch, .needs_peers = true},
        {.run = run_death, .needs_peers = true, .needs_processes = true, .has_victim = true},
        {.run = run_death, .needs_peers = true, .needs_processes = true, .has_victim = true, .shared_before = true}};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        if (!(runs[i].needs_peers && ranks == 1) && !(runs[i].needs_processes && arguments.threads) &&
            !(runs[i].needs_threads && !arguments.threads))
            harness_run(&(struct team){.ranks = ranks,
                                       .by_descriptor = ranks % 2,
                                       .algorithm = KOLO_ALGORITHM_DIRECT,
                                       .victim = runs[i].has_victim ? ranks : 0,
                                       .run = runs[i].run,
                                       .argument = runs[i].shared_before ? &runs[i] : NULL});
}

int main(int argc, char **argv) {
    static const int counts[] = {1, 2, 3, 4, 5, 9};
    harness_begin(argc, argv, "Checks memory that kolo_share makes memory of all ranks, and the way back.");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (wants_ranks(counts[i]) && (!arguments.quick || counts[i] != 4))
            run_teams(counts[i]);
    return harness_end();
}
