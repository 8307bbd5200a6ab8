#include "info_stale.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "age_text.h"
#include "kolo.h"

static void print_name(const kolo_job_name *name, bool removed) {
    char creator[64] = "no job file";
    if (name->pid)
        snprintf(creator, sizeof creator, "made by pid %" PRIu32 "%s", name->pid,
                 name->stale ? ", which is gone" : ", which lives");
    printf("%s: %s, %s ago%s\n", name->path, creator, age_text_of(name->age_s).text, removed ? ": removed" : "");
}

/* A path holds nothing that JSON would have escaped: see the job names that kolo_options allows, else it is no job's.
 */
static void print_name_json(const kolo_job_name *name, bool removed, bool first) {
    printf("%s\n    {\"path\": \"", first ? "" : ",");
    for (const char *c = name->path; *c; c++)
        if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ' || (unsigned char)*c > '~')
            printf("\\u%04x", (unsigned char)*c);
        else
            putchar(*c);
    printf("\", \"pid\": %" PRIu32 ", \"stale\": %s, \"age_s\": %" PRId64 ", \"removed\": %s}", name->pid,
           name->stale ? "true" : "false", name->age_s, removed ? "true" : "false");
}

/* All names as they are now: removing one would shift the places of others. NULL: none, or *failed. */
static kolo_job_name *gather(size_t *count, bool *failed) {
    kolo_job_name *names = NULL;
    for (*count = 0;; ++*count) {
        kolo_job_name *more = realloc(names, (*count + 1) * sizeof *names);
        *failed = !more;
        if (!more)
            return names;
        names = more;
        names[*count] = (kolo_job_name){.job_name_bytes = sizeof *names};
        const int rc = kolo_job_name_get(*count, &names[*count]);
        *failed = rc < 0 && rc != KOLO_ERR_ARG; /* KOLO_ERR_ARG: past the last */
        if (rc < 0)
            return names;
    }
}

int info_stale_print(bool json, bool remove) {
    size_t count, stale = 0;
    bool failed;
    kolo_job_name *names = gather(&count, &failed);
    if (failed) {
        fprintf(stderr, "kolo-info: %s\n", kolo_error_message());
        free(names);
        return -1;
    }
    if (json)
        fputs("{\n  \"names\": [", stdout);
    for (size_t i = 0; i < count; i++) {
        const bool removed = remove && names[i].stale && kolo_job_name_remove(names[i].path) == 0;
        if (remove && names[i].stale && !removed) {
            fprintf(stderr, "kolo-info: %s\n", kolo_error_message());
            failed = true;
        }
        stale += names[i].stale != 0;
        if (json)
            print_name_json(&names[i], removed, i == 0);
        else
            print_name(&names[i], removed);
    }
    if (json)
        puts("\n  ]\n}");
    else
        printf("%zu stale of %zu names of jobs in /dev/shm\n", stale, count);
    free(names);
    return failed || fflush(stdout) || ferror(stdout) ? -1 : 0;
}
