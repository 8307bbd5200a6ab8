/* The command line of kolo-train, and the settings in it that all ranks share. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kolo.h"
#include "kolo_fusion.h"

typedef enum train_on_failure { TRAIN_STOP, TRAIN_SHRINK } train_on_failure;
typedef enum train_optimizer { TRAIN_SGD, TRAIN_ADAMW } train_optimizer;
typedef enum train_server { TRAIN_ALLREDUCE, TRAIN_BSP, TRAIN_SSP, TRAIN_ASP } train_server;
typedef enum train_problem { TRAIN_DIGITS, TRAIN_LOGISTIC, TRAIN_FACTORIZATION } train_problem;
typedef enum train_rule {
    TRAIN_RULE_SGD,
    TRAIN_RULE_MOMENTUM,
    TRAIN_RULE_ADAGRAD,
    TRAIN_RULE_ADAM,
    TRAIN_RULES /* the problem's own */
} train_rule;

/* A way to take a step. The plain one: an all-reduce of the gradients, and then the whole update. */
typedef struct train_way {
    bool overlap;           /* layers go out while the backward pass computes others */
    bool exact;             /* gradients are summed with KOLO_SUM_EXACT */
    bool fused;             /* the parameters are updated within the all-reduce of the gradients */
    bool shared_parameters; /* one copy of them for the ranks of a machine */
    bool no_feedback;       /* what compression leaves out is lost */
    kolo_compression compress;
} train_way;

enum { TRAIN_WAYS = 13, TRAIN_WAY_PLAIN = 0 };

/* Those that have names. */
extern const struct train_named_way {
    const char *name;
    train_way way;
    unsigned without_overlap; /* the same way but for that; of one that overlaps */
} train_ways[TRAIN_WAYS];

enum { SLOW_NONE = -1, SLOW_ANY = -2 };

/* Of a training with a parameter server. */
typedef struct server_settings {
    bool used;           /* training goes by workers' loops, not by the trainer */
    train_server server; /* TRAIN_ALLREDUCE: the same loop with replicas of the rows */
    train_problem problem;
    train_rule rule;
    size_t staleness; /* of TRAIN_SSP, in clocks */
    int servers;      /* ranks */
    int backup_workers;
    bool hogwild;
    size_t features;    /* of the generated logistic regression */
    int slow_rank;      /* SLOW_NONE, or SLOW_ANY: in each clock one, by chance */
    double slow_factor; /* how many times as long its steps take */
    double step_ms;     /* a step computes for at least so long */
    double until;       /* the loss at which training stops; 0: none */
    size_t every;       /* clocks from one evaluation to the next; 0: 20 in the whole training */
} server_settings;

/* What all ranks of a training must have in common. A process that joins says what it expects of those that its command
 * line has told. */
typedef struct train_settings {
    uint64_t data_fingerprint; /* of what was read from the data; 0: not read */
    size_t epochs;             /* 0: the problem's own, as the rate */
    size_t steps_max;          /* SIZE_MAX: as many as the epochs have */
    size_t batch_rows;         /* of all ranks together */
    size_t hidden;             /* width of both hidden layers */
    double rate;
    uint64_t seed;
    bool no_compare;   /* with one process */
    size_t accumulate; /* batches whose gradients are added for a step */
    bool elastic;      /* others may join */
    train_on_failure on_failure;
    train_optimizer optimizer;
    train_way way;
    bool save; /* rank 0 knows where */
    bool resume;
    bool tell_step;            /* what a step spends its time on */
    unsigned ways[TRAIN_WAYS]; /* to be compared */
    int ways_count;            /* 0: none, this is one training */
    server_settings server;
} train_settings;

typedef struct train_options {
    train_settings settings;
    uint64_t given; /* bits by option: what the command line has told */
    const char *data_path;
    bool is_own_data;        /* not the digits beside the program */
    const char *json_path;   /* NULL: none */
    const char *save_path;   /* NULL: none */
    const char *resume_path; /* NULL: none */
    bool quiet;
    const char *job;      /* the name under which others join; NULL: none */
    const char *join_job; /* the training that this process is to join; NULL: none, it starts with the others */
} train_options;

/* Reads the command line. Ends the program at --help, at --version and at a mistake, of which rank 0 tells for all. */
train_options train_options_read(int argc, char **argv);

/* Rank 0's settings become everybody's: ranks that took their rows in different orders would go wrong unnoticed.
 * Returns 0 or LOST. */
int train_settings_share(kolo_comm *comm, train_settings *settings);

/* Whether what was asked for, as far as `given` (bits by option) says, is what the training has. If not,
 * `text` says in words what is different. */
int train_settings_agree(const train_settings *asked, uint64_t given, const train_settings *training, char *text,
                         size_t text_bytes);

/* "sgd" and the like; NULL past the last. */
const char *train_optimizer_name(unsigned optimizer);
const char *train_way_name(unsigned way);
const char *train_server_name(unsigned server);
const char *train_problem_name(unsigned problem);
const char *train_rule_name(unsigned rule);

/* Whether any step overlaps. */
bool train_settings_overlap(const train_settings *settings);

/* Of a step: those of all batches whose gradients it adds. */
size_t train_settings_step_rows(const train_settings *settings);
