#include "perf_rounds.h"

#include <math.h>

#include "perf_statistics.h"

enum { POINT_FACTOR = 4 };

/* Rounds that take several times the median were interrupted. */
static double undisturbed_mean_us(const double *sorted_us, int rounds) {
    const double ratio_max = 3;
    double sum_us = 0;
    int round = 0;
    for (; round < rounds && sorted_us[round] <= sorted_us[rounds / 2] * ratio_max; round++)
        sum_us += sorted_us[round];
    return sum_us / round;
}

static perf_task_time time_of_rounds(const perf_workshop *shop, int workers, int rounds) {
    double us[PERF_ROUNDS_MAX];
    for (int round = 0; round < rounds; round++) {
        perf_span last = shop->rounds[0][round];
        for (int i = 1; i < workers; i++) {
            last.begin_us = fmax(last.begin_us, shop->rounds[i][round].begin_us);
            last.end_us = fmax(last.end_us, shop->rounds[i][round].end_us);
        }
        us[round] = last.end_us - last.begin_us;
    }
    perf_samples_sort(us, (size_t)rounds);
    return (perf_task_time){.us = us[(rounds - 1) / 4], .min_us = us[0], .mean_us = undisturbed_mean_us(us, rounds)};
}

/* Worker 0 sets rounds_over before a round's first barrier and all read it after; before it changes again they meet
 * once more, at the round's second barrier or after the last round. */
perf_task_time perf_rounds_take(perf_task *task) {
    perf_workshop *shop = task->shop;
    perf_worker *worker = task->worker;
    double end_us = perf_now_us() + shop->request.point_us;
    int round = 0;
    for (;; round++) {
        if (worker->index == 0)
            shop->rounds_over = round == PERF_ROUNDS_MAX || (round >= PERF_ROUNDS_MIN && perf_now_us() > end_us);
        perf_worker_barrier(worker);
        if (shop->rounds_over)
            break;
        if (task->prepare != NULL)
            task->prepare(task);
        perf_worker_barrier(worker);
        perf_span *span = &shop->rounds[worker->index][round];
        span->begin_us = perf_now_us();
        if (task->partner >= 0)
            task->work(task);
        span->end_us = perf_now_us();
    }
    perf_worker_barrier(worker);
    if (worker->index != 0)
        return (perf_task_time){0};
    perf_task_time time = time_of_rounds(shop, worker->team->workers, round);
    time.us /= task->repetitions;
    time.min_us /= task->repetitions;
    time.mean_us /= task->repetitions;
    return time;
}

void perf_rounds_record(const perf_task *task, double us, const char *way) {
    perf_curve *curve = task->curve;
    const int point = task->point;
    if (task->worker->index != 0 || (point < curve->points && curve->us[point] <= us))
        return;
    curve->points = point + 1;
    curve->bytes[point] = task->bytes;
    curve->us[point] = us;
    curve->way[point] = way;
}

void perf_rounds_try(perf_task *task, void (*work)(perf_task *task), const char *way) {
    task->work = work;
    perf_rounds_record(task, perf_rounds_take(task).us, way);
}

bool perf_point_next(size_t *bytes, size_t wanted_bytes, size_t end_bytes) {
    if (*bytes >= wanted_bytes || *bytes > end_bytes / POINT_FACTOR)
        return false;
    *bytes *= POINT_FACTOR;
    return true;
}
