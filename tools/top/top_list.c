/* SPDX-License-Identifier: Apache-2.0 */
#include "top_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kolo_watch.h"
#include "messages.h"
#include "quantity_text.h"
#include "top_sample.h"

/* Communicators of one name that have a process in common. */
typedef struct job {
    const char *name;
    const top_comm *largest;
    double age_s;
    int communicators;
    int broken;
    bool stopped; /* one of its processes is */
} job;

static bool has_pid(const top_comm *comm, int pid) {
    for (int rank = 0; rank < comm->seen.ranks; rank++)
        if (comm->ranks[rank].seen.pid == pid)
            return true;
    return false;
}

static bool have_a_process_in_common(const top_comm *a, const top_comm *b) {
    for (int rank = 0; rank < a->seen.ranks; rank++)
        if (has_pid(b, a->ranks[rank].seen.pid))
            return true;
    return false;
}

static bool is_stopped(const top_comm *comm) {
    for (int rank = 0; rank < comm->seen.ranks; rank++)
        if (strcmp(top_rank_state(&comm->ranks[rank]), "stopped") == 0)
            return true;
    return false;
}

static void add(job *jobs, int *count, const top_comm *comm) {
    int index = 0;
    while (index < *count &&
           (strcmp(jobs[index].name, comm->seen.job) != 0 || !have_a_process_in_common(jobs[index].largest, comm)))
        index++;
    if (index == *count)
        jobs[(*count)++] = (job){.name = comm->seen.job, .largest = comm};
    job *of = &jobs[index];
    if (comm->seen.ranks > of->largest->seen.ranks)
        of->largest = comm;
    if (comm->seen.age_s > of->age_s)
        of->age_s = comm->seen.age_s;
    of->communicators++;
    of->broken += comm->seen.failure != 0;
    of->stopped |= is_stopped(comm);
}

static const char *state_of(const job *of) {
    return of->broken == of->communicators ? "broken" : of->stopped ? "stopped" : "running";
}

static int pid_of(const job *of) {
    return of->largest->ranks[0].seen.pid;
}

static void print_table(const job *jobs, int count) {
    if (count == 0) {
        puts("no kolo jobs of this user are running");
        return;
    }
    printf("%-36s  %8s  %5s  %-8s  %8s\n", "job", "pid", "ranks", "state", "age");
    for (int i = 0; i < count; i++)
        printf("%-36.60s  %8d  %5d  %-8s  %8s\n", jobs[i].name[0] ? jobs[i].name : "-", pid_of(&jobs[i]),
               jobs[i].largest->seen.ranks, state_of(&jobs[i]), age_text((int64_t)jobs[i].age_s).text);
}

/* Names were checked when they were found: letters, digits, '.', '_' and '-'. */
static void print_json(const job *jobs, int count) {
    printf("{\"jobs\": [");
    for (int i = 0; i < count; i++)
        printf("%s{\"job\": \"%s\", \"pid\": %d, \"ranks\": %d, \"communicators\": %d, \"state\": \"%s\", "
               "\"age_s\": %.2f}",
               i ? ", " : "", jobs[i].name, pid_of(&jobs[i]), jobs[i].largest->seen.ranks, jobs[i].communicators,
               state_of(&jobs[i]), jobs[i].age_s);
    puts("]}");
}

int top_list_print(bool json) {
    kolo_watch *watch;
    if (kolo_watch_open(&watch, NULL) < 0) {
        message_print("%s", kolo_error_message());
        return EXIT_FAILURE;
    }
    const top_sample none = {0};
    top_sample sample;
    bool good = top_sample_take(&sample, watch, &none);
    job *jobs = calloc((size_t)sample.count + 1, sizeof *jobs);
    int count = 0;
    for (int i = 0; good && jobs && i < sample.count; i++)
        if (!sample.comms[i].seen.over)
            add(jobs, &count, &sample.comms[i]);
    if (good && jobs && json)
        print_json(jobs, count);
    else if (good && jobs)
        print_table(jobs, count);
    good = good && jobs && message_unless_written() == 0;
    free(jobs);
    top_sample_free(&sample);
    kolo_watch_close(watch);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
