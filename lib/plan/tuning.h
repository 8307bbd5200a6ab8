/* What rank 0 decides for all ranks of a communicator: which algorithm and chunk for which messages, from the caches
 * and where the ranks run, or from a profile that kolo-tune measured on this machine.
 *
 * The profile is the file that KOLO_TUNE_FILE names ("none" or empty: no file), else kolo/tune in the user's
 * configuration directory. Its section for exactly this number of ranks counts. Where there is none the defaults do:
 * thresholds move with the square of the rank count, and oversubscription changes all of them, so that a neighbouring
 * section is as often worse than the defaults as better. A file that cannot be used changes nothing but the log. */
#ifndef KOLO_PLAN_TUNING_H
#define KOLO_PLAN_TUNING_H

#include "comm/comm.h"
#include "comm/creation/options.h"

/* Where a communicator's settings come from. */
struct kolo_tuning_source {
    bool tuned;     /* a profile's section is in use */
    bool refused;   /* there is a profile that cannot be used */
    char text[512]; /* the same in words, with the file's path */
};

/* The defaults for `ranks` ranks on the CPUs that `topology` was read for, rank r on those of *rank_cpus[r]; rank_cpus
 * NULL: any rank may be anywhere. */
void kolo_tuning_default(struct kolo_shared_settings *settings, kolo_algorithm algorithm, size_t slot_bytes,
                         uint32_t ranks, const kolo_topology *topology, const kolo_cpu_set *const *rank_cpus);

/* The same for a communicator with these `settings`: the defaults, then KOLO_TREE_LEVELS, then what a profile knows
 * better. *source says whether one does. */
void kolo_tuning_make(struct kolo_shared_settings *shared, const struct kolo_settings *settings,
                      const kolo_topology *topology, const kolo_cpu_set *const *rank_cpus,
                      struct kolo_tuning_source *source);

/* kolo_decide_fn of comm/creation/create.h. */
void kolo_tuning_decide(kolo_comm *comm, const struct kolo_settings *settings);

#endif
