/* A port for a rendezvous. */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PORT_FIRST = 12000, PORTS = 18000 }; /* below those that the kernel gives to who connects */

static inline bool port_is_free(int port) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(INADDR_ANY)}};
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const bool good = bind(fd, (const struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return good;
}

/* Takes the port from all tests, by a name that they have agreed on (tests/tools/launching.py is the other place): a
 * test that finds a port free does not use it at once. Returns what to close; -1: another test has it. */
static inline int take_port(int port) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "kolo-test-port-%d", port);
    if (bind(fd, (const struct sockaddr *)&name,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) == 0)
        return fd;
    close(fd);
    return -1;
}

/* A port that is free now, and that no other test takes until this one asks for the next. Another one each time, as who
 * was killed may still be on its way out: from one that follows from `start` on. -1: there is none. */
static inline int free_port(uint64_t start) {
    static int last = -1, taken = -1;
    if (taken >= 0)
        close(taken);
    taken = -1;
    if (last < 0)
        last = (int)(start % PORTS);
    for (int tries = 0; tries < PORTS; tries++) {
        last = (last + 1) % PORTS;
        if (port_is_free(PORT_FIRST + last) && (taken = take_port(PORT_FIRST + last)) >= 0)
            return PORT_FIRST + last;
    }
    return -1;
}
