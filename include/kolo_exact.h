/* Sums of floats that do not depend on who holds which addend. kolo.h says what holds for all calls.
 *
 * A kolo_exact holds sums without rounding them. Each rank adds its own addends, the ranks' sums are all-reduced, and
 * the result is rounded once. So the same addends give the same bits, whether 1, 2 or 100 ranks hold them, in any order
 * and any split, in any number of calls, on any instruction set, on one machine or on several.
 *     The result is correctly rounded: the float nearest to the true sum of all addends, ties to even. Its error is at
 * most half a unit in the last place. A sum larger than every finite float is an infinity, by the same rounding; that a
 * part of a sum would be does not matter. Infinities and NaNs are as with KOLO_SUM: a NaN among the addends, or
 * infinities of both signs, give the positive quiet NaN without payload; infinities of one sign give that infinity. A
 * sum of exactly zero is +0, unless all addends are -0, of which there is one at least. No addend at all gives +0.
 *     Each sum takes 128 bytes for KOLO_F32 and 584 for KOLO_F64; 2^64 addends of any size fit.
 *     One thread at a time uses a kolo_exact. Where ranks hold elements of which each is summed over the ranks alone,
 * KOLO_SUM_EXACT does it without a kolo_exact.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KOLO_EXACT_H
#define KOLO_EXACT_H

#include "kolo_comm.h"
#include "kolo_requests.h"

typedef struct kolo_exact kolo_exact;

/* Makes `sums` sums of addends of `dtype`, KOLO_F32 or KOLO_F64, all of them empty. Blocks no one. The caller gives
 * *exact to kolo_exact_destroy. KOLO_ERR_ARG: exact is NULL, another dtype, no sums, more than memory could hold, or a
 * KOLO_CPU that cannot be read. KOLO_ERR_SYSTEM: out of memory. */
KOLO_API int kolo_exact_create(kolo_exact **exact, kolo_dtype dtype, size_t sums);

/* NULL: nothing is done. Not while its kolo_exact_allreduce is in flight. Returns 0. */
KOLO_API int kolo_exact_destroy(kolo_exact *exact);

/* Adds values[row * sums + i], of the kolo_exact's dtype and any alignment, to sum number first + i, for row in
 * 0 .. rows-1 and i in 0 .. sums-1. So with sums = 1 all of values[0 .. rows-1] are addends of one sum: from some
 * hundred on this is vectorized. To several sums it adds one value at a time, a few nanoseconds each. KOLO_ERR_ARG:
 * exact is NULL, there are fewer sums, values is NULL with rows > 0. */
KOLO_API int kolo_exact_add(kolo_exact *exact, size_t first, size_t sums, const void *values, size_t rows);

/* Adds each sum of `other` to the same one of `exact`; other stays as it is. Both have the same dtype and as many sums,
 * or it is KOLO_ERR_ARG. The two may be one, whose sums are doubled. */
KOLO_API int kolo_exact_merge(kolo_exact *exact, const kolo_exact *other);

/* Each sum becomes that over all ranks, on every rank: an all-reduce of integers, by which each sum is 128 or 584
 * bytes. All ranks pass the same dtype and as many sums. Calling it again sums the ranks' sums again: kolo_exact_reset
 * comes between. request NULL: it blocks. Otherwise it returns at once with *request, as kolo_iallreduce does, and
 * `exact` belongs to kolo until the request is complete. KOLO_ERR_ARG: exact is NULL, or comm a lane. All other errors
 * as kolo_allreduce, or kolo_iallreduce; after one of them that breaks the communicator what `exact` holds is undefined
 * until kolo_exact_reset. */
KOLO_API int kolo_exact_allreduce(kolo_comm *comm, kolo_exact *exact, kolo_request **request);

/* Writes each sum, rounded, to results[0 .. sums-1], of the kolo_exact's dtype and any alignment. The sums stay as they
 * are, so that more can be added. KOLO_ERR_ARG: exact or results is NULL. */
KOLO_API int kolo_exact_round(const kolo_exact *exact, void *results);

/* Makes all sums empty. KOLO_ERR_ARG: exact is NULL. */
KOLO_API int kolo_exact_reset(kolo_exact *exact);

#endif
