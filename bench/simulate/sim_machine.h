/* The machine that is modelled: its shape, its latencies and its bandwidths, read from a small text file. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { SIM_CORES_MAX = 1024, SIM_DOMAINS_MAX = 64 };

/* How far two cores are apart. */
typedef enum sim_distance {
    SIM_DOMAIN,   /* they share an L3 */
    SIM_NODE,     /* another L3 of the same memory node */
    SIM_SOCKET,   /* another memory node of the same socket */
    SIM_MACHINE,  /* another socket */
    SIM_DISTANCES /* how many there are */
} sim_distance;

/* All fields but the name are doubles, so that one table describes the file; the counts among them are whole. Cores are
 * numbered through: domain by domain, node by node, socket by socket. GB = 10^9 bytes, so a rate is bytes a ns. */
typedef struct sim_machine {
    char name[96];
    double sockets;
    double nodes;   /* memory nodes a socket */
    double domains; /* L3 caches a node */
    double cores;   /* a domain */
    double l2_bytes;
    double l3_bytes; /* of one domain */

    double call_ns;                   /* a call beyond what is counted: entry, checks, plan */
    double load_ns;                   /* a word that is in the core's own cache */
    double store_ns;                  /* into the store buffer */
    double hop_ns[SIM_DISTANCES];     /* from a store until the loop that polls another core's line has seen it */
    double turn_ns;                   /* between two cores that want the same line */
    double loads_in_flight;           /* misses that a core has under way at once */
    double fold_gbps;                 /* inputs of a reduction, from L1 */
    double l2_gbps;                   /* a core's reads or writes of its L2 */
    double l3_gbps;                   /* likewise of its L3 */
    double share_gbps[SIM_DISTANCES]; /* a core takes over what another one has in its caches */
    double read_gbps;                 /* a core reads memory */
    double write_back_gbps;           /* a core's changed lines go back to memory */
    double stream_gbps;               /* a core stores past the caches */
    double domain_gbps;               /* between an L3 and the rest of the machine, each way */
    double node_gbps;                 /* of a node's memory, both ways together */
    double link_gbps;                 /* of a socket to the others, each way */
} sim_machine;

/* Reads a machine: a file, or the name of one that comes with kolo. Ends the program at a mistake. */
void sim_machine_read(sim_machine *machine, const char *name);

/* Lists what comes with kolo, a name on each line. */
void sim_machine_names_print(FILE *to);

/* Writes one that sim_machine_read can read; `comment` goes before it. */
void sim_machine_write(const sim_machine *machine, FILE *file, const char *comment);

uint32_t sim_machine_cores(const sim_machine *machine);
uint32_t sim_machine_domains(const sim_machine *machine);
uint32_t sim_machine_domain(const sim_machine *machine, uint32_t core);
uint32_t sim_machine_node(const sim_machine *machine, uint32_t core);
uint32_t sim_machine_socket(const sim_machine *machine, uint32_t core);
sim_distance sim_machine_distance(const sim_machine *machine, uint32_t a, uint32_t b);

/* Where the threads of a job run. A rank has one thread, or one for each of its lanes (kolo_lanes.h); the threads of
 * all ranks are numbered through, rank by rank, as the engine knows them. */

/* lanes 0: ranks have one thread, and rank r runs on core r. Else every rank has an equal part of the machine's cores,
 * one after the other, over which its lanes are spread evenly. There are as many cores in it as lanes, or more. */
void sim_places_set(const sim_machine *machine, uint32_t ranks, uint32_t lanes);

/* How many there are of all ranks, and of one. */
uint32_t sim_threads(void);
uint32_t sim_lanes(void);

uint32_t sim_rank_of(uint32_t thread);
uint32_t sim_lane_of(uint32_t thread);
uint32_t sim_core_of(uint32_t thread);

/* The core of a rank's lane, and the first of the cores that a rank has, which ends where the next one's begin. */
uint32_t sim_lane_core(uint32_t rank, uint32_t lane);
uint32_t sim_rank_core(uint32_t rank);

/* The running thread's. */
uint32_t sim_rank(void);
uint32_t sim_core(void);

/* "rank 3", or "lane 2 of rank 3". */
enum { SIM_NAME_BYTES = 40 };
void sim_thread_name(uint32_t thread, char *text, size_t text_bytes);
