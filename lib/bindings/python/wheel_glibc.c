/* For wheels, which run where glibc is older than here (KOLO_OLD_GLIBC): what the library, and the archives that are
 * linked into it, call of glibc 2.29 to 2.36, made of what 2.27 has. Nothing of it is seen outside the library. Threads
 * were in libpthread then; its functions have kept their old versions to this day. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define FIRST       "GLIBC_2.2.5"
#define THREAD_NAME "GLIBC_2.12"
#elif defined(__aarch64__)
#define FIRST       "GLIBC_2.17"
#define THREAD_NAME "GLIBC_2.17"
#endif

__asm__(".symver old_create, pthread_create@" FIRST);
__asm__(".symver old_join, pthread_join@" FIRST);
__asm__(".symver old_once, pthread_once@" FIRST);
__asm__(".symver old_setname, pthread_setname_np@" THREAD_NAME);
extern __typeof__(pthread_create) old_create;
extern __typeof__(pthread_join) old_join;
extern __typeof__(pthread_once) old_once;
extern __typeof__(pthread_setname_np) old_setname;

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
    return old_create(thread, attributes, start, argument);
}

int pthread_join(pthread_t thread, void **result) {
    return old_join(thread, result);
}

int pthread_once(pthread_once_t *once, void (*function)(void)) {
    return old_once(once, function);
}

int pthread_setname_np(pthread_t thread, const char *name) {
    return old_setname(thread, name);
}

int pthread_sigmask(int how, const sigset_t *set, sigset_t *before) {
    return sigprocmask(how, set, before) < 0 ? errno : 0;
}

pid_t gettid(void) {
    return (pid_t)syscall(SYS_gettid);
}

int fstatat(int folder, const char *restrict path, struct stat *restrict found, int flags) {
    return (int)syscall(SYS_newfstatat, folder, path, found, flags);
}

int stat(const char *restrict path, struct stat *restrict found) {
    return fstatat(AT_FDCWD, path, found, 0);
}

int lstat(const char *restrict path, struct stat *restrict found) {
    return fstatat(AT_FDCWD, path, found, AT_SYMLINK_NOFOLLOW);
}

int fstat(int file, struct stat *found) {
    return (int)syscall(SYS_fstat, file, found);
}
