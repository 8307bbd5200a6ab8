/* Where a training takes in processes: a listening Unix socket with an abstract name, made of the user's number and the
 * job's name, known within a network namespace. It is no file, so that nothing can be left behind.
 *
 * All ranks hold the socket, and whoever is rank 0 looks who has come to it. So it is there for exactly as long as one
 * of them lives: what waits at it is still there when rank 0 is killed and another one takes its place, and who finds
 * nobody listening knows that there is no such training, or none any more.
 *
 * Each side looks at the other's user number as the kernel has it. Messages are of fixed size and checked. */
#ifndef KOLO_TRAIN_JOIN_SOCKET_H
#define KOLO_TRAIN_JOIN_SOCKET_H

#include "kolo.h"

#include "train_settings.h"

#include <stdint.h>
#include <sys/types.h>

enum { JOIN_TEXT_BYTES = 256, JOIN_VERSION_BYTES = 24 };

/* What a process asks for that wants to join. */
typedef struct join_request {
    uint64_t magic;
    char version[JOIN_VERSION_BYTES]; /* kolo's */
    train_settings settings;
    uint64_t given; /* which of them count */
} join_request;

typedef enum join_verdict { JOIN_WELCOME, JOIN_REFUSED } join_verdict;

/* What it is told. */
typedef struct join_answer {
    uint64_t magic;
    int32_t verdict;
    int32_t rank; /* if welcome: its rank in the new communicator, and how many there are; the file comes with it */
    int32_t size;
    char text[JOIN_TEXT_BYTES]; /* if refused: why */
} join_answer;

/* One that waits at the socket. */
typedef struct join_visitor {
    int fd;
    pid_t pid;
    uid_t user;
    int valid; /* whether it has sent a request, and is still there */
    join_request request;
} join_visitor;

/* Opens the socket. Returns its descriptor or a negative errno: EADDRINUSE where there is one of that name,
 * ENAMETOOLONG. */
int join_socket_listen(const char *job);

/* The next one who waits; does not block. Returns whether there was one; its descriptor is then the caller's. */
int join_socket_accept(int listener, join_visitor *visitor);

/* Sends the answer, as far as that can be done without waiting. `file`: of the new communicator; -1 if refused. */
void join_socket_answer(const join_visitor *visitor, const join_answer *answer, int file);

/* A process's part: asks the training of that name. Returns a descriptor to wait at or a negative errno: ECONNREFUSED
 * where there is none, EPERM where it is another user's. */
int join_socket_ask(const char *job, const train_settings *settings, uint64_t given);

/* Waits for the answer until it comes or the ranks have ended. Returns 0, and if welcome *file is the new
 * communicator's file, which the caller closes; or a negative errno. */
int join_socket_await(int fd, join_answer *answer, int *file);

#endif
