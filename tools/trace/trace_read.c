#include "trace_read.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "printed_text.h"

/* What has been written is read by other builds. */
_Static_assert(sizeof(struct kolo_trace_header) == 512 && offsetof(struct kolo_trace_header, rank) == 36 &&
                   offsetof(struct kolo_trace_header, host) == 80 && offsetof(struct kolo_trace_header, ended) == 336,
               "the header of format 1");
_Static_assert(sizeof(struct kolo_trace_comm) == 80 && offsetof(struct kolo_trace_comm, id) == 32 &&
                   offsetof(struct kolo_trace_comm, made_by) == 64,
               "a communicator of format 1");
_Static_assert(sizeof(struct kolo_trace_block) == 64 && offsetof(struct kolo_trace_block, depth) == 28,
               "a block of format 1");
_Static_assert(sizeof(struct kolo_trace_event) == 32 && offsetof(struct kolo_trace_event, a) == 16,
               "an event of format 1");

#define NS_MAX      ((int64_t)1 << 62)
#define YEARS_NS    (10 * 365 * (int64_t)86400 * 1000000000) /* from a trace's begin: no event is so far away */
#define BLOCKS_MAX  (1u << 20)
#define BLOCK_BYTES (1u << 30)

/* A block of a file: events[0 .. count-1] from `at` on. */
typedef struct block {
    struct kolo_trace_block is;
    size_t at;
    size_t count;
} block;

typedef struct reader {
    trace_process *process;
    const unsigned char *bytes;
    size_t length;
    block *blocks;
    size_t block_count;
    trace_clock clock;
    char *why;
} reader;

static bool refuse(const reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool refuse(const reader *reader, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reader->why, TRACE_WHY_BYTES, format, arguments);
    va_end(arguments);
    return false;
}

void trace_text_clean(char *text) {
    for (unsigned char *at = (unsigned char *)text; *at; at++) {
        const int bytes = letter_bytes((const char *)at);
        const bool is_control = *at < 0x20 || *at == 0x7f || (at[0] == 0xc2 && at[1] < 0xa0);
        if (bytes > 0 && !is_control)
            at += bytes - 1;
        else if (*at >= 0x80 || is_control)
            *at = '?';
    }
}

static void end_text(char *text, size_t bytes) {
    text[bytes - 1] = '\0';
    trace_text_clean(text);
}

static bool read_header(reader *reader) {
    struct kolo_trace_header *header = &reader->process->header;
    static const char none[sizeof header->magic];
    if (reader->length < sizeof *header)
        return refuse(reader, "is no trace, or was cut: it has %zu bytes of a header's %zu", reader->length,
                      sizeof *header);
    memcpy(header, reader->bytes, sizeof *header);
    if (memcmp(header->magic, none, sizeof none) == 0)
        return refuse(reader, "is empty: the process had not begun to write");
    if (memcmp(header->magic, KOLO_TRACE_MAGIC, sizeof header->magic) != 0)
        return refuse(reader, "is no trace of kolo");
    if (header->format == __builtin_bswap32(KOLO_TRACE_FORMAT))
        return refuse(reader, "is of a machine with another byte order: read it on one like that");
    if (header->format != KOLO_TRACE_FORMAT)
        return refuse(reader,
                      "has format %" PRIu32 "; this kolo-trace reads format %u: use that of the version of kolo "
                      "that wrote it",
                      header->format, KOLO_TRACE_FORMAT);
    if (header->header_bytes != sizeof *header || header->comms != KOLO_TRACE_COMMS ||
        header->block_bytes < sizeof(struct kolo_trace_block) + sizeof(struct kolo_trace_event) ||
        header->block_bytes > BLOCK_BYTES || header->blocks > BLOCKS_MAX)
        return refuse(reader, "has a damaged header: its sizes make no sense");
    if (header->ranks < 1 || header->ranks > TRACE_RANKS_MAX || header->rank < 0 || header->rank >= header->ranks ||
        header->nodes < 1 || header->nodes > TRACE_RANKS_MAX || header->node < 0 || header->node >= header->nodes)
        return refuse(reader,
                      "has a damaged header: it is of rank %" PRId32 " of %" PRId32 ", on machine %" PRId32
                      " of %" PRId32,
                      header->rank, header->ranks, header->node, header->nodes);
    if (header->began_ns < 0 || header->began_ns > NS_MAX / 2 || header->began_utc_ns < 0 ||
        header->began_utc_ns > NS_MAX)
        return refuse(reader, "has a damaged header: it began at no time");
    end_text(header->host, sizeof header->host);
    end_text(header->job, sizeof header->job);
    end_text(header->program, sizeof header->program);
    return true;
}

static size_t blocks_at(void) {
    return sizeof(struct kolo_trace_header) + KOLO_TRACE_COMMS * sizeof(struct kolo_trace_comm);
}

static int by_track(const void *left, const void *right) {
    const struct kolo_trace_block *a = &((const block *)left)->is, *b = &((const block *)right)->is;
    if (a->track != b->track)
        return a->track < b->track ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

/* Notes the block at `index` as far as the file has it. */
static void read_block(reader *reader, uint32_t index) {
    const struct kolo_trace_header *header = &reader->process->header;
    trace_damage *damage = &reader->process->damage;
    const uint64_t at = blocks_at() + (uint64_t)index * header->block_bytes,
                   begin = at + sizeof(struct kolo_trace_block);
    const size_t room = (header->block_bytes - sizeof(struct kolo_trace_block)) / sizeof(struct kolo_trace_event);
    block found = {.at = (size_t)begin};
    if (begin > reader->length) {
        damage->blocks_cut += index < header->taken;
        return;
    }
    memcpy(&found.is, reader->bytes + at, sizeof found.is);
    if (found.is.number == 0)
        return;
    if (found.is.used > room || found.is.thread >= KOLO_TRACE_THREADS) {
        damage->blocks_wrong++;
        found.is.used = found.is.used > room ? room : found.is.used;
        found.is.thread = found.is.thread >= KOLO_TRACE_THREADS ? KOLO_TRACE_PROGRAM : found.is.thread;
    }
    const size_t there = (reader->length - (size_t)begin) / sizeof(struct kolo_trace_event);
    found.count = found.is.used < there ? (size_t)found.is.used : there;
    damage->events_cut += found.is.used - found.count;
    reader->blocks[reader->block_count++] = found;
}

static bool read_blocks(reader *reader) {
    const struct kolo_trace_header *header = &reader->process->header;
    const size_t whole = reader->length > blocks_at() ? (reader->length - blocks_at()) / header->block_bytes + 1 : 0;
    const size_t there = header->blocks < whole ? header->blocks : whole;
    reader->blocks = calloc(there + 1, sizeof *reader->blocks);
    if (!reader->blocks)
        return refuse(reader, "needs more memory than there is");
    for (uint32_t i = 0; i < header->blocks; i++)
        read_block(reader, i);
    qsort(reader->blocks, reader->block_count, sizeof *reader->blocks, by_track);
    size_t kept = 0;
    for (size_t i = 0; i < reader->block_count; i++)
        if (kept == 0 || by_track(&reader->blocks[kept - 1], &reader->blocks[i]) != 0)
            reader->blocks[kept++] = reader->blocks[i];
        else
            reader->process->damage.blocks_wrong++;
    reader->block_count = kept;
    if (header->taken > header->blocks)
        reader->process->damage.blocks_overwritten = header->taken - header->blocks;
    reader->process->damage.events_lost = header->lost;
    return true;
}

static struct kolo_trace_event event_at(const reader *reader, const block *block, size_t index) {
    struct kolo_trace_event event;
    memcpy(&event, reader->bytes + block->at + index * sizeof event, sizeof event);
    return event;
}

/* Collects all pairs of both clocks. */
static bool read_clock(reader *reader, double ns_per_tick) {
    trace_process *process = reader->process;
    const struct kolo_trace_header *header = &process->header;
    size_t count = 1;
    for (size_t i = 0; i < reader->block_count; i++)
        for (size_t k = 0; k < reader->blocks[i].count; k++)
            count += event_at(reader, &reader->blocks[i], k).kind == KOLO_TRACE_CLOCK;
    trace_clock_pair *pairs = calloc(count, sizeof *pairs);
    if (!pairs)
        return refuse(reader, "needs more memory than there is");
    pairs[0] = (trace_clock_pair){(uint64_t)header->began_ticks, header->began_ns};
    count = 1;
    for (size_t i = 0; i < reader->block_count && header->has_ticks; i++)
        for (size_t k = 0; k < reader->blocks[i].count; k++) {
            const struct kolo_trace_event event = event_at(reader, &reader->blocks[i], k);
            if (event.kind == KOLO_TRACE_CLOCK && event.a + YEARS_NS - (uint64_t)header->began_ns < 2 * YEARS_NS)
                pairs[count++] = (trace_clock_pair){event.time, (int64_t)event.a};
        }
    const bool known = trace_clock_set(&reader->clock, pairs, count, ns_per_tick);
    process->ns_per_tick = known ? reader->clock.ns_per_tick : 0;
    return true;
}

static int64_t ns_of(reader *reader, uint64_t time) {
    if (reader->process->header.has_ticks)
        return trace_clock_ns(&reader->clock, time);
    return time < (uint64_t)NS_MAX ? (int64_t)time : NS_MAX;
}

static bool is_near(const reader *reader, int64_t ns) {
    const int64_t from_begin = ns - reader->process->header.began_ns;
    return from_begin > -YEARS_NS && from_begin < YEARS_NS;
}

/* Whether it may be a difference of two clocks. */
static bool is_offset(uint64_t ns) {
    return ns + YEARS_NS <= 2 * YEARS_NS;
}

static void read_offset(reader *reader) {
    trace_process *process = reader->process;
    const struct kolo_trace_header *header = &process->header;
    const int64_t ns = ns_of(reader, header->offset_time);
    const bool good = header->offset_time && is_near(reader, ns) && is_offset((uint64_t)header->offset_ns);
    process->offset_at_ns = good ? ns : INT64_MIN;
}

static void read_comms(reader *reader) {
    trace_process *process = reader->process;
    for (size_t i = 0; i < KOLO_TRACE_COMMS; i++) {
        const size_t at = sizeof(struct kolo_trace_header) + i * sizeof(struct kolo_trace_comm);
        trace_comm *comm = &process->comms[i];
        *comm = (trace_comm){.machine_comm = -1};
        if (reader->length < at + sizeof comm->is)
            continue;
        memcpy(&comm->is, reader->bytes + at, sizeof comm->is);
        const struct kolo_trace_comm *is = &comm->is;
        if (is->time == 0)
            continue;
        comm->ns = ns_of(reader, is->time);
        comm->present =
            is->id % KOLO_TRACE_COMMS == i && is->size >= 1 && is->size <= TRACE_RANKS_MAX && is->rank >= 0 &&
            is->rank < is->size && is->global_size >= is->size && is->global_size <= TRACE_RANKS_MAX &&
            is->global_rank >= 0 && is->global_rank < is->global_size && is->node >= 0 && is->node < is->nodes &&
            is->nodes <= TRACE_RANKS_MAX && is->lane >= 0 && is->lane < TRACE_RANKS_MAX && is_near(reader, comm->ns);
        process->damage.blocks_wrong += !comm->present;
        end_text(comm->is.made_by, sizeof comm->is.made_by);
    }
}

/* The header has the process's place in its first communicator, which may be one of its own: what people call the job's
 * ranks are those of the largest one. */
static void take_place(trace_process *process) {
    struct kolo_trace_header *header = &process->header;
    for (size_t i = 0; i < KOLO_TRACE_COMMS; i++) {
        const struct kolo_trace_comm *is = &process->comms[i].is;
        if (!process->comms[i].present || is->global_size <= header->ranks)
            continue;
        header->rank = is->global_rank;
        header->ranks = is->global_size;
        header->node = is->node;
        header->nodes = is->nodes;
    }
}

static bool makes_sense(const struct kolo_trace_event *event) {
    switch (event->kind) {
    case KOLO_TRACE_NONE:
        return false;
    case KOLO_TRACE_STAGE:
        return event->detail < KOLO_TRACE_STAGES;
    case KOLO_TRACE_SPAN_BEGIN:
    case KOLO_TRACE_SPAN_END:
        return event->detail < KOLO_TRACE_SPANS;
    default:
        return event->kind < KOLO_TRACE_KINDS && event->rank >= -1;
    }
}

/* Adds an event, or counts it as wrong. */
static void add_event(reader *reader, const struct kolo_trace_event *from, trace_track *track) {
    trace_process *process = reader->process;
    trace_event *to = &process->events[track->first + track->count];
    const bool says_begin =
        from->kind == KOLO_TRACE_WAIT || from->kind == KOLO_TRACE_WAIT_BEGIN || from->kind == KOLO_TRACE_EXCHANGE;
    *to = (trace_event){.ns = ns_of(reader, from->time),
                        .a = from->a,
                        .b = from->b,
                        .comm = from->comm,
                        .rank = from->rank,
                        .kind = from->kind,
                        .detail = from->detail,
                        .dtype = from->dtype,
                        .op = from->op};
    if (!makes_sense(from) || !is_near(reader, to->ns)) {
        process->damage.events_wrong++;
        return;
    }
    if (to->ns < to[-1].ns) { /* a block's begin is before it */
        process->damage.events_wrong++;
        to->ns = to[-1].ns;
    }
    if (says_begin) {
        const int64_t began = ns_of(reader, from->a);
        to->a = (uint64_t)(is_near(reader, began) && began <= to->ns && began >= 0 ? began : to->ns);
    }
    if (from->kind == KOLO_TRACE_OFFSET && !is_offset(from->a))
        process->damage.events_wrong++;
    else
        track->count++;
}

/* Its first event that makes sense says where the block begins. */
static int64_t block_ns(reader *reader, const block *block) {
    for (size_t k = 0; k < block->count; k++) {
        const struct kolo_trace_event event = event_at(reader, block, k);
        const int64_t ns = ns_of(reader, event.time);
        if (makes_sense(&event) && is_near(reader, ns))
            return ns;
    }
    return reader->process->header.began_ns;
}

static trace_track *track_of(reader *reader, const block *block, size_t used) {
    trace_process *process = reader->process;
    trace_track *last = process->track_count ? &process->tracks[process->track_count - 1] : NULL;
    if (last && last->number == block->is.track)
        return last;
    if (process->track_count == TRACE_TRACKS_MAX)
        return NULL;
    trace_track *track = &process->tracks[process->track_count++];
    *track = (trace_track){.number = block->is.track, .thread = block->is.thread, .first = used};
    for (const trace_track *other = process->tracks; other < track; other++)
        track->of_its_thread += other->thread == track->thread;
    return track;
}

static bool read_events(reader *reader) {
    trace_process *process = reader->process;
    size_t count = 0;
    for (size_t i = 0; i < reader->block_count; i++)
        count += reader->blocks[i].count + 1;
    process->events = calloc(count + 1, sizeof *process->events);
    const size_t tracks = reader->block_count < TRACE_TRACKS_MAX ? reader->block_count : TRACE_TRACKS_MAX;
    process->tracks = calloc(tracks + 1, sizeof *process->tracks);
    if (!process->events || !process->tracks)
        return refuse(reader, "needs more memory than there is");
    process->first_ns = process->last_ns = process->header.began_ns;
    bool any = false;
    size_t used = 0;
    for (size_t i = 0; i < reader->block_count; i++) {
        const block *block = &reader->blocks[i];
        trace_track *track = track_of(reader, block, used);
        if (!track) {
            process->damage.blocks_wrong++;
            continue;
        }
        trace_event *begin = &process->events[used];
        *begin = (trace_event){.ns = block_ns(reader, block), .a = block->is.depth, .b = track->count == 0};
        if (track->count > 0 && begin->ns < begin[-1].ns)
            begin->ns = begin[-1].ns;
        track->count++;
        for (size_t k = 0; k < block->count; k++) {
            const struct kolo_trace_event event = event_at(reader, block, k);
            add_event(reader, &event, track);
        }
        used = track->first + track->count;
        if (used > 0 && (!any || begin->ns < process->first_ns))
            process->first_ns = begin->ns;
        if (!any || process->events[used - 1].ns > process->last_ns)
            process->last_ns = process->events[used - 1].ns;
        any = true;
    }
    return true;
}

bool trace_read(trace_process *process, const void *bytes, size_t length, double ns_per_tick,
                char why[TRACE_WHY_BYTES]) {
    reader reader = {.process = process, .bytes = bytes, .length = length, .why = why};
    *process = (trace_process){.path = process->path};
    bool good = read_header(&reader) && read_blocks(&reader) && read_clock(&reader, ns_per_tick);
    if (good) {
        read_offset(&reader);
        read_comms(&reader);
        take_place(process);
        good = read_events(&reader);
    }
    free(reader.blocks);
    free(reader.clock.pairs);
    if (!good)
        trace_process_free(process);
    return good;
}

void trace_process_free(trace_process *process) {
    free(process->events);
    free(process->tracks);
    process->events = NULL;
    process->tracks = NULL;
    process->track_count = 0;
}

const trace_comm *trace_comm_of(const trace_process *process, const trace_event *event) {
    const trace_comm *comm = &process->comms[event->comm % KOLO_TRACE_COMMS];
    return comm->present && (uint16_t)comm->is.id == event->comm ? comm : NULL;
}

const char *trace_thread_name(const trace_track *track, char text[TRACE_THREAD_NAME_BYTES]) {
    static const char *const names[KOLO_TRACE_THREADS] = {[KOLO_TRACE_PROGRAM] = "program",
                                                          [KOLO_TRACE_PROGRESS] = "progress",
                                                          [KOLO_TRACE_HELPER] = "lane helper",
                                                          [KOLO_TRACE_PROXY] = "proxy",
                                                          [KOLO_TRACE_SERVER] = "table server"};
    if (track->of_its_thread == 0)
        snprintf(text, TRACE_THREAD_NAME_BYTES, "%s", names[track->thread]);
    else
        snprintf(text, TRACE_THREAD_NAME_BYTES, "%s %d", names[track->thread], track->of_its_thread + 1);
    return text;
}
