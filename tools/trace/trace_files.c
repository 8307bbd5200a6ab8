/* Which files belong to a job, and what is in them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "input_files.h"
#include "messages.h"
#include "trace_job.h"

#define BYTES_MAX   (UINT64_C(1) << 32)
#define TOGETHER_NS 2000000000 /* processes of one job begin within less */

enum { HEAD_BYTES = sizeof(struct kolo_trace_header) + KOLO_TRACE_COMMS * sizeof(struct kolo_trace_comm) };

/* Blocks that the process has used again while they were read are not what they were: they count as gone. */
static void drop_changed_blocks(int fd, unsigned char *bytes, size_t length) {
    struct kolo_trace_header header;
    if (length <= HEAD_BYTES)
        return;
    memcpy(&header, bytes, sizeof header);
    for (uint64_t at = HEAD_BYTES, i = 0;
         i < header.blocks && header.block_bytes >= sizeof(struct kolo_trace_block) && at + sizeof(uint64_t) <= length;
         i++, at += header.block_bytes) {
        uint64_t number = 0;
        if (pread(fd, &number, sizeof number, (off_t)at) == sizeof number && memcmp(bytes + at, &number, 8) != 0)
            memset(bytes + at, 0, sizeof number);
    }
}

/* Reads a file's head, or all of it; says what is wrong with it. */
static bool read_file(trace_process *process, size_t bytes_max, double ns_per_tick) {
    char why[TRACE_WHY_BYTES];
    size_t length;
    unsigned char *bytes = input_file_load(process->path, BYTES_MAX, bytes_max, &length, drop_changed_blocks);
    const bool good = bytes && trace_read(process, bytes, length, ns_per_tick, why);
    if (bytes && !good)
        message_print("%s %s", input_file_shown(process->path), why);
    free(bytes);
    return good;
}

static bool are_in_one_communicator(const trace_process *a, const trace_process *b) {
    for (int i = 0; i < KOLO_TRACE_COMMS; i++)
        for (int k = 0; a->comms[i].present && a->comms[i].is.identity && k < KOLO_TRACE_COMMS; k++)
            if (b->comms[k].present && b->comms[k].is.identity == a->comms[i].is.identity)
                return true;
    return false;
}

static bool is_in_none(const trace_process *process) {
    for (int i = 0; i < KOLO_TRACE_COMMS; i++)
        if (process->comms[i].present)
            return false;
    return true;
}

/* A job's name may be used again. So a process that was in no communicator belongs to a job of its name that began at
 * the same time. */
static bool are_of_one_job(const trace_process *a, const trace_process *b) {
    const int64_t apart = a->header.began_utc_ns - b->header.began_utc_ns;
    return are_in_one_communicator(a, b) ||
           ((is_in_none(a) || is_in_none(b)) && strcmp(a->header.job, b->header.job) == 0 && apart < TOGETHER_NS &&
            apart > -TOGETHER_NS && a->header.rank != b->header.rank && a->header.ranks == b->header.ranks);
}

/* The first of those with which a process is of one job. */
static int root_of(int *parents, int process) {
    while (parents[process] != process)
        process = parents[process] = parents[parents[process]];
    return process;
}

static void forget(trace_process *process) {
    free(process->path);
    trace_process_free(process);
}

/* Leaves those that are of one job with the process that began last. */
static void keep_last_job(trace_job *job) {
    int parents[INPUT_FILES_MAX] = {0}, last = 0, kept = 0;
    for (int p = 0; p < job->count; p++)
        parents[p] = p;
    for (int p = 0; p < job->count; p++)
        for (int q = 0; q < p; q++)
            if (root_of(parents, p) != root_of(parents, q) && are_of_one_job(&job->processes[p], &job->processes[q]))
                parents[root_of(parents, p)] = root_of(parents, q);
    for (int p = 0; p < job->count; p++)
        if (job->processes[p].header.began_utc_ns > job->processes[last].header.began_utc_ns)
            last = p;
    const int chosen = root_of(parents, last), all = job->count;
    for (int p = 0; p < all; p++) {
        trace_process *process = &job->processes[p];
        if (root_of(parents, p) == chosen) {
            job->processes[kept++] = *process;
            continue;
        }
        message_print("%s is left out: it is of %s%s, which began earlier", input_file_shown(process->path),
                      process->header.job[0] ? "job " : "another job", process->header.job);
        forget(process);
    }
    job->count = kept;
}

static int by_rank(const void *left, const void *right) {
    const trace_process *a = left, *b = right;
    if (a->header.rank != b->header.rank)
        return a->header.rank < b->header.rank ? -1 : 1;
    if (a->header.began_ns != b->header.began_ns)
        return a->header.began_ns < b->header.began_ns ? -1 : 1;
    return strcmp(a->path, b->path);
}

/* A file that was named twice, or copied, is one process. */
static void drop_doubles(trace_job *job) {
    int kept = 0;
    qsort(job->processes, (size_t)job->count, sizeof *job->processes, by_rank);
    for (int p = 0; p < job->count; p++) {
        const struct kolo_trace_header *header = &job->processes[p].header;
        const struct kolo_trace_header *before = kept ? &job->processes[kept - 1].header : NULL;
        if (before && header->rank == before->rank && header->pid == before->pid &&
            header->began_ns == before->began_ns && strcmp(header->host, before->host) == 0)
            forget(&job->processes[p]);
        else
            job->processes[kept++] = job->processes[p];
    }
    job->count = kept;
}

/* Reads the files whose heads have been read. Those that say too little of the clock take its rate from another. */
static void read_whole(trace_job *job) {
    int kept = 0;
    double ns_per_tick = 0;
    for (int p = 0; p < job->count; p++) {
        trace_process *process = &job->processes[p];
        trace_process_free(process);
        if (read_file(process, (size_t)BYTES_MAX, 0)) {
            ns_per_tick = process->ns_per_tick > 0 ? process->ns_per_tick : ns_per_tick;
            job->processes[kept++] = *process;
        } else
            free(process->path);
    }
    job->count = kept;
    for (int p = 0; p < job->count && ns_per_tick > 0; p++) {
        trace_process *process = &job->processes[p], again = {.path = process->path};
        if (process->header.has_ticks && process->ns_per_tick <= 0 &&
            read_file(&again, (size_t)BYTES_MAX, ns_per_tick)) {
            trace_process_free(process);
            *process = again;
        }
    }
}

bool trace_job_open(trace_job *job, char **paths) {
    static input_files files;
    input_files_find(&files, paths, ".kolotrace", "was the job started with KOLO_TRACE or kolorun --trace?");
    *job = (trace_job){.processes = calloc((size_t)files.count + 1, sizeof *job->processes)};
    if (!job->processes) {
        message_print("there is not enough memory for %d traces", files.count);
        return false;
    }
    for (int i = 0; i < files.count; i++) {
        trace_process *process = &job->processes[job->count];
        process->path = files.paths[i];
        if (read_file(process, HEAD_BYTES, 0))
            job->count++;
        else
            free(process->path);
    }
    if (job->count > 0)
        keep_last_job(job);
    drop_doubles(job);
    read_whole(job);
    return job->count > 0 && trace_job_align(job);
}
