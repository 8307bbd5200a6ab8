/* How far a creation has come, as the job's file tells. */
#pragma once

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "harness.h"
#include "shm/layout.h"

static inline bool job_word_is_set(int fd, size_t offset) {
    uint64_t word = 0;
    return pread(fd, &word, sizeof word, (off_t)offset) == (ssize_t)sizeof word && word != 0;
}

/* Whether rank 0 has offered its segment and the others of these, a bit for each, have come. */
static inline bool job_has(const kolo_options *options, uint64_t ranks) {
    char path[160];
    snprintf(path, sizeof path, "/dev/shm/kolo-%u-%s", (unsigned)geteuid(), options->job ? options->job : "");
    const int fd = options->job ? open(path, O_RDONLY | O_CLOEXEC) : options->shm_fd;
    bool has = fd >= 0 && (!(ranks & 1) || job_word_is_set(fd, offsetof(struct kolo_job_header, offer)));
    for (size_t rank = 1; has && ranks >> rank; rank++)
        if (ranks >> rank & 1)
            has = job_word_is_set(fd, sizeof(struct kolo_job_header) + rank * sizeof(struct kolo_job_member) +
                                          offsetof(struct kolo_job_member, epoch));
    if (fd >= 0 && options->job)
        close(fd);
    return has;
}

/* Waits for that; rank NULL: outside a team. */
static inline bool await_job(const struct rank *rank, const kolo_options *options, uint64_t ranks) {
    const int64_t until_ns = now_ns() + INT64_C(60000000000);
    bool has;
    while (!(has = job_has(options, ranks)) && now_ns() < until_ns)
        sleep_ms(1);
    return expect(rank, has, "the others did not come");
}
