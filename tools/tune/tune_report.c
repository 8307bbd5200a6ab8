#include "tune_report.h"

#include <stdio.h>
#include <unistd.h>

#include "messages.h"
#include "quantity_text.h"

#define DISTURBED_RATIO 1.25

static void print_row(const tune_space *space, const tune_times *times, const tune_choice *choice, int size) {
    const size_t message_bytes = space->size_bytes[size];
    const int candidate = choice->candidate[size], way = tune_candidate_way(candidate);
    const size_t chunk_bytes = tune_space_chunk_bytes(space, way);
    const bool same = candidate == space->default_candidate[size];
    const double default_us = times->us[size][TUNE_DEFAULT], tuned_us = same ? default_us : times->us[size][candidate];
    printf("  %8s %11.2f  %-8s %11.2f  %-8s %8s  %-6s %5.2f\n", bytes_text(message_bytes).text, default_us,
           kolo_algorithm_name(space->default_plan[size].algorithm), tuned_us,
           kolo_algorithm_name(tune_space_algorithm(space, way)),
           chunk_bytes < message_bytes ? bytes_text(chunk_bytes).text : "whole",
           tune_candidate_streams(candidate) ? "stream" : "", default_us / tuned_us);
}

/* Half of the rounds of the same work then took that much longer than the fastest quarter. */
static void print_disturbed(const tune_space *space, const tune_times *times) {
    int disturbed = 0;
    for (int size = 0; size < space->sizes; size++)
        disturbed += times->us[size][TUNE_DEFAULT] > DISTURBED_RATIO * times->default_low_us[size];
    if (disturbed > 0)
        printf("  disturbed by other work at %d of %d sizes: measure again when the machine is\n"
               "  quiet\n",
               disturbed, space->sizes);
}

int tune_report(const tune_space *space, const tune_times *times, const tune_choice *choice, bool bound) {
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr); /* where progress was shown */
    printf("\n%d ranks, %s: microseconds a call\n", space->ranks, bound ? "a core each" : "not bound");
    printf("  %8s %11s  %-8s %11s  %-8s %8s  %-6s %5s\n", "message", "default", "", "tuned", "", "chunk", "", "ratio");
    for (int size = 0; size < space->sizes; size++)
        print_row(space, times, choice, size);
    print_disturbed(space, times);
    return message_unless_written();
}
