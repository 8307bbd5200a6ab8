/* A comparison of ways to take a step (--ways). Each is a training of its own, from the same first weights, with a
 * communicator of its own. They take turns, an epoch each, so that whatever else the machine does meets all of them. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "complain.h"
#include "kolo_fusion.h"
#include "kolo_tools.h"
#include "printed_text.h"
#include "train_report.h"

typedef struct way_run {
    unsigned way;
    train_options options; /* with the settings of that way */
    kolo_comm *comm;
    trainer trainer;
    double sent_bytes; /* of a step: what this rank put into shared memory for others to read */
    double net_bytes;  /* of a step: what this machine sent to others */

    /* What came of it. */
    int identical;     /* whether all ranks ended with the same parameters */
    int is_right;      /* and with the plain way's bits, where they must */
    double difference; /* of a step's loss from the plain way's, at most; relative to the larger of that and 1 */
    size_t parameter_bytes;
    /* Seconds of a step: of the epoch whose steps took the median time, mean over its steps and over the ranks. */
    double step;
    double compute; /* the gradients; with overlap, whatever communication takes of the processor then */
    double wait;    /* for the sums when the gradients are there; with --fused also the update */
    double update;
    double gain;
    double hidden; /* by how much less it waits than the same way without overlap; below 0: it has none */
} way_run;

typedef struct ways {
    kolo_comm *comm;
    int count;
    way_run runs[TRAIN_WAYS]; /* the plain one first */
} ways;

/* The plain way, those asked for, and each of these without overlap. */
static void choose(ways *all, const train_options *options) {
    bool asked[TRAIN_WAYS] = {[TRAIN_WAY_PLAIN] = true};
    for (int i = 0; i < options->settings.ways_count; i++) {
        const unsigned way = options->settings.ways[i];
        asked[way] = true;
        asked[train_ways[way].without_overlap] |= train_ways[way].way.overlap;
    }
    for (unsigned way = 0; way < TRAIN_WAYS; way++)
        if (asked[way]) {
            way_run *run = &all->runs[all->count++];
            run->way = way;
            run->options = *options;
            run->options.settings.way = train_ways[way].way;
        }
}

/* What has been sent so far. */
static void add_sent(way_run *run, double sign) {
    kolo_stats stats = {.stats_bytes = sizeof stats};
    kolo_comm_stats(run->comm, &stats);
    run->sent_bytes += sign * (double)stats.sent_bytes;
    run->net_bytes += sign * (double)stats.net_sent_bytes;
}

static void begin(ways *all, const dataset *train, const dataset *test) {
    for (way_run *run = all->runs; run < all->runs + all->count; run++) {
        if (kolo_comm_dup(all->comm, &run->comm) < 0)
            give_up("--ways: no communicator for '%s': %s", train_way_name(run->way), kolo_error_message());
        trainer_create(&run->trainer, run->comm, &run->options, train, test);
        trainer_begin(&run->trainer);
        add_sent(run, -1);
    }
}

static void take_turns(ways *all, bool prints) {
    const trainer *plain = &all->runs[0].trainer;
    for (size_t epoch = 0; epoch < plain->epochs_planned; epoch++) {
        for (int i = 0; i < all->count; i++)
            trainer_run_epoch(&all->runs[(epoch + (size_t)i) % (size_t)all->count].trainer);
        if (prints)
            train_report_epoch(plain);
    }
}

/* Of a step in that epoch. */
static double step_seconds(const trainer *t, size_t epoch) {
    const size_t before = epoch > 0 ? t->results[epoch - 1].steps : 0;
    return t->results[epoch].seconds / (double)(t->results[epoch].steps - before);
}

static int is_faster(const trainer *t, size_t epoch, size_t other) {
    const double difference = step_seconds(t, epoch) - step_seconds(t, other);
    return difference < 0 || (difference == 0 && epoch < other);
}

static void take_times(way_run *run) {
    const trainer *t = &run->trainer;
    for (size_t epoch = 0; epoch < t->epochs; epoch++) {
        size_t faster = 0;
        for (size_t other = 0; other < t->epochs; other++)
            faster += (size_t)is_faster(t, other, epoch);
        if (faster != t->epochs / 2)
            continue;
        run->step = step_seconds(t, epoch);
        const double steps = t->results[epoch].seconds / run->step;
        run->wait = t->results[epoch].allreduce_seconds / steps;
        run->update = t->results[epoch].update_seconds / steps;
        run->compute = run->step - run->wait - run->update;
    }
}

/* Those without overlap are there before those with it. */
static void finish(ways *all) {
    const trainer *plain = &all->runs[0].trainer;
    kolo_comm_info info = {.info_bytes = sizeof(info)};
    for (way_run *run = all->runs; run < all->runs + all->count; run++) {
        const trainer *t = &run->trainer;
        const train_way *way = &train_ways[run->way].way;
        size_t ignored;
        add_sent(run, 1);
        run->sent_bytes /= (double)t->steps;
        run->net_bytes /= (double)t->steps;
        run->identical = replicas_identical(run->comm, t->model.parameters, t->model.parameters_count);
        run->difference = loss_difference_max(t, plain, plain->steps, &ignored);
        run->is_right = way->exact || way->compress != KOLO_COMPRESSION_NONE || run->difference == 0;
        run->parameter_bytes = t->model.parameters_count * sizeof(float);
        if (way->shared_parameters && kolo_comm_query(run->comm, &info) == KOLO_OK)
            run->parameter_bytes /= (size_t)info.local_size;
        take_times(run);
        run->gain = all->runs[0].step / run->step;
        run->hidden = -1;
        for (const way_run *other = all->runs; other < run && way->overlap; other++)
            if (other->way == train_ways[run->way].without_overlap)
                run->hidden = fmax(0, other->wait - run->wait);
    }
}

static void print_heading(const ways *all) {
    char names[512] = "ways    plain";
    size_t length = strlen(names);
    for (int i = 1; i < all->count; i++)
        length += (size_t)snprintf(names + length, sizeof names - length, ", %s", train_way_name(all->runs[i].way));
    snprintf(names + length, sizeof names - length, ", in turn; these are the epochs of the plain one\n");
    wrapped_text_print(names, 0, 0);
    train_report_heading(&all->runs[0].trainer);
}

static void print_times(const ways *all) {
    printf("\n%-20s %9s %9s %9s %9s %9s %7s\n", "ms of a step", "all", "compute", "wait", "update", "hidden", "gain");
    for (const way_run *run = all->runs; run < all->runs + all->count; run++) {
        char update[16] = "in wait", hidden[16] = "-";
        if (!train_ways[run->way].way.fused)
            snprintf(update, sizeof update, "%.3f", 1e3 * run->update);
        if (run->hidden >= 0)
            snprintf(hidden, sizeof hidden, "%.3f", 1e3 * run->hidden);
        printf("%-20s %9.3f %9.3f %9.3f %9s %9s %6.2fx\n", train_way_name(run->way), 1e3 * run->step,
               1e3 * run->compute, 1e3 * run->wait, update, hidden, run->gain);
    }
}

/* By the buckets, for compression. */
static size_t held_bytes(const trainer *t) {
    kolo_bucket_info info = {.info_bytes = sizeof info};
    return t->buckets != NULL && kolo_bucket_query(t->buckets, &info) == KOLO_OK ? info.held_bytes : 0;
}

static void print_bytes(const ways *all) {
    const int nodes = kolo_comm_nodes(all->comm);
    printf("\n%-20s %11s %11s %11s %11s%s\n", "of each rank", "sent/step", "parameters", "optimizer", "compression",
           nodes > 1 ? "  net/step" : "");
    for (const way_run *run = all->runs; run < all->runs + all->count; run++) {
        printf("%-20s %11s %11s %11s %11s", train_way_name(run->way), bytes_text((uint64_t)run->sent_bytes).text,
               bytes_text(run->parameter_bytes).text, bytes_text(trainer_state_bytes(&run->trainer)).text,
               bytes_text(held_bytes(&run->trainer)).text);
        if (nodes > 1)
            printf(" %9s", bytes_text((uint64_t)run->net_bytes).text);
        printf("\n");
    }
}

static void print_curves(const ways *all) {
    enum { COLUMNS = 4 }; /* points of a loss curve */
    const size_t epochs = all->runs[0].trainer.epochs;
    size_t shown[COLUMNS];
    int columns = 0;
    printf("\n%-20s", "loss in epoch");
    for (size_t i = 1; i <= COLUMNS; i++) {
        const size_t epoch = i * epochs / COLUMNS;
        if (epoch == 0 || (columns > 0 && shown[columns - 1] == epoch))
            continue;
        shown[columns++] = epoch;
        printf(" %9zu", epoch);
    }
    printf(" %8s %10s\n", "test", "from plain");
    for (const way_run *run = all->runs; run < all->runs + all->count; run++) {
        const trainer *t = &run->trainer;
        printf("%-20s", train_way_name(run->way));
        for (int column = 0; column < columns; column++)
            printf(" %9.6f", t->results[shown[column] - 1].loss);
        printf(" %6.2f %%", 100 * train_report_accuracy(t, &t->results[epochs - 1]));
        if (run->difference > 0)
            printf(" %10.1e%s\n", run->difference, run->is_right ? "" : "  MUST BE THE SAME");
        else
            printf(" %10s\n", "same bits");
    }
    for (const way_run *run = all->runs; run < all->runs + all->count; run++)
        if (!run->identical)
            printf("%s: DIFFERENT parameters on the ranks\n", train_way_name(run->way));
}

static void write_run(FILE *file, const way_run *run) {
    const trainer *t = &run->trainer;
    const epoch_result *last = &t->results[t->epochs - 1];
    char hidden[64] = "";
    if (run->hidden >= 0)
        snprintf(hidden, sizeof hidden, "hidden_seconds=%.9g ", run->hidden);
    json_pairs_print(file,
                     "{way=\"%s\" step_seconds=%.9g compute_seconds=%.9g wait_seconds=%.9g update_seconds=%.9g "
                     "gain=%.9g sent_bytes=%.0f net_sent_bytes=%.0f\n"
                     "%sparameter_bytes=%zu state_bytes=%zu compression_bytes=%zu replicas_identical=%s loss=%.9g "
                     "test_accuracy=%.9g difference_max=%.9g",
                     train_way_name(run->way), run->step, run->compute, run->wait, run->update, run->gain,
                     run->sent_bytes, run->net_bytes, hidden, run->parameter_bytes, trainer_state_bytes(t),
                     held_bytes(t), run->identical ? "true" : "false", last->loss, train_report_accuracy(t, last),
                     run->difference);
    fprintf(file, ",\n  \"losses\": ");
    json_floats_print(file, t->losses, t->steps);
    fprintf(file, "}");
}

static void write_json(FILE *file, const ways *all) {
    kolo_machine machine = {.machine_bytes = sizeof machine};
    char date[32];
    struct tm utc;
    const time_t now = time(NULL);
    kolo_machine_query(&machine);
    strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&now, &utc));
    train_report_settings(file, &all->runs[0].trainer);
    json_pairs_print(file, "kolo_version=\"%s\" date=\"%s\" cpus_online=%u epochs=%zu", kolo_version(), date,
                     machine.cpus_online, all->runs[0].trainer.epochs);
    fprintf(file, ", \"cpu\": ");
    json_text_print(file, machine.cpu_model);
    fprintf(file, ",\n  \"ways\": [");
    for (int i = 0; i < all->count; i++) {
        fprintf(file, i > 0 ? ",\n  " : "\n  ");
        write_run(file, &all->runs[i]);
    }
    fprintf(file, "\n  ]\n}\n");
}

int ways_run(kolo_comm *comm, const train_options *options, const dataset *train, const dataset *test, FILE **json) {
    const bool first = kolo_comm_rank(comm) == 0, prints = first && !options->quiet;
    int code = EXIT_SUCCESS;
    ways *all = allocate(1, sizeof *all);
    all->comm = comm;
    choose(all, options);
    begin(all, train, test);
    if (prints)
        print_heading(all);
    take_turns(all, prints);
    finish(all);
    if (first) {
        print_times(all);
        print_bytes(all);
        print_curves(all);
        if (*json != NULL)
            write_json(*json, all);
        train_report_close(json, options);
    }
    for (way_run *run = all->runs; run < all->runs + all->count; run++) {
        code = run->identical && run->is_right ? code : EXIT_FAILURE;
        trainer_destroy(&run->trainer);
        kolo_comm_destroy(run->comm);
    }
    free(all);
    return code;
}
