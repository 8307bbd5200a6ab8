/* A port for a rendezvous. */
#ifndef KOLO_TESTS_FREE_PORT_H
#define KOLO_TESTS_FREE_PORT_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"

/* A port that is free now, below those that the kernel gives to who connects. */
static inline int free_port(void) {
    static uint64_t state;
    const int on = 1;
    if (state == 0)
        state = random_seed(1, 0);
    for (int tries = 0; tries < 1000; tries++) {
        const int port = 12000 + (int)random_below(&state, 18000), fd = socket(AF_INET, SOCK_STREAM, 0);
        const struct sockaddr_in address = {
            .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(INADDR_ANY)}};
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        const bool good = bind(fd, (const struct sockaddr *)&address, sizeof address) == 0;
        close(fd);
        if (good)
            return port;
    }
    harness_skip("no free port");
    return 0;
}

#endif
