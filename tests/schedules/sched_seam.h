/* Between the library and the scheduler. The library's sources are compiled as they are, but with the compiler's thread
 * sanitizer, which turns every access to memory into a call: each atomic with its memory order, each fence, each plain
 * load and store. sched_instrumented.c answers these calls in place of the sanitizer's runtime. Calls that leave the
 * library, and a few within it, are caught by the linker (--wrap): sched_wrapped.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Before a run: what the seam itself draws, mostly for negative controls, follows from the seed. `preempts`: a rank may
 * lose the processor before it copies to what is shared. */
void sched_seam_begin(uint64_t seed, bool preempts);

/* All that live sleep: fails if one sleeps although what it waits for is there. */
void sched_seam_quiet(void);

/* True while some rank has lost the processor in a copy. */
bool sched_seam_preempts(void);

/* What a rank waits for, in words; empty if it does not. */
void sched_seam_describe_wait(uint32_t rank, char *text, unsigned text_bytes);

/* The rank begins a call, or has ended it. */
void sched_seam_calls(bool begins);

/* True while the rank is in a call, and does not wait for long. */
bool sched_seam_works(uint32_t rank);

/* True while the rank is in kolo_slot_claim. */
bool sched_seam_claims(uint32_t rank);
