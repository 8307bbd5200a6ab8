/* Messages between two ranks of one machine. */
#include "channel_parts.h"

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Checks messages between two ranks.");
    for (int ranks = 1; ranks <= 9; ranks++)
        for (size_t part = 0; part < CHANNEL_PARTS; part++)
            if (wants_ranks(ranks) && wants_algorithm(KOLO_ALGORITHM_AUTO) && (!arguments.quick || ranks != 6))
                harness_run(&(struct team){.ranks = ranks, .slot_bytes = 4096, .run = channel_parts[part]});
    return harness_end();
}
