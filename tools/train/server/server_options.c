#include "server_options.h"

#include <stdlib.h>
#include <string.h>

const char *train_server_name(unsigned server) {
    static const char *const names[] = {
        [TRAIN_ALLREDUCE] = "none", [TRAIN_BSP] = "bsp", [TRAIN_SSP] = "ssp", [TRAIN_ASP] = "asp", NULL};
    return names[server];
}

const char *train_problem_name(unsigned problem) {
    static const char *const names[] = {
        [TRAIN_DIGITS] = "digits", [TRAIN_LOGISTIC] = "logistic", [TRAIN_FACTORIZATION] = "factorization", NULL};
    return names[problem];
}

const char *train_rule_name(unsigned rule) {
    static const char *const names[] = {[TRAIN_RULE_SGD] = "sgd",
                                        [TRAIN_RULE_MOMENTUM] = "momentum",
                                        [TRAIN_RULE_ADAGRAD] = "adagrad",
                                        [TRAIN_RULE_ADAM] = "adam",
                                        NULL};
    return names[rule];
}

const char *server_options_read_slow(server_settings *settings, const char *typed) {
    static const char wanted[] = "RANK:FACTOR or any:FACTOR, with a factor from 1 to 1000, as 1:5", any[] = "any:";
    char *end;
    const char *factor = typed + sizeof any - 1;
    settings->slow_rank = SLOW_ANY;
    if (typed[0] >= '0' && typed[0] <= '9') {
        const long rank = strtol(typed, &end, 10);
        if (*end != ':' || rank > KOLO_RANKS_MAX - 1)
            return wanted;
        factor = end + 1;
        settings->slow_rank = (int)rank;
    } else if (strncmp(typed, any, sizeof any - 1) != 0)
        return wanted;
    settings->slow_factor = strtod(factor, &end);
    return end == factor || *end != '\0' || !(settings->slow_factor >= 1 && settings->slow_factor <= 1000) ? wanted
                                                                                                           : NULL;
}

/* The loop of workers has steps of its own, and goes from the first clock to the last. */
static void check_others(const command_line *line, const char *given) {
    static const char *const others[] = {
        "--accumulate", "--optimizer", "--fused",  "--shared-parameters", "--overlap", "--compress",  "--exact",
        "--ways",       "--save",      "--resume", "--elastic",           "--join",    "--on-failure"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (command_line_has(line, others[i]))
            command_line_refuse(line, "%s: workers push rows in steps of their own; leave out %s", given, others[i]);
}

/* What only workers know. */
static void check_unused(const command_line *line) {
    static const char *const own[] = {"--staleness", "--servers", "--backup-workers", "--hogwild", "--rule",
                                      "--slow",      "--step-ms", "--until",          "--every",   "--features"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (command_line_has(line, own[i]))
            command_line_refuse(line, "%s: is for training with --server or --problem; give one of them", own[i]);
}

static void check_table(const command_line *line, const server_settings *settings) {
    static const char *const of_tables[] = {"--staleness", "--servers", "--backup-workers", "--hogwild"};
    for (size_t i = 0; i < sizeof of_tables / sizeof *of_tables && settings->server == TRAIN_ALLREDUCE; i++)
        if (command_line_has(line, of_tables[i]))
            command_line_refuse(line, "%s: an all-reduce has none; give --server bsp, ssp or asp", of_tables[i]);
    if (command_line_has(line, "--staleness") && settings->server != TRAIN_SSP)
        command_line_refuse(line, "--staleness: only ssp has a bound to choose; give --server ssp");
    if (settings->backup_workers > 0 && settings->server != TRAIN_BSP)
        command_line_refuse(line, "--backup-workers: only bsp waits for all others; give --server bsp");
    if (settings->hogwild && settings->server == TRAIN_BSP)
        command_line_refuse(line, "--hogwild: bsp applies updates in order; give --server ssp or asp");
    if (settings->hogwild && settings->has_rule && settings->rule != TRAIN_RULE_SGD)
        command_line_refuse(line, "--hogwild: adds in place, so --rule must be sgd");
}

void server_options_check(const command_line *line, server_settings *settings) {
    settings->used = command_line_has(line, "--server") || settings->problem != TRAIN_DIGITS;
    settings->has_rule = command_line_has(line, "--rule");
    settings->has_rate = command_line_has(line, "--rate");
    settings->has_epochs = command_line_has(line, "--epochs");
    settings->has_until = command_line_has(line, "--until");
    if (!settings->used) {
        check_unused(line);
        return;
    }
    check_others(line, command_line_has(line, "--server") ? "--server" : "--problem");
    check_table(line, settings);
    if (settings->problem != TRAIN_DIGITS && (command_line_has(line, "--data") || command_line_has(line, "--hidden")))
        command_line_refuse(line, "--data, --hidden: are for the digits; leave them out, or --problem");
    if (settings->server == TRAIN_ALLREDUCE && settings->rule == TRAIN_RULE_ADAGRAD)
        command_line_refuse(line, "--rule adagrad: only tables have it; give --server");
    if (command_line_has(line, "--features") && settings->problem != TRAIN_LOGISTIC)
        command_line_refuse(line, "--features: is for --problem logistic");
}
