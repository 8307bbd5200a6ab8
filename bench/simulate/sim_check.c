#include "sim_check.h"

#include <inttypes.h>
#include <stdio.h>

#include "races.h"
#include "sim_engine.h"
#include "sim_machine.h"
#include "sim_run.h"

enum { ZONE_BYTES_MIN = 65536 };

static struct {
    bool checks;
    size_t slot_bytes;
    char problem[320];
} check;

/* Keeps the first problem. */
static void complain(const char *text) {
    if (check.problem[0] == '\0')
        snprintf(check.problem, sizeof check.problem, "%s", text);
}

int sim_check_begin(bool checks, uint32_t ranks, size_t slot_bytes) {
    check.checks = checks;
    check.slot_bytes = slot_bytes;
    check.problem[0] = '\0';
    if (!checks)
        return 0;
    const uint8_t *flags = team_segment(0), *slots = team_piece(TEAM_SLOTS, 0);
    const uint8_t *flags_end = team_segment(sim_lanes() - 1) + team_flags_bytes();
    const races_setting setting = {.ranks = sim_threads(),
                                   .words = flags,
                                   .words_bytes = (size_t)(flags_end - flags),
                                   .memory = slots,
                                   .memory_bytes = (size_t)(team_piece(TEAM_RECV, ranks) - slots),
                                   .zone_bytes = slot_bytes > ZONE_BYTES_MIN ? slot_bytes : ZONE_BYTES_MIN,
                                   .describe = team_describe,
                                   .name = sim_thread_name,
                                   .complain = complain};
    return races_begin(&setting);
}

const char *sim_check_problem(void) {
    return check.problem[0] != '\0' ? check.problem : NULL;
}

void sim_check_released(const void *word) {
    static uint32_t clock[SIM_THREADS_MAX];
    if (!check.checks)
        return;
    races_release(sim_self(), clock);
    races_store(word, sim_self(), clock);
}

void sim_check_acquired(const void *word) {
    if (check.checks)
        races_acquire(sim_self(), word);
}

void sim_check_read(const void *address, size_t bytes) {
    char self[SIM_NAME_BYTES], where[96], text[256];
    if (!check.checks)
        return;
    const size_t unwritten = races_unwritten(address, bytes);
    if (unwritten > 0) {
        team_describe(address, bytes, where, sizeof where);
        sim_thread_name(sim_self(), self, sizeof self);
        snprintf(text, sizeof text, "%s reads %s, of which nobody has written %zu", self, where, unwritten);
        complain(text);
    }
    races_read(sim_self(), address, bytes);
}

void sim_check_write(const void *address, size_t bytes) {
    team_place place;
    char self[SIM_NAME_BYTES], text[160];
    if (!check.checks)
        return;
    if (team_find(address, &place) && place.part == TEAM_SLOTS &&
        place.offset % check.slot_bytes + bytes > check.slot_bytes) {
        sim_thread_name(sim_self(), self, sizeof self);
        snprintf(text, sizeof text, "%s writes %zu bytes beyond the end of slot %zu", self,
                 place.offset % check.slot_bytes + bytes - check.slot_bytes, place.offset / check.slot_bytes);
        complain(text);
    }
    races_write(sim_self(), address, bytes);
}

static uint8_t input_byte(size_t offset, uint32_t rank, uint64_t call) {
    return (uint8_t)(offset * 13 + rank * 29 + rank / 256 * 101 + call * 83);
}

void sim_check_call(uint8_t *send, const uint8_t *recv, size_t bytes, uint64_t call) {
    if (!check.checks)
        return;
    if (recv != send)
        races_forget(recv, bytes);
    races_write(sim_self(), send, bytes);
    for (size_t offset = 0; sim_team_is_real(send, bytes) && offset < bytes; offset++)
        send[offset] = input_byte(offset, sim_rank(), call);
}

void sim_check_input(const void *input, size_t bytes, uint32_t rank, uint64_t call) {
    const uint8_t *have = input;
    char self[SIM_NAME_BYTES], text[256];
    if (!check.checks || !sim_team_is_real(input, bytes))
        return;
    for (size_t offset = 0; offset < bytes; offset++) {
        if (have[offset] == input_byte(offset, rank, call))
            continue;
        sim_thread_name(sim_self(), self, sizeof self);
        snprintf(text, sizeof text,
                 "%s reduces, in call %" PRIu64 ", a line of rank %u whose byte %zu is not that rank's input", self,
                 call, rank, offset);
        complain(text);
        return;
    }
}
