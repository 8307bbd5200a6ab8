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
    int fd; /* -1: at its end, or not attached */
    int rank;
    int stream;        /* 0 or 1 */
    int bytes_left;    /* read no more than this; -1: no limit */
    struct bytes line; /* the beginning of a line whose end has not come */
};

struct line_sink {
    int fd; /* -1: could not be written; what comes is thrown away */
    bool coloured;
    struct bytes pending;
};

struct tagged_output {
    int first_rank;
    int source_count; /* of them, source_count / TAGGED_STREAMS for each stream */
    int open_sources;
    struct line_source sources[KOLO_RANKS_MAX * TAGGED_STREAMS];
    int ready_fds[TAGGED_STREAMS]; /* epoll over the pipes of each stream */
    struct line_sink sinks[TAGGED_STREAMS];
    struct line_sink *sink_of_stream[TAGGED_STREAMS];
    char read_buffer[READ_BYTES];
};

static size_t bytes_used(const struct bytes *bytes) {
    return bytes->end - bytes->begin;
}

/* The ranks cannot go on without their output, and they end with kolorun. */
static void out_of_memory(void) {
    static const char text[] = "kolorun: out of memory for the ranks' output\n";
    ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
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
static void line_emit(struct tagged_output *output, struct line_source *source, const char *rest, size_t rest_bytes) {
    struct line_sink *sink = output->sink_of_stream[source->stream];
    if (sink->fd >= 0) {
        char tag[32];
        const int rank = output->first_rank + source->rank;
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

static void source_close(struct tagged_output *output, struct line_source *source) {
    if (bytes_used(&source->line) > 0)
        line_emit(output, source, "", 0);
    free(source->line.data);
    source->line = (struct bytes){0};
    close(source->fd);
    source->fd = -1;
    output->open_sources--;
}

static void source_take(struct tagged_output *output, struct line_source *source, const char *data, size_t count) {
    while (count > 0) {
        const char *newline = memchr(data, '\n', count);
        size_t line_bytes = newline != NULL ? (size_t)(newline - data) + 1 : count;
        if (newline != NULL)
            line_emit(output, source, data, line_bytes);
        else
            bytes_append(&source->line, data, line_bytes);
        if (bytes_used(&source->line) >= LINE_BYTES_MAX)
            line_emit(output, source, "", 0);
        data += line_bytes;
        count -= line_bytes;
    }
}

static void source_read(struct tagged_output *output, struct line_source *source) {
    size_t wanted = READ_BYTES;
    if (source->bytes_left >= 0 && source->bytes_left < READ_BYTES)
        wanted = (size_t)source->bytes_left;
    ssize_t count = read(source->fd, output->read_buffer, wanted);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (count > 0) {
        source_take(output, source, output->read_buffer, (size_t)count);
        if (source->bytes_left > 0)
            source->bytes_left -= (int)count;
    }
    if (count <= 0 || source->bytes_left == 0)
        source_close(output, source);
}

static void stream_read(struct tagged_output *output, int stream) {
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(output->ready_fds[stream], events, EVENTS_MAX, 0);
    for (int i = 0; i < count && bytes_used(&output->sink_of_stream[stream]->pending) < SINK_BYTES_FULL; i++)
        source_read(output, &output->sources[events[i].data.u32]);
}

/* A pipe that polls as writable takes PIPE_BUF bytes without blocking. */
static int sink_write(struct line_sink *sink) {
    size_t count = bytes_used(&sink->pending) < PIPE_BUF ? bytes_used(&sink->pending) : PIPE_BUF;
    ssize_t written = write(sink->fd, sink->pending.data + sink->pending.begin, count);
    if (written >= 0) {
        sink->pending.begin += (size_t)written;
        return 0;
    }
    if (errno == EAGAIN || errno == EINTR)
        return 0;
    int error = errno;
    sink->pending.begin = sink->pending.end;
    sink->fd = -1;
    return -error;
}

static bool same_file(int a, int b) {
    struct stat a_stat, b_stat;
    return fstat(a, &a_stat) == 0 && fstat(b, &b_stat) == 0 && a_stat.st_dev == b_stat.st_dev &&
           a_stat.st_ino == b_stat.st_ino;
}

int tagged_output_create(struct tagged_output **output, int ranks, int first_rank) {
    static struct tagged_output only = {.sinks = {{.fd = STDOUT_FILENO}, {.fd = STDERR_FILENO}}};
    only.first_rank = first_rank;
    only.source_count = ranks * TAGGED_STREAMS;
    for (int i = 0; i < only.source_count; i++)
        only.sources[i].fd = -1;
    for (int stream = 0; stream < TAGGED_STREAMS; stream++) {
        only.sinks[stream].coloured = terminal_has_colour(only.sinks[stream].fd);
        only.sink_of_stream[stream] = &only.sinks[stream];
        only.ready_fds[stream] = epoll_create1(EPOLL_CLOEXEC);
        if (only.ready_fds[stream] < 0)
            return -errno;
    }
    if (same_file(STDOUT_FILENO, STDERR_FILENO))
        only.sink_of_stream[1] = &only.sinks[0];
    *output = &only;
    return 0;
}

/* Limits a source to what lies in its pipe now, whoever else may hold it open. */
static void source_limit(struct tagged_output *output, struct line_source *source) {
    int bytes_in_pipe = 0;
    if (ioctl(source->fd, FIONREAD, &bytes_in_pipe) == 0 && bytes_in_pipe > 0)
        source->bytes_left = bytes_in_pipe;
    else
        source_close(output, source);
}

static void source_drain(struct tagged_output *output, struct line_source *source) {
    if (source->fd >= 0)
        source_limit(output, source);
    while (source->fd >= 0) /* ends: nobody else reads, so that the bytes are there */
        source_read(output, source);
}

static int source_open(struct tagged_output *output, int rank, int stream, int *write_end) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    uint32_t index = (uint32_t)(rank * TAGGED_STREAMS + stream);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = index};
    if (fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0 ||
        epoll_ctl(output->ready_fds[stream], EPOLL_CTL_ADD, ends[0], &event) != 0) {
        int error = errno;
        close(ends[0]);
        close(ends[1]);
        return -error;
    }
    output->sources[index] = (struct line_source){.fd = ends[0], .rank = rank, .stream = stream, .bytes_left = -1};
    output->open_sources++;
    *write_end = ends[1];
    return 0;
}

int tagged_output_attach(struct tagged_output *output, int rank, int write_ends[TAGGED_STREAMS]) {
    for (int stream = 0; stream < TAGGED_STREAMS; stream++)
        source_drain(output, &output->sources[rank * TAGGED_STREAMS + stream]);
    int rc = source_open(output, rank, 0, &write_ends[0]);
    if (rc < 0)
        return rc;
    rc = source_open(output, rank, 1, &write_ends[1]);
    if (rc < 0)
        close(write_ends[0]);
    return rc;
}

void tagged_output_prepare(const struct tagged_output *output, struct pollfd fds[TAGGED_POLL_FDS]) {
    for (int stream = 0; stream < TAGGED_STREAMS; stream++) {
        bool full = bytes_used(&output->sink_of_stream[stream]->pending) >= SINK_BYTES_FULL;
        const struct line_sink *sink = &output->sinks[stream];
        bool pending = bytes_used(&sink->pending) > 0;
        fds[stream] = (struct pollfd){.fd = full ? -1 : output->ready_fds[stream], .events = POLLIN};
        fds[TAGGED_STREAMS + stream] = (struct pollfd){.fd = pending ? sink->fd : -1, .events = POLLOUT};
    }
}

int tagged_output_service(struct tagged_output *output, const struct pollfd fds[TAGGED_POLL_FDS], int *stream) {
    int rc = 0;
    for (int i = 0; i < TAGGED_STREAMS; i++) {
        if (fds[i].fd >= 0 && fds[i].revents != 0)
            stream_read(output, i);
        if (fds[TAGGED_STREAMS + i].fd < 0 || fds[TAGGED_STREAMS + i].revents == 0)
            continue;
        int write_rc = sink_write(&output->sinks[i]);
        if (write_rc < 0) {
            *stream = STDOUT_FILENO + i;
            rc = write_rc;
        }
    }
    return rc;
}

void tagged_output_finish(struct tagged_output *output) {
    for (int i = 0; i < output->source_count; i++) {
        if (output->sources[i].fd >= 0)
            source_limit(output, &output->sources[i]);
    }
}

bool tagged_output_busy(const struct tagged_output *output) {
    return output->open_sources > 0 || bytes_used(&output->sinks[0].pending) > 0 ||
           bytes_used(&output->sinks[1].pending) > 0;
}

void tagged_output_message(void *to, const char *line) {
    struct line_sink *sink = ((struct tagged_output *)to)->sink_of_stream[1];
    if (sink->fd >= 0)
        bytes_append(&sink->pending, line, strlen(line));
}
