/* What another process could have written into a table (table/observed_tables.h), as an observer finds it, reads it,
 * and reads it again when it has changed. It must end with a status; what it tells of a table that it can read must
 * make sense.
 *
 * Input: a byte (bit 0: the version of the layout is the input's; bit 1: so is the magic; bit 2: the file ends behind
 * the input), then twice, half of the input each, the first line of the header, and the ranks. Inputs are to outlive
 * changes of the layout. A rank's pid is 0, or this process's where the input has another. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "table/observed_tables.h"
#include "fuzz_target.h"

enum { FILE_BYTES = 65536, BYTES_MAX = FILE_BYTES, HEAD_BYTES = KOLO_LINE_BYTES };

static void write_file(int fd, const uint8_t *data, size_t bytes, uint8_t choice) {
    static uint8_t file[FILE_BYTES];
    struct kolo_shared_table_header header = {0};
    struct kolo_shared_table_rank rank;
    const size_t head_bytes = bytes < HEAD_BYTES ? bytes : HEAD_BYTES, rest_bytes = bytes - head_bytes;
    memcpy(&header, data, head_bytes);
    if (!(choice & 1))
        header.layout = KOLO_LAYOUT;
    if (!(choice & 2))
        kolo_store_relaxed(&header.magic, KOLO_TABLE_MAGIC);
    memset(file, 0, sizeof file);
    memcpy(file, &header, sizeof header);
    memcpy(file + sizeof header, data + head_bytes, rest_bytes);
    for (size_t at = 0; at + sizeof rank <= rest_bytes; at += sizeof rank) {
        memcpy(&rank, file + sizeof header + at, sizeof rank);
        rank.pid = rank.pid ? (uint64_t)getpid() : 0;
        memcpy(file + sizeof header + at, &rank, sizeof rank);
    }
    const size_t length = choice & 4 ? sizeof header + rest_bytes : FILE_BYTES;
    REQUIRE(ftruncate(fd, (off_t)length) == 0 && pwrite(fd, file, length, 0) == (ssize_t)length);
}

static void check_rank(const struct kolo_observed_table *table, const kolo_watched_table *seen, uint32_t rank) {
    kolo_watched_table_rank one;
    kolo_observed_table_tell_rank(table, rank, &one);
    REQUIRE(one.waits_for >= -1 && one.waits_for < seen->ranks && one.waits_for != (int)rank);
    REQUIRE(one.waits_since_ns <= seen->read_ns && one.state <= KOLO_WATCHED_TABLE_DEAD);
    REQUIRE(one.server == ((int)rank >= seen->workers) && one.pid >= 0);
    if (one.state == KOLO_WATCHED_TABLE_PRESENT && one.process && !one.server)
        REQUIRE(one.clock >= seen->slowest_clock && one.clock <= seen->fastest_clock);
}

static void check(const struct kolo_observed_table *table) {
    kolo_watched_table seen;
    kolo_observed_table_tell(table, &seen);
    REQUIRE(memchr(seen.name, '\0', sizeof seen.name));
    for (const char *at = seen.name; *at; at++)
        REQUIRE(*at >= ' ' && *at < 0x7f);
    REQUIRE(seen.status == 0 || seen.status == KOLO_ERR_VERSION || seen.status == KOLO_ERR_SYSTEM);
    if (seen.status < 0)
        return;
    REQUIRE(seen.ranks >= 1 && seen.ranks <= KOLO_RANKS_MAX && seen.workers >= 0 && seen.workers <= seen.ranks);
    REQUIRE(seen.servers >= 0 && seen.shards >= 1 && seen.rows >= 1 && seen.staleness >= 0);
    REQUIRE(seen.slowest_rank >= -1 && seen.slowest_rank < seen.workers);
    REQUIRE(seen.waiting >= 0 && seen.waiting <= seen.workers);
    for (int rank = 0; rank < seen.ranks; rank++)
        check_rank(table, &seen, (uint32_t)rank);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct kolo_memory_file place;
    if (bytes < 1 || bytes > BYTES_MAX)
        return 0;
    const int fd = memfd_create("kolo-fuzz", MFD_CLOEXEC);
    REQUIRE(fd >= 0 && kolo_memory_file_name(fd, &place) == 0);
    const size_t half = (bytes - 1) / 2;
    write_file(fd, data + 1, half, data[0]);
    struct kolo_observed_table *table = (struct kolo_observed_table *)kolo_observed_table_find(fd, &place);
    if (table) {
        check(table);
        write_file(fd, data + 1 + half, half, data[0]);
        kolo_observed_table_read(table);
        check(table);
        free(table);
    }
    close(fd);
    return 0;
}
