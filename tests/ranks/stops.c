#include "stops.h"

#include <signal.h>

void await_counter(uint64_t value) {
    while (counter_add(0) < value)
        sleep_ms(1);
}

void stop_all(const struct team *team, const pid_t *pids, int stops, int64_t late_ms, int64_t stopped_ms) {
    await_counter((uint64_t)team->ranks);
    for (int stop = 0; stop < stops; stop++) {
        sleep_ms(late_ms);
        for (int i = 0; i < team->ranks; i++)
            kill(pids[i], SIGSTOP);
        sleep_ms(stopped_ms);
        for (int i = 0; i < team->ranks; i++)
            kill(pids[i], SIGCONT);
        counter_add(1);
    }
}
