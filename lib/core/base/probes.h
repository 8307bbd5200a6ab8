/* Static probes (USDT) of the provider "kolo": bpftrace, perf and SystemTap see a running job by them, without any
 * option. A probe is a nop, and a note in the library that says where the probe's arguments are at that place. Without
 * <sys/sdt.h> (KOLO_HAVE_SDT 0) there are none.
 *
 *   call_begin   comm, rank, collective, count, number
 *   call_end     comm, rank, number
 *   wait_begin   comm, peer                a wait goes beyond spinning
 *   wait_end     comm, peer, status, ns    it is over
 *   failure      comm, rank, status, peer  this rank returns the communicator's failure
 *
 * comm is an address that tells the communicators of a process apart; rank is this rank; collective is a
 * kolo_collective; number counts the rank's calls on the communicator; peer is the rank on this machine that is waited
 * for, UINT32_MAX for one that exchanges data with other machines, or the rank at fault; status is a KOLO_ERR_*. In a
 * call that begins and ends without a wait nothing is loaded for a probe: its note names the place in memory. */
#pragma once

#if KOLO_HAVE_SDT
#include <sys/sdt.h>

/* Arguments as an assembler reads them, each with its size. */
/* clang-format off */
#define KOLO_PROBE_CALL_BEGIN(comm, rank, collective, count, number)                                                   \
    __asm__ __volatile__(STAP_PROBE_ASM(kolo, call_begin, 8@%[c] 4@%[r] 4@%[k] 8@%[n] 8@%[i])                          \
                         ::[c] "r"(comm), [r] "m"(rank), [k] "nr"((unsigned)(collective)), [n] "nr"(count),            \
                           [i] "m"(number))
#define KOLO_PROBE_CALL_END(comm, rank, number)                                                                        \
    __asm__ __volatile__(STAP_PROBE_ASM(kolo, call_end, 8@%[c] 4@%[r] 8@%[i])                                          \
                         ::[c] "r"(comm), [r] "m"(rank), [i] "m"(number))
/* clang-format on */
#define KOLO_PROBE_WAIT_BEGIN(comm, peer)            STAP_PROBE2(kolo, wait_begin, comm, peer)
#define KOLO_PROBE_WAIT_END(comm, peer, status, ns)  STAP_PROBE4(kolo, wait_end, comm, peer, status, ns)
#define KOLO_PROBE_FAILURE(comm, rank, status, peer) STAP_PROBE4(kolo, failure, comm, rank, status, peer)
#else
#define KOLO_PROBE_CALL_BEGIN(comm, rank, collective, count, number) ((void)0)
#define KOLO_PROBE_CALL_END(comm, rank, number)                      ((void)0)
#define KOLO_PROBE_WAIT_BEGIN(comm, peer)                            ((void)0)
#define KOLO_PROBE_WAIT_END(comm, peer, status, ns)                  ((void)0)
#define KOLO_PROBE_FAILURE(comm, rank, status, peer)                 ((void)0)
#endif
