/* Numbers among the options of test programs. */
#pragma once

#include <errno.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static inline _Noreturn void refuse_option(const char *option, const char *value) {
    fprintf(stderr, "%s: --%s %s: not understood; see --help\n", program_invocation_short_name, option, value);
    exit(2);
}

/* getopt's argument of `option`, a number of at most `limit`; ends the program where it is none. */
static inline uint64_t number_option(const char *option, uint64_t limit) {
    char *end;
    errno = 0;
    const uint64_t value = strtoull(optarg, &end, 0);
    if (errno || end == optarg || *end || *optarg == '-' || value > limit)
        refuse_option(option, optarg);
    return value;
}

/* The seed of who is given none: TEST_SEED, which tools/check sets by the commit; else always the same. */
static inline uint64_t default_seed(void) {
    const char *given = getenv("TEST_SEED");
    return given ? strtoull(given, NULL, 10) : 1;
}
