#include "ways.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "train_report.h"
#include "ways_report.h"

/* The plain way, those asked for, and each of these without overlap. */
static void choose(ways *all, const train_options *options) {
    bool asked[TRAIN_WAYS] = {[TRAIN_WAY_PLAIN] = true};
    for (int i = 0; i < options->settings.ways_count; i++) {
        asked[options->settings.ways[i]] = true;
        asked[train_way_without_overlap(options->settings.ways[i])] = true;
    }
    for (unsigned way = 0; way < TRAIN_WAYS; way++)
        if (asked[way]) {
            way_run *run = &all->runs[all->count++];
            run->way = way;
            run->options = *options;
            run->options.settings = train_settings_of_way(&options->settings, way);
        }
}

/* What has been sent so far. */
static void add_sent(way_run *run, double sign) {
    kolo_stats stats = {.stats_bytes = sizeof stats};
    kolo_comm_stats(run->comm, &stats);
    run->sent_bytes += sign * (double)stats.sent_bytes;
    run->net_bytes += sign * (double)stats.net_sent_bytes;
}

static int begin(ways *all, const dataset *train, const dataset *test) {
    int rc = 0;
    for (int i = 0; rc == 0 && i < all->count; i++) {
        way_run *run = &all->runs[i];
        if (kolo_comm_dup(all->comm, &run->comm) < 0)
            return complain(all->comm, "--ways: no communicator for '%s': %s", train_way_name(run->way),
                            kolo_error_message());
        rc = trainer_create(&run->trainer, run->comm, &run->options, train, test);
        if (rc == 0)
            rc = trainer_begin(&run->trainer);
        if (rc == 0)
            add_sent(run, -1);
    }
    return rc;
}

static int take_turns(ways *all, int prints) {
    const trainer *plain = &all->runs[0].trainer;
    int rc = 0;
    for (size_t epoch = 0; rc == 0 && epoch < plain->epochs_planned; epoch++) {
        for (int i = 0; rc == 0 && i < all->count; i++)
            rc = trainer_run_epoch(&all->runs[(epoch + (size_t)i) % (size_t)all->count].trainer);
        if (rc == 0 && prints)
            train_report_epoch(plain);
    }
    return rc;
}

static int compare_replicas(way_run *run) {
    const mlp *model = &run->trainer.model;
    uint32_t *scratch = calloc(2 * model->parameters_count, sizeof *scratch);
    if (scratch == NULL)
        return complain(run->comm, "not enough memory to compare %zu parameters", model->parameters_count);
    run->identical = replicas_identical(run->comm, model->parameters, model->parameters_count, scratch);
    free(scratch);
    return run->identical < 0 ? run->identical : 0;
}

static int finish(ways *all) {
    int rc = 0;
    for (int i = 0; rc == 0 && i < all->count; i++) {
        way_run *run = &all->runs[i];
        add_sent(run, 1);
        run->sent_bytes /= (double)run->trainer.steps;
        run->net_bytes /= (double)run->trainer.steps;
        rc = compare_replicas(run);
    }
    return rc;
}

static int tell(const ways *all, FILE **json) {
    ways_report_print(all);
    if (ferror(stdout))
        return complain(all->comm, "cannot write to standard output: %s", strerror(errno));
    if (*json == NULL)
        return 0;
    errno = 0;
    ways_report_json(all, *json);
    return train_json_close(json, &all->runs[0].trainer);
}

static int is_right(const ways *all) {
    int right = 1;
    for (int i = 0; i < all->count; i++) {
        const way_run *run = &all->runs[i];
        right &= run->identical && (!train_way_keeps_bits(run->way) || ways_difference(all, run) == 0);
    }
    return right;
}

/* rc < 0: the other ranks must not wait for this one in any of them. */
static void end(ways *all, int rc) {
    for (int i = 0; i < all->count; i++) {
        way_run *run = &all->runs[i];
        if (rc < 0 && run->comm != NULL)
            kolo_comm_abort(run->comm, EXIT_FAILURE);
        if (run->trainer.comm != NULL)
            trainer_destroy(&run->trainer);
        kolo_comm_destroy(run->comm);
    }
    free(all);
}

int ways_run(kolo_comm *comm, const train_options *options, const dataset *train, const dataset *test, FILE **json) {
    const int prints = kolo_comm_rank(comm) == 0 && !options->quiet;
    ways *all = calloc(1, sizeof *all);
    if (all == NULL)
        return complain(comm, "not enough memory for the ways to compare");
    all->comm = comm;
    choose(all, options);
    int rc = begin(all, train, test);
    if (rc == 0 && prints)
        ways_report_heading(all);
    if (rc == 0)
        rc = take_turns(all, prints);
    if (rc == 0)
        rc = finish(all);
    if (rc == 0 && kolo_comm_rank(comm) == 0)
        rc = tell(all, json);
    if (rc == 0)
        rc = is_right(all) ? EXIT_SUCCESS : EXIT_FAILURE;
    end(all, rc);
    return rc;
}

static double step_seconds(const trainer *t, size_t epoch) {
    const epoch_result *result = &t->results[epoch];
    const size_t before = epoch > 0 ? t->results[epoch - 1].steps : 0;
    return result->seconds / (double)(result->steps - before);
}

/* The epoch whose steps took the median time. */
static size_t median_epoch(const trainer *t) {
    for (size_t epoch = 0; epoch < t->epochs; epoch++) {
        const double own = step_seconds(t, epoch);
        size_t faster = 0;
        for (size_t other = 0; other < t->epochs; other++)
            faster += step_seconds(t, other) < own || (step_seconds(t, other) == own && other < epoch);
        if (faster == t->epochs / 2)
            return epoch;
    }
    return 0;
}

way_times ways_times(const ways *all, const way_run *run) {
    const trainer *t = &run->trainer;
    const size_t epoch = median_epoch(t);
    const epoch_result *result = &t->results[epoch];
    const double steps = result->seconds / step_seconds(t, epoch);
    way_times times = {.step = result->seconds / steps,
                       .wait = result->allreduce_seconds / steps,
                       .update = result->update_seconds / steps,
                       .hidden = -1};
    times.compute = times.step - times.wait - times.update;
    const unsigned without = train_way_without_overlap(run->way);
    for (int i = 0; i < all->count && without != run->way; i++)
        if (all->runs[i].way == without)
            times.hidden = fmax(0, ways_times(all, &all->runs[i]).wait - times.wait);
    return times;
}
