/* From kolorun to the program, one rank at a time. */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "binding.h"
#include "messages.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

static void set_variable(const char *name, const char *value, bool replace) {
    if (setenv(name, value, replace) == 0)
        return;
    message_print("out of memory for the ranks' environment");
    _exit(EXIT_LAUNCHER);
}

static void set_number(const char *name, int value) {
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    set_variable(name, text, true);
}

/* An empty file without a name, which rank 0 sizes. It can grow, but not shrink under the other ranks' feet;
 * holes may still be punched. Kernels before 6.3 do not know MFD_NOEXEC_SEAL, later ones may insist on it. */
static int segment_file_create(void) {
    int fd = memfd_create("kolo", MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create("kolo", MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    if (fchmod(fd, 0600) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0)
        return fd;
    int error = errno;
    close(fd);
    return -error;
}

/* Takes a variable away that is meant for something around this kolorun, unless -x gives it to the ranks. */
static void unset_outer(const struct launch_options *options, const char *name) {
    const size_t length = strlen(name);
    for (int i = 0; i < options->exported_count; i++)
        if (strncmp(options->exported[i], name, length) == 0 && strcspn(options->exported[i], "=") == length)
            return;
    unsetenv(name);
}

/* By which others can find the job, as long as it runs. Ranks on other machines have to call the job the same, so that
 * such a job has a name only if the user gives it one. The name that a kolorun around this one has made is no such
 * name. */
static int set_job_name(const struct launch_options *options) {
    static const char made[] = "kolorun-";
    const char *given = getenv("KOLO_JOB");
    uint64_t drawn = 0;
    char name[40];
    if (given != NULL && strncmp(given, made, sizeof made - 1) == 0)
        unset_outer(options, "KOLO_JOB");
    if (options->rendezvous != NULL)
        return 0;
    if (getrandom(&drawn, sizeof drawn, GRND_NONBLOCK) < 0)
        return -errno;
    snprintf(name, sizeof name, "%s%016" PRIx64, made, drawn);
    set_variable("KOLO_JOB", name, false);
    return 0;
}

/* PyTorch takes its place from these wherever they are set, also from a torchrun around this kolorun. */
static void unset_torchrun(const struct launch_options *options) {
    static const char *const names[] = {"RANK",       "WORLD_SIZE",       "MASTER_PORT",        "MASTER_ADDR",
                                        "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"};
    if (getenv("RANK") && getenv("WORLD_SIZE") && getenv("MASTER_PORT"))
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            unset_outer(options, names[i]);
}

/* Ranks that start elsewhere are to find the folder, too. */
static void set_trace_folder(const char *folder, bool elsewhere) {
    char here[PATH_MAX], path[2 * PATH_MAX];
    if (folder[0] != '/' && elsewhere && getcwd(here, sizeof here) != NULL) {
        snprintf(path, sizeof path, "%s/%s", here, folder);
        folder = path;
    }
    set_variable("KOLO_TRACE", folder, true);
}

int launch_segment_create(const struct launch_options *options) {
    const int fd = segment_file_create();
    if (fd < 0)
        return fd;
    set_number("KOLO_SHM_FD", fd);
    set_number("KOLO_SIZE", options->size);
    set_number("KOLO_LOCAL_SIZE", options->ranks);
    set_variable("KOLO_LOG", "warn", false);
    if (options->trace_folder)
        set_trace_folder(options->trace_folder, options->work_folder != NULL);
    unset_torchrun(options);
    unsetenv("KOLO_RENDEZVOUS");
    if (options->rendezvous != NULL)
        set_variable("KOLO_RENDEZVOUS", options->rendezvous, true);
    const int rc = set_job_name(options);
    return rc < 0 ? rc : fd;
}

int launch_context_open(struct launch_context *context, const struct launch_options *options) {
    context->options = options;
    context->launcher = getpid();
    if (getrlimit(RLIMIT_NOFILE, &context->original_files) != 0)
        return -errno;
    context->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (context->null_fd < 0)
        return -errno;
    return pipe2(context->failure_fds, O_CLOEXEC | O_NONBLOCK) == 0 ? 0 : -errno;
}

/* In the child. Returns 0 or a negative errno. */
static int child_prepare(const struct launch_context *context, int rank, int restarts, const int outputs[2]) {
    const int number = context->options->first_rank + rank; /* on all machines */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        return -errno;
    if (getppid() != context->launcher) /* kolorun ended before it could take us along */
        raise(SIGKILL);
    if (setrlimit(RLIMIT_NOFILE, &context->original_files) != 0)
        return -errno;
    if (number != 0 && dup2(context->null_fd, STDIN_FILENO) < 0)
        return -errno;
    if (outputs[0] >= 0 && (dup2(outputs[0], STDOUT_FILENO) < 0 || dup2(outputs[1], STDERR_FILENO) < 0))
        return -errno;
    set_number("KOLO_RANK", number);
    set_number("KOLO_LOCAL_RANK", rank);
    set_number("KOLO_RESTARTS", restarts);
    return sigprocmask(SIG_SETMASK, &context->original_mask, NULL) == 0 ? 0 : -errno;
}

/* In the child: goes to the folder, and says so as shells do. Returns 0 or a negative errno. */
static int enter_folder(const char *folder) {
    char path[PATH_MAX];
    if (chdir(folder) != 0)
        return -errno;
    if (getcwd(path, sizeof path) != NULL)
        set_variable("PWD", path, true);
    return 0;
}

/* Says in words why `program` could not be run, and what helps. */
static void describe_exec_error(char *text, size_t text_bytes, const char *program, int error) {
    char beside[PATH_MAX];
    struct stat found;
    const bool is_path = strchr(program, '/') != NULL;
    snprintf(beside, sizeof beside, "./%s", program);
    if (error == ENOENT && is_path && stat(program, &found) == 0)
        snprintf(text, text_bytes, "it is there, but not its interpreter (its first line, '#!')");
    else if (error == ENOENT && !is_path && access(beside, X_OK) == 0 && stat(beside, &found) == 0 &&
             S_ISREG(found.st_mode))
        snprintf(text, text_bytes, "not found in PATH; the one in this folder is ./%.200s", program);
    else if (error == ENOENT)
        snprintf(text, text_bytes, is_path ? "there is no such file" : "not found in PATH");
    else if (error == EACCES && stat(program, &found) == 0 && S_ISDIR(found.st_mode))
        snprintf(text, text_bytes, "is a folder");
    else if (error == EACCES && is_path && access(program, F_OK) == 0 && access(program, X_OK) != 0)
        snprintf(text, text_bytes, "is not executable (chmod +x)");
    else
        snprintf(text, text_bytes, "%s", strerror(error));
}

/* In the child: becomes the program, or tells kolorun why it could not. */
static _Noreturn void child_run(const struct launch_context *context, int rank, const kolo_cpu_set *cpus, int restarts,
                                const int outputs[2]) {
    struct launch_failure failure = {.exit_code = EXIT_LAUNCHER, .restarts = restarts};
    char *const *command = context->options->command;
    const int number = context->options->first_rank + rank;
    const int prepared = child_prepare(context, rank, restarts, outputs);
    const int bound = prepared == 0 && cpus != NULL ? binding_apply(cpus) : 0;
    const char *folder = context->options->work_folder;
    const int entered = folder != NULL ? enter_folder(folder) : 0;
    if (prepared < 0) {
        snprintf(failure.text, sizeof failure.text, "cannot prepare rank %d: %s", number, strerror(-prepared));
    } else if (bound < 0) {
        snprintf(failure.text, sizeof failure.text,
                 "cannot bind rank %d: %s; --bind none leaves placement to the kernel", number, strerror(-bound));
    } else if (entered < 0) {
        snprintf(failure.text, sizeof failure.text, "--wdir: cannot enter '%.1600s': %s", folder, strerror(-entered));
    } else {
        char why[300];
        execvp(command[0], command);
        failure.exit_code = errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
        describe_exec_error(why, sizeof why, command[0], errno);
        snprintf(failure.text, sizeof failure.text, "cannot run '%.1600s': %s", command[0], why);
    }
    ssize_t ignored = write(context->failure_fds[1], &failure, sizeof failure);
    (void)ignored; /* kolorun has ended, or the pipe is full of the same news */
    _exit(127);
}

pid_t launch_rank(const struct launch_context *context, int rank, const kolo_cpu_set *cpus, int restarts,
                  const int outputs[2]) {
    const pid_t pid = fork();
    if (pid == 0)
        child_run(context, rank, cpus, restarts, outputs);
    return pid < 0 ? -errno : pid;
}

bool launch_failure_read(const struct launch_context *context, struct launch_failure *failure) {
    return read(context->failure_fds[0], failure, sizeof *failure) == (ssize_t)sizeof *failure;
}

int rank_files_prepare(const char *folder) {
    struct stat found;
    const int rc = kolo_file_folder(folder, 0777);
    if (rc < 0)
        return rc;
    if (stat(folder, &found) != 0 || !S_ISDIR(found.st_mode))
        return -ENOTDIR;
    return access(folder, W_OK | X_OK) == 0 ? 0 : -errno;
}

void rank_files_path(char *path, size_t path_bytes, const char *folder, int rank, int stream) {
    snprintf(path, path_bytes, "%s/rank-%d.%s", folder, rank, stream == 0 ? "out" : "err");
}

int rank_files_open(const char *folder, int rank, bool again, int fds[RANK_FILES]) {
    for (int stream = 0; stream < RANK_FILES; stream++) {
        char path[PATH_MAX];
        rank_files_path(path, sizeof path, folder, rank, stream);
        fds[stream] = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (again ? 0 : O_TRUNC), 0666);
        if (fds[stream] >= 0)
            continue;
        const int error = errno;
        if (stream > 0)
            close(fds[0]);
        message_print("--output: cannot open '%s': %s", path, strerror(error));
        return -error;
    }
    return 0;
}
