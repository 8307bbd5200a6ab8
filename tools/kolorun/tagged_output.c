/* Lines from many pipes into two streams; tagged_output.h tells how. */
#include "tagged_output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kolo.h"
#include "messages.h"

#define LINE_BYTES_MAX   (1 << 20) /* a longer line is broken, so that memory stays bounded */
#define SINK_BYTES_FULL  (1 << 18) /* with that much to write, no more is read */
#define READ_BYTES       (1 << 16)
#define EVENTS_MAX       64
#define BUFFER_BYTES_MIN 4096
#define FIRST_COLOUR     31 /* red; then green, yellow, blue, magenta and cyan */
#define COLOURS          6

struct bytes {
    char *data;
    size_t begin, end, capacity;
};

struct line_source {
    int fd;            /* -1: at its end, or not attached */
    int bytes_left;    /* read no more than this; -1: no limit */
    struct bytes line; /* the beginning of a line whose end has not come */
};

struct line_sink {
    int fd; /* -1: could not be written; what comes is thrown away */
    bool coloured, is_socket;
    struct bytes pending;
};

/* The ranks' pipes: rank after rank, one for each stream. */
static struct line_source sources[KOLO_RANKS_MAX * TAGGED_STREAMS];
static int source_count, open_sources;
static int first_tag;                 /* of the first rank */
static int ready_fds[TAGGED_STREAMS]; /* epoll over the pipes of each stream */
static struct line_sink sinks[TAGGED_STREAMS] = {{.fd = STDOUT_FILENO}, {.fd = STDERR_FILENO}};
static struct line_sink *sink_of_stream[TAGGED_STREAMS] = {&sinks[0], &sinks[1]};

static int index_of(const struct line_source *source) {
    return (int)(source - sources);
}

static size_t bytes_used(const struct bytes *bytes) {
    return bytes->end - bytes->begin;
}

/* The ranks cannot go on without their output, and they end with kolorun. */
static void out_of_memory(void) {
    static const char text[] = "kolorun: out of memory for the ranks' output\n";
    ssize_t ignored = write(sink_of_stream[1]->fd, text, sizeof text - 1);
    (void)ignored;
    _exit(125);
}

static void bytes_append(struct bytes *bytes, const void *data, size_t count) {
    if (count == 0)
        return;
    if (bytes->begin == bytes->end)
        bytes->begin = bytes->end = 0;
    if (bytes->capacity - bytes->end < count && bytes->begin > bytes->capacity / 2) {
        memmove(bytes->data, bytes->data + bytes->begin, bytes_used(bytes));
        bytes->end -= bytes->begin;
        bytes->begin = 0;
    }
    if (bytes->capacity - bytes->end < count) {
        size_t capacity = bytes->capacity < BUFFER_BYTES_MIN ? BUFFER_BYTES_MIN : bytes->capacity;
        while (capacity - bytes->end < count)
            capacity *= 2;
        char *grown = realloc(bytes->data, capacity);
        if (grown == NULL)
            out_of_memory();
        bytes->data = grown;
        bytes->capacity = capacity;
    }
    memcpy(bytes->data + bytes->end, data, count);
    bytes->end += count;
}

/* Passes one line on, which begins with what the source has kept; it gets a newline if it has none. */
static void line_emit(struct line_source *source, const char *rest, size_t rest_bytes) {
    struct line_sink *sink = sink_of_stream[index_of(source) % TAGGED_STREAMS];
    if (sink->fd >= 0) {
        char tag[32];
        const int rank = first_tag + index_of(source) / TAGGED_STREAMS;
        int tag_bytes = sink->coloured
                            ? snprintf(tag, sizeof tag, "\033[%dm[%d]\033[0m ", FIRST_COLOUR + rank % COLOURS, rank)
                            : snprintf(tag, sizeof tag, "[%d] ", rank);
        bytes_append(&sink->pending, tag, (size_t)tag_bytes);
        bytes_append(&sink->pending, source->line.data + source->line.begin, bytes_used(&source->line));
        bytes_append(&sink->pending, rest, rest_bytes);
        if (rest_bytes == 0 || rest[rest_bytes - 1] != '\n')
            bytes_append(&sink->pending, "\n", 1);
    }
    source->line.begin = source->line.end = 0;
}

/* A child on its way to exec may hold the pipe, too, which epoll would go on to report. */
static void source_close(struct line_source *source) {
    (void)epoll_ctl(ready_fds[index_of(source) % TAGGED_STREAMS], EPOLL_CTL_DEL, source->fd, NULL);
    if (bytes_used(&source->line) > 0)
        line_emit(source, "", 0);
    free(source->line.data);
    source->line = (struct bytes){0};
    close(source->fd);
    source->fd = -1;
    open_sources--;
}

static void source_take(struct line_source *source, const char *data, size_t count) {
    while (count > 0) {
        const char *newline = memchr(data, '\n', count);
        size_t line_bytes = newline != NULL ? (size_t)(newline - data) + 1 : count;
        if (newline != NULL)
            line_emit(source, data, line_bytes);
        else
            bytes_append(&source->line, data, line_bytes);
        if (bytes_used(&source->line) >= LINE_BYTES_MAX)
            line_emit(source, "", 0);
        data += line_bytes;
        count -= line_bytes;
    }
}

static void source_read(struct line_source *source) {
    static char read_buffer[READ_BYTES];
    size_t wanted = READ_BYTES;
    if (source->bytes_left >= 0 && source->bytes_left < READ_BYTES)
        wanted = (size_t)source->bytes_left;
    ssize_t count = read(source->fd, read_buffer, wanted);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (count > 0) {
        source_take(source, read_buffer, (size_t)count);
        if (source->bytes_left > 0)
            source->bytes_left -= (int)count;
    }
    if (count <= 0 || source->bytes_left == 0)
        source_close(source);
}

static void stream_read(int stream) {
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(ready_fds[stream], events, EVENTS_MAX, 0);
    for (int i = 0; i < count && bytes_used(&sink_of_stream[stream]->pending) < SINK_BYTES_FULL; i++)
        source_read(&sources[events[i].data.u32]);
}

/* Writes some of what is pending; without O_NONBLOCK, a pipe that polls as writable takes PIPE_BUF bytes. Returns how
 * many, or a negative errno. */
static ssize_t sink_write(struct line_sink *sink) {
    const char *data = sink->pending.data + sink->pending.begin;
    const size_t count = bytes_used(&sink->pending) < PIPE_BUF ? bytes_used(&sink->pending) : PIPE_BUF;
    const ssize_t written =
        sink->is_socket ? send(sink->fd, data, count, MSG_DONTWAIT | MSG_NOSIGNAL) : write(sink->fd, data, count);
    if (written < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    sink->pending.begin += (size_t)written;
    return written;
}

static bool sink_is_ready(const struct line_sink *sink) {
    struct pollfd output = {.fd = sink->fd, .events = POLLOUT};
    return bytes_used(&sink->pending) > 0 && poll(&output, 1, 0) > 0 && output.revents == POLLOUT;
}

/* Puts a line of kolorun's own between the lines of standard error, and writes what can be written at once: kolorun may
 * be about to end. The rest, and errors, are for tagged_output_service. */
static void message_put(const char *line) {
    struct line_sink *sink = sink_of_stream[1];
    if (sink->fd < 0)
        return;
    bytes_append(&sink->pending, line, strlen(line));
    while (sink_is_ready(sink) && sink_write(sink) > 0)
        ; /* ends with what is pending */
}

/* Others write to a pipe or terminal, too, and may fill it behind poll's back: opens it anew, not to block then. */
static void sink_open(struct line_sink *sink) {
    char path[32];
    struct stat found;
    sink->coloured = terminal_has_colour(sink->fd);
    if (fstat(sink->fd, &found) != 0)
        return;
    sink->is_socket = S_ISSOCK(found.st_mode);
    if (!isatty(sink->fd) && !S_ISFIFO(found.st_mode))
        return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", sink->fd);
    const int fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    sink->fd = fd >= 0 ? fd : sink->fd;
}

static bool same_file(int a, int b) {
    struct stat a_stat, b_stat;
    return fstat(a, &a_stat) == 0 && fstat(b, &b_stat) == 0 && a_stat.st_dev == b_stat.st_dev &&
           a_stat.st_ino == b_stat.st_ino;
}

int tagged_output_open(int ranks, int first_rank) {
    first_tag = first_rank;
    source_count = ranks * TAGGED_STREAMS;
    for (int i = 0; i < source_count; i++)
        sources[i].fd = -1;
    if (same_file(STDOUT_FILENO, STDERR_FILENO))
        sink_of_stream[1] = &sinks[0];
    messages_redirect(message_put);
    for (int stream = 0; stream < TAGGED_STREAMS; stream++) {
        sink_open(&sinks[stream]);
        ready_fds[stream] = epoll_create1(EPOLL_CLOEXEC);
        if (ready_fds[stream] < 0)
            return -errno;
    }
    return 0;
}

/* Limits a source to what lies in its pipe now, whoever else may hold it open. */
static void source_limit(struct line_source *source) {
    int bytes_in_pipe = 0;
    if (ioctl(source->fd, FIONREAD, &bytes_in_pipe) == 0 && bytes_in_pipe > 0)
        source->bytes_left = bytes_in_pipe;
    else
        source_close(source);
}

static void source_drain(struct line_source *source) {
    if (source->fd >= 0)
        source_limit(source);
    while (source->fd >= 0) /* ends: nobody else reads, so that the bytes are there */
        source_read(source);
}

static int source_open(int index, int *write_end) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)index};
    if (fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0 ||
        epoll_ctl(ready_fds[index % TAGGED_STREAMS], EPOLL_CTL_ADD, ends[0], &event) != 0) {
        int error = errno;
        close(ends[0]);
        close(ends[1]);
        return -error;
    }
    sources[index] = (struct line_source){.fd = ends[0], .bytes_left = -1};
    open_sources++;
    *write_end = ends[1];
    return 0;
}

int tagged_output_attach(int rank, int write_ends[TAGGED_STREAMS]) {
    const int first = rank * TAGGED_STREAMS;
    for (int stream = 0; stream < TAGGED_STREAMS; stream++)
        source_drain(&sources[first + stream]);
    int rc = source_open(first, &write_ends[0]);
    if (rc < 0)
        return rc;
    rc = source_open(first + 1, &write_ends[1]);
    if (rc < 0)
        close(write_ends[0]);
    return rc;
}

void tagged_output_prepare(struct pollfd fds[TAGGED_POLL_FDS]) {
    for (int stream = 0; stream < TAGGED_STREAMS; stream++) {
        const struct line_sink *sink = &sinks[stream];
        const bool full = bytes_used(&sink_of_stream[stream]->pending) >= SINK_BYTES_FULL;
        const bool pending = bytes_used(&sink->pending) > 0;
        fds[stream] = (struct pollfd){.fd = full ? -1 : ready_fds[stream], .events = POLLIN};
        fds[TAGGED_STREAMS + stream] = (struct pollfd){.fd = pending ? sink->fd : -1, .events = POLLOUT};
    }
}

int tagged_output_service(const struct pollfd fds[TAGGED_POLL_FDS], int *stream) {
    int rc = 0;
    for (int i = 0; i < TAGGED_STREAMS; i++) {
        if (fds[i].fd >= 0 && fds[i].revents != 0)
            stream_read(i);
        if (fds[TAGGED_STREAMS + i].fd < 0 || fds[TAGGED_STREAMS + i].revents == 0)
            continue;
        const ssize_t written = sink_write(&sinks[i]);
        if (written < 0) {
            sinks[i].pending.begin = sinks[i].pending.end;
            sinks[i].fd = -1;
            rc = (int)written;
            *stream = STDOUT_FILENO + i;
        }
    }
    return rc;
}

void tagged_output_finish(void) {
    for (int i = 0; i < source_count; i++)
        if (sources[i].fd >= 0)
            source_limit(&sources[i]);
}

bool tagged_output_busy(void) {
    return open_sources > 0 || bytes_used(&sinks[0].pending) > 0 || bytes_used(&sinks[1].pending) > 0;
}
