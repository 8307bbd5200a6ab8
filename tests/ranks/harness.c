#include "harness.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "forked_team.h"
#include "held_time.h"
#include "number_option.h"

enum { WATCHDOG_S = 580, PATIENCE_MS = 60000, REPORTS_MAX = 20, TRIES = 3, DESCRIPTORS_MAX = 4096 };

struct harness_arguments arguments;

/* What all ranks and the parent see, whether the ranks are processes or threads. */
static struct board {
    _Atomic uint64_t failures;
    _Atomic int64_t event_ns;
    _Atomic uint64_t counter;
    _Atomic uint32_t late;                /* how often something in this run of a team was */
    char late_words[256];                 /* what first */
    uint32_t recorded[HARNESS_RANKS_MAX]; /* each rank's results; it alone writes them */
    uint64_t results[HARNESS_RANKS_MAX][HARNESS_RESULTS_MAX];
} * board;

static pid_t pids[HARNESS_RANKS_MAX]; /* of the present team; 0: none or ended */
static const kolo_options *present;   /* its rank 0's */
static char prefix[64];               /* of every job name */
static char name[41];                 /* of the program */
static unsigned jobs;
static int64_t begin_ns;

int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t held_ns(void) {
    FILE *file = fopen("/proc/thread-self/schedstat", "re");
    int64_t held = 0;
    if (file && fscanf(file, "%*d %" SCNd64, &held) != 1)
        held = 0;
    if (file)
        fclose(file);
    return held;
}

void sleep_ms(int64_t ms) {
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

uint64_t random_seed(uint64_t part, uint64_t index) {
    uint64_t state = arguments.seed ^ part * UINT64_C(0xd1342543de82ef95);
    state = random_next(&state) ^ index;
    return random_next(&state);
}

int open_descriptors(void) {
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (directory && readdir(directory))
        count++;
    if (directory)
        closedir(directory);
    return count;
}

void close_descriptors(void) { /* closefrom is not in every C library */
    for (int fd = STDERR_FILENO + 1; fd < DESCRIPTORS_MAX; fd++)
        close(fd);
}

size_t heap_bytes(void) {
#ifdef __GLIBC__
    const struct mallinfo2 heap = mallinfo2();
    return heap.uordblks + heap.hblkhd;
#else
    return 0;
#endif
}

int64_t patience_ms(int64_t ms) {
    return arguments.quick ? 5 * ms : ms;
}

bool wants_ranks(int ranks) {
    return arguments.ranks == 0 || arguments.ranks == ranks;
}

bool wants_algorithm(kolo_algorithm algorithm) {
    return arguments.algorithm < 0 || arguments.algorithm == (int)algorithm;
}

/* Arguments. */

void harness_seed(uint64_t seed) {
    char calls[24] = "";
    arguments.seed = seed;
    if (arguments.calls)
        snprintf(calls, sizeof calls, " --calls %" PRIu32, arguments.calls);
    snprintf(arguments.repeat, sizeof arguments.repeat, "%s --seed %" PRIu64 "%s%s%s", name, seed, calls,
             arguments.threads ? " --threads" : "", arguments.quick ? " --quick" : "");
}

static void print_usage(FILE *to, const char *program, const char *purpose) {
    fprintf(to,
            "usage: %s [--ranks N] [--algo NAME] [--seed N] [--calls N] [--threads] [--quick]\n\n%s\n\n"
            "  --ranks N    only teams of N ranks\n"
            "  --algo NAME  only this algorithm: auto, oneshot, mesh, ring, central, direct, tree\n"
            "  --seed N     of everything random; without it, TEST_SEED, or 1\n"
            "  --calls N    of a random program only the first N\n"
            "  --threads    ranks are threads of this process instead of processes\n"
            "  --quick      a fraction of the cases, for sanitizers and emulators; TEST_QUICK does so, too\n"
            "  --help       print this\n\n"
            "Exit status: 0 passed, 1 failed, 2 wrong arguments, 77 skipped.\n\n"
            "example: %s --ranks 5 --algo ring --seed 1\n",
            program, purpose, program);
}

static int parse_algorithm(void) {
    for (int i = 0; i < KOLO_ALGORITHMS; i++)
        if (strcmp(optarg, kolo_name(KOLO_NAME_ALGORITHM, i)) == 0)
            return i;
    refuse_option("algo", optarg);
}

static void read_arguments(int argc, char **argv, const char *purpose) {
    static const struct option options[] = {
        {"ranks", required_argument, NULL, 'r'}, {"algo", required_argument, NULL, 'a'},
        {"seed", required_argument, NULL, 's'},  {"calls", required_argument, NULL, 'c'},
        {"threads", no_argument, NULL, 't'},     {"quick", no_argument, NULL, 'q'},
        {"help", no_argument, NULL, 'h'},        {NULL, 0, NULL, 0}};
    const char *slash = strrchr(argv[0], '/'), *program = slash ? slash + 1 : argv[0];
    arguments.algorithm = -1;
    arguments.seed = default_seed();
    arguments.quick = getenv("TEST_QUICK");
    for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        switch (option) {
        case 'r':
            arguments.ranks = (int)number_option("ranks", HARNESS_RANKS_MAX);
            break;
        case 'a':
            arguments.algorithm = parse_algorithm();
            break;
        case 's':
            arguments.seed = number_option("seed", UINT64_MAX);
            arguments.seeded = true;
            break;
        case 'c':
            arguments.calls = (uint32_t)number_option("calls", UINT32_MAX);
            break;
        case 't':
            arguments.threads = true;
            break;
        case 'q':
            arguments.quick = true;
            break;
        default:
            print_usage(option == 'h' ? stdout : stderr, program, purpose);
            exit(option == 'h' ? 0 : 2);
        }
    }
    if (optind < argc)
        refuse_option("", argv[optind]);
    snprintf(name, sizeof name, "%s", program);
    harness_seed(arguments.seed);
}

/* Begin, end, watchdog. */

static void end_hung(int signal) {
    static const char text[] = "FAILED: no end in sight: a rank hangs\n";
    (void)signal;
    ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
    ignored = write(STDERR_FILENO, arguments.repeat, strlen(arguments.repeat));
    (void)ignored;
    for (int rank = 0; rank < HARNESS_RANKS_MAX; rank++)
        if (pids[rank] > 0)
            kill(pids[rank], SIGKILL);
    _exit(1);
}

void harness_begin(int argc, char **argv, const char *purpose) {
    begin_ns = now_ns();
    read_arguments(argc, argv, purpose);
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 1 << 30); /* buffers of many calls lie in the same pages: to clear them takes long */
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
    setenv("KOLO_TUNE_FILE", "none", 0); /* or the user's own profile would decide what is tested */
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    held_begin();
    snprintf(prefix, sizeof prefix, "test-%d", (int)getpid());
    printf("%s\n", arguments.repeat);
    signal(SIGALRM, end_hung);
    alarm(WATCHDOG_S);
}

static void expect_nothing_left(void) {
    char left[128];
    const size_t length = (size_t)snprintf(left, sizeof left, "kolo-%u-%s-", (unsigned)geteuid(), prefix);
    DIR *shm = opendir("/dev/shm");
    for (struct dirent *entry; shm && (entry = readdir(shm));)
        expect(NULL, strncmp(entry->d_name, left, length) != 0, "/dev/shm/%s was left behind", entry->d_name);
    if (shm)
        closedir(shm);
}

int harness_end(void) {
    expect_nothing_left();
    const uint64_t failures = atomic_load(&board->failures);
    printf("%s, %" PRIu64 " failures, %.1f s\n", failures ? "FAILED" : "passed", failures,
           (double)(now_ns() - begin_ns) * 1e-9);
    return failures ? 1 : 0;
}

void harness_skip(const char *why) {
    printf("skipped: %s\n", why);
    exit(HARNESS_SKIPPED);
}

const char *fresh_job(void) {
    static char job[96];
    snprintf(job, sizeof job, "%s-%u", prefix, ++jobs);
    return job;
}

const char *job_path(const char *job, uid_t user) {
    static char path[160];
    snprintf(path, sizeof path, "/dev/shm/kolo-%u-%s", (unsigned)user, job);
    return path;
}

kolo_options options_for(int rank, int ranks, const char *job, int fd) {
    kolo_options options = KOLO_OPTIONS_INIT;
    options.rank = rank;
    options.size = ranks;
    options.job = fd < 0 ? job : NULL;
    options.shm_fd = fd;
    return options;
}

/* Checks. */

static void report(const struct rank *rank, const char *text) {
    if (atomic_fetch_add(&board->failures, 1) >= REPORTS_MAX)
        return;
    if (rank)
        fprintf(stderr, "FAILED: rank %d of %d, %s, slots of %zu bytes: %s\n    repeat: %s --ranks %d --algo %s\n",
                rank->rank, rank->ranks, kolo_name(KOLO_NAME_ALGORITHM, rank->team->algorithm), rank->team->slot_bytes,
                text, arguments.repeat, rank->ranks, kolo_name(KOLO_NAME_ALGORITHM, rank->team->algorithm));
    else
        fprintf(stderr, "FAILED: %s\n    repeat: %s\n", text, arguments.repeat);
}

bool expect(const struct rank *rank, bool holds, const char *format, ...) {
    if (holds)
        return true;
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    report(rank, text);
    return false;
}

bool expect_prompt(const struct rank *rank, int64_t took_ns, int64_t ms, const char *what) {
    const int64_t most_ns = patience_ms(ms) * 1000000;
    if (took_ns <= most_ns)
        return true;
    const int64_t machine_ns = held_since_mark_ns();
    if (took_ns <= most_ns + machine_ns)
        return true;
    if (atomic_fetch_add(&board->late, 1) == 0)
        snprintf(board->late_words, sizeof board->late_words,
                 "rank %d of %d: %s: %lld ms, not %lld at most; the machine took %lld", rank->rank, rank->ranks, what,
                 (long long)(took_ns / 1000000), (long long)patience_ms(ms), (long long)(machine_ns / 1000000));
    return false;
}

bool expect_timely(const struct rank *rank, const kolo_comm *comm, int status, int wanted, int culprit,
                   const char *what) {
    kolo_failure failure = {.failure_bytes = sizeof failure, .rank = culprit};
    kolo_comm_failure(comm, &failure);
    if (rank->team->timeout_ms == 0 || status != KOLO_ERR_TIMEOUT ||
        (wanted == KOLO_ERR_TIMEOUT && failure.rank == culprit))
        return expect_status(rank, status, wanted, what);
    if (atomic_fetch_add(&board->late, 1) == 0)
        snprintf(board->late_words, sizeof board->late_words, "rank %d of %d: %s: %.128s", rank->rank, rank->ranks,
                 what, failure.message);
    return false;
}

/* What the others get where a rank gives up, leaves or ends. */
static bool is_loss(int status) {
    return status == KOLO_ERR_TIMEOUT || status == KOLO_ERR_PEER_DEAD || status == KOLO_ERR_ABORTED ||
           status == KOLO_ERR_STATE;
}

bool expect_status(const struct rank *rank, int status, int wanted, const char *what) {
    if (rank && rank->team->loses && status != wanted && is_loss(status))
        return false;
    return expect(rank, status == wanted, "%s returned %d (%s), not %d (%s)%s%s", what, status, kolo_strerror(status),
                  wanted, kolo_strerror(wanted), status ? ": " : "", status ? kolo_error_message() : "");
}

bool expect_message(const struct rank *rank, const char *what, ...) {
    bool holds = true;
    va_list words;
    va_start(words, what);
    for (const char *word; (word = va_arg(words, const char *));)
        holds &= expect(rank, strstr(kolo_error_message(), word) != NULL, "%s: '%s' is missing in \"%s\"", what, word,
                        kolo_error_message());
    va_end(words);
    int outer = 0, inner = 0, end = 0;
    (void)sscanf(kolo_error_message(), "rank %d: rank %d:%n", &outer, &inner, &end);
    return expect(rank, end == 0 || outer != inner, "%s: names the rank twice: \"%s\"", what, kolo_error_message()) &&
           holds;
}

void refused(const struct rank *rank, int status, const char *words) {
    if (expect_status(rank, status, KOLO_ERR_ARG, words))
        expect_message(rank, words, words, NULL);
}

bool expect_difference(const struct rank *rank, const char *name, const char *value, int odd, const char *elsewhere) {
    char is[64], here[64], there[64];
    snprintf(is, sizeof is, "; %s is ", name);
    snprintf(here, sizeof here, " %s on rank %d", value, odd);
    snprintf(there, sizeof there, " %s on rank ", elsewhere);
    return expect_message(rank, name, is, here, there, NULL);
}

void record_result(const struct rank *rank, uint32_t index, uint64_t result) {
    if (!expect(rank, index < HARNESS_RESULTS_MAX, "the test has more than %d results", HARNESS_RESULTS_MAX))
        return;
    board->results[rank->rank][index] = result;
    if (board->recorded[rank->rank] <= index)
        board->recorded[rank->rank] = index + 1;
}

uint64_t recorded_result(uint32_t index) {
    return board->results[0][index];
}

static void compare_results(const struct team *team) {
    const struct rank anyone = {.ranks = team->ranks, .team = team};
    for (int rank = 1; rank < team->ranks; rank++) {
        expect(&anyone, board->recorded[rank] == board->recorded[0], "rank %d has %u results, rank 0 has %u", rank,
               board->recorded[rank], board->recorded[0]);
        for (uint32_t i = 0; i < board->recorded[0] && i < board->recorded[rank]; i++)
            if (!expect(&anyone, board->results[rank][i] == board->results[0][i],
                        "rank %d has another result than rank 0 in case %u", rank, i))
                break;
    }
}

void event_set(void) {
    held_mark();
    atomic_store(&board->event_ns, now_ns());
}

int64_t event_ns(void) {
    return atomic_load(&board->event_ns);
}

uint64_t counter_add(uint64_t addend) {
    return atomic_fetch_add(&board->counter, addend) + addend;
}

/* Teams. */

static void run_rank(struct rank *rank) {
    if (!rank->team->creates_itself &&
        !expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create"))
        return;
    rank->team->run(rank);
    if (!rank->team->creates_itself)
        kolo_comm_destroy(rank->comm);
}

static void *run_thread(void *rank) {
    run_rank(rank);
    return NULL;
}

static void run_threads(struct rank *ranks, const struct team *team) {
    pthread_t threads[HARNESS_RANKS_MAX];
    int started = 0;
    held_enter(0, getpid());
    while (started < team->ranks && pthread_create(&threads[started], NULL, run_thread, &ranks[started]) == 0)
        started++;
    expect(NULL, started == team->ranks, "only %d of %d threads could be started", started, team->ranks);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

/* To look for leaks takes as long as all else: that is done for the first teams, and then for one in so many. Where the
 * program broke off, what was under way is not freed. */
static int be_process(void *ranks, int index) {
    enum { FIRST = 20, STRIDE = 7 };
    struct rank *rank = (struct rank *)ranks + index;
    run_rank(rank);
    held_leave(rank->rank);
    fflush(NULL);
    if (!rank->team->loses && (jobs <= FIRST || jobs % STRIDE == 0))
        exit(0);
    return 0;
}

static void reap(const struct rank *rank) {
    int status = 0;
    held_await(pids[rank->rank]);
    while (waitpid(pids[rank->rank], &status, 0) < 0 && errno == EINTR)
        ;
    pids[rank->rank] = 0;
    const bool victim =
        rank->rank == rank->team->victim - 1 || (rank->rank < 64 && rank->team->victims >> rank->rank & 1);
    expect(rank, status == 0 || victim, "the process ended with %s %d", WIFSIGNALED(status) ? "signal" : "exit code",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void run_processes(struct rank *ranks, const struct team *team) {
    int started = 0;
    while (started < team->ranks && (pids[started] = forked_process_start(be_process, ranks, started)) > 0) {
        held_enter(started, pids[started]);
        started++;
    }
    expect(NULL, started == team->ranks, "only %d of %d processes could be started", started, team->ranks);
    if (team->meanwhile)
        team->meanwhile(team, pids);
    for (int i = 0; i < started; i++)
        reap(&ranks[i]);
}

/* Whether shared memory can be given back through a mapping: qemu-user says so and does nothing. */
static bool can_give_back(void) {
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return false;
    *page = 1;
    const bool can = madvise(page, 4096, MADV_REMOVE) == 0 && *page == 0;
    munmap(page, 4096);
    return can;
}

/* Segments lie in an inherited file one after another: those that are gone must not take memory any more. */
static void expect_empty(int fd) {
    struct stat file;
    if (!can_give_back())
        return;
    if (expect(NULL, fstat(fd, &file) == 0, "fstat: %s", strerror(errno)))
        expect(NULL, file.st_blocks <= 64, "%lld blocks of the inherited file are still allocated",
               (long long)file.st_blocks);
}

static void run_once(const struct team *team) {
    struct rank ranks[HARNESS_RANKS_MAX];
    const char *job = fresh_job();
    const int fd = team->by_descriptor ? memfd_create("test", MFD_CLOEXEC) : -1;
    for (int i = 0; i < team->ranks; i++) {
        ranks[i] = (struct rank){.rank = i, .ranks = team->ranks, .team = team};
        kolo_options *options = &ranks[i].options;
        *options = options_for(i, team->ranks, job, fd);
        options->algorithm = team->algorithm;
        options->slot_bytes = team->slot_bytes;
        options->timeout_ms = team->timeout_ms ? team->timeout_ms : PATIENCE_MS;
        options->create_timeout_ms = PATIENCE_MS;
    }
    present = &ranks[0].options;
    held_team();
    memset(board->recorded, 0, sizeof board->recorded);
    atomic_store(&board->event_ns, 0);
    atomic_store(&board->counter, 0);
    atomic_store(&board->late, 0);
    if (arguments.threads)
        run_threads(ranks, team);
    else
        run_processes(ranks, team);
    compare_results(team);
    if (team->empties_file)
        expect_empty(fd);
    if (fd >= 0)
        close(fd);
    present = NULL;
}

const kolo_options *team_options(void) {
    return present;
}

void harness_run(const struct team *team) {
    const struct rank anyone = {.ranks = team->ranks, .team = team};
    const uint64_t failures = atomic_load(&board->failures);
    for (int i = 1; i <= TRIES; i++) {
        run_once(team);
        if (atomic_load(&board->late) == 0)
            return;
        if (i == TRIES || atomic_load(&board->failures) > failures) {
            report(&anyone, board->late_words);
            return;
        }
        printf("late, and so once more: %s\n", board->late_words);
    }
}
