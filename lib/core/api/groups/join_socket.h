/* The socket at which a communicator takes in processes: a listening Unix socket with an abstract name, made of the
 * user's number and the job's name, known within a network namespace. It is no file, so that nothing is left behind.
 *
 * All ranks have the socket open, and the present rank 0 accepts connections. So the socket exists for exactly as long
 * as one of the ranks lives. Processes that wait at it stay connected when rank 0 is killed and another rank takes its
 * place. A process that finds no listener knows that there is no such communicator, or none any more.
 *
 * Each side looks at the other's user number as the kernel has it. Messages are checked. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "kolo.h"

/* The request of a process that wants to join. */
struct kolo_join_request {
    uint64_t magic;
    uint32_t version; /* KOLO_VERSION_WORD */
    uint32_t message_bytes;
    uint8_t message[KOLO_JOIN_BYTES];
};

/* The answer. */
struct kolo_join_answer {
    uint64_t magic;
    int32_t taken; /* 1: a file comes with it; 0: refused */
    int32_t rank;  /* if taken: its rank in the new communicator, and how many there are */
    int32_t size;
    char text[KOLO_JOIN_TEXT_BYTES]; /* if refused: why */
};

/* A process that waits at the socket. */
struct kolo_join_visitor {
    int fd;
    pid_t pid;
    uid_t user;
    bool valid; /* it has sent a request, and is still there */
    struct kolo_join_request request;
};

/* Opens the socket. Returns its descriptor or a negative errno. EADDRINUSE: one of that name exists; ENAMETOOLONG. */
int kolo_join_listen(const char *job);

/* Accepts the next process that waits; never blocks. Returns whether there was one; its descriptor is the caller's. */
bool kolo_join_accept(int listener, struct kolo_join_visitor *visitor);

/* Answers, as far as that is possible without waiting. `file` is the new communicator's; -1 if refused. */
void kolo_join_answer_to(const struct kolo_join_visitor *visitor, const struct kolo_join_answer *answer, int file);

/* Tells a visitor why it is refused, and closes. */
void kolo_join_refuse(const struct kolo_join_visitor *visitor, const char *why);

/* Asks to join. Returns a descriptor to wait at, or a negative errno. ECONNREFUSED: no process listens; EPERM: another
 * user does; EAGAIN: as many processes wait as there is room for, and did so for timeout_ms (0: no limit). */
int kolo_join_ask(const char *job, const void *message, size_t message_bytes, int64_t timeout_ms);

/* Waits for the answer. If taken, *file is the new communicator's, for the caller to close. 0 or a negative errno. */
int kolo_join_await(int fd, struct kolo_join_answer *answer, int *file);
