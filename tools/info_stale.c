#include "info_stale.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json_text.h"
#include "kolo_tools.h"
#include "messages.h"
#include "quantity_text.h"

/* As a line, or as the next of a list of JSON objects. */
static void print_name(const kolo_job_name *name, bool removed, bool json, bool first) {
    char creator[64] = "no job file";
    if (json) {
        printf("%s\n    {\"path\": ", first ? "" : ",");
        json_text_print(stdout, name->path);
        printf(", \"pid\": %" PRIu32 ", \"stale\": %s, \"age_s\": %" PRId64 ", \"removed\": %s}", name->pid,
               name->stale ? "true" : "false", name->age_s, removed ? "true" : "false");
        return;
    }
    if (name->pid)
        snprintf(creator, sizeof creator, "made by pid %" PRIu32 "%s", name->pid,
                 name->stale ? ", which is gone" : ", which lives");
    printf("%s: %s, %s ago%s\n", name->path, creator, age_text(name->age_s).text, removed ? ": removed" : "");
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

bool info_stale_can_ask(void) {
    return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

/* The job's name, of "/dev/shm/kolo-UID-JOB". */
static const char *job_of(const kolo_job_name *name) {
    const char *dash = strchr(strrchr(name->path, '/'), '-');
    return strchr(dash + 1, '-') + 1;
}

static bool is_named(const kolo_job_name *name, const char *asked) {
    return strcmp(asked, name->path) == 0 || strcmp(asked, strrchr(name->path, '/') + 1) == 0 ||
           strcmp(asked, job_of(name)) == 0;
}

/* 0, or -1 with a message. */
static int remove_name(const kolo_job_name *name) {
    return kolo_job_name_remove(name->path) < 0 ? message_print("%s", kolo_error_message()) : 0;
}

/* Those that are asked for, whether they are stale or not; -1 if one is not there or cannot be removed. */
static int remove_named(const info_stale_request *request, const kolo_job_name *names, size_t count) {
    int result = 0;
    bool first = true;
    for (char *const *asked = request->names; *asked; asked++) {
        size_t i = 0;
        while (i < count && !is_named(&names[i], *asked))
            i++;
        const int rc = i < count ? remove_name(&names[i])
                                 : message_print("'%s': no job of this user has that name in /dev/shm", *asked);
        if (rc == 0)
            print_name(&names[i], true, request->json, first);
        first &= rc < 0;
        result |= rc;
    }
    return result;
}

/* All names, and removes those that are stale if told to. */
static int print_all(const info_stale_request *request, const kolo_job_name *names, size_t count) {
    int result = 0;
    for (size_t i = 0; i < count; i++) {
        const bool wanted = request->all && names[i].stale;
        const int rc = wanted ? remove_name(&names[i]) : 0;
        print_name(&names[i], wanted && rc == 0, request->json, i == 0);
        result |= rc;
    }
    return result;
}

/* Asks whether to remove those that are stale, and does so. */
static int ask_and_remove(const kolo_job_name *names, size_t count, size_t stale) {
    char answer[16] = "";
    int result = 0;
    fflush(stdout);
    fprintf(stderr, "remove the %zu that %s stale? [y/N] ", stale, stale == 1 ? "is" : "are");
    if (!fgets(answer, sizeof answer, stdin) || (answer[0] != 'y' && answer[0] != 'Y')) {
        fputs("nothing was removed\n", stderr);
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        if (!names[i].stale)
            continue;
        const int rc = remove_name(&names[i]);
        if (rc == 0)
            printf("%s: removed\n", names[i].path);
        result |= rc;
    }
    return result;
}

int info_stale_print(const info_stale_request *request) {
    size_t count, stale = 0;
    bool failed;
    kolo_job_name *names = gather(&count, &failed);
    if (failed) {
        free(names);
        return message_print("%s", kolo_error_message());
    }
    for (size_t i = 0; i < count; i++)
        stale += names[i].stale != 0;
    const bool named = *request->names;
    if (request->json)
        fputs("{\n  \"names\": [", stdout);
    int result = named ? remove_named(request, names, count) : print_all(request, names, count);
    if (request->json)
        puts("\n  ]\n}");
    else if (!named)
        printf("%zu stale of %zu names of jobs in /dev/shm\n", stale, count);
    if (request->remove && !request->all && !named && stale > 0)
        result |= ask_and_remove(names, count, stale);
    free(names);
    return message_unless_written() | result;
}
