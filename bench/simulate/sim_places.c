#include "sim_places.h"

#include <stdio.h>

#include "sim_engine.h"

static struct {
    uint32_t ranks;
    uint32_t lanes; /* at least 1 */
    uint32_t cores; /* of each rank */
} places;

void sim_places_set(const sim_machine *machine, uint32_t ranks, uint32_t lanes) {
    places.ranks = ranks;
    places.lanes = lanes ? lanes : 1;
    places.cores = lanes ? sim_machine_cores(machine) / ranks : 1;
}

uint32_t sim_threads(void) {
    return places.ranks * places.lanes;
}

uint32_t sim_lanes(void) {
    return places.lanes;
}

uint32_t sim_rank_of(uint32_t thread) {
    return thread / places.lanes;
}

uint32_t sim_lane_of(uint32_t thread) {
    return thread % places.lanes;
}

uint32_t sim_rank_core(uint32_t rank) {
    return rank * places.cores;
}

uint32_t sim_lane_core(uint32_t rank, uint32_t lane) {
    return sim_rank_core(rank) + lane * places.cores / places.lanes;
}

uint32_t sim_core_of(uint32_t thread) {
    return sim_lane_core(sim_rank_of(thread), sim_lane_of(thread));
}

uint32_t sim_rank(void) {
    return sim_rank_of(sim_self());
}

uint32_t sim_core(void) {
    return sim_core_of(sim_self());
}

void sim_thread_name(uint32_t thread, char *text, size_t text_bytes) {
    if (places.lanes == 1)
        snprintf(text, text_bytes, "rank %u", thread);
    else
        snprintf(text, text_bytes, "lane %u of rank %u", sim_lane_of(thread), sim_rank_of(thread));
}
