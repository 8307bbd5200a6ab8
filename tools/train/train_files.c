/* SPDX-License-Identifier: Apache-2.0 */
#include "train_files.h"

#include "complain.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* The digits lie in share/kolo beside the program's folder, both installed and in a build folder. */
static void find_default_data(char *path, size_t path_bytes) {
    char program[PATH_MAX] = "";
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    for (int levels = 0; length > 0 && levels < 2; levels++) {
        char *slash = strrchr(program, '/');
        if (slash != NULL)
            *slash = '\0';
    }
    snprintf(path, path_bytes, "%.*s/share/kolo/digits.csv", PATH_MAX - 32, program);
}

static void find_data(const train_options *options, train_files *files) {
    if (options->data_path != NULL)
        snprintf(files->data_path, sizeof(files->data_path), "%s", options->data_path);
    else
        find_default_data(files->data_path, sizeof(files->data_path));
}

int train_files_read(train_files *files, const kolo_comm *comm, const train_options *options, dataset *all) {
    find_data(options, files);
    if (options->data_path == NULL && access(files->data_path, F_OK) != 0)
        return complain(comm, "no data: '%s' is missing (it is installed with kolo-train); give --data FILE",
                        files->data_path);
    char reason[PATH_MAX + 256];
    if (dataset_read(all, files->data_path, reason, sizeof(reason)) < 0)
        return complain(comm, "%s", reason);
    return 0;
}

int train_files_open(train_files *files, const kolo_comm *comm, const train_options *options) {
    find_data(options, files);
    if (options->json_path == NULL)
        return 0;
    files->json = fopen(options->json_path, "we");
    if (files->json == NULL)
        return complain(comm, "cannot write '%s': %s", options->json_path, strerror(errno));
    return 0;
}

int train_files_close(train_files *files, const train_report *report) {
    if (files->json == NULL)
        return 0;
    int rc = train_report_json(report, files->json);
    int write_errno = errno;
    if (fclose(files->json) != 0 && rc == 0) {
        rc = -1;
        write_errno = errno;
    }
    files->json = NULL;
    if (rc == 0)
        return 0;
    const trainer *t = report->trainer;
    return complain(t->comm, "cannot write '%s': %s", t->options->json_path, strerror(write_errno));
}

void train_files_abandon(train_files *files) {
    if (files->json != NULL)
        fclose(files->json);
    files->json = NULL;
}
