/* Where the ranks of a job on several machines meet, by options and variables; that a job of one machine, whoever has
 * started it, has no such place; and other settings. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "comm/creation/options.h"

#define TORCHRUN "RANK=1", "WORLD_SIZE=4", "LOCAL_RANK=1", "MASTER_ADDR=head", "MASTER_PORT=29500"
#define OPEN_MPI                                                                                                       \
    "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_RANK=1", "PMIX_NAMESPACE=one"
#define SLURM "SLURM_PROCID=1", "SLURM_NTASKS=4", "SLURM_STEP_ID=2", "SLURM_JOB_ID=1000"
#define OWN   "KOLO_RANK=1", "KOLO_SIZE=4"

enum { VARIABLES_MAX = 16 };

static const char *const none[] = {NULL};

struct example {
    const char *rendezvous; /* that comes of it; NULL: an error that quotes `words` */
    const char *words;
    const char *variables[VARIABLES_MAX];
};

static const struct example examples[] = {
    /* One machine. */
    {"", NULL, {NULL}},
    {"", NULL, {OWN, "KOLO_JOB=a"}},
    {"", NULL, {TORCHRUN, "LOCAL_WORLD_SIZE=4", "GROUP_WORLD_SIZE=1"}},
    {"", NULL, {TORCHRUN}},
    {"", NULL, {OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE=4", "MASTER_ADDR=head", "MASTER_PORT=1"}},
    {"", NULL, {SLURM, "SLURM_NNODES=1", "SLURM_JOB_NODELIST=n1"}},
    {"", NULL, {SLURM, "SLURM_NNODES=2", "SLURM_STEP_NUM_NODES=1", "SLURM_JOB_NODELIST=n[1-2]"}},
    {"", NULL, {"KOLO_RENDEZVOUS=head:1"}}, /* one rank */
    /* kolo's own variable goes before all others, and makes a job one of several machines. */
    {"head:1", NULL, {OWN, "KOLO_RENDEZVOUS=head:1"}},
    {"head:1", NULL, {OWN, "KOLO_RENDEZVOUS=head:1", "KOLO_LOCAL_SIZE=4", "KOLO_SHM_FD=0"}},
    {"[::1]:9", NULL, {TORCHRUN, "LOCAL_WORLD_SIZE=2", "KOLO_RENDEZVOUS=[::1]:9"}},
    {"head:1", NULL, {SLURM, "KOLO_RENDEZVOUS=head:1"}},
    /* Launchers that tell of several. torchrun's own store listens at MASTER_PORT. */
    {"head:19501", NULL, {TORCHRUN, "LOCAL_WORLD_SIZE=2"}},
    {"head:19501", NULL, {TORCHRUN, "GROUP_WORLD_SIZE=2"}},
    {"head:16228", NULL, {"MASTER_PORT=46227", TORCHRUN, "GROUP_WORLD_SIZE=2"}},
    {"head:7", NULL, {OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE=2", "MASTER_ADDR=head", "MASTER_PORT=7"}},
    {"[fd00::1]:7", NULL, {OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE=2", "MASTER_ADDR=fd00::1", "MASTER_PORT=7"}},
    {"head:7", NULL, {SLURM, "SLURM_NNODES=2", "MASTER_ADDR=head", "MASTER_PORT=7", "SLURM_JOB_NODELIST=n[1-2]"}},
    {"n07:27002", NULL, {SLURM, "SLURM_NNODES=2", "SLURM_JOB_NODELIST=n[07-12,15],gpu1"}},
    {"gpu1:27002", NULL, {SLURM, "SLURM_NNODES=2", "SLURM_JOB_NODELIST=gpu1,n[07-12,15]"}},
    {"r1-n3.x:27002", NULL, {SLURM, "SLURM_NNODES=2", "SLURM_JOB_NODELIST=r[1,3]-n[3-4].x"}},
    {"b:27002", NULL, {SLURM, "SLURM_NNODES=3", "SLURM_STEP_NODELIST=b,c", "SLURM_JOB_NODELIST=a,b,c"}},
    /* A script that sets torchrun's variables under Slurm, and torchrun itself, which says on how many machines. */
    {"head:19501", NULL, {TORCHRUN, SLURM, "SLURM_NNODES=2"}},
    {"", NULL, {TORCHRUN, "TORCHELASTIC_RUN_ID=none", SLURM, "SLURM_NNODES=2"}},
    /* Another launcher's machines and rendezvous are not those of the ranks. */
    {"", NULL, {TORCHRUN, "SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_STEP_ID=2", "SLURM_NNODES=2"}},
    {NULL, "KOLO_RENDEZVOUS=HOST:PORT", {OWN, "KOLO_JOB=a", "KOLO_LOCAL_SIZE=2", TORCHRUN}},
    {NULL, "KOLO_RENDEZVOUS=HOST:PORT", {OWN, "KOLO_LOCAL_SIZE=2", SLURM, "SLURM_JOB_NODELIST=n[1-2]"}},
    {NULL, "KOLO_RENDEZVOUS=HOST:PORT", {OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE=2", SLURM, "SLURM_JOB_NODELIST=n[1-2]"}},
    /* Nothing to meet at, or what cannot be read. */
    {NULL, "KOLO_RENDEZVOUS=HOST:PORT", {OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE=2"}},
    {NULL, "KOLO_RENDEZVOUS=HOST:PORT", {OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE=2", "MASTER_ADDR=head"}},
    {NULL, "KOLO_RENDEZVOUS=HOST:PORT", {OWN, "KOLO_JOB=a", "KOLO_LOCAL_SIZE=2"}},
    {NULL, "KOLO_RENDEZVOUS=HOST:PORT", {SLURM, "SLURM_NNODES=2"}},
    {NULL, "MASTER_PORT=x", {OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE=2", "MASTER_ADDR=head", "MASTER_PORT=x"}},
    {NULL, "SLURM_JOB_NODELIST=n[1", {SLURM, "SLURM_NNODES=2", "SLURM_JOB_NODELIST=n[1"}},
    {NULL, "SLURM_JOB_NODELIST=n/1", {SLURM, "SLURM_NNODES=2", "SLURM_JOB_NODELIST=n/1"}},
    {NULL, "SLURM_NNODES=two", {SLURM, "SLURM_NNODES=two"}},
};

static int resolve(struct kolo_settings *settings, const kolo_options *options, const char *const *variables) {
    char *const *outer = environ;
    environ = (char **)variables;
    const int rc = kolo_settings_resolve(settings, options);
    environ = (char **)outer;
    return rc;
}

static void test_examples(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        struct kolo_settings settings;
        const int rc = resolve(&settings, NULL, examples[i].variables);
        if (examples[i].rendezvous && rc < 0)
            fail_msg("example %zu: %s", i, kolo_error_message());
        if (examples[i].rendezvous) {
            assert_string_equal(settings.net.rendezvous, examples[i].rendezvous);
            continue;
        }
        assert_int_equal(rc, KOLO_ERR_ARG);
        if (!strstr(kolo_error_message(), examples[i].words))
            fail_msg("example %zu: '%s' does not say '%s'", i, kolo_error_message(), examples[i].words);
    }
}

/* What a caller says goes before the environment; one who has a descriptor has its ranks on this machine. */
static void test_options(void **state) {
    (void)state;
    static const char *const several[] = {"KOLO_RENDEZVOUS=head:1", NULL};
    struct kolo_settings settings;
    kolo_options options = KOLO_OPTIONS_INIT;
    options.rank = 1;
    options.size = 4;
    assert_int_equal(resolve(&settings, &options, several), 0);
    assert_string_equal(settings.net.rendezvous, "head:1");
    options.rendezvous = "other:2";
    assert_int_equal(resolve(&settings, &options, several), 0);
    assert_string_equal(settings.net.rendezvous, "other:2");
    options.shm_fd = 5;
    assert_int_equal(resolve(&settings, &options, several), 0);
    assert_string_equal(settings.net.rendezvous, "other:2");
    assert_int_equal(settings.shm_fd, 5);
    options.rendezvous = NULL;
    assert_int_equal(resolve(&settings, &options, several), 0);
    assert_string_equal(settings.net.rendezvous, "");
    options.shm_fd = -1;
    options.rendezvous = "";
    assert_int_equal(resolve(&settings, &options, several), KOLO_ERR_ARG); /* no name to meet under */
    options.job = "a";
    assert_int_equal(resolve(&settings, &options, several), 0);
    assert_string_equal(settings.net.rendezvous, "");
    char text[400];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    options.rendezvous = text;
    assert_int_equal(resolve(&settings, &options, several), KOLO_ERR_ARG);
}

/* Each variable counts in a job's name, however long those before it are. */
static void test_job_names(void **state) {
    (void)state;
    char id[160] = "TORCHELASTIC_RUN_ID=";
    for (size_t bytes = strlen(id); bytes + 1 < sizeof id; id[bytes++] = 'a') {
        const char *const one[] = {TORCHRUN, "LOCAL_WORLD_SIZE=4", id, NULL};
        const char *const other[] = {"MASTER_PORT=1", TORCHRUN, "LOCAL_WORLD_SIZE=4", id, NULL};
        struct kolo_settings settings[2];
        assert_int_equal(resolve(&settings[0], NULL, one), 0);
        assert_int_equal(resolve(&settings[1], NULL, other), 0);
        assert_string_not_equal(settings[0].place.job, settings[1].place.job);
    }
}

/* The address of mpirun's server counts on one machine: namespaces are made of host names and pids alone. */
static void test_server(void **state) {
    (void)state;
    struct kolo_settings settings[2];
    for (int i = 0; i < 2; i++) {
        const char *const variables[] = {OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE=4",
                                         i ? "PMIX_SERVER_URI2=one.0;tcp4://127.0.0.1:11" : /* of a longer port */
                                             "PMIX_SERVER_URI2=one.0;tcp4://127.0.0.1:1",
                                         NULL};
        assert_int_equal(resolve(&settings[i], NULL, variables), 0);
        assert_string_equal(settings[i].place.job_everywhere, "one");
    }
    assert_string_not_equal(settings[0].place.job, settings[1].place.job);
}

/* Goes on in a child; this process waits for it, and ends. */
static void descend(void) {
    const pid_t pid = fork();
    if (pid == 0)
        return;
    waitpid(pid, NULL, 0);
    _exit(0);
}

/* Writes into fd the name that MPICH's ranks get in a pid namespace of their own; nothing if there are none. */
static void begin_in_namespace(int fd) {
    static const char *const variables[] = {"PMI_RANK=0", "PMI_SIZE=2", NULL};
    struct kolo_settings settings;
    if (fork() != 0)
        return;
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        _exit(0);
    descend();
    if (mount("proc", "/proc", "proc", 0, NULL) < 0)
        _exit(0);
    descend();
    prctl(PR_SET_NAME, "hydra_pmi_proxy");
    descend();
    if (resolve(&settings, NULL, variables) == 0)
        dprintf(fd, "%s", settings.place.job);
    _exit(0);
}

/* In containers that are started at once, launchers have one pid and one start time, which counts clock ticks. */
static void test_namespaces(void **state) {
    (void)state;
    enum { ROUNDS = 20 };
    for (int round = 0; round < ROUNDS; round++) {
        char jobs[2][KOLO_JOB_NAME_BYTES] = {"", ""};
        int pipes[2][2];
        for (int i = 0; i < 2; i++) {
            assert_int_equal(pipe(pipes[i]), 0);
            begin_in_namespace(pipes[i][1]);
        }
        for (int i = 0; i < 2; i++) {
            assert_true(wait(NULL) > 0);
            close(pipes[i][1]);
        }
        for (int i = 0; i < 2; i++) {
            assert_true(read(pipes[i][0], jobs[i], sizeof jobs[i] - 1) >= 0);
            close(pipes[i][0]);
        }
        if (!jobs[0][0])
            skip(); /* needs root */
        assert_string_not_equal(jobs[0], jobs[1]);
    }
}

static void test_net(void **state) {
    (void)state;
    static const char *const given[] = {
        "KOLO_NET=streams:16,servers:3,wire:bf16,zero_copy,quorum:any,uring,threads:8,poll", "KOLO_NET_ALGO=central",
        "KOLO_NET_SILENCE_MS=500", NULL};
    struct kolo_settings settings;
    assert_int_equal(resolve(&settings, NULL, none), 0);
    assert_int_equal(settings.net.engine, KOLO_NET_ENGINE_AUTO);
    assert_int_equal(settings.net.lanes, 1);
    assert_int_equal(settings.net.streams, 4);
    assert_int_equal(settings.net.exchange, KOLO_EXCHANGE_AUTO);
    assert_int_equal(settings.net.servers, 1);
    assert_true(!(settings.net.half_on_wire));
    assert_true(!(settings.net.rank_order));
    assert_true(!(settings.net.zero_copy));
    assert_true(!settings.net.any_part);
    assert_true(settings.net.silence_ns == INT64_C(10000000000));
    assert_int_equal(resolve(&settings, NULL, given), 0);
    assert_int_equal(settings.net.engine, KOLO_NET_ENGINE_POLL);
    assert_int_equal(settings.net.lanes, 8);
    assert_int_equal(settings.net.streams, 16);
    assert_int_equal(settings.net.exchange, KOLO_EXCHANGE_CENTRAL);
    assert_int_equal(settings.net.servers, 3);
    assert_true(settings.net.half_on_wire);
    assert_true(settings.net.zero_copy);
    assert_true(settings.net.any_part);
    assert_true(settings.net.silence_ns == 500000000);
}

/* KOLO_ALGO gives the levels of a tree, whoever names the algorithm. */
static void test_algorithm(void **state) {
    (void)state;
    static const struct {
        const char *given[2];
        kolo_algorithm option, algorithm;
        bool levels_given;
        uint32_t levels[KOLO_LEVELS_MAX];
    } cases[] = {
        {{NULL}, KOLO_ALGORITHM_AUTO, KOLO_ALGORITHM_AUTO, false, {0}},
        {{"KOLO_ALGO=tree"}, KOLO_ALGORITHM_AUTO, KOLO_ALGORITHM_TREE, false, {0}},
        {{"KOLO_ALGO=tree:none"}, KOLO_ALGORITHM_AUTO, KOLO_ALGORITHM_TREE, true, {0}},
        {{"KOLO_ALGO=tree:2:8"}, KOLO_ALGORITHM_AUTO, KOLO_ALGORITHM_TREE, true, {2, 8}},
        {{"KOLO_ALGO=auto:4"}, KOLO_ALGORITHM_AUTO, KOLO_ALGORITHM_AUTO, true, {4}},
        {{"KOLO_ALGO=tree:2:8"}, KOLO_ALGORITHM_RING, KOLO_ALGORITHM_RING, true, {2, 8}},
        {{"KOLO_ALGO=mesh"}, KOLO_ALGORITHM_TREE, KOLO_ALGORITHM_TREE, false, {0}},
    };
    struct kolo_settings settings;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kolo_options options = KOLO_OPTIONS_INIT;
        options.algorithm = cases[i].option;
        assert_int_equal(resolve(&settings, &options, cases[i].given), 0);
        assert_int_equal(settings.algorithm, cases[i].algorithm);
        assert_int_equal(settings.tree_levels_given, cases[i].levels_given);
        assert_memory_equal(settings.tree_levels, cases[i].levels, sizeof settings.tree_levels);
    }
}

/* The default slot shrinks as ranks and threads become more, and is always one that can be used. */
static void test_slot_bytes(void **state) {
    (void)state;
    static const struct {
        const char *given[4];
        size_t bytes;
    } cases[] = {{{NULL}, 256 << 10},
                 {{"KOLO_RANK=0", "KOLO_SIZE=1024"}, 64 << 10},
                 {{"KOLO_RANK=0", "KOLO_SIZE=1024", "KOLO_THREADS=16"}, 4096},
                 {{"KOLO_RANK=0", "KOLO_SIZE=1024", "KOLO_THREADS=17"}, 4096},
                 {{"KOLO_RANK=0", "KOLO_SIZE=1024", "KOLO_THREADS=64"}, 4096}};
    struct kolo_settings settings;
    kolo_options options = KOLO_OPTIONS_INIT;
    options.job = "a";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(resolve(&settings, &options, cases[i].given), 0);
        assert_int_equal(settings.slot_bytes, cases[i].bytes);
    }
}

/* The order of ranks is not to be had by ways that do not keep it. */
static void test_rank_order(void **state) {
    (void)state;
    static const char *const good[][3] = {{"KOLO_NET_ORDER=rank", NULL},
                                          {"KOLO_NET_ORDER=rank", "KOLO_NET_ALGO=tree", NULL},
                                          {"KOLO_NET_ORDER=node", "KOLO_NET_ALGO=ring", NULL},
                                          {"KOLO_NET_ORDER=node", "KOLO_NET=wire:bf16", NULL}};
    static const char *const bad[][3] = {{"KOLO_NET_ORDER=rank", "KOLO_NET_ALGO=ring", NULL},
                                         {"KOLO_NET_ORDER=rank", "KOLO_NET=wire:bf16", NULL}};
    struct kolo_settings settings;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(resolve(&settings, NULL, good[i]), 0);
        assert_int_equal(settings.net.rank_order, i < 2);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(resolve(&settings, NULL, bad[i]), KOLO_ERR_ARG);
        assert_non_null(strstr(kolo_error_message(), bad[i][0]));
        assert_non_null(strstr(kolo_error_message(), bad[i][1]));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),  cmocka_unit_test(test_options),    cmocka_unit_test(test_job_names),
        cmocka_unit_test(test_server),    cmocka_unit_test(test_namespaces), cmocka_unit_test(test_net),
        cmocka_unit_test(test_algorithm), cmocka_unit_test(test_rank_order), cmocka_unit_test(test_slot_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
