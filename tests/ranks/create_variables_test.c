/* Variables and options that cannot be read end creation at once, with KOLO_ERR_ARG and a message that quotes them. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kolo_tools.h"
#include "harness.h"

/* Each sets a variable on top of a place that is right, and must be refused with these words. */
static const struct {
    const char *name;
    const char *value;
    const char *words[2];
} wrong[] = {
    {"KOLO_RANK", "x", {"KOLO_RANK=x", "whole number"}},
    {"KOLO_RANK", "-1", {"KOLO_RANK=-1", "0 to 1"}},
    {"KOLO_RANK", "2", {"KOLO_RANK=2", "0 to 1"}},
    {"KOLO_RANK", "1 ", {"KOLO_RANK=1 ", "whole number"}},
    {"KOLO_RANK", "", {"KOLO_SIZE is set but KOLO_RANK is not", "both"}},
    {"KOLO_SIZE", "0", {"KOLO_SIZE=0", "1 to 1024"}},
    {"KOLO_SIZE", "1025", {"KOLO_SIZE=1025", "1 to 1024"}},
    {"KOLO_SIZE", "2.5", {"KOLO_SIZE=2.5", "whole number"}},
    {"KOLO_SIZE", "99999999999999999999", {"KOLO_SIZE=99999999999999999999", "whole number"}},
    {"KOLO_SIZE", "", {"KOLO_RANK is set but KOLO_SIZE is not", "both"}},
    {"KOLO_JOB", "a/b", {"a/b", "letters, digits"}},
    {"KOLO_JOB", "", {"KOLO_JOB", "kolorun"}},
    {"KOLO_SHM_FD", "seven", {"KOLO_SHM_FD=seven", "whole number"}},
    {"KOLO_SHM_FD", "1000000", {"KOLO_SHM_FD=1000000", "not an open descriptor"}},
    {"KOLO_ALGO", "foo", {"KOLO_ALGO=foo", "oneshot, mesh, ring, central, direct, tree"}},
    {"KOLO_ALGO", "Ring", {"KOLO_ALGO=Ring", "ring"}},
    {"KOLO_ALGO", "ring:2", {"KOLO_ALGO=ring:2", "direct, tree, auto:LEVELS, tree:LEVELS"}},
    {"KOLO_ALGO", "tree:8:12", {"KOLO_ALGO=tree:8:12: levels must be none", "powers of two from 2 to 512"}},
    {"KOLO_TIMEOUT_MS", "-5", {"KOLO_TIMEOUT_MS=-5", "whole number"}},
    {"KOLO_TIMEOUT_MS", "1s", {"KOLO_TIMEOUT_MS=1s", "whole number"}},
    {"KOLO_CREATE_TIMEOUT_MS", "soon", {"KOLO_CREATE_TIMEOUT_MS=soon", "whole number"}},
    {"KOLO_CPU", "foo", {"foo", "avx2"}},
    {"KOLO_CPU", "avx2,,portable", {"avx2,,portable", "avx2"}},
    {"KOLO_LOG", "loud", {"KOLO_LOG=loud", "off, error, warn, info, stall:N"}},
    {"KOLO_LOG", "warn,stall:1s", {"KOLO_LOG=warn,stall:1s: stall:1s must be", "whole number from 0"}},
    {"KOLO_WAIT", "never", {"KOLO_WAIT=never", "sleep"}},
    {"KOLO_PROGRESS", "yes", {"KOLO_PROGRESS=yes", "whole number"}},
    {"KOLO_THREADS", "65", {"KOLO_THREADS=65", "1 to 64"}},
    {"KOLO_SLOT_BYTES", "abc", {"KOLO_SLOT_BYTES=abc", "whole number"}},
    {"KOLO_SLOT_BYTES", "0", {"KOLO_SLOT_BYTES=0", "from 1"}},
    {"KOLO_SLOT_BYTES", "2000000000", {"KOLO_SLOT_BYTES=2000000000", "1073741824"}},
    {"KOLO_SINGLE_COPY", "on", {"KOLO_SINGLE_COPY=on", "auto, off"}},
    {"KOLO_SINGLE_COPY", "0", {"KOLO_SINGLE_COPY=0", "from 1 on"}},
    {"KOLO_LOCAL_SIZE", "1", {"not all of them on this machine", "KOLO_RENDEZVOUS"}},
    {"KOLO_NET", "tcp", {"KOLO_NET=tcp", "auto, uring, poll"}},
    {"KOLO_NET", "poll,threads:9", {"KOLO_NET=poll,threads:9: threads:9 must be", "1 to 8"}},
    {"KOLO_NET", "streams:17", {"KOLO_NET=streams:17", "1 to 16"}},
    {"KOLO_NET", "streams:2x,poll", {"streams:2x must be", "whole number"}},
    {"KOLO_NET", "servers:0", {"KOLO_NET=servers:0", "1 to 1024"}},
    {"KOLO_NET", "wire:f16", {"\"wire:f16\" is none of", "wire:none, wire:bf16"}},
    {"KOLO_NET", "quorum:all", {"KOLO_NET=quorum:all", "quorum:majority, quorum:any"}},
    {"KOLO_NET", "zero_copy:1", {"\"zero_copy:1\" is none of", "poll, zero_copy, threads:N"}},
    {"KOLO_NET", "poll,", {"KOLO_NET=poll,: \"\" is none of", "auto"}},
    {"KOLO_NET_ALGO", "direct", {"KOLO_NET_ALGO=direct", "auto, mesh, ring, tree, central"}},
    {"KOLO_NET_ORDER", "ranks", {"KOLO_NET_ORDER=ranks", "node, rank"}},
    {"KOLO_NET_SILENCE_MS", "99", {"KOLO_NET_SILENCE_MS=99", "from 100"}},
};

static void clear_variables(void) {
    kolo_variable variable = {.variable_bytes = sizeof variable};
    for (size_t i = 0; kolo_variable_get(i, &variable) == 0 && variable.meaning; i++)
        unsetenv(variable.name);
}

static void refuse_variables(void) {
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        kolo_comm *const untouched = (kolo_comm *)&clear_variables, *comm = untouched;
        clear_variables();
        setenv("KOLO_RANK", "0", 1);
        setenv("KOLO_SIZE", "2", 1);
        setenv("KOLO_JOB", fresh_job(), 1);
        setenv(wrong[i].name, wrong[i].value, 1);
        const int64_t begin_ns = now_ns();
        if (expect(NULL, kolo_comm_create(&comm, NULL) == KOLO_ERR_ARG, "%s=%s was not refused, or wrongly: %s",
                   wrong[i].name, wrong[i].value, kolo_error_message()))
            expect_message(NULL, wrong[i].name, wrong[i].words[0], wrong[i].words[1], NULL);
        expect(NULL, comm == untouched, "%s=%s: the handle was set", wrong[i].name, wrong[i].value);
        expect(NULL, now_ns() - begin_ns < patience_ms(5000) * 1000000, "%s=%s: refused late", wrong[i].name,
               wrong[i].value);
    }
    clear_variables();
}

static void refuse_options(void) {
    const kolo_options defaults = KOLO_OPTIONS_INIT;
    const struct {
        kolo_options options;
        const char *words;
    } wrong_options[] = {
        {{.options_bytes = 8}, "KOLO_OPTIONS_INIT"},
        {{sizeof defaults, 5, 4, "job", -1, KOLO_ALGORITHM_AUTO, -1, -1, 0, NULL, 0, 0}, "rank 5"},
        {{sizeof defaults, 4, 4, "job", -1, KOLO_ALGORITHM_AUTO, -1, -1, 0, NULL, 0, 0}, "rank 4"},
        {{sizeof defaults, 0, 0, "job", -1, KOLO_ALGORITHM_AUTO, -1, -1, 0, NULL, 0, 0}, "size 0"},
        {{sizeof defaults, 0, 1025, "job", -1, KOLO_ALGORITHM_AUTO, -1, -1, 0, NULL, 0, 0}, "size 1025"},
        {{sizeof defaults, 0, 2, "", -1, KOLO_ALGORITHM_AUTO, -1, -1, 0, NULL, 0, 0}, "1 to 127"},
        {{sizeof defaults, 0, 2, NULL, -1, KOLO_ALGORITHM_AUTO, -1, -1, 0, NULL, 0, 0}, "kolorun"},
        {{sizeof defaults, 0, 2, "job", -1, (kolo_algorithm)17, -1, -1, 0, NULL, 0, 0}, "algorithm 17"},
        {{sizeof defaults, -2, -1, "job", -1, KOLO_ALGORITHM_AUTO, -1, -1, 0, NULL, 0, 0}, "rank -2"},
        {{sizeof defaults, 0, -7, "job", -1, KOLO_ALGORITHM_AUTO, -1, -1, 0, NULL, 0, 0}, "size -7"},
        {{sizeof defaults, 0, 2, "job", -3, KOLO_ALGORITHM_AUTO, -1, -1, 0, NULL, 0, 0}, "shm_fd -3"},
        {{sizeof defaults, 0, 2, "job", -1, KOLO_ALGORITHM_AUTO, -2, -1, 0, NULL, 0, 0}, "timeout_ms -2"},
        {{sizeof defaults, 0, 2, "job", -1, KOLO_ALGORITHM_AUTO, -1, -7, 0, NULL, 0, 0}, "create_timeout_ms -7"},
        {{sizeof defaults, 0, 2, "job", -1, KOLO_ALGORITHM_AUTO, -1, -1, SIZE_MAX, NULL, 0, 0}, "slot_bytes"},
        {{sizeof defaults, 0, 2, "job", -1, KOLO_ALGORITHM_AUTO, -1, -1, 0, NULL, 2, 0}, "progress 2"},
        {{sizeof defaults, 0, 2, "job", -1, KOLO_ALGORITHM_AUTO, -1, -1, 0, NULL, 0, -1}, "threads -1"},
    };
    for (size_t i = 0; i < sizeof wrong_options / sizeof *wrong_options; i++) {
        kolo_comm *comm = NULL;
        int status = kolo_comm_create(&comm, &wrong_options[i].options);
        if (expect_status(NULL, status, KOLO_ERR_ARG, wrong_options[i].words))
            expect_message(NULL, wrong_options[i].words, wrong_options[i].words, NULL);
        expect(NULL, comm == NULL, "%s: the handle was set", wrong_options[i].words);
    }
    expect_status(NULL, kolo_comm_create(NULL, NULL), KOLO_ERR_ARG, "kolo_comm_create(NULL)");
}

/* Programs that were compiled with an older or a newer kolo.h. */
static void read_other_sizes(void) {
    struct {
        kolo_options options;
        uint64_t newer[4];
    } given = {.options = KOLO_OPTIONS_INIT, .newer = {0}};
    static const struct {
        size_t bytes;
        uint64_t newer;
        int status;
    } sizes[] = {
        {sizeof(kolo_options), 1, 0}, /* what is behind the size is not looked at */
        {sizeof(kolo_options) + 8, 0, 0},
        {sizeof given, 0, 0},
        {sizeof given, 1, KOLO_ERR_ARG},
        {offsetof(kolo_options, rendezvous), 1, 0},
        {offsetof(kolo_options, slot_bytes), 0, KOLO_ERR_ARG},
        {1 << 20, 0, KOLO_ERR_ARG},
        {0, 0, KOLO_ERR_ARG},
    };
    given.options.rank = 0;
    given.options.size = 1;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        kolo_comm *comm = NULL;
        kolo_plan plan = {.plan_bytes = sizeof plan};
        given.options.options_bytes = sizes[i].bytes;
        given.newer[3] = sizes[i].newer;
        given.options.rendezvous = (const char *)(sizes[i].bytes < sizeof given.options ? UINTPTR_MAX : 0);
        expect_status(NULL, kolo_comm_create(&comm, &given.options), sizes[i].status, "options of another size");
        if (sizes[i].status)
            expect_message(NULL, "options of another size", "options_bytes is", "KOLO_OPTIONS_INIT", NULL);
        kolo_comm_destroy(comm);
        expect_status(NULL, kolo_plan_query(&plan, &given.options, 2, KOLO_ALLREDUCE, 1, KOLO_F32, KOLO_SUM),
                      sizes[i].status, "a plan for options of another size");
    }
}

/* What has no fault: nothing set at all, and every variable set to something right. */
static void accept_variables(void) {
    static const char *const right[][2] = {{"KOLO_RANK", "0"},
                                           {"KOLO_SIZE", "1"},
                                           {"KOLO_ALGO", "mesh"},
                                           {"KOLO_WAIT", "sleep"},
                                           {"KOLO_CPU", "portable"},
                                           {"KOLO_SLOT_BYTES", "4096"},
                                           {"KOLO_TIMEOUT_MS", "10"},
                                           {"KOLO_CREATE_TIMEOUT_MS", "10"},
                                           {"KOLO_LOG", "off"},
                                           {"KOLO_LOCAL_RANK", "0"},
                                           {"KOLO_SINGLE_COPY", "65536"},
                                           {"KOLO_TUNE_FILE", "/nonexistent"}};
    for (size_t set = 0; set <= sizeof right / sizeof *right; set++) {
        kolo_comm *comm = NULL;
        if (expect_status(NULL, kolo_comm_create(&comm, NULL), 0, "kolo_comm_create of one rank"))
            expect(NULL, kolo_comm_rank(comm) == 0 && kolo_comm_size(comm) == 1, "not rank 0 of 1");
        kolo_comm_destroy(comm);
        if (set == 0) /* the place is both or neither */
            setenv(right[0][0], right[0][1], 1), set++;
        if (set < sizeof right / sizeof *right)
            setenv(right[set][0], right[set][1], 1);
    }
    kolo_plan plan = {.plan_bytes = sizeof plan};
    expect_status(NULL, kolo_plan_query(&plan, NULL, 2, KOLO_ALLTOALL, 65536, KOLO_U8, KOLO_SUM), 0, "kolo_plan_query");
    expect(NULL, plan.algorithm == KOLO_ALGORITHM_DIRECT, "all-to-all by %d", (int)plan.algorithm);
    clear_variables();
}

/* What looks like a variable of kolo's and is none is told once a process, with KOLO_LOG=warn. */
static void warn_of_unknown(void) {
    static const char words[] = "kolo: rank 0: KOLO_ALG is not a variable of kolo; did you mean KOLO_ALGO?\n";
    char text[1024] = "";
    const int log = memfd_create("log", MFD_CLOEXEC), before = dup(STDERR_FILENO);
    setenv("KOLO_ALG", "ring", 1);
    dup2(log, STDERR_FILENO);
    for (int i = 0; i < 4; i++) {
        kolo_comm *comm = NULL;
        setenv("KOLO_LOG", i == 0 ? "error" : "warn", 1);
        expect_status(NULL, kolo_comm_create(&comm, NULL), 0, "kolo_comm_create with an unknown variable");
        kolo_comm_destroy(comm);
    }
    dup2(before, STDERR_FILENO);
    expect(NULL, pread(log, text, sizeof text - 1, 0) >= 0 && strcmp(text, words) == 0, "logged: '%s'", text);
    close(log);
    close(before);
    unsetenv("KOLO_ALG");
    clear_variables();
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Creates communicators with variables and options that are wrong.");
    clear_variables();
    warn_of_unknown();
    accept_variables();
    refuse_variables();
    refuse_options();
    read_other_sizes();
    return harness_end();
}
