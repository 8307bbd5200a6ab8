/* A profile changes how a message is reduced, never its result: whatever a valid profile says, the bits are those of
 * the defaults. And only rank 0's profile binds: the others may have another one, or a damaged one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kolo_tools.h"
#include "harness.h"
#include "oracle.h"

enum { BANDS_MAX = 16, TEXT_BYTES = 4096 };

static const size_t message_bytes[] = {4, 60, 444, 1000, 4096, 40004, 300008};
static const kolo_dtype dtypes[] = {KOLO_F32, KOLO_BF16, KOLO_I8};

enum {
    SIZES = sizeof message_bytes / sizeof *message_bytes,
    DTYPES = sizeof dtypes / sizeof *dtypes,
    CALLS = 2 * SIZES * DTYPES
};

static const char *random_algorithm(uint64_t *seed) {
    static const kolo_algorithm algorithms[] = {KOLO_ALGORITHM_ONESHOT, KOLO_ALGORITHM_MESH, KOLO_ALGORITHM_TREE};
    return kolo_name(KOLO_NAME_ALGORITHM, algorithms[random_below(seed, sizeof algorithms / sizeof *algorithms)]);
}

/* A profile for this machine with a random table for `ranks` ranks, in which every algorithm and chunk may stand. */
static void write_profile(char text[TEXT_BYTES], int ranks, uint64_t seed) {
    kolo_machine machine = {.machine_bytes = sizeof machine};
    if (kolo_machine_query(&machine) < 0)
        abort();
    size_t used = (size_t)snprintf(text, TEXT_BYTES,
                                   "kolo-profile 2\nkolo %s\ncpu-model %s\ncpus %u\nl2-bytes %llu\nl3-bytes %llu\n"
                                   "collective allreduce ranks %d\n",
                                   kolo_version(), machine.cpu_model, machine.cpus_online,
                                   (unsigned long long)machine.l2_bytes, (unsigned long long)machine.l3_bytes, ranks);
    if (random_below(&seed, 2))
        used += (size_t)snprintf(text + used, TEXT_BYTES - used, "stream-from %d\n", (int)random_below(&seed, 3) * 999);
    uint64_t bytes_max = 0;
    for (uint64_t bands = random_below(&seed, BANDS_MAX); bands > 0; bands--) {
        bytes_max += 1 + random_below(&seed, UINT64_C(1) << (3 + random_below(&seed, 14)));
        used +=
            (size_t)snprintf(text + used, TEXT_BYTES - used, "up-to %llu %s chunk %d\n", (unsigned long long)bytes_max,
                             random_algorithm(&seed), 1024 + 128 * (int)random_below(&seed, 300));
    }
    snprintf(text + used, TEXT_BYTES - used, "rest %s chunk %d\n", random_algorithm(&seed),
             random_below(&seed, 2) ? 1024 : 1152 + 128 * (int)random_below(&seed, 3000));
}

/* Points KOLO_TUNE_FILE to a file without a name that holds `text`. Returns its descriptor. */
static int offer_profile(const char *text) {
    const int fd = memfd_create("profile", MFD_CLOEXEC);
    /* A memfd is anybody's to write, and such profiles do not count. */
    if (fd < 0 || fchmod(fd, 0600) < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        abort();
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    setenv("KOLO_TUNE_FILE", path, 1);
    return fd;
}

static void run_call(const struct rank *rank, uint32_t index, size_t bytes, kolo_dtype dtype) {
    const size_t count = bytes / kolo_dtype_bytes(dtype);
    unsigned char *send = malloc(bytes), *recv = malloc(bytes);
    if (!send || !recv)
        abort();
    input_fill(INPUT_BITS, dtype, KOLO_SUM, send, count, random_seed(index, (uint64_t)rank->rank));
    if (expect_status(rank, kolo_allreduce(rank->comm, send, recv, count, dtype, KOLO_SUM), 0, "out of place") &&
        expect_status(rank, kolo_allreduce(rank->comm, send, send, count, dtype, KOLO_SUM), 0, "in place")) {
        record_result(rank, index, hash_bytes(recv, bytes));
        expect(rank, memcmp(send, recv, bytes) == 0, "%zu bytes: other bits in place", bytes);
    }
    free(send);
    free(recv);
}

static void run_calls(struct rank *rank) {
    for (uint32_t i = 0; i < SIZES * DTYPES; i++)
        run_call(rank, i, message_bytes[i / DTYPES], dtypes[i % DTYPES]);
}

/* The argument is rank 0's profile; every other rank has another, which must not count. */
static bool create_with_profile(struct rank *rank) {
    static const char *const others[] = {"none", "/nonexistent/profile", "/dev/null", ""};
    int fd = -1;
    if (rank->rank == 0)
        fd = offer_profile(rank->team->argument);
    else if (rank->rank == 1)
        fd = offer_profile("kolo-profile 2\ncollective allreduce ranks 9\n");
    else
        setenv("KOLO_TUNE_FILE", others[rank->rank % 4], 1);
    const int status = kolo_comm_create(&rank->comm, &rank->options);
    if (fd >= 0)
        close(fd);
    return expect_status(rank, status, 0, "kolo_comm_create");
}

static void run_with_profile(struct rank *rank) {
    if (!create_with_profile(rank))
        return;
    run_calls(rank);
    kolo_comm_destroy(rank->comm);
}

/* The profile knows nothing but oneshot: the statistics tell what ran. */
static void expect_oneshot(struct rank *rank) {
    if (!create_with_profile(rank))
        return;
    run_calls(rank);
    kolo_stats stats = {.stats_bytes = sizeof stats};
    if (expect_status(rank, kolo_comm_stats(rank->comm, &stats), 0, "kolo_comm_stats"))
        expect(rank, stats.calls_by_algorithm[KOLO_ALGORITHM_ONESHOT] == CALLS, "%d of %d calls were oneshot",
               (int)stats.calls_by_algorithm[KOLO_ALGORITHM_ONESHOT], CALLS);
    kolo_comm_destroy(rank->comm);
}

static void test_rank_zero_binds(int ranks) {
    char text[TEXT_BYTES];
    write_profile(text, ranks, 1);
    char *bands = strstr(text, "collective ");
    snprintf(bands, (size_t)(text + sizeof text - bands), "collective allreduce ranks %d\nrest oneshot chunk 1024\n",
             ranks);
    harness_run(&(struct team){.ranks = ranks, .creates_itself = true, .run = expect_oneshot, .argument = text});
}

/* Buffers of kolo_alloc, in a tree of two levels: calls whose results go past the caches go through the tree. */
static void expect_direct_below(struct rank *rank) {
    enum { STREAM_FROM = 100000 };
    void *buffer[2];
    if (!create_with_profile(rank))
        return;
    for (int i = 0; i < 2; i++)
        if (!expect_status(rank, kolo_alloc(rank->comm, STREAM_FROM, &buffer[i]), 0, "kolo_alloc"))
            return;
    memset(buffer[0], 0, STREAM_FROM);
    for (int i = 0; i < 4; i++)
        expect_status(rank,
                      kolo_allreduce(rank->comm, buffer[0], buffer[i / 2], STREAM_FROM / 4 - i % 2, KOLO_F32, KOLO_SUM),
                      0, "kolo_allreduce");
    kolo_stats stats = {.stats_bytes = sizeof stats};
    if (expect_status(rank, kolo_comm_stats(rank->comm, &stats), 0, "kolo_comm_stats"))
        expect(
            rank,
            stats.calls_by_algorithm[KOLO_ALGORITHM_DIRECT] == 2 && stats.calls_by_algorithm[KOLO_ALGORITHM_TREE] == 2,
            "%d calls were direct and %d by tree, not two of each",
            (int)stats.calls_by_algorithm[KOLO_ALGORITHM_DIRECT], (int)stats.calls_by_algorithm[KOLO_ALGORITHM_TREE]);
    kolo_comm_destroy(rank->comm);
}

static void test_direct_below(int ranks) {
    char text[TEXT_BYTES];
    write_profile(text, ranks, 1);
    char *bands = strstr(text, "collective ");
    snprintf(bands, (size_t)(text + sizeof text - bands),
             "collective allreduce ranks %d\nstream-from 100000\nrest tree chunk 1024\n", ranks);
    setenv("KOLO_ALGO", "auto:2", 1);
    harness_run(&(struct team){.ranks = ranks, .creates_itself = true, .run = expect_direct_below, .argument = text});
}

static void test_same_bits(int ranks) {
    uint64_t wanted[SIZES * DTYPES];
    setenv("KOLO_ALGO", ranks > 2 ? "auto:2" : "auto:none", 1); /* a tree of two levels, whatever the machine */
    setenv("KOLO_TUNE_FILE", "none", 1);
    harness_run(&(struct team){.ranks = ranks, .run = run_calls});
    for (uint32_t i = 0; i < SIZES * DTYPES; i++)
        wanted[i] = recorded_result(i);
    const int profiles = arguments.quick ? 8 : 30;
    for (int i = 0; i < profiles; i++) {
        char text[TEXT_BYTES];
        const uint64_t seed = random_seed(1000 + (uint64_t)ranks, (uint64_t)i);
        write_profile(text, ranks, seed);
        kolo_plan plan = {.plan_bytes = sizeof plan};
        const int fd = offer_profile(text); /* of threads, all see it */
        const int status = kolo_plan_query(&plan, NULL, ranks, KOLO_ALLREDUCE, 1, KOLO_F32, KOLO_SUM);
        expect(NULL, status == 0 && plan.tuned, "the profile was not taken: %s\n%s", plan.tuning, text);
        harness_run(&(struct team){.ranks = ranks,
                                   .creates_itself = !arguments.threads,
                                   .slot_bytes = i % 3 == 0 ? 4096 : 0,
                                   .run = arguments.threads ? run_calls : run_with_profile,
                                   .argument = text});
        close(fd);
        for (uint32_t j = 0; j < SIZES * DTYPES; j++)
            expect(NULL, recorded_result(j) == wanted[j], "%d ranks, %zu bytes of %s: other bits with\n%s", ranks,
                   message_bytes[j / DTYPES], kolo_name(KOLO_NAME_DTYPE, dtypes[j % DTYPES]), text);
    }
}

int main(int argc, char **argv) {
    static const int counts[] = {2, 3, 4, 7};
    harness_begin(argc, argv, "Compares results under many profiles with those of the defaults.");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (!wants_ranks(counts[i]))
            continue;
        test_same_bits(counts[i]);
        if (arguments.threads) /* which have one environment */
            continue;
        test_rank_zero_binds(counts[i]);
        if (counts[i] > 2)
            test_direct_below(counts[i]);
    }
    return harness_end();
}
