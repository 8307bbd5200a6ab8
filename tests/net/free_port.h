/* A port for a rendezvous. */
#ifndef KOLO_TESTS_FREE_PORT_H
#define KOLO_TESTS_FREE_PORT_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "harness.h"

/* Takes the port from all tests until the next one is taken, by a name that they have agreed on
 * (tests/tools/launching.py is the other place): a test that finds a port free does not use it at once. */
static inline bool take_port(int port) {
    static int taken = -1;
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "kolo-test-port-%d", port);
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&name,
                        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) == 0) {
        if (taken >= 0)
            close(taken);
        taken = fd;
        return true;
    }
    if (fd >= 0)
        close(fd);
    return false;
}

/* A port that is free now, below those that the kernel gives to who connects, and that no other test takes. */
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
        if (good && take_port(port))
            return port;
    }
    harness_skip("no free port");
    return 0;
}

#endif
