/* Arguments that are wrong are refused with KOLO_ERR_ARG and a message that names them, on the rank that gave them
 * alone; the communicator works on. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kolo_fusion.h"
#include "kolo_tools.h"
#include "kolo_watch.h"
#include "collective_shapes.h"
#include "harness.h"

static _Thread_local char buffer[4096];

static bool still_works(const struct rank *rank) {
    int32_t one = 1, sum = 0;
    return expect_status(rank, kolo_allreduce(rank->comm, &one, &sum, 1, KOLO_I32, KOLO_SUM), 0,
                         "the next all-reduce") &&
           expect(rank, sum == rank->ranks, "the next all-reduce gave %d", sum);
}

static void refuse_allreduce(const struct rank *rank) {
    const struct {
        const void *send;
        void *recv;
        size_t count;
        int dtype;
        int op;
        const char *words;
    } wrong[] = {
        {buffer, buffer, 1, KOLO_DTYPES, KOLO_SUM, "dtype 12"},
        {buffer, buffer, 1, -1, KOLO_SUM, "dtype -1"},
        {buffer, buffer, 0, 99, KOLO_SUM, "dtype 99"},
        {buffer, buffer, 1, KOLO_F32, KOLO_OPS, "op 9"},
        {buffer, buffer, 1, KOLO_F32, -3, "op -3"},
        {buffer, buffer, 1, KOLO_F32, KOLO_BAND, "band is for integers, not for f32"},
        {buffer, buffer, 1, KOLO_BF16, KOLO_BOR, "bor is for integers, not for bf16"},
        {buffer, buffer, 0, KOLO_F64, KOLO_BXOR, "bxor is for integers, not for f64"},
        {buffer, buffer, 1, KOLO_I32, KOLO_SUM_EXACT, "sum_exact is for floats, not for i32"},
        {NULL, buffer, 1, KOLO_F32, KOLO_SUM, "send is NULL with count 1"},
        {buffer, NULL, 5, KOLO_F32, KOLO_SUM, "recv is NULL with count 5"},
        {buffer, buffer + 4, 2, KOLO_F32, KOLO_SUM, "overlap: for in place pass the same address"},
        {buffer + 1023, buffer, 1024, KOLO_U8, KOLO_SUM, "overlap: for in place pass the same address"},
        {buffer, buffer + 2048, SIZE_MAX / 4, KOLO_F32, KOLO_SUM, "more f32 than memory can hold"},
        {buffer, buffer, SIZE_MAX, KOLO_U8, KOLO_SUM, "more u8 than memory can hold"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (rank->rank % 2 == 0) { /* the others never know */
            int status = kolo_allreduce(rank->comm, wrong[i].send, wrong[i].recv, wrong[i].count,
                                        (kolo_dtype)wrong[i].dtype, (kolo_op)wrong[i].op);
            if (expect_status(rank, status, KOLO_ERR_ARG, wrong[i].words))
                expect_message(rank, "kolo_allreduce", "kolo_allreduce", wrong[i].words, NULL);
        }
        if (!still_works(rank))
            return;
    }
}

static void refuse_broadcast(const struct rank *rank) {
    const struct {
        void *data;
        size_t count;
        int dtype;
        int root;
        const char *words;
    } wrong[] = {
        {buffer, 1, KOLO_DTYPES, 0, "dtype 12"},     {buffer, 1, KOLO_F32, -1, "root -1"},
        {buffer, 1, KOLO_F32, 1000, "root 1000"},    {buffer, 0, KOLO_F32, 64, "root 64"},
        {NULL, 3, KOLO_F32, 0, "NULL with count 3"}, {buffer, SIZE_MAX / 2, KOLO_F64, 0, "more f64 than memory"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int status =
            kolo_broadcast(rank->comm, wrong[i].data, wrong[i].count, (kolo_dtype)wrong[i].dtype, wrong[i].root);
        if (expect_status(rank, status, KOLO_ERR_ARG, wrong[i].words))
            expect_message(rank, "kolo_broadcast", "kolo_broadcast", wrong[i].words, NULL);
        if (!still_works(rank))
            return;
    }
}

static void refuse_allgather(const struct rank *rank) {
    const size_t own = (size_t)rank->rank * 64;
    const struct {
        const void *send;
        void *recv;
        size_t count;
        int dtype;
        const char *words;
    } wrong[] = {
        {buffer, buffer + 2048, 1, KOLO_DTYPES, "dtype 12"},
        {NULL, buffer, 3, KOLO_F32, "send is NULL with count 3"},
        {buffer, NULL, 3, KOLO_F32, "recv is NULL with count"},
        {buffer, buffer + 1024, SIZE_MAX / 8, KOLO_U8, "more u8 than memory can hold"},
        {buffer + own + 4, buffer, 16, KOLO_F32, "the 16 elements at send"},
        {buffer + 1, buffer + 60, 64, KOLO_U8, "for in place pass this rank's block of recv as send"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int status =
            kolo_allgather(rank->comm, wrong[i].send, wrong[i].recv, wrong[i].count, (kolo_dtype)wrong[i].dtype);
        if (expect_status(rank, status, KOLO_ERR_ARG, wrong[i].words))
            expect_message(rank, "kolo_allgather", "kolo_allgather", wrong[i].words, NULL);
        if (!still_works(rank))
            return;
    }
    expect_status(rank, kolo_allgather(rank->comm, NULL, NULL, 0, KOLO_F32), 0, "an all-gather of nothing");
    expect_status(rank, kolo_allgather(rank->comm, buffer + own, buffer, 16, KOLO_F32), 0, "in place");
}

/* What is wrong with calls whose buffers have blocks, or are the root's alone; each is refused alike on all ranks. */
static void refuse_blocks(const struct rank *rank) {
    enum { LAST = HARNESS_RANKS_MAX };
    kolo_comm *comm = rank->comm;
    size_t ones[LAST], huge[LAST], far[LAST + 1] = {0}, others[LAST];
    char *const apart = buffer + sizeof buffer / 2;
    for (int i = 0; i < LAST; i++) {
        ones[i] = 1;
        huge[i] = SIZE_MAX / 8;
        far[i] = i == 0 ? SIZE_MAX / 16 : 0;
        others[i] = 1 + (i == rank->rank);
    }
    refused(rank, kolo_reduce(comm, buffer, apart, 3, KOLO_F32, KOLO_SUM, rank->ranks), "root");
    refused(rank, kolo_reduce(comm, buffer, apart, 3, KOLO_F32, KOLO_BAND, 0), "op band is for integers");
    refused(rank, kolo_reduce(comm, NULL, apart, 3, KOLO_F32, KOLO_SUM, 0), "send is NULL with count 3");
    refused(rank, kolo_reduce_scatter(comm, buffer, apart, SIZE_MAX / 8, KOLO_F32, KOLO_SUM),
            "more f32 than memory can hold");
    refused(rank, kolo_reduce_scatter(comm, buffer, NULL, 2, KOLO_F32, KOLO_SUM), "recv is NULL with count 2");
    refused(rank, kolo_reduce_scatter(comm, buffer, buffer + 1, 64, KOLO_U8, KOLO_SUM),
            "this rank's block of send as recv");
    refused(rank, kolo_reduce_scatterv(comm, buffer, apart, NULL, KOLO_F32, KOLO_SUM), "counts of send is NULL");
    refused(rank, kolo_reduce_scatterv(comm, buffer, apart, huge, KOLO_F32, KOLO_SUM), "more than memory can hold");
    refused(rank, kolo_allgatherv(comm, buffer, apart, NULL, NULL, KOLO_U8), "counts of recv is NULL");
    refused(rank, kolo_allgatherv(comm, buffer, apart, ones, far, KOLO_U8), "block 0 of 1 elements from element");
    refused(rank, kolo_allgatherv(comm, NULL, apart, ones, NULL, KOLO_U8), "send is NULL with count 1");
    refused(rank, kolo_gather(comm, buffer, apart, 1, KOLO_U8, -1), "root -1");
    refused(rank, kolo_gather(comm, NULL, apart, 1, KOLO_U8, 0), "send is NULL with count 1");
    refused(rank, kolo_gatherv(comm, NULL, 1, apart, ones, NULL, KOLO_U8, 0), "send is NULL with count 1");
    refused(rank, kolo_scatter(comm, buffer, NULL, 1, KOLO_U8, 0), "recv is NULL with count 1");
    refused(rank, kolo_scatter(comm, buffer, apart, 1, (kolo_dtype)KOLO_DTYPES, 0), "dtype 12");
    refused(rank, kolo_scatterv(comm, buffer, ones, NULL, NULL, 1, KOLO_U8, 0), "recv is NULL with count 1");
    refused(rank, kolo_alltoall(comm, buffer, buffer + 1, 64, KOLO_U8), "for in place pass the same address");
    refused(rank, kolo_alltoallv(comm, buffer, NULL, NULL, apart, ones, NULL, KOLO_U8), "counts of send is NULL");
    refused(rank, kolo_alltoallv(comm, buffer, ones, NULL, apart, NULL, NULL, KOLO_U8), "counts of recv is NULL");
    refused(rank, kolo_alltoallv(comm, buffer, ones, NULL, apart, others, NULL, KOLO_U8),
            "sends itself 1 elements and expects 2");
    refused(rank, kolo_alltoallv(comm, buffer, ones, NULL, buffer, ones, NULL, KOLO_U8), "it does not work in place");
    refused(rank, kolo_scan(comm, buffer, buffer + 1, 64, KOLO_U8, KOLO_SUM), "for in place pass the same address");
    refused(rank, kolo_allreduce_many(comm, NULL, 2, KOLO_F32, KOLO_SUM), "tensors is NULL with count 2");
    refused(rank, kolo_allreduce_many(comm, (kolo_tensor[]){{buffer, 1}, {NULL, 1}}, 2, KOLO_F32, KOLO_SUM),
            "data of tensor 1 is NULL with count 1");
    refused(rank, kolo_allreduce_many(comm, (kolo_tensor[]){{buffer, 1}, {apart, SIZE_MAX}}, 2, KOLO_F32, KOLO_SUM),
            "tensor 1 of 18446744073709551615 elements");
    refused(rank, kolo_allreduce_many(comm, (kolo_tensor[]){{buffer, 1}}, 1, KOLO_F32, KOLO_BAND), "is for integers");
    kolo_request *request = NULL;
    refused(rank, kolo_iallreduce_many(comm, NULL, 1, KOLO_F32, KOLO_SUM, &request), "kolo_iallreduce_many: tensors");
    refused(rank, kolo_alltoall(NULL, buffer, apart, 1, KOLO_U8), "comm is NULL");
    still_works(rank);
    /* What only the root has may be NULL elsewhere. */
    const bool is_root = rank->rank == rank->ranks - 1;
    const int root = rank->ranks - 1;
    expect_status(rank, kolo_reduce(comm, buffer, is_root ? apart : NULL, 8, KOLO_F32, KOLO_SUM, root), 0, "reduce");
    expect_status(rank, kolo_gather(comm, buffer, is_root ? apart : NULL, 8, KOLO_U8, root), 0, "gather");
    expect_status(rank, kolo_scatter(comm, is_root ? buffer : NULL, apart, 8, KOLO_U8, root), 0, "scatter");
    expect_status(rank, kolo_alltoallv(comm, NULL, far + 1, NULL, NULL, far + 1, NULL, KOLO_U8), 0,
                  "an all-to-all of nothing");
    kolo_stats before = {.stats_bytes = sizeof before}, after = before;
    kolo_comm_stats(comm, &before);
    expect_status(rank, kolo_alltoallv(comm, buffer, ones, NULL, apart, ones, NULL, KOLO_F32), 0, "an all-to-all");
    kolo_comm_stats(comm, &after);
    expect(rank, after.payload_bytes - before.payload_bytes == 4 * (uint64_t)rank->ranks,
           "an all-to-all of %d blocks of 4 bytes counts as %" PRIu64 " bytes", rank->ranks,
           after.payload_bytes - before.payload_bytes);
}

static void apply_nothing(void *context, size_t first, size_t count, const void *gradients, void *parameters) {
    (void)context, (void)first, (void)count, (void)gradients, (void)parameters;
}

/* Every collective with what each of them is to refuse, if it has that argument. */
static void refuse_each(const struct rank *rank) {
    size_t ones[HARNESS_RANKS_MAX];
    const kolo_tensor tensors[] = {{buffer, 1}};
    for (int i = 0; i < HARNESS_RANKS_MAX; i++)
        ones[i] = 1;
    for (kolo_collective collective = KOLO_BROADCAST; collective < KOLO_ALLOC; collective++) {
        const kolo_call right = {.call_bytes = sizeof right,
                                 .collective = collective,
                                 .dtype = KOLO_F32,
                                 .send = buffer,
                                 .recv = buffer + sizeof buffer / 2,
                                 .count = 1,
                                 .send_counts = ones,
                                 .recv_counts = ones,
                                 .tensors = tensors,
                                 .ntensors = 1,
                                 .function = apply_nothing};
        kolo_call wrong = right;
        wrong.dtype = (kolo_dtype)KOLO_DTYPES;
        refused(rank, kolo_call_make(rank->comm, &wrong), "dtype 12");
        refused(rank, kolo_call_make(NULL, &right), "comm is NULL");
        wrong = right;
        wrong.op = (kolo_op)KOLO_OPS;
        if (kolo_collective_has(collective) & KOLO_HAS_OP)
            refused(rank, kolo_call_make(rank->comm, &wrong), "there is no such op");
        wrong.op = KOLO_BAND;
        if (kolo_collective_has(collective) & KOLO_HAS_OP)
            refused(rank, kolo_call_make(rank->comm, &wrong), "op band is for integers");
        wrong = right;
        wrong.root = rank->ranks;
        if (kolo_collective_has(collective) & KOLO_HAS_ROOT)
            refused(rank, kolo_call_make(rank->comm, &wrong), "root");
        expect_status(rank, kolo_call_make(rank->comm, &right), 0, kolo_name(KOLO_NAME_COLLECTIVE, collective));
    }
    still_works(rank);
}

/* Nothing to reduce needs no buffers, and touching buffers do not overlap. */
static void accept_borders(const struct rank *rank) {
    expect_status(rank, kolo_allreduce(rank->comm, NULL, NULL, 0, KOLO_F32, KOLO_SUM), 0, "count 0 without buffers");
    expect_status(rank, kolo_allreduce(rank->comm, buffer, buffer + 8, 0, KOLO_F32, KOLO_SUM), 0, "count 0");
    expect_status(rank, kolo_allreduce(rank->comm, buffer, buffer + 1024, 1024, KOLO_U8, KOLO_SUM), 0, "neighbours");
    expect_status(rank, kolo_allreduce(rank->comm, buffer + 1024, buffer, 1024, KOLO_U8, KOLO_SUM), 0, "neighbours");
    expect_status(rank, kolo_broadcast(rank->comm, NULL, 0, KOLO_F32, 0), 0, "a broadcast of nothing");
}

static void refuse_null(const struct rank *rank) {
    kolo_failure failure = {.failure_bytes = sizeof failure};
    kolo_stats stats = {.stats_bytes = sizeof stats};
    expect_status(rank, kolo_allreduce(NULL, buffer, buffer, 1, KOLO_U8, KOLO_SUM), KOLO_ERR_ARG, "comm NULL");
    expect_status(rank, kolo_broadcast(NULL, buffer, 1, KOLO_U8, 0), KOLO_ERR_ARG, "comm NULL");
    expect_status(rank, kolo_allgather(NULL, buffer, buffer, 1, KOLO_U8), KOLO_ERR_ARG, "comm NULL");
    expect_status(rank, kolo_barrier(NULL), KOLO_ERR_ARG, "comm NULL");
    expect_status(rank, kolo_comm_abort(NULL, 1), KOLO_ERR_ARG, "comm NULL");
    expect_status(rank, kolo_comm_failure(NULL, &failure), KOLO_ERR_ARG, "comm NULL");
    expect_status(rank, kolo_comm_failure(rank->comm, NULL), KOLO_ERR_ARG, "failure NULL");
    expect_status(rank, kolo_comm_stats(NULL, &stats), KOLO_ERR_ARG, "comm NULL");
    expect_status(rank, kolo_comm_stats(rank->comm, NULL), KOLO_ERR_ARG, "stats NULL");
    expect_status(rank, kolo_comm_destroy(NULL), 0, "kolo_comm_destroy(NULL)");
    expect_status(rank, kolo_comm_failure(rank->comm, &failure), 0, "kolo_comm_failure");
    expect(rank, failure.status == 0 && failure.message[0] == '\0', "a failure where there is none");
}

enum { ROOM = 8192 }; /* more than any struct */

/* Leaves other bytes than the last time where the next call has its local variables, so that padding shows. */
static __attribute__((noinline)) void soil_stack(int byte) {
    char soiled[2 * ROOM];
    memset(soiled, byte, sizeof soiled);
    __asm__ volatile("" : : "r"(soiled) : "memory");
}

/* A struct that the library fills, of an older program (a little shorter), of a newer one (longer), and of one that
 * forgot to set its size. The bytes behind the size are never touched. */
static void check_size(const struct rank *rank, const char *what, size_t bytes, size_t bytes_min,
                       int (*fill)(const struct rank *rank, void *filled)) {
    static const size_t wrong[] = {0, 8, SIZE_MAX, 1 << 20};
    const size_t right[] = {bytes, bytes_min, bytes + 16};
    unsigned char *filled = malloc(ROOM), *whole = calloc(1, ROOM);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        memset(filled, 0xa5, ROOM);
        memcpy(filled, &wrong[i], sizeof wrong[i]);
        if (expect_status(rank, fill(rank, filled), KOLO_ERR_ARG, what))
            expect_message(rank, what, "sizeof(", NULL);
        expect(rank, filled[sizeof(size_t)] == 0xa5, "%s: filled in spite of its size of %zu", what, wrong[i]);
    }
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        memset(filled, 0xa5, ROOM);
        memcpy(filled, &right[i], sizeof right[i]);
        soil_stack(0x11 * (int)(i + 1));
        expect_status(rank, fill(rank, filled), 0, what);
        expect(rank, memcmp(filled, &right[i], sizeof right[i]) == 0, "%s: its size has changed", what);
        expect(rank, filled[right[i]] == 0xa5, "%s: something was written behind its %zu bytes", what, right[i]);
        if (i == 0)
            memcpy(whole, filled, bytes);
        expect(rank, memcmp(filled + 8, whole + 8, (right[i] < bytes ? right[i] : bytes) - 8) == 0,
               "%s: %zu bytes of it differ from %zu", what, right[i], bytes);
        expect(rank, right[i] <= bytes || (filled[bytes] == 0 && filled[right[i] - 1] == 0),
               "%s: what the library does not know is not zeroed", what);
    }
    free(filled);
    free(whole);
}

static int fill_stats(const struct rank *rank, void *filled) {
    return kolo_comm_stats(rank->comm, filled);
}

static int fill_info(const struct rank *rank, void *filled) {
    return kolo_comm_query(rank->comm, filled);
}

static int fill_failure(const struct rank *rank, void *filled) {
    return kolo_comm_failure(rank->comm, filled);
}

static int fill_plan(const struct rank *rank, void *filled) {
    return kolo_plan_query(filled, NULL, rank->ranks, KOLO_ALLREDUCE, 1000, KOLO_F32, KOLO_SUM);
}

static int fill_machine(const struct rank *rank, void *filled) {
    const int status = kolo_machine_query(filled);
    (void)rank;
    if (status == 0) /* which changes while one looks */
        memset((char *)filled + offsetof(kolo_machine, shm_free_bytes), 0, sizeof(uint64_t));
    return status;
}

static int fill_variable(const struct rank *rank, void *filled) {
    (void)rank;
    return kolo_variable_get(0, filled);
}

/* KOLO_NONSENSE, which comes behind those that kolo reads. */
static int fill_unknown_variable(const struct rank *rank, void *filled) {
    kolo_variable variable = {.variable_bytes = sizeof variable};
    size_t known = 0;
    while (kolo_variable_get(known, &variable) == 0 && variable.meaning)
        known++;
    expect(rank, !variable.meaning && strncmp(variable.mistake, "KOLO_", 5) == 0, "%s is no mistake", variable.name);
    return kolo_variable_get(known, filled);
}

/* Writes a profile with one section into a file without a name. Returns its descriptor. */
static int write_profile(const struct rank *rank, const kolo_profile_section *section) {
    char text[KOLO_PROFILE_TEXT_BYTES];
    const int fd = memfd_create("profile", MFD_CLOEXEC);
    expect(rank, fd >= 0 && fchmod(fd, 0600) == 0, "no file for a profile");
    for (int i = 0; i < 2; i++) {
        expect_status(rank, kolo_profile_format(i ? section : NULL, text), 0, "kolo_profile_format");
        expect(rank, write(fd, text, strlen(text)) == (ssize_t)strlen(text), "the profile cannot be written");
    }
    return fd;
}

static int fill_section(const struct rank *rank, void *filled) {
    const kolo_profile_section section = {
        .section_bytes = sizeof section,
        .collective = KOLO_ALLREDUCE,
        .ranks = 7,
        .bands = 2,
        .band = {{1000, KOLO_ALGORITHM_ONESHOT, 1024}, {UINT64_MAX, KOLO_ALGORITHM_MESH, 2048}}};
    const int fd = write_profile(rank, &section);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    expect_status(rank, kolo_profile_section_get(path, 1, filled), KOLO_ERR_ARG, "a section past the last");
    const int status = kolo_profile_section_get(path, 0, filled);
    close(fd);
    return status;
}

/* Reads this process's communicator from outside, and asks for `filled` of it. */
static int fill_watched(const struct rank *rank, void *filled, char what) {
    kolo_watched_comm seen = {.comm_bytes = sizeof seen};
    kolo_watch *watch = NULL;
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    if (!expect_status(rank, kolo_watch_open(&watch, pid), 0, "kolo_watch_open") ||
        !expect(rank, kolo_watch_search(watch, NULL) > 0, "there is no communicator to watch") ||
        !expect_status(rank, kolo_watch_read(watch, 0, &seen), 0, "kolo_watch_read"))
        return 0;
    const int status = what == 'c'   ? kolo_watch_read(watch, 0, filled)
                       : what == 'r' ? kolo_watch_rank(watch, 0, rank->rank, filled)
                                     : kolo_watch_call(watch, 0, rank->rank, 1, filled);
    if (status == 0 && what == 'c') { /* which changes while one looks */
        ((kolo_watched_comm *)filled)->read_ns = 0;
        ((kolo_watched_comm *)filled)->age_s = 0;
    }
    kolo_watch_close(watch);
    return status;
}

static int fill_watched_comm(const struct rank *rank, void *filled) {
    return fill_watched(rank, filled, 'c');
}

static int fill_watched_rank(const struct rank *rank, void *filled) {
    return fill_watched(rank, filled, 'r');
}

static int fill_watched_call(const struct rank *rank, void *filled) {
    return fill_watched(rank, filled, ' ');
}

static void refuse_sections(const struct rank *rank) {
    static const struct {
        kolo_profile_section section;
        const char *words;
    } wrong[] = {
        {{.collective = KOLO_BROADCAST, .ranks = 2}, "'broadcast'"},
        {{.collective = KOLO_COLLECTIVES, .ranks = 2}, "collective"},
        {{.collective = KOLO_ALLREDUCE, .ranks = 1}, "'1'"},
        {{.collective = KOLO_ALLREDUCE, .ranks = 2, .bands = 17}, "17"},
        {{.collective = KOLO_ALLREDUCE, .ranks = 2, .bands = 1, .band = {{9, KOLO_ALGORITHM_RING, 1024}}}, "'ring'"},
        {{.collective = KOLO_ALLREDUCE, .ranks = 2, .bands = 1, .band = {{9, (kolo_algorithm)99, 1024}}}, "algorithm"},
        {{.collective = KOLO_ALLREDUCE, .ranks = 2, .bands = 1, .band = {{9, KOLO_ALGORITHM_MESH, 7}}}, "'7'"},
    };
    kolo_profile_section section = {.section_bytes = sizeof section};
    char text[KOLO_PROFILE_TEXT_BYTES] = "as before";
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        section = wrong[i].section;
        section.section_bytes = sizeof section;
        if (expect_status(rank, kolo_profile_format(&section, text), KOLO_ERR_ARG, "a wrong section"))
            expect_message(rank, "a wrong section", wrong[i].words, NULL);
    }
    expect(rank, strcmp(text, "as before") == 0, "a wrong section was written");
    expect_status(rank, kolo_profile_format(NULL, NULL), KOLO_ERR_ARG, "text NULL");
    expect_status(rank, kolo_profile_section_get(NULL, 0, &section), KOLO_ERR_ARG, "path NULL");
    if (expect_status(rank, kolo_profile_section_get("/nonexistent", 0, &section), KOLO_ERR_ARG, "no such profile"))
        expect_message(rank, "no such profile", "/nonexistent ignored", NULL);
}

/* What has one algorithm has a plan, too. */
static void plan_others(const struct rank *rank) {
    static const kolo_collective without[] = {KOLO_ALLOC, KOLO_FREE, KOLO_SHARE, KOLO_TABLE, KOLO_COLLECTIVES};
    kolo_plan plan = {.plan_bytes = sizeof plan};
    expect_status(rank, kolo_plan_query(&plan, NULL, 2, KOLO_BROADCAST, 1 << 20, KOLO_F32, KOLO_BAND), 0, "broadcast");
    expect(rank, plan.algorithm == KOLO_ALGORITHM_ONESHOT && plan.chunks * plan.chunk_bytes >= 4 << 20,
           "a broadcast goes by %s in %zu chunks of %zu", kolo_name(KOLO_NAME_ALGORITHM, plan.algorithm), plan.chunks,
           plan.chunk_bytes);
    expect_status(rank, kolo_plan_query(&plan, NULL, 2, KOLO_BARRIER, 0, KOLO_U8, KOLO_SUM), 0, "barrier");
    expect(rank, plan.chunks == 1, "a barrier has %zu chunks", plan.chunks);
    kolo_plan list = {.plan_bytes = sizeof list};
    for (size_t count = 1; count <= 4096; count *= 2) {
        expect_status(rank, kolo_plan_query(&plan, NULL, 2, KOLO_ALLREDUCE, count, KOLO_F32, KOLO_SUM), 0, "allreduce");
        expect_status(rank, kolo_plan_query(&list, NULL, 2, KOLO_ALLREDUCE_MANY, count, KOLO_F32, KOLO_SUM), 0, "list");
        expect(rank, list.algorithm == plan.algorithm, "a list of %zu elements goes by %s", count,
               kolo_name(KOLO_NAME_ALGORITHM, list.algorithm));
    }
    for (int i = 0; i < COLLECTIVES; i++) {
        const kolo_collective collective = collective_shapes[i].collective;
        const size_t most = SIZE_MAX / (2 * KOLO_OP_ELEMENT_BYTES_MAX) / 1024;
        expect_status(rank, kolo_plan_query(&plan, NULL, 1024, collective, most, KOLO_F64, KOLO_SUM), 0, "the most");
        expect(rank, plan.chunks > 1 << 20, "%zu elements of %s have %zu chunks", most,
               kolo_name(KOLO_NAME_COLLECTIVE, i), plan.chunks);
        expect_status(rank, kolo_plan_query(&plan, NULL, 1024, collective, most + 1, KOLO_U8, KOLO_SUM), KOLO_ERR_ARG,
                      "more than memory can hold");
    }
    for (size_t i = 0; i < sizeof without / sizeof *without; i++)
        expect_status(rank, kolo_plan_query(&plan, NULL, 2, without[i], 1, KOLO_U8, KOLO_SUM), KOLO_ERR_ARG,
                      "what has no plan");
    expect_status(rank, kolo_plan_query(&plan, NULL, 2, KOLO_ALLREDUCE, 1, KOLO_F32, KOLO_BAND), KOLO_ERR_ARG,
                  "an op that f32 lacks");
}

static void fill_other_sizes(const struct rank *rank) {
    check_size(rank, "kolo_stats", sizeof(kolo_stats), offsetof(kolo_stats, buffer_bytes), fill_stats);
    check_size(rank, "kolo_comm_info", sizeof(kolo_comm_info), sizeof(kolo_comm_info), fill_info);
    check_size(rank, "kolo_failure", sizeof(kolo_failure), offsetof(kolo_failure, cause), fill_failure);
    check_size(rank, "kolo_plan", sizeof(kolo_plan), offsetof(kolo_plan, stream), fill_plan);
    check_size(rank, "kolo_machine", sizeof(kolo_machine), sizeof(kolo_machine), fill_machine);
    check_size(rank, "kolo_variable", sizeof(kolo_variable), sizeof(kolo_variable), fill_variable);
    check_size(rank, "an unknown kolo_variable", sizeof(kolo_variable), sizeof(kolo_variable), fill_unknown_variable);
    if (rank->ranks > 1) { /* one alone has no segment */
        check_size(rank, "kolo_watched_comm", sizeof(kolo_watched_comm), sizeof(kolo_watched_comm), fill_watched_comm);
        check_size(rank, "kolo_watched_rank", sizeof(kolo_watched_rank), sizeof(kolo_watched_rank), fill_watched_rank);
        check_size(rank, "kolo_watched_call", sizeof(kolo_watched_call), sizeof(kolo_watched_call), fill_watched_call);
    }
    check_size(rank, "kolo_profile_section", sizeof(kolo_profile_section), sizeof(kolo_profile_section), fill_section);
}

static void run_all(struct rank *rank) {
    if (!still_works(rank))
        return;
    refuse_allreduce(rank);
    refuse_broadcast(rank);
    refuse_allgather(rank);
    refuse_blocks(rank);
    refuse_each(rank);
    accept_borders(rank);
    refuse_null(rank);
    fill_other_sizes(rank);
    refuse_sections(rank);
    plan_others(rank);
    still_works(rank);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Makes calls with wrong arguments.");
    setenv("KOLO_NONSENSE", "1", 1); /* which nothing reads */
    for (int ranks = 1; ranks <= 3; ranks++)
        for (int algorithm = 0; algorithm < KOLO_ALGORITHMS; algorithm++)
            if (wants_ranks(ranks) && wants_algorithm((kolo_algorithm)algorithm))
                harness_run(&(struct team){
                    .ranks = ranks, .algorithm = (kolo_algorithm)algorithm, .slot_bytes = 4096, .run = run_all});
    return harness_end();
}
