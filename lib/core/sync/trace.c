/* Writing this process's trace. */
#include "sync/trace.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "kolo.h"
#include "base/clock.h"
#include "base/environment.h"
#include "base/file.h"
#include "base/status.h"
#include "sync/thread.h"

enum {
    BLOCK_BYTES = 16384,
    BLOCK_BYTES_SMALL = 4096, /* in traces of less than SMALL_BYTES */
    SMALL_BYTES = 1 << 20,
    CLOCK_GAP_BITS_MIN = 20, /* ticks between two looks of a thread at the clock, at first and in the end */
    CLOCK_GAP_BITS_MAX = 28,
    CLOCK_TRIES = 3,
    EVENTS_AHEAD = 8 /* whose cache line is fetched: later stores of the thread, which others wait for, come behind */
};

#define TRACE_BYTES     (INT64_C(4) << 20)
#define TRACE_BYTES_MIN (INT64_C(128) << 10)
#define TRACE_BYTES_MAX (INT64_C(1) << 32) /* as kolo-trace reads */

static_assert(sizeof(struct kolo_trace_event) == 32 && sizeof(struct kolo_trace_block) == 64 &&
                  offsetof(struct kolo_trace_event, a) == 16,
              "kolo_trace_write stores an event as four words");
static_assert(sizeof(struct kolo_trace_header) == 512 && sizeof(struct kolo_trace_comm) == 80, "no holes");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "so does kolo_trace_head");

kolo_atomic_u32 kolo_trace_mode;

/* The trace of the process. The common lock protects its beginning. */
static struct {
    struct kolo_trace_header *header;
    struct kolo_trace_comm *comms;
    uint8_t *blocks;
    kolo_atomic_u64 *owners; /* [blocks]: the thread that has the block, by the kernel's number; 0: none */
    size_t bytes;
    uint64_t process; /* forks before this process, as kolo_common_lock counts them, plus one; 0: no trace yet */
    kolo_atomic_u64 tracks;
    kolo_atomic_u64 next; /* the block to look at, counted on over all of them */
} trace;

/* What a thread writes to. */
struct writer {
    struct kolo_trace_event *next, *end; /* in the block; equal: the block is full, or there is none */
    struct kolo_trace_block *block;
    uint64_t used;        /* events in the block */
    uint64_t last_ticks;  /* of the last event */
    uint64_t clock_ticks; /* of the last look at the clock */
    uint64_t clock_gap;
    uint32_t index; /* of the block */
    uint32_t track; /* plus one; 0: not numbered yet */
    uint32_t depth; /* ranges and spans that are open */
    kolo_trace_thread thread;
};

static _Thread_local struct writer own;

static kolo_atomic_u64 *word(uint64_t *field) {
    return (kolo_atomic_u64 *)field;
}

/* Times. */

static inline __attribute__((always_inline)) uint64_t ticks(void) {
#if defined(__x86_64__)
    if (__builtin_expect(trace.header->has_ticks, 1))
        return __rdtsc();
#elif defined(__aarch64__)
    uint64_t count;
    __asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(count));
    return count;
#endif
    return (uint64_t)kolo_clock_ns();
}

uint64_t kolo_trace_ticks(void) {
    return ticks();
}

/* Whether the processor's counter runs at one rate and is the same on all processors. */
static bool can_use_ticks(void) {
#if defined(__x86_64__)
    char text[16] = "";
    const int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    const ssize_t got = kolo_file_read_at(fd, text, sizeof text - 1, 0);
    close(fd);
    return got >= 4 && strncmp(text, "tsc\n", 4) == 0;
#elif defined(__aarch64__)
    return true;
#else
    return false;
#endif
}

/* Reads the counter and the clock at the same time, or nearly so. */
static uint64_t read_both(int64_t *ns) {
    uint64_t best = 0, least = UINT64_MAX;
    for (int i = 0; i < CLOCK_TRIES; i++) {
        const uint64_t before = ticks();
        const int64_t now_ns = kolo_clock_ns();
        const uint64_t took = ticks() - before;
        if (took >= least)
            continue;
        least = took;
        best = before + took / 2;
        *ns = now_ns;
    }
    return best;
}

/* Blocks. */

/* Takes a block that no thread has, or one that has ended. */
static bool take(uint32_t index, uint64_t self) {
    const uint64_t owner = kolo_load_acquire(&trace.owners[index]);
    const bool is_free = owner == 0 || (syscall(SYS_tgkill, getpid(), (int)owner, 0) < 0 && errno == ESRCH);
    return is_free && kolo_compare_and_swap(&trace.owners[index], owner, self);
}

/* Takes the next block that it can, and returns its number, from 1; 0: there is none. */
static uint64_t take_next(uint64_t self, uint32_t *index) {
    for (uint32_t i = 0; i < trace.header->blocks; i++) {
        *index = (uint32_t)(kolo_fetch_add(&trace.next, 1) % trace.header->blocks);
        if (take(*index, self))
            return kolo_fetch_add(word(&trace.header->taken), 1) + 1;
    }
    return 0;
}

static inline __attribute__((always_inline)) void store_event(struct writer *writer, uint64_t time, uint64_t head,
                                                              uint64_t a, uint64_t b) {
    uint64_t *words = (uint64_t *)writer->next;
    kolo_fetch_line(writer->next + EVENTS_AHEAD);
    words[0] = writer->last_ticks = time;
    words[1] = head;
    words[2] = a;
    words[3] = b;
    writer->next++;
    kolo_show_release(word(&writer->block->used), ++writer->used);
}

static void note_clock(struct writer *writer) {
    int64_t ns = 0;
    writer->clock_ticks = read_both(&ns);
    if (writer->clock_gap < UINT64_C(1) << CLOCK_GAP_BITS_MAX)
        writer->clock_gap = writer->clock_gap ? 2 * writer->clock_gap : UINT64_C(1) << CLOCK_GAP_BITS_MIN;
    store_event(writer, writer->clock_ticks, kolo_trace_head(KOLO_TRACE_CLOCK, 0, 0, 0, 0, 0), (uint64_t)ns, 0);
}

static bool take_block(struct writer *writer) {
    const uint64_t self = (uint64_t)gettid();
    if (writer->block)
        kolo_store_release(&trace.owners[writer->index], 0); /* pairs with take */
    writer->block = NULL;
    writer->next = writer->end = NULL;
    const uint64_t number = take_next(self, &writer->index);
    if (number == 0) {
        kolo_fetch_add(word(&trace.header->lost), 1);
        return false;
    }
    if (!writer->track)
        writer->track = (uint32_t)kolo_fetch_add(&trace.tracks, 1) + 1;
    writer->block = (struct kolo_trace_block *)(trace.blocks + (size_t)writer->index * trace.header->block_bytes);
    writer->next = (struct kolo_trace_event *)(writer->block + 1);
    writer->end = (struct kolo_trace_event *)((uint8_t *)writer->block + trace.header->block_bytes);
    writer->used = 0;
    kolo_show_release(word(&writer->block->number), 0);
    kolo_show_release(word(&writer->block->used), 0);
    writer->block->track = writer->track - 1;
    writer->block->thread = writer->thread;
    writer->block->tid = (uint32_t)self;
    writer->block->depth = writer->depth;
    kolo_show_release(word(&writer->block->number), number);
    note_clock(writer);
    return true;
}

/* Makes room for an event, with the clock before it if that is due. */
static __attribute__((noinline)) bool make_room(struct writer *writer, bool is_due) {
    if (writer->next == writer->end)
        return take_block(writer);
    if (is_due)
        note_clock(writer);
    return writer->next != writer->end || take_block(writer);
}

static inline __attribute__((always_inline)) void write_event_at(struct writer *writer, uint64_t time, uint64_t head,
                                                                 uint64_t a, uint64_t b) {
    const bool is_due = (int64_t)(time - writer->clock_ticks) >= (int64_t)writer->clock_gap;
    if (__builtin_expect(writer->next == writer->end || is_due, 0) && !make_room(writer, is_due))
        return;
    if (time < writer->last_ticks) /* an event is not earlier than the one before */
        time = writer->last_ticks;
    store_event(writer, time, head, a, b);
}

void kolo_trace_write(uint64_t head, uint64_t a, uint64_t b) {
    write_event_at(&own, ticks(), head, a, b);
}

void kolo_trace_open(uint64_t head, uint64_t a, uint64_t b) {
    write_event_at(&own, ticks(), head, a, b);
    own.depth++;
}

void kolo_trace_close(uint64_t head) {
    write_event_at(&own, ticks(), head, 0, 0);
    own.depth -= own.depth > 0;
}

/* Calls. */

void kolo_trace_call_waits(struct kolo_trace_call *call) {
    if (call->head && !call->time)
        call->time = ticks();
}

void kolo_trace_call_show(struct kolo_trace_call *call) {
    if (!call->head)
        return;
    write_event_at(&own, call->time ? call->time : ticks(), call->head, call->a, call->b);
    call->head = 0;
}

void kolo_trace_call_end(struct kolo_trace_call *call, uint64_t head, uint64_t number) {
    const bool is_well = (head >> 24 & 255) == 0;
    if (__builtin_expect(call->head && is_well, 1)) {
        write_event_at(&own, call->time ? call->time : ticks(), (call->head & ~UINT64_C(255)) | KOLO_TRACE_CALL,
                       call->a, call->b);
        call->head = 0;
        return;
    }
    kolo_trace_call_show(call);
    write_event_at(&own, ticks(), head | (uint64_t)call->algorithm << 8, 0, number);
}

void kolo_trace_name_thread(kolo_trace_thread thread) {
    own.thread = thread;
}

/* The program's ranges. */

void kolo_trace_begin(const char *name) {
    enum { TEXT_BYTES = 16, TEXTS = (KOLO_TRACE_NAME_MAX + 1) / TEXT_BYTES };
    uint64_t text[2 * TEXTS] = {0};
    if (!kolo_traces())
        return;
    const size_t length = name ? strnlen(name, KOLO_TRACE_NAME_MAX) : 0;
    memcpy(text, name ? name : "", length);
    const unsigned more = length > TEXT_BYTES ? (unsigned)(length - 1) / TEXT_BYTES : 0;
    kolo_trace_open(kolo_trace_head(KOLO_TRACE_RANGE_BEGIN, more, 0, 0, 0, 0), text[0], text[1]);
    for (unsigned i = 1; i <= more; i++)
        kolo_trace_write(kolo_trace_head(KOLO_TRACE_TEXT, 0, 0, 0, 0, 0), text[2 * i], text[2 * i + 1]);
}

void kolo_trace_end(void) {
    if (kolo_traces())
        kolo_trace_close(kolo_trace_head(KOLO_TRACE_RANGE_END, 0, 0, 0, 0, 0));
}

/* Beginning and end. */

static void set_mode(unsigned mode) {
    atomic_store_explicit(&kolo_trace_mode, mode, memory_order_release); /* pairs with kolo_trace_has */
}

/* The mapping and the parent's threads are not there in a forked child. */
static void forget(void) {
    set_mode(0);
    trace.header = NULL;
    memset(&own, 0, sizeof own);
}

void kolo_trace_pause(int pauses) {
    kolo_common_lock();
    const unsigned mode = atomic_load_explicit(&kolo_trace_mode, memory_order_relaxed) & ~(unsigned)KOLO_TRACE_WRITES;
    if (trace.header)
        set_mode(pauses ? mode : mode | KOLO_TRACE_WRITES);
    kolo_common_unlock();
}

__attribute__((destructor)) static void end(void) {
    if (trace.header)
        kolo_show_release(word(&trace.header->ended), 1);
}

/* What the job's name has that a file's may not have becomes '_'. */
static void name_file(char *path, size_t bytes, const char *directory, const struct kolo_trace_process *process) {
    char job[64];
    snprintf(job, sizeof job, "%s", process->job[0] ? process->job : "kolo");
    for (char *at = job; *at; at++)
        if (*at == '/' || (unsigned char)*at <= ' ')
            *at = '_';
    if (job[0] == '.')
        job[0] = '_';
    snprintf(path, bytes, "%s/%s.%d.%d.kolotrace", directory, job, process->rank, (int)getpid());
}

/* Has the kernel make the pages that most traces need, so that no event waits for one. Kernels before 5.14 refuse. */
static void populate(void *mapping, size_t bytes) {
    enum { POPULATE_WRITE = 23 }; /* MADV_POPULATE_WRITE, which older headers lack */
    madvise(mapping, bytes < TRACE_BYTES ? bytes : TRACE_BYTES, POPULATE_WRITE);
}

/* Creates the file at its full size, and maps it. Returns the mapping, or NULL with errno set. */
static void *map_file(const char *directory, const char *path, size_t bytes) {
    struct rlimit limit;
    (void)kolo_file_folder(directory, 0700); /* if it fails, so does what follows */

    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) { /* to go beyond it would be a signal */
        errno = EFBIG;
        return NULL;
    }
    const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return NULL;
    int error = kolo_file_allocate(fd, 0, bytes);
    void *mapping = error ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapping == MAP_FAILED && !error)
        error = errno;
    else if (!error && madvise(mapping, bytes, MADV_DONTFORK) < 0)
        error = errno;
    if (error) {
        if (mapping != MAP_FAILED)
            munmap(mapping, bytes);
        unlink(path);
    } else {
        populate(mapping, bytes);
    }
    close(fd);
    errno = error;
    return error ? NULL : mapping;
}

static void fill_header(const struct kolo_trace_process *process, uint32_t block_bytes) {
    struct kolo_trace_header *header = trace.header;
    header->format = KOLO_TRACE_FORMAT;
    header->version = KOLO_VERSION_MAJOR << 16 | KOLO_VERSION_MINOR << 8 | KOLO_VERSION_PATCH;
    header->header_bytes = sizeof *header;
    header->comms = KOLO_TRACE_COMMS;
    header->block_bytes = block_bytes;
    header->blocks = (uint32_t)((trace.bytes - (size_t)(trace.blocks - (uint8_t *)header)) / block_bytes);
    header->pid = (uint32_t)getpid();
    header->rank = process->rank;
    header->ranks = process->ranks;
    header->nodes = 1;
    header->has_ticks = can_use_ticks();
    header->began_ticks = (int64_t)read_both(&header->began_ns);
    header->began_utc_ns = kolo_clock_utc_ns();
    gethostname(header->host, sizeof header->host - 1);
    snprintf(header->job, sizeof header->job, "%s", process->job);
    snprintf(header->program, sizeof header->program, "%s", program_invocation_short_name);
    memcpy(header->magic, KOLO_TRACE_MAGIC, sizeof header->magic);
}

/* Says why there is no trace. What is wrong with the directory is wrong for all ranks, and one of them says it. */
static void warn(const struct kolo_trace_process *process, const char *path, size_t bytes, int error) {
    if (process->local_rank == 0 || error == ENOSPC || error == EFBIG || error == ENOMEM)
        kolo_log(KOLO_LOG_WARN, KOLO_LOG_WARN, process->rank, "no trace is written: %s, %zu bytes: %s", path, bytes,
                 strerror(error));
}

static bool open_trace(const char *directory, size_t bytes, const struct kolo_trace_process *process) {
    char path[4096];
    const uint32_t block_bytes = bytes < SMALL_BYTES ? BLOCK_BYTES_SMALL : BLOCK_BYTES;
    name_file(path, sizeof path, directory, process);
    free(trace.owners); /* a parent's */
    trace.owners = calloc(bytes / block_bytes, sizeof *trace.owners);
    trace.header = trace.owners ? map_file(directory, path, bytes) : NULL;
    if (!trace.header) {
        warn(process, path, bytes, trace.owners ? errno : ENOMEM);
        return false;
    }
    trace.bytes = bytes;
    trace.comms = (struct kolo_trace_comm *)(trace.header + 1);
    trace.blocks = (uint8_t *)(trace.comms + KOLO_TRACE_COMMS);
    kolo_store_relaxed(&trace.tracks, 0);
    kolo_store_relaxed(&trace.next, 0);
    fill_header(process, block_bytes);
    return true;
}

static void watch_forks(void) {
    pthread_atfork(NULL, NULL, forget);
}

int kolo_trace_start(const struct kolo_trace_process *process) {
    static pthread_once_t watched = PTHREAD_ONCE_INIT;
    const char *directory = kolo_environment_text(KOLO_VARIABLE_TRACE);
    const bool keeps_times = kolo_environment_text(KOLO_VARIABLE_DUMP) != NULL;
    int rc = 0;
    const int64_t bytes =
        kolo_environment_integer(&rc, KOLO_VARIABLE_TRACE_BYTES, TRACE_BYTES_MIN, TRACE_BYTES_MAX, TRACE_BYTES);
    if ((!directory && !keeps_times) || rc < 0)
        return rc;
    const uint64_t forks = kolo_common_lock();
    if (trace.process != forks + 1) {
        pthread_once(&watched, watch_forks);
        trace.process = forks + 1;
        const bool writes = directory && open_trace(directory, (size_t)bytes, process);
        set_mode((writes ? KOLO_TRACE_WRITES : 0) | (keeps_times ? KOLO_TRACE_TIMES : 0));
    }
    kolo_common_unlock();
    return 0;
}

void kolo_trace_set_node(int32_t node, int32_t nodes) {
    kolo_common_lock();
    if (trace.header && kolo_load_relaxed(word(&trace.header->comms_made)) == 0) {
        trace.header->node = node;
        trace.header->nodes = nodes;
    }
    kolo_common_unlock();
}

bool kolo_trace_is_first(void) {
    return trace.header && kolo_load_relaxed(word(&trace.header->comms_made)) == 0;
}

void kolo_trace_offset(int64_t offset_ns, uint64_t error_ns) {
    struct kolo_trace_header *header = trace.header;
    kolo_show_release(word(&header->offset_time), 0);
    header->offset_ns = offset_ns;
    header->offset_error_ns = error_ns;
    kolo_show_release(word(&header->offset_time), ticks());
    kolo_trace_write(kolo_trace_head(KOLO_TRACE_OFFSET, 0, 0, 0, 0, 0), (uint64_t)offset_ns, error_ns);
}

uint16_t kolo_trace_add_comm(const struct kolo_trace_comm *comm) {
    if (!trace.header)
        return 0;
    const uint32_t id = (uint32_t)kolo_fetch_add(word(&trace.header->comms_made), 1);
    struct kolo_trace_comm *place = &trace.comms[id % KOLO_TRACE_COMMS];
    kolo_show_release(word(&place->time), 0);
    struct kolo_trace_comm added = *comm;
    added.id = id;
    added.time = 0;
    *place = added;
    kolo_show_release(word(&place->time), ticks());
    return (uint16_t)id;
}
