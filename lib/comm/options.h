/* What a communicator is created with: options, else environment, else defaults; all checked. */
#ifndef KOLO_COMM_OPTIONS_H
#define KOLO_COMM_OPTIONS_H

#include "kolo.h"
#include "base/log.h"
#include "comm/launcher.h"
#include "cpu/levels.h"

typedef enum kolo_wait_mode { KOLO_WAIT_AUTO, KOLO_WAIT_SPIN, KOLO_WAIT_YIELD, KOLO_WAIT_SLEEP } kolo_wait_mode;

struct kolo_settings {
    struct kolo_place place; /* rank and size known; job "" only with shm_fd >= 0 or one rank */
    int shm_fd;              /* -1: by name */
    kolo_algorithm algorithm;
    kolo_wait_mode wait;
    kolo_log_level log_level;
    uint32_t features; /* instruction sets that the reducer may use */
    size_t slot_bytes; /* whole pages */
    bool tree_levels_given;
    uint32_t tree_levels[KOLO_LEVELS_MAX]; /* see cpu/levels.h */
    int64_t timeout_ns;
    int64_t create_timeout_ns;
    int64_t stall_warn_ns; /* 0: never */
};

/* Fills *settings. KOLO_ERR_ARG, KOLO_ERR_UNSUPPORTED, with a message that names the value. */
int kolo_settings_resolve(struct kolo_settings *settings, const kolo_options *options);

/* Whether that can be a job's name. Reads no more than KOLO_JOB_NAME_BYTES of it. */
bool kolo_settings_job_is_legal(const char *job);

/* The slot size for `ranks` ranks where nobody asked for another. */
size_t kolo_settings_slot_bytes(uint32_t ranks);

#endif
