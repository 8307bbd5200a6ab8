/* For wheels, which run where glibc is older than the headers (KOLO_OLD_GLIBC): what the library calls of glibc 2.28
 * and later, made of what 2.27 has. Nothing of it is seen outside the library. */
#include <sys/syscall.h>
#include <unistd.h>

pid_t gettid(void) {
    return (pid_t)syscall(SYS_gettid);
}
