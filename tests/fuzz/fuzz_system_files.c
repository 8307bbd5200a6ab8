/* Files of sysfs and of control groups (cpu/sysfs.h, cpu/limits.h), as lists, numbers, lines and pairs of
 * numbers. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu/limits.h"
#include "cpu/sysfs.h"
#include "fuzz_target.h"

enum { BYTES_MAX = 16384 };

static void read_as_list(const char *root, const char *name) {
    kolo_cpu_set set;
    uint32_t count;
    const bool ok = kolo_sysfs_list(root, name, &set, &count);
    REQUIRE(ok || (count == 0 && kolo_cpu_set_count(&set) == 0));
    REQUIRE(!ok || (count > 0 && (kolo_cpu_set_count(&set) <= count)));
}

static void read_as_line(const char *root, const char *name) {
    char line[32];
    if (kolo_sysfs_line(root, name, line, sizeof line))
        REQUIRE(memchr(line, '\0', sizeof line) && line[0] && !strchr(line, '\n'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static const char root[] = "/proc/self/fd";
    char name[16];
    if (bytes > BYTES_MAX)
        return 0;
    const int fd = memfd_create("kolo-fuzz", MFD_CLOEXEC);
    REQUIRE(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes);
    snprintf(name, sizeof name, "%d", fd);
    read_as_list(root, name);
    read_as_line(root, name);
    uint64_t number;
    kolo_sysfs_number(root, name, &number);
    int64_t first = 0, second = 0;
    const int found = kolo_cgroup_read(root, name, &first, &second);
    REQUIRE(found >= 0 && found <= 2);
    close(fd);
    return 0;
}
