/* Sleeping and waking: lib/core/sync/wait.h (kolo_publish, kolo_bell_ring), wait.c (sleep_slice, kolo_bell_ring_slowly),
 * fence.h and fence.c, with the processors' store buffers. RANKS ranks, ROUNDS times: publish the round in the own
 * flag, then wait for it in every peer's flag, asleep at once.
 *
 * Shown, for all interleavings of steps and store buffers: no wake-up is lost, that is, nobody sleeps for ever whose
 * flag has been published, though no time slice ends the sleep; when ranks die, at any step, those who wait for others
 * still end. All runs are finite (a sleeper sleeps again only after another ring), so that a search for invalid end
 * states shows it.
 *
 * Memory. A store waits in its processor's buffer (stores[rank], in order) until the buffer's process writes it to
 * memory, at any later time; loads look at memory, as nobody loads what it stored itself. This is what x86-64 does,
 * and on other processors too the only reordering at stake is that of a store with a later load: the sleeper's two
 * loads are acquires, the ring is a release. An atomic addition acts on memory at once and does not empty the buffer,
 * as on Arm; where it is a release, the buffer is emptied before. A full fence waits until the own buffer is empty.
 * membarrier makes each other processor do the same, one after another.
 *
 * Names. flag[r]: a flag of rank r, as kolo_shared_signal.progress. sleepers[r], rings[r]: kolo_bell of rank r.
 * asleep[r]: 1 + the rank on whose bell r sleeps in FUTEX_WAIT, 0: awake; the kernel compares the word and falls
 * asleep in one step with respect to FUTEX_WAKE.
 *
 * Variants. By default publishers rely on the sleeper's membarrier (kolo_fence_publisher is for the compiler alone).
 * PUBLISHERS_FENCE: kolo_waiter.publisher_fences, where membarrier is refused.
 *
 * Left out: spinning and yielding (looks at the flag that come before), the slice of 10 ms and the check before each
 * sleep (abort.pml). In the library a lost wake-up would cost one slice; here nothing repairs it, except that once a
 * rank is dead slices end and checks fail, since its ring, and those of ranks that fail with it, may be missing by
 * right.
 *
 * Controls. WITHOUT_MEMBARRIER, WITHOUT_PUBLISHER_FENCE (of PUBLISHERS_FENCE): that fence. WITHOUT_LOOK: the sleeper
 * does not look at the flag again. WITHOUT_RING: the ring wakes but leaves the word as it is. WITHOUT_RINGS_FIRST: the
 * sleeper reads the word after its look at the flag. WITHOUT_WAKE: the ring changes the word but wakes nobody. */

#ifndef RANKS
#define RANKS 2
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef DEATHS
#define DEATHS RANKS /* at most */
#endif

byte flag[RANKS];
byte sleepers[RANKS];
byte rings[RANKS];
byte asleep[RANKS];
chan stores[RANKS] = [ROUNDS] of { byte }; /* of flags; the only words that are stored */
bool dead[RANKS];
byte deaths;

#if DEATHS
#define UNLESS_DEAD unless { dead[me] }
#else
#define UNLESS_DEAD
#endif

inline ring() {
#if defined(PUBLISHERS_FENCE) && !defined(WITHOUT_PUBLISHER_FENCE)
    empty(stores[me]);
#endif
    if
    :: sleepers[me] == 0
    :: sleepers[me] != 0 ->
#ifndef WITHOUT_RING
        atomic { empty(stores[me]) -> rings[me]++ }; /* kolo_bell_ring_slowly; release */
#endif
#ifndef WITHOUT_WAKE
        atomic {
            for (peer : 0 .. RANKS - 1) {
                if
                :: asleep[peer] == me + 1 -> asleep[peer] = 0
                :: else
                fi
            }
            peer = 0
        }
#else
        skip
#endif
    fi
}

/* kolo_fence_sleeper; where membarrier is refused its own full fence is left. */
inline fence_sleeper() {
    empty(stores[me]);
#if !defined(PUBLISHERS_FENCE) && !defined(WITHOUT_MEMBARRIER)
    other = 0;
    do
    :: atomic { other < RANKS -> empty(stores[other]); other++ }
    :: atomic { other == RANKS -> other = 0; break }
    od
#endif
}

inline sleep_slice() {
    sleepers[peer]++;
    fence_sleeper();
#ifndef WITHOUT_RINGS_FIRST
    seen = rings[peer];
#endif
    if
#ifndef WITHOUT_LOOK
    :: flag[peer] >= round
#endif
    :: flag[peer] < round ->
#ifdef WITHOUT_RINGS_FIRST
        seen = rings[peer];
#endif
        if
        :: atomic { rings[peer] == seen -> asleep[me] = peer + 1 };
            if
            :: asleep[me] == 0
            :: asleep[me] != 0 && deaths -> asleep[me] = 0
            fi
        :: rings[peer] != seen
        fi
    fi;
    atomic { sleepers[peer]--; seen = 0 }
}

proctype rank(byte me) {
    byte round = 1, peer, other, seen;
    {
        do
        :: round <= ROUNDS ->
            stores[me]!round;
            ring();
            do
            :: peer < RANKS && peer != me ->
                do
                :: atomic { flag[peer] >= round -> break }
                :: flag[peer] < round && !deaths -> sleep_slice()
                :: atomic { flag[peer] < round && deaths -> goto broken }
                od;
                peer++
            :: peer == me -> peer++
            :: atomic { peer == RANKS -> peer = 0; round++; break }
            od
        :: atomic { round > ROUNDS -> break }
        od;
broken:
        skip
    } UNLESS_DEAD
}

/* What a dead rank has stored reaches memory too. */
proctype store_buffer(byte owner) {
    byte value;
end:
    do
    :: atomic { stores[owner]?value -> flag[owner] = value; value = 0 }
    od
}

proctype death() {
    byte victim;
    do
    :: atomic { deaths < DEATHS ->
        select(victim : 0 .. RANKS - 1);
        if
        :: !dead[victim] -> dead[victim] = true; asleep[victim] = 0; deaths++
        :: else
        fi }
    :: break
    od
}

init {
    byte i;
    atomic {
        run death();
        for (i : 0 .. RANKS - 1) {
            run store_buffer(i);
            run rank(i)
        }
    }
}
