/* Sends and receives in the background on one machine, with and without a progress thread. */
#include "channel_parts.h"

int main(int argc, char **argv) {
    static const int counts[] = {1, 2, 3, 5}, modes[] = {-1, 1};
    harness_begin(argc, argv, "Checks sends and receives in the background.");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (size_t mode = 0; mode < 2; mode++)
            for (const struct in_flight_part *part = in_flight_parts; part < in_flight_parts + IN_FLIGHT_PARTS; part++)
                if (wants_ranks(counts[i]) && counts[i] >= part->ranks_min && !(arguments.threads && part->dies))
                    harness_run(&(struct team){.ranks = counts[i],
                                               .creates_itself = true,
                                               .victim = part->dies ? counts[i] : 0,
                                               .run = in_flight_run,
                                               .argument = &(struct in_flight){.part = part, .progress = modes[mode]}});
    return harness_end();
}
