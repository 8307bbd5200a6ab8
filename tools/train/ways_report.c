#include "ways_report.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "kolo_fusion.h"
#include "kolo_tools.h"
#include "printed_text.h"
#include "train_report.h"

enum { COLUMNS = 4 }; /* points of a loss curve */

double ways_difference(const ways *all, const way_run *run) {
    const trainer *plain = &all->runs[0].trainer;
    double largest = 0;
    for (size_t step = 0; step < plain->steps; step++) {
        const double reference = (double)plain->losses[step];
        largest = fmax(largest, fabs((double)run->trainer.losses[step] - reference) / fmax(1, fabs(reference)));
    }
    return largest;
}

void ways_report_heading(const ways *all) {
    char names[512] = "ways    plain";
    size_t length = strlen(names);
    for (int i = 1; i < all->count; i++)
        length += (size_t)snprintf(names + length, sizeof names - length, ", %s", train_way_name(all->runs[i].way));
    snprintf(names + length, sizeof names - length, ", in turn; these are the epochs of the plain one\n");
    wrapped_text_print(names, 0, 0);
    train_report_heading(&all->runs[0].trainer);
}

static size_t parameter_bytes(const way_run *run) {
    const size_t bytes = run->trainer.model.parameters_count * sizeof(float);
    return run->options.settings.shared_parameters ? bytes / (size_t)kolo_comm_local_size(run->comm) : bytes;
}

static double gain(const ways *all, const way_times *times) {
    return ways_times(all, &all->runs[0]).step / times->step;
}

static void print_times(const ways *all) {
    printf("\n%-20s %9s %9s %9s %9s %9s %7s\n", "ms of a step", "all", "compute", "wait", "update", "hidden", "gain");
    for (int i = 0; i < all->count; i++) {
        const way_times times = ways_times(all, &all->runs[i]);
        char update[16] = "in wait", hidden[16] = "-";
        if (!all->runs[i].options.settings.fused)
            snprintf(update, sizeof update, "%.3f", 1e3 * times.update);
        if (times.hidden >= 0)
            snprintf(hidden, sizeof hidden, "%.3f", 1e3 * times.hidden);
        printf("%-20s %9.3f %9.3f %9.3f %9s %9s %6.2fx\n", train_way_name(all->runs[i].way), 1e3 * times.step,
               1e3 * times.compute, 1e3 * times.wait, update, hidden, gain(all, &times));
    }
}

static void print_bytes(const ways *all) {
    const int nodes = kolo_comm_nodes(all->comm);
    printf("\n%-20s %11s %11s %11s %11s%s\n", "of each rank", "sent/step", "parameters", "optimizer", "compression",
           nodes > 1 ? "  net/step" : "");
    for (int i = 0; i < all->count; i++) {
        const way_run *run = &all->runs[i];
        printf("%-20s %11s %11s %11s %11s", train_way_name(run->way), bytes_text((uint64_t)run->sent_bytes).text,
               bytes_text(parameter_bytes(run)).text, bytes_text(update_state_bytes(&run->trainer.update)).text,
               bytes_text(kolo_bucket_bytes(run->trainer.exchange.buckets)).text);
        if (nodes > 1)
            printf(" %9s", bytes_text((uint64_t)run->net_bytes).text);
        printf("\n");
    }
}

static void print_difference(const ways *all, const way_run *run) {
    const double difference = ways_difference(all, run);
    if (difference > 0)
        printf(" %10.1e%s\n", difference, train_way_keeps_bits(run->way) ? "  MUST BE THE SAME" : "");
    else
        printf(" %10s\n", "same bits");
}

static void print_curves(const ways *all) {
    const size_t epochs = all->runs[0].trainer.epochs;
    size_t shown[COLUMNS];
    int columns = 0;
    char heading[32];
    printf("\n%-20s", "loss in epoch");
    for (size_t i = 1; i <= COLUMNS; i++) {
        const size_t epoch = i * epochs / COLUMNS;
        if (epoch == 0 || (columns > 0 && shown[columns - 1] == epoch))
            continue;
        shown[columns++] = epoch;
        snprintf(heading, sizeof heading, "%zu", epoch);
        printf(" %9s", heading);
    }
    printf(" %8s %10s\n", "test", "from plain");
    for (int i = 0; i < all->count; i++) {
        const way_run *run = &all->runs[i];
        const epoch_result last = train_report_total(&run->trainer);
        printf("%-20s", train_way_name(run->way));
        for (int column = 0; column < columns; column++)
            printf(" %9.6f", run->trainer.results[shown[column] - 1].loss);
        printf(" %6.2f %%", 100 * train_report_accuracy(&run->trainer, &last));
        print_difference(all, run);
    }
}

void ways_report_print(const ways *all) {
    print_times(all);
    print_bytes(all);
    print_curves(all);
    for (int i = 0; i < all->count; i++)
        if (!all->runs[i].identical)
            printf("%s: DIFFERENT parameters on the ranks\n", train_way_name(all->runs[i].way));
    fflush(stdout);
}

static void json_run(const ways *all, const way_run *run, FILE *file) {
    const trainer *t = &run->trainer;
    const way_times times = ways_times(all, run);
    const epoch_result last = train_report_total(t);
    fprintf(file,
            "    {\"way\": \"%s\", \"step_seconds\": %.9g, \"compute_seconds\": %.9g, \"wait_seconds\": %.9g, "
            "\"update_seconds\": %.9g, ",
            train_way_name(run->way), times.step, times.compute, times.wait, times.update);
    if (times.hidden >= 0)
        fprintf(file, "\"hidden_seconds\": %.9g, ", times.hidden);
    fprintf(file, "\"gain\": %.9g,\n     \"sent_bytes\": %.0f, \"net_sent_bytes\": %.0f, ", gain(all, &times),
            run->sent_bytes, run->net_bytes);
    fprintf(file, "\"parameter_bytes\": %zu, \"state_bytes\": %zu, \"compression_bytes\": %zu,\n", parameter_bytes(run),
            update_state_bytes(&t->update), kolo_bucket_bytes(t->exchange.buckets));
    fprintf(file,
            "     \"replicas_identical\": %s, \"loss\": %.9g, \"test_accuracy\": %.9g, \"difference_max\": %.9g,\n"
            "     \"losses\": [",
            run->identical ? "true" : "false", last.loss, train_report_accuracy(t, &last), ways_difference(all, run));
    for (size_t step = 0; step < t->steps; step++)
        fprintf(file, "%s%.9g", step == 0 ? "" : ", ", (double)t->losses[step]);
    fprintf(file, "]}");
}

void ways_report_json(const ways *all, FILE *file) {
    const trainer *plain = &all->runs[0].trainer;
    const train_settings *settings = &plain->options->settings;
    kolo_machine machine = {.machine_bytes = sizeof machine};
    char date[32];
    struct tm utc;
    const time_t now = time(NULL);
    kolo_machine_query(&machine);
    strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&now, &utc));
    fprintf(file, "{\n  \"kolo_version\": \"%s\", \"date\": \"%s\", \"cpus_online\": %u, \"cpu\": ", kolo_version(),
            date, machine.cpus_online);
    json_text_print(file, machine.cpu_model);
    fprintf(file, ",\n  \"data\": ");
    json_text_print(file, plain->options->data_path);
    fprintf(file,
            ",\n  \"ranks\": %d, \"nodes\": %d, \"optimizer\": \"%s\", \"batch\": %zu, \"accumulate\": %zu, "
            "\"hidden\": %zu, \"rate\": %.9g, \"seed\": %llu,\n",
            kolo_comm_size(all->comm), kolo_comm_nodes(all->comm), train_optimizer_name(settings->optimizer),
            settings->batch_rows, settings->accumulate, settings->hidden, settings->rate,
            (unsigned long long)settings->seed);
    fprintf(file, "  \"parameters\": %zu, \"epochs\": %zu, \"steps\": %zu,\n  \"ways\": [\n",
            plain->model.parameters_count, plain->epochs, plain->steps);
    for (int i = 0; i < all->count; i++) {
        json_run(all, &all->runs[i], file);
        fprintf(file, i + 1 < all->count ? ",\n" : "\n");
    }
    fprintf(file, "  ]\n}\n");
}
