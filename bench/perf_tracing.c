/* What a trace costs: the same calls without it and with it, in turn. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kolo_trace.h"
#include "perf_calls.h"

static char folder[4096];

int perf_tracing_begin(void) {
    const char *parent = getenv("TMPDIR");
    if (getenv("KOLO_TRACE") != NULL) {
        fprintf(stderr, "kolo-perf: --trace measures a trace of its own; leave out KOLO_TRACE, or kolorun --trace\n");
        return -1;
    }
    snprintf(folder, sizeof folder, "%s/kolo-perf-XXXXXX", parent != NULL && parent[0] != '\0' ? parent : "/tmp");
    if (mkdtemp(folder) != NULL && setenv("KOLO_TRACE", folder, 1) == 0)
        return 0;
    fprintf(stderr, "kolo-perf: --trace: cannot make the folder '%s': %s\n", folder, strerror(errno));
    return -1;
}

int perf_tracing_pause(void) {
    bool written = false;
    DIR *found = opendir(folder);
    for (struct dirent *file; found != NULL && (file = readdir(found)) != NULL;)
        if (strstr(file->d_name, ".kolotrace") != NULL)
            written |= unlinkat(dirfd(found), file->d_name, 0) == 0;
    if (found != NULL)
        closedir(found);
    rmdir(folder);
    perf_tracing_turn(false);
    if (!written)
        fprintf(stderr, "kolo-perf: --trace: no trace could be written to '%s'\n", folder);
    return written ? 0 : -1;
}

void perf_tracing_turn(bool on) {
    kolo_trace_pause(!on);
}
