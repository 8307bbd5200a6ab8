#include "perf_limits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "forked_team.h"
#include "kolo_tools.h"
#include "perf_pieces.h"
#include "perf_rounds.h"

/* Few cores get the longest blocks; many together fill any cache with shorter ones, and should not fill the memory. */
enum { FEW_CPUS = 16, MANY_CPUS = 32 };
enum { BLOCK_BYTES_FEW = 4 << 20, BLOCK_BYTES_MANY = 1 << 20 };
enum { STREAM_BYTES_FEW = 64 << 20, STREAM_BYTES_MANY = 16 << 20, STREAM_BYTES_LEAST = 1 << 20 };

int perf_limits_begin(perf_limits *limits, int ranks, bool launched) {
    *limits = (perf_limits){.ranks = ranks};
    limits->cpus = perf_place_cpus(ranks, launched, limits->cpu);
    if (limits->cpus > 0)
        return 0;
    snprintf(limits->reason, sizeof(limits->reason), "cannot read which CPUs may be used: %s", strerror(errno));
    return -1;
}

/* Two blocks on every CPU, far larger than the caches, in an eighth of the machine's memory at most. */
static int choose_stream_bytes(int cpus, size_t *bytes) {
    kolo_machine machine = {.machine_bytes = sizeof(machine)};
    if (kolo_machine_query(&machine) != KOLO_OK)
        return -1;
    *bytes = cpus <= MANY_CPUS ? STREAM_BYTES_FEW : STREAM_BYTES_MANY;
    while (*bytes > STREAM_BYTES_LEAST && *bytes * 2 * (size_t)cpus > machine.memory_bytes / 8)
        *bytes /= 4;
    return 0;
}

/* The shared memory of a run, in one piece: the workshop, then its arrays. */
static perf_workshop *open_workshop(const perf_limits *limits, size_t *bytes) {
    size_t workers = limits->cpus < 2 ? 2 : (size_t)limits->cpus;
    size_t block_bytes_max = limits->cpus <= FEW_CPUS ? BLOCK_BYTES_FEW : BLOCK_BYTES_MANY;
    size_t page_bytes = 4096; /* keeps the arrays apart and aligned */
    size_t shop_bytes = (sizeof(perf_workshop) + page_bytes - 1) / page_bytes * page_bytes;
    size_t flags_bytes = (workers * sizeof(perf_word) + page_bytes - 1) / page_bytes * page_bytes;
    size_t lines_bytes = workers * 2 * PERF_LINEWISE_BYTES_MAX;
    size_t blocks_bytes = workers * 2 * block_bytes_max;
    *bytes = shop_bytes + flags_bytes + lines_bytes + blocks_bytes + workers * PERF_ROUNDS_MAX * sizeof(perf_span);
    char *memory = forked_team_allocate(*bytes);
    if (memory == NULL)
        return NULL;
    perf_workshop *shop = (perf_workshop *)memory;
    shop->limits = *limits;
    shop->block_bytes_max = block_bytes_max;
    shop->flags = (perf_word *)(memory + shop_bytes);
    shop->lines = memory + shop_bytes + flags_bytes;
    shop->blocks = shop->lines + lines_bytes;
    shop->rounds = (perf_span(*)[PERF_ROUNDS_MAX])(shop->blocks + blocks_bytes);
    return shop;
}

/* Each piece begins with zeroed words, so with fresh memory. */
static int measure_piece(perf_limits *limits, const perf_limits_request *request, perf_piece piece) {
    const perf_worker_function measure = perf_piece_rows[piece].measure;
    size_t bytes;
    perf_workshop *shop = open_workshop(limits, &bytes);
    if (shop == NULL) {
        snprintf(limits->reason, sizeof(limits->reason), "no memory to share between %d processes", limits->cpus);
        return -1;
    }
    shop->request = *request;
    shop->piece = piece;
    int result = choose_stream_bytes(limits->cpus, &shop->stream_bytes_max);
    if (result != 0) {
        snprintf(limits->reason, sizeof(limits->reason), "%s", kolo_error_message());
    } else if (piece == PERF_HANDOVER) {
        int same_cpu[2] = {limits->cpu[0], limits->cpu[0]};
        result = perf_team_run(same_cpu, 2, measure, shop, limits->reason);
    } else {
        result = perf_team_run(limits->cpu, limits->cpus, measure, shop, limits->reason);
    }
    if (result == 0)
        *limits = shop->limits;
    forked_team_free(shop, bytes);
    return result;
}

int perf_limits_measure(perf_limits *limits, const perf_limits_request *request) {
    for (perf_piece piece = 0; piece < PERF_PIECES; piece++) {
        const bool wanted = request->pieces >> piece & 1 && limits->cpus >= perf_piece_rows[piece].cpus_min;
        if (wanted && measure_piece(limits, request, piece) != 0)
            return -1;
    }
    return 0;
}
