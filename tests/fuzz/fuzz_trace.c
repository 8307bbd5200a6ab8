/* What another process could have written as its trace (tools/trace): what is read of it must be in range and in order,
 * and all that kolo-trace makes of it must come to an end, with as many ends as begins.
 *
 * Input: a byte of choices, then two halves, each a process's file. Choices: bit 0: a half begins with its header; bit
 * 1: with its magic, too; bit 2: with a communicator; bit 3: the rest are blocks as they stand in a file, otherwise
 * short events (see add_short_events); bit 4: times are ticks; bit 5: the processes are on two machines; bit 6: the
 * page is made, too, which takes longest. */
#include <string.h>

#include "trace_output.h"
#include "fuzz_target.h"

enum {
    BYTES_MAX = 4096,
    HEAD_BYTES = sizeof(struct kolo_trace_header) + KOLO_TRACE_COMMS * sizeof(struct kolo_trace_comm),
    ROOM = 8,
    BLOCK_BYTES = sizeof(struct kolo_trace_block) + ROOM * sizeof(struct kolo_trace_event),
    SHORT_BYTES = 8,
    BLOCKS = BYTES_MAX / SHORT_BYTES,
    FILE_BYTES = HEAD_BYTES + BYTES_MAX / SHORT_BYTES * BLOCK_BYTES
};

static uint8_t file[FILE_BYTES];

static size_t take(void *to, const uint8_t **data, size_t *bytes, size_t wanted) {
    const size_t taken = *bytes < wanted ? *bytes : wanted;
    memcpy(to, *data, taken);
    *data += taken;
    *bytes -= taken;
    return taken;
}

/* Eight bytes each: kind, detail, operation, rank, track and communicator, time since the last one, a, b. A kind beyond
 * all begins a block, of which the detail says how many spans are open. Returns the bytes of the blocks. */
static size_t add_short_events(const uint8_t *data, size_t bytes, uint64_t time) {
    uint64_t number = 0;
    struct kolo_trace_block block = {.used = ROOM};
    for (; bytes >= SHORT_BYTES; data += SHORT_BYTES, bytes -= SHORT_BYTES) {
        const bool is_block = data[0] > KOLO_TRACE_KINDS;
        if (is_block || number == 0 || block.used == ROOM) {
            block = (struct kolo_trace_block){.number = ++number,
                                              .track = is_block ? data[4] % 4 : block.track,
                                              .thread = is_block ? data[3] % KOLO_TRACE_THREADS : block.thread,
                                              .depth = is_block ? data[1] : 0};
        }
        uint8_t *at = file + HEAD_BYTES + (number - 1) * BLOCK_BYTES;
        if (!is_block) {
            time += (uint64_t)(int64_t)(int8_t)data[5] << (data[4] >> 5);
            const struct kolo_trace_event event = {
                .time = time,
                .kind = data[0],
                .detail = data[1],
                .dtype = data[2] % 16,
                .op = data[2] / 16,
                .comm = data[4] % 4,
                .rank = (int8_t)data[3],
                .a = data[0] == KOLO_TRACE_WAIT || data[0] == KOLO_TRACE_WAIT_BEGIN || data[0] == KOLO_TRACE_EXCHANGE ||
                             data[0] == KOLO_TRACE_CLOCK
                         ? time - data[6]
                         : data[6] * UINT64_C(0x0101010101010101) >> data[7] % 64,
                .b = data[7]};
            memcpy(at + sizeof block + block.used++ * sizeof event, &event, sizeof event);
        }
        memcpy(at, &block, sizeof block);
    }
    return number * BLOCK_BYTES;
}

/* Returns its bytes. */
static size_t make_file(const uint8_t *data, size_t bytes, uint8_t choice, int rank) {
    struct kolo_trace_header header = {.format = KOLO_TRACE_FORMAT,
                                       .header_bytes = sizeof header,
                                       .comms = KOLO_TRACE_COMMS,
                                       .block_bytes = BLOCK_BYTES,
                                       .blocks = BLOCKS,
                                       .rank = rank,
                                       .ranks = 2,
                                       .nodes = 2,
                                       .node = choice & 32 ? rank : 0,
                                       .has_ticks = (choice & 16) != 0,
                                       .began_ticks = 1000,
                                       .began_ns = 1000,
                                       .taken = BLOCKS,
                                       .job = "fuzz"};
    struct kolo_trace_comm comm = {
        .time = 1000, .file = 1, .identity = 2, .rank = rank, .size = 2, .global_rank = rank, .global_size = 2};
    memset(file, 0, sizeof file);
    if (choice & 1)
        take(&header, &data, &bytes, sizeof header);
    if (!(choice & 1) || !(choice & 2))
        memcpy(header.magic, KOLO_TRACE_MAGIC, sizeof header.magic);
    if (choice & 4)
        take(&comm, &data, &bytes, sizeof comm);
    memcpy(file, &header, sizeof header);
    memcpy(file + sizeof header + comm.id % KOLO_TRACE_COMMS * sizeof comm, &comm, sizeof comm);
    if (choice & 8)
        return HEAD_BYTES + take(file + HEAD_BYTES, &data, &bytes, bytes);
    return HEAD_BYTES + add_short_events(data, bytes, 1000);
}

static void check_process(const trace_process *process) {
    const struct kolo_trace_header *header = &process->header;
    REQUIRE(header->rank >= 0 && header->rank < header->ranks && header->node >= 0 && header->node < header->nodes);
    REQUIRE(memchr(header->job, '\0', sizeof header->job) && memchr(header->host, '\0', sizeof header->host));
    REQUIRE(process->first_ns <= process->last_ns);
    for (int t = 0; t < process->track_count; t++) {
        const trace_track *track = &process->tracks[t];
        REQUIRE(track->thread < KOLO_TRACE_THREADS && track->count > 0);
        REQUIRE(t == 0 || track->first == track[-1].first + track[-1].count);
        for (size_t i = track->first; i < track->first + track->count; i++) {
            const trace_event *event = &process->events[i];
            REQUIRE(event->kind < KOLO_TRACE_KINDS && event->ns >= process->first_ns && event->ns <= process->last_ns);
            REQUIRE(i == track->first || event->ns >= event[-1].ns);
        }
    }
}

static size_t count(const char *text, const char *word) {
    size_t found = 0;
    for (; (text = strstr(text, word)); text++)
        found++;
    return found;
}

static void check_output(const trace_figures *figures, bool page) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    REQUIRE(to);
    trace_timeline_write(to, figures);
    fputc('\0', to);
    trace_summary_write_json(to, figures);
    if (page)
        trace_page_write(to, figures);
    REQUIRE(fclose(to) == 0);
    REQUIRE(count(text, "{\"ph\":\"B\"") == count(text, "{\"ph\":\"E\"") && !strstr(text, "\"ts\":-"));
    REQUIRE(count(text, "{\"ph\":\"s\"") == count(text, "{\"ph\":\"f\""));
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    char why[TRACE_WHY_BYTES];
    if (bytes < 1 || bytes > BYTES_MAX)
        return 0;
    trace_job job = {.processes = calloc(2, sizeof *job.processes)};
    trace_figures figures = {0};
    const size_t half = (bytes - 1) / 2;
    REQUIRE(job.processes);
    for (int rank = 0; rank < 2; rank++) {
        trace_process *process = &job.processes[job.count];
        const size_t length = make_file(data + 1 + (size_t)rank * half, half, data[0], rank);
        memset(why, 'x', sizeof why);
        process->path = strdup("a.kolotrace");
        if (trace_read(process, file, length, 0, why)) {
            check_process(process);
            job.count++;
        } else {
            REQUIRE(memchr(why, '\0', sizeof why));
            free(process->path);
        }
    }
    if (job.count > 0) {
        REQUIRE(trace_job_align(&job) && trace_figures_make(&figures, &job));
        REQUIRE(job.begin_ns <= job.end_ns && figures.straggler < job.count);
        check_output(&figures, data[0] & 64);
    }
    trace_figures_free(&figures);
    trace_job_free(&job);
    return 0;
}
