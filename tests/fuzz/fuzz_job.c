/* What another process could have written into the job file and the segment (comm/creation/rendezvous.c,
 * comm/creation/create.c, plan/plan.h): a communicator is created by rank 0 or rank 1 of two, from a file that is there
 * already. It must end at once with a status, and may be created only with settings that every message can be planned
 * with.
 *
 * Input: a byte (bit 0: the rank; bit 1: the file ends behind the input; bit 2: behind the job's own page), the job
 * header and members, then what the segment begins with. Inputs are to outlive changes of the layout: version and
 * layout are the input's only with bit 3 of that byte, the segment's size only with bit 4. The descriptor of another
 * process in which a segment may lie never is: that would reach outside. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "plan/plan.h"
#include "comm/comm.h"
#include "fuzz_target.h"

enum { RANKS = 2, SLOT_BYTES = KOLO_PAGE_BYTES, JOB_BYTES = KOLO_PAGE_BYTES, BYTES_MAX = 8192 };
enum { HEAD_BYTES = sizeof(struct kolo_job_header) + RANKS * sizeof(struct kolo_job_member) };

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Makes the file that the input describes; returns its descriptor. */
static int make_file(const uint8_t *data, size_t bytes, uint8_t choice) {
    static uint8_t file[JOB_BYTES + BYTES_MAX];
    const size_t head_bytes = smaller(bytes, HEAD_BYTES), rest_bytes = bytes - head_bytes;
    const uint32_t version = KOLO_VERSION_WORD, layout = KOLO_LAYOUT;
    const uint64_t segment_bytes = kolo_layout_compute(RANKS, SLOT_BYTES, false).bytes;
    const uint64_t no = 0;
    memset(file, 0, sizeof file);
    memcpy(file, data, head_bytes);
    memcpy(file + offsetof(struct kolo_job_header, segment.is_apart), &no, sizeof no);
    if (!(choice & 8)) {
        memcpy(file + offsetof(struct kolo_job_header, version), &version, sizeof version);
        memcpy(file + offsetof(struct kolo_job_header, layout), &layout, sizeof layout);
    }
    if (!(choice & 16))
        memcpy(file + offsetof(struct kolo_job_header, segment.bytes), &segment_bytes, sizeof segment_bytes);
    memcpy(file + JOB_BYTES, data + head_bytes, rest_bytes);
    const size_t whole_bytes = JOB_BYTES + (size_t)segment_bytes;
    const size_t file_bytes = choice & 2 ? head_bytes : choice & 4 ? (size_t)JOB_BYTES : whole_bytes;
    const int fd = memfd_create("kolo-fuzz", MFD_CLOEXEC);
    REQUIRE(fd >= 0 && ftruncate(fd, (off_t)file_bytes) == 0);
    const size_t written = smaller(file_bytes, sizeof file);
    REQUIRE(pwrite(fd, file, written, 0) == (ssize_t)written);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    if (bytes < 1 || bytes > BYTES_MAX)
        return 0;
    const int fd = make_file(data + 1, bytes - 1, data[0]);
    kolo_options options = KOLO_OPTIONS_INIT;
    options.rank = data[0] & 1;
    options.size = RANKS;
    options.shm_fd = fd;
    options.slot_bytes = SLOT_BYTES;
    options.create_timeout_ms = 1;
    kolo_comm *comm = NULL;
    const int rc = kolo_comm_create(&comm, &options);
    REQUIRE((rc == 0) == (comm != NULL) && rc <= 0);
    if (comm) {
        REQUIRE(kolo_plan_settings_valid(&comm->settings));
        kolo_comm_destroy(comm);
    }
    close(fd);
    return 0;
}
