/* Which records belong to the newest job. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crash_job.h"
#include "input_files.h"
#include "messages.h"

#define FILE_BYTES_MAX (UINT64_C(64) << 20)
#define TOGETHER_NS    INT64_C(60000000000) /* records of one job that have no process in common */

enum { COMMS_TOLD_MAX = 8 };

typedef struct records {
    crash_record *all; /* without `here` and `calls` */
    int count;
} records;

/* Reads a file; `says`: with a message where something is wrong. */
static bool read_file(crash_record *record, bool says) {
    char why[CRASH_WHY_BYTES];
    size_t bytes;
    unsigned char *text = input_file_load(record->path, FILE_BYTES_MAX, (size_t)FILE_BYTES_MAX, &bytes, NULL);
    if (!text)
        return false;
    const bool good = crash_record_read(record, (const char *)text, bytes, why);
    if (says && why[0])
        message_print("%s %s%s", input_file_shown(record->path), why,
                      good ? "; what comes before that is used" : "; it is left out");
    free(text);
    return good;
}

static int by_time(const void *left, const void *right) {
    const crash_record *a = left, *b = right;
    return a->utc_ns != b->utc_ns ? (a->utc_ns < b->utc_ns ? -1 : 1) : strcmp(a->path, b->path);
}

static int by_comm(const void *left, const void *right) {
    const crash_record *a = left, *b = right;
    if (a->communicator != b->communicator || a->ranks != b->ranks)
        return a->communicator != b->communicator ? (a->communicator < b->communicator ? -1 : 1)
                                                  : (a->ranks < b->ranks ? -1 : 1);
    return by_time(left, right);
}

static bool are_of_one_comm(const crash_record *a, const crash_record *b) {
    return a->communicator && a->communicator == b->communicator && a->ranks == b->ranks;
}

/* A job's name may be used again, and there may be none; each machine's part of a job may have a name of its own. */
static bool are_of_one_job(const crash_record *a, const crash_record *b) {
    const bool same_process = a->node == b->node && a->pid == b->pid;
    return are_of_one_comm(a, b) ||
           (strcmp(a->job, b->job) == 0 && (same_process || (a->job[0] && llabs(a->utc_ns - b->utc_ns) < TOGETHER_NS)));
}

/* Says which jobs' records are not among the first `kept`. */
static void tell_left_out(const records *found, int kept) {
    for (int i = kept, next; i < found->count; i = next) {
        const crash_record *record = &found->all[i];
        for (next = i + 1; next < found->count && strcmp(found->all[next].job, record->job) == 0;)
            next++;
        message_print("%d record%s of %s%s %s left out, %s among them: it failed earlier", next - i,
                      next - i == 1 ? "" : "s", record->job[0] ? "job " : "a job without a name", record->job,
                      next - i == 1 ? "is" : "are", input_file_shown(record->path));
    }
}

/* Leaves those of the job that wrote the newest record. */
static void keep_newest_job(records *found) {
    int kept = 0;
    qsort(found->all, (size_t)found->count, sizeof *found->all, by_time);
    for (int i = 0; i < found->count / 2; i++) { /* the newest come first */
        const crash_record other = found->all[i];
        found->all[i] = found->all[found->count - 1 - i];
        found->all[found->count - 1 - i] = other;
    }
    for (int before = -1; before < kept;) { /* one that was kept may bring in a newer one */
        before = kept;
        for (int i = kept; i < found->count; i++) {
            const crash_record record = found->all[i];
            bool belongs = kept == 0;
            for (int k = 0; k < kept && !belongs; k++)
                belongs = are_of_one_job(&found->all[k], &record);
            if (!belongs)
                continue;
            memmove(&found->all[kept + 1], &found->all[kept], (size_t)(i - kept) * sizeof record);
            found->all[kept++] = record;
        }
    }
    tell_left_out(found, kept);
    for (int i = kept; i < found->count; i++)
        free(found->all[i].path);
    found->count = kept;
}

/* A file that was named twice, or copied, is one record. Of a rank's records of a communicator the newest stays. */
static void drop_doubles(records *found) {
    int kept = 0;
    for (int i = 0; i < found->count; i++) {
        const crash_record *record = &found->all[i];
        bool is_double = false;
        for (int k = i + 1; k < found->count && are_of_one_comm(&found->all[k], record) && !is_double; k++)
            is_double = found->all[k].rank == record->rank;
        if (is_double) {
            message_print("%s is left out: there is another record of rank %d", input_file_shown(record->path),
                          (int)record->rank);
            free(record->path);
        } else
            found->all[kept++] = *record;
    }
    found->count = kept;
}

/* Tells what the records of one communicator say. */
static bool tell_comm(const crash_record *records, int count, bool as_json) {
    static crash_comm comm;
    bool good = true;
    crash_comm_begin(&comm, records, count);
    for (int i = 0; i < count && good; i++) {
        crash_record again = {.path = records[i].path};
        if (read_file(&again, false) && again.rank == records[i].rank && are_of_one_comm(&again, &records[i]))
            good = crash_comm_add(&comm, &again);
        crash_record_free(&again);
    }
    good = good && (as_json ? crash_comm_write_json(stdout, &comm) : crash_comm_print(&comm));
    crash_comm_free(&comm);
    if (!good)
        message_print("there is not enough memory for records of this size");
    return good;
}

static int end_of_comm(const records *found, int first) {
    int end = first + 1;
    while (end < found->count && are_of_one_comm(&found->all[first], &found->all[end]))
        end++;
    return end;
}

/* Tells of the job's communicators, in the order in which they failed. */
static bool tell_comms(const records *found, bool as_json) {
    int comms = 0, told = 0;
    int64_t after_ns = -1;
    for (int first = 0; first < found->count; first = end_of_comm(found, first))
        comms++;
    if (as_json)
        printf("{\"failed_communicators\": %d, \"communicators\": [\n", comms);
    for (int after = -1; told < comms && told < COMMS_TOLD_MAX; told++) {
        int best = -1;
        for (int first = 0; first < found->count; first = end_of_comm(found, first)) {
            const int64_t ns = found->all[first].utc_ns;
            const bool is_next = ns > after_ns || (ns == after_ns && first > after);
            if (is_next && (best < 0 || ns < found->all[best].utc_ns))
                best = first;
        }
        after = best;
        after_ns = found->all[best].utc_ns;
        if (as_json)
            fputs(told ? ",\n" : "", stdout);
        else if (comms > 1)
            printf("%sCommunicator %d of %d that failed\n", told ? "\n" : "", told + 1, comms);
        if (!tell_comm(&found->all[best], end_of_comm(found, best) - best, as_json))
            return false;
    }
    if (as_json)
        printf("\n]}\n");
    else if (told < comms)
        printf("\nand %d more communicators failed later\n", comms - told);
    return true;
}

bool crash_tell(char **paths, bool as_json) {
    static input_files files;
    input_files_find(&files, paths, ".kolodump", "was the job started with KOLO_DUMP?");
    records found = {.all = calloc((size_t)files.count + 1, sizeof *found.all)};
    if (!found.all) {
        message_print("there is not enough memory for %d records", files.count);
        return false;
    }
    for (int i = 0; i < files.count; i++) {
        crash_record *record = &found.all[found.count];
        record->path = files.paths[i];
        if (read_file(record, true))
            found.count++;
        else
            free(files.paths[i]);
        crash_record_free(record);
    }
    keep_newest_job(&found);
    qsort(found.all, (size_t)found.count, sizeof *found.all, by_comm);
    drop_doubles(&found);
    const bool good = found.count > 0 && tell_comms(&found, as_json);
    for (int i = 0; i < found.count; i++)
        free(found.all[i].path);
    free(found.all);
    return good;
}
