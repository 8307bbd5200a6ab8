/* Settings of a training with a parameter server, in the words of kolo-train's command line. All ranks share them. */
#ifndef KOLO_TRAIN_SERVER_OPTIONS_H
#define KOLO_TRAIN_SERVER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "command_line.h"
#include "kolo.h"

typedef enum train_server { TRAIN_ALLREDUCE, TRAIN_BSP, TRAIN_SSP, TRAIN_ASP } train_server;
typedef enum train_problem { TRAIN_DIGITS, TRAIN_LOGISTIC, TRAIN_FACTORIZATION } train_problem;
typedef enum train_rule { TRAIN_RULE_SGD, TRAIN_RULE_MOMENTUM, TRAIN_RULE_ADAGRAD, TRAIN_RULE_ADAM } train_rule;

enum { SLOW_NONE = -1, SLOW_ANY = -2 };

typedef struct server_settings {
    bool used;           /* training goes by workers' loops, not by the trainer */
    train_server server; /* TRAIN_ALLREDUCE: the same loop with replicas of the rows */
    train_problem problem;
    train_rule rule;
    bool has_rule;    /* or the problem's default */
    bool has_rate;    /* likewise */
    bool has_epochs;  /* likewise */
    size_t staleness; /* of TRAIN_SSP, in clocks */
    int servers;      /* ranks */
    int backup_workers;
    bool hogwild;
    size_t features;    /* of the generated logistic regression */
    int slow_rank;      /* SLOW_NONE, or SLOW_ANY: in each clock one, by chance */
    double slow_factor; /* how many times as long its steps take */
    double step_ms;     /* a step computes for at least so long */
    bool has_until;
    double until; /* the loss at which training stops */
    size_t every; /* clocks from one evaluation to the next; 0: 20 in the whole training */
} server_settings;

const char *train_server_name(unsigned server);
const char *train_problem_name(unsigned problem);
const char *train_rule_name(unsigned rule);

/* Reads RANK:FACTOR or any:FACTOR. Returns NULL, or what should be given. */
const char *server_options_read_slow(server_settings *settings, const char *typed);

/* Refuses what does not go together, and sets what follows from other options. */
void server_options_check(const command_line *line, server_settings *settings);

#endif
