/* What another process could have written as its record of a failure (tools/trace/crash_*): what is read of it must be
 * in range and in order, and all that kolo-trace tells of it must come to an end.
 *
 * Input: a byte of choices, then two halves, each a record. Choices: bit 0: the halves are texts as they stand in a
 * file; otherwise each byte stands for a word of one (see WORDS) or for itself; bit 1: a half begins with a whole
 * head. */
#include <string.h>
#include <unistd.h>

#include "crash_job.h"
#include "fuzz_target.h"

enum { BYTES_MAX = 4096, WORD_BYTES_MAX = 80, FIRST_WORD = 128 };

static const char *const WORDS[] = {
    "{\"format\": 1, \"job\": \"j\", \"communicator\": 5, \"lane\": 0, \"node\": 0, \"pid\": 7, ",
    "\"utc_ns\": 9, \"now_ns\": 8, \"ranks\": 3, \"rank\": ",
    ", \"failure\": {\"status\": -8, \"rank\": 1, \"reporter\": 0, \"message\": \"",
    "\"}, \"ranks_here\": [",
    "{\"pid\": 6, \"steps\": 4, \"rank\": ",
    ", \"state\": \"running\"",
    ", \"state\": \"ended\"",
    ", \"state\": \"stopped\"",
    ", \"calls\": ",
    ", \"ended\": ",
    ", \"waits_since_ns\": 3, \"waits_for\": ",
    ", \"last_calls\": [",
    "{\"ended\": true, \"number\": ",
    "{\"ended\": false, \"number\": ",
    ", \"digest\": ",
    ", \"call\": \"",
    "\"}",
    ", ",
    "]}",
    "]",
    "}",
    "18446744073709551615",
    "9223372036854775807",
    "\\u00",
    "\\ud83d\\ude00",
    "\"lane\": 1, ",
    "\"more\": [",
    "-1e9",
};

/* Returns the bytes of the text. */
static size_t make_text(char *text, const uint8_t *data, size_t bytes, uint8_t choice, int rank) {
    size_t used = 0;
    if (choice & 2)
        used = (size_t)sprintf(text, "%s%s%d%smessage%s", WORDS[0], WORDS[1], rank, WORDS[2], WORDS[3]);
    for (size_t i = 0; i < bytes; i++) {
        const size_t word = (size_t)data[i] - FIRST_WORD;
        if (!(choice & 1) && data[i] >= FIRST_WORD && word < sizeof WORDS / sizeof *WORDS) {
            memcpy(text + used, WORDS[word], strlen(WORDS[word]));
            used += strlen(WORDS[word]);
        } else
            text[used++] = (char)data[i];
    }
    return used;
}

static void check_record(const crash_record *record) {
    REQUIRE(record->rank >= 0 && record->rank < record->ranks && record->ranks <= CRASH_RANKS_MAX);
    REQUIRE(record->failed_rank >= -1 && record->failed_rank < record->ranks && record->node < record->ranks);
    REQUIRE(memchr(record->job, '\0', sizeof record->job) && memchr(record->message, '\0', sizeof record->message));
    for (int i = 0; i < record->here_count; i++) {
        const crash_rank *rank = &record->here[i];
        REQUIRE(rank->rank >= 0 && rank->rank < record->ranks && rank->state != CRASH_UNKNOWN);
        REQUIRE(rank->waits_for >= CRASH_NOBODY && rank->waits_for < record->ranks);
        REQUIRE(rank->count >= 0 && rank->count <= CRASH_CALLS_MAX);
        REQUIRE(rank->first + (size_t)rank->count <= record->call_count);
        for (int k = 1; k < rank->count; k++)
            REQUIRE(record->calls[rank->first + (size_t)k].number > record->calls[rank->first + (size_t)k - 1].number);
    }
}

/* Puts the records side by side as crash_files.c does. */
static void tell(crash_record *records, int count) {
    static crash_comm comm;
    crash_comm_begin(&comm, records, count);
    for (int i = 0; i < count; i++)
        REQUIRE(crash_comm_add(&comm, &records[i]));
    crash_difference difference;
    REQUIRE(crash_difference_find(&difference, &comm));
    REQUIRE(difference.from <= difference.to || !difference.to);
    REQUIRE(!difference.number || difference.number == difference.to);
    REQUIRE(crash_comm_print(&comm));
    crash_comm_free(&comm);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static char text[BYTES_MAX * WORD_BYTES_MAX];
    static FILE *nowhere;
    crash_record records[2];
    int count = 0;
    if (!nowhere)
        REQUIRE((nowhere = freopen("/dev/null", "w", stdout)));
    if (bytes < 1 || bytes > BYTES_MAX)
        return 0;
    const size_t half = (bytes - 1) / 2;
    for (int rank = 0; rank < 2; rank++) {
        char why[CRASH_WHY_BYTES];
        memset(why, 'x', sizeof why);
        const size_t length = make_text(text, data + 1 + (size_t)rank * half, half, data[0], rank);
        char *exact = malloc(length + 1); /* so that a sanitizer sees a read past the end */
        REQUIRE(exact);
        memcpy(exact, text, length);
        exact = realloc(exact, length ? length : 1);
        records[count] = (crash_record){.path = (char *)"a.kolodump"};
        const bool good = crash_record_read(&records[count], exact, length, why);
        free(exact);
        REQUIRE(memchr(why, '\0', sizeof why) && (good || why[0]));
        if (!good)
            continue;
        check_record(&records[count]);
        if (count == 0 || records[0].ranks == records[1].ranks)
            count++;
        else
            crash_record_free(&records[1]);
    }
    if (count > 0)
        tell(records, count);
    for (int i = 0; i < count; i++)
        crash_record_free(&records[i]);
    return 0;
}
