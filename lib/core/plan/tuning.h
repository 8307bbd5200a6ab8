/* Tuning: rank 0 decides for all ranks of a communicator which algorithm and chunk are for which messages, from the
 * caches and where the ranks run, or from a profile that kolo-tune measured on this machine.
 *
 * The profile is the file that KOLO_TUNE_FILE names ("none" or empty: no file), else kolo/tune in the user's
 * configuration directory. For each collective its section for exactly this number of ranks is used, else the defaults:
 * thresholds move with the square of the rank count, and oversubscription changes all of them, so that a neighbouring
 * section is as often worse than the defaults as better. A file that cannot be used changes nothing but the log. */
#pragma once

#include "plan/profile.h"

/* The question that tuning decides. */
struct kolo_tuning_question {
    kolo_algorithm algorithm; /* forced; AUTO: none is */
    size_t slot_bytes;
    /* The least block that ranks read out of each other's memory; 0: where that is faster; UINT64_MAX: none. */
    uint64_t single_copy_bytes;
    uint32_t ranks;
    const kolo_topology *topology;        /* read for the CPUs of all ranks */
    const kolo_cpu_set *const *rank_cpus; /* rank r's are *rank_cpus[r]; NULL: any rank may be anywhere */
    const uint32_t *tree_sizes;           /* KOLO_LEVELS_MAX; NULL: by where the ranks run */
};

/* The source of a communicator's settings. */
struct kolo_tuning_source {
    uint32_t tuned; /* a bit for each collective for which a profile's section is in use */
    bool refused;   /* there is a profile that cannot be used */
    char text[512]; /* the source in words, with the file's path */
};

/* Fills in the defaults. */
void kolo_tuning_default(struct kolo_shared_settings *settings, const struct kolo_tuning_question *question);

/* Fills in the profile's settings where a profile has them, else the defaults. *source says which. */
void kolo_tuning_make(struct kolo_shared_settings *settings, const struct kolo_tuning_question *question,
                      struct kolo_tuning_source *source);

/* Reads the profile `path` and checks that it is for this machine. False: `why` says why; *absent: there is none. */
bool kolo_tuning_load(const char *path, const kolo_topology *topology, struct kolo_profile *profile,
                      char why[KOLO_PROFILE_WHY_BYTES], bool *absent);
