#include "fault_board.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fault_team.h"
#include "sync/point.h"

/* The names of sync/point.h, one behind another, zeros between them. */
extern const char __start_kolo_points[], __stop_kolo_points[];

struct board *board;
void (*board_hook)(const char *point);

static const char *names[BOARD_POINTS_MAX];
static int points;
static uint16_t *point_at; /* [offset of a name in its section] */
static int own_rank = -1;  /* -1: this process is no rank */
static bool contributes[BOARD_POINTS_MAX];
static int registering, registered; /* the points round the registration with membarrier */

static _Noreturn void give_up(const char *why) {
    perror(why);
    exit(1);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int board_point(const char *name) {
    for (int point = 0; point < points; point++)
        if (strcmp(names[point], name) == 0)
            return point;
    return -1;
}

/* The first name at or after `at`; NULL behind the last. */
static const char *next_name(const char *at) {
    while (at < __stop_kolo_points && *at == '\0')
        at++;
    return at < __stop_kolo_points ? at : NULL;
}

/* A name in a header's inline function is there once for each source that uses it. */
static void read_points(void) {
    static const char *const stores[] = {"flag.stored", "lines.stored", "lines.stored_next"};
    const char *name;
    for (const char *at = __start_kolo_points; (name = next_name(at)); at = name + strlen(name)) {
        if (board_point(name) >= 0)
            continue;
        if (points == BOARD_POINTS_MAX)
            give_up("more points than BOARD_POINTS_MAX");
        names[points++] = name;
    }
    qsort(names, (size_t)points, sizeof *names, compare_names);
    point_at = calloc((size_t)(__stop_kolo_points - __start_kolo_points) + 1, sizeof *point_at);
    if (!point_at || points == 0)
        give_up("reading the points");
    for (const char *at = __start_kolo_points; (name = next_name(at)); at = name + strlen(name))
        point_at[name - __start_kolo_points] = (uint16_t)board_point(name);
    for (size_t i = 0; i < sizeof stores / sizeof *stores; i++)
        contributes[board_point(stores[i])] = true;
    registering = board_point("create.introducing");
    registered = board_point("create.present");
}

void board_create(void) {
    read_points();
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        give_up("mmap");
}

void board_clear(void) {
    memset(board, 0, sizeof *board);
    for (int rank = 0; rank < BOARD_RANKS_MAX; rank++)
        board->ranks[rank].last_point = -1;
}

void board_enter(int rank) {
    own_rank = rank;
}

int board_points(void) {
    return points;
}

const char *board_point_name(int point) {
    return point < 0 ? "none" : names[point];
}

bool board_passed(int rank, const char *name) {
    const int point = board_point(name);
    if (point < 0) {
        fprintf(stderr, "there is no point %s\n", name);
        abort();
    }
    return board->ranks[rank].passed[point];
}

const char *board_action_name(enum action action) {
    static const char *const action_names[ACTIONS] = {"kill", "stop", "exit", "exit3"};
    return action_names[action];
}

bool board_is_of_tables(int point) {
    static const char *const beginnings[] = {"clock.", "outbox.",      "piece.", "rounds.",
                                             "shard.", "synchronous.", "table.", "table_file."};
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        if (strncmp(names[point], beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return false;
}

static void strike(int index) {
    static const int signals[ACTIONS] = {[ACTION_KILL] = SIGKILL, [ACTION_STOP] = SIGSTOP};
    const enum action action = board->faults[index].action;
    const int held_fd = team_held_open();
    const struct timespec pause = {.tv_nsec = BOARD_PAUSE_MS * 1000000};
    if (action == ACTION_PAUSE)
        nanosleep(&pause, NULL);
    board->struck[index] = true;
    board->held_ns[index] = team_held_ns(held_fd);
    board->struck_ns[index] = now_ns();
    if (held_fd >= 0)
        close(held_fd);
    if (action == ACTION_PAUSE)
        return;
    if (!signals[action])
        _exit(action == ACTION_EXIT_0 ? 0 : 3);
    syscall(SYS_tgkill, getpid(), gettid(), signals[action]); /* this thread goes no step further */
}

void kolo_point_reached(const char *name) {
    if (own_rank < 0)
        return;
    if (board_hook)
        board_hook(name);
    struct rank_record *record = &board->ranks[own_rank];
    const int point = point_at[name - __start_kolo_points];
    record->last_point = point;
    record->passed[point] = true;
    if (point == registering)
        record->registers_ns = now_ns();
    else if (point == registered)
        record->registering_ns = now_ns() - record->registers_ns;
    if (contributes[point])
        record->steps[record->step].contributions++;
    if (!record->is_counting)
        return;
    const uint64_t passage = ++record->passages[point];
    for (int i = 0; i < BOARD_FAULTS; i++) {
        const struct fault *fault = &board->faults[i];
        if (fault->armed && fault->rank == own_rank && fault->point == point && fault->passage == passage)
            strike(i);
    }
}
