/* From kolorun to the program, one rank at a time.
 */
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

#include "binding.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

static int set_number(const char *name, int value) {
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    return setenv(name, text, 1) == 0 ? 0 : -errno;
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

/* By which others can find the job, as long as it runs. */
static int set_job_name(void) {
    uint64_t drawn = 0;
    char name[40];
    if (getrandom(&drawn, sizeof drawn, GRND_NONBLOCK) < 0)
        return -errno;
    snprintf(name, sizeof name, "kolorun-%016" PRIx64, drawn);
    return setenv("KOLO_JOB", name, 0) == 0 ? 0 : -errno;
}

int launch_segment_create(int ranks, int size, const char *rendezvous) {
    int fd = segment_file_create();
    if (fd < 0)
        return fd;
    int rc = set_number("KOLO_SHM_FD", fd);
    if (rc == 0 && setenv("KOLO_LOG", "warn", 0) != 0)
        rc = -errno;
    if (rc == 0)
        rc = set_number("KOLO_SIZE", size);
    if (rc == 0)
        rc = set_number("KOLO_LOCAL_SIZE", ranks);
    if (rc == 0 && (rendezvous != NULL ? setenv("KOLO_RENDEZVOUS", rendezvous, 1) : unsetenv("KOLO_RENDEZVOUS")) != 0)
        rc = -errno;
    if (rc == 0 && rendezvous == NULL) /* with one, ranks of other machines have to call it the same */
        rc = set_job_name();
    if (rc < 0)
        close(fd);
    return rc < 0 ? rc : fd;
}

int launch_context_open(struct launch_context *context, char **command, int first_rank) {
    context->command = command;
    context->first_rank = first_rank;
    context->launcher = getpid();
    if (getrlimit(RLIMIT_NOFILE, &context->original_files) != 0)
        return -errno;
    context->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (context->null_fd < 0)
        return -errno;
    return pipe2(context->failure_fds, O_CLOEXEC | O_NONBLOCK) == 0 ? 0 : -errno;
}

void launch_context_close(struct launch_context *context) {
    const int fds[] = {context->null_fd, context->failure_fds[0], context->failure_fds[1]};
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        if (fds[i] > STDERR_FILENO)
            close(fds[i]);
}

/* In the child. Returns 0 or a negative errno. */
static int child_prepare(const struct launch_context *context, const struct launch_place *place) {
    const int *outputs = place->outputs;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        return -errno;
    if (getppid() != context->launcher) /* kolorun ended before it could take us along */
        raise(SIGKILL);
    if (setrlimit(RLIMIT_NOFILE, &context->original_files) != 0)
        return -errno;
    if (context->first_rank + place->rank != 0 && dup2(context->null_fd, STDIN_FILENO) < 0)
        return -errno;
    if (outputs != NULL && (dup2(outputs[0], STDOUT_FILENO) < 0 || dup2(outputs[1], STDERR_FILENO) < 0))
        return -errno;
    int rc = set_number("KOLO_RANK", context->first_rank + place->rank);
    if (rc == 0)
        rc = set_number("KOLO_LOCAL_RANK", place->rank);
    if (rc == 0)
        rc = set_number("KOLO_RESTARTS", place->restarts);
    if (rc == 0 && sigprocmask(SIG_SETMASK, &context->original_mask, NULL) != 0)
        rc = -errno;
    return rc;
}

/* In the child: becomes the program, or tells kolorun why it could not. */
static _Noreturn void child_run(const struct launch_context *context, const struct launch_place *place) {
    struct launch_failure failure = {.rank = place->rank, .step = LAUNCH_PREPARE};
    int rc = child_prepare(context, place);
    if (rc == 0 && place->cpus != NULL) {
        failure.step = LAUNCH_BIND;
        rc = binding_apply(place->cpus);
    }
    if (rc == 0) {
        failure.step = LAUNCH_EXEC;
        execvp(context->command[0], context->command);
        rc = -errno;
    }
    failure.error = -rc;
    ssize_t ignored = write(context->failure_fds[1], &failure, sizeof failure);
    (void)ignored; /* kolorun has ended, or the pipe is full of the same news */
    _exit(127);
}

pid_t launch_rank(const struct launch_context *context, const struct launch_place *place) {
    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0)
        child_run(context, place);
    return pid;
}

bool launch_failure_read(const struct launch_context *context, struct launch_failure *failure) {
    return read(context->failure_fds[0], failure, sizeof *failure) == (ssize_t)sizeof *failure;
}

void launch_failure_describe(char *text, size_t text_bytes, const char *program, int error) {
    char beside[PATH_MAX];
    struct stat found;
    const bool is_path = strchr(program, '/') != NULL;
    snprintf(beside, sizeof beside, "./%s", program);
    if (error == ENOENT && is_path && stat(program, &found) == 0)
        snprintf(text, text_bytes, "it is there, but not its interpreter (its first line, '#!')");
    else if (error == ENOENT && !is_path && access(beside, X_OK) == 0)
        snprintf(text, text_bytes, "not found in PATH; the one in this folder is %s", beside);
    else if (error == ENOENT)
        snprintf(text, text_bytes, is_path ? "there is no such file" : "not found in PATH");
    else if (error == EACCES && stat(program, &found) == 0 && S_ISDIR(found.st_mode))
        snprintf(text, text_bytes, "is a folder");
    else if (error == EACCES && is_path && access(program, F_OK) == 0 && access(program, X_OK) != 0)
        snprintf(text, text_bytes, "is not executable (chmod +x)");
    else
        snprintf(text, text_bytes, "%s", strerror(error));
}
