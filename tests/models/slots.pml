/* Slots: lib/core/comm/step/progress.h and progress.c (steps, tickets, stamps, kolo_slot_claim, kolo_slot_retire), with the
 * algorithms that use slots in ways of their own: lib/core/algo/allreduce/mesh.c (results given back into the slot of the peer whose
 * input was there), lib/core/algo/allreduce/oneshot.c (kolo_oneshot_run: two ranks swap their slots), lib/core/algo/broadcast.c (a root
 * that waits for nobody). RANKS ranks make CALLS calls, each any of ALGORITHMS in 1 to CHUNKS chunks.
 *
 * Shown, for all interleavings: every rank reads, wherever it reads, what the right rank wrote there for that ticket,
 * whole, so that every result is right; no two write the same place at once; the stamp that goes with an awaited step
 * is that call's still; a claim does not take ranks that agree for ranks that differ; while nobody dies, all calls end;
 * when ranks die, at any step, every survivor ends, with its result or with a failure. All runs are finite, so that a
 * search for invalid end states shows the last two.
 *
 * Names. progress, stamps: of kolo_shared_signal. slot[PART(owner, ticket, slice)]: slice `slice` of a chunk in the
 * slot of `owner` for that ticket (kolo_slot); it holds INPUT(ticket, rank), the input of `rank`, or RESULT(ticket,
 * rank), folded by `rank`, or TORN, from the first byte that a copy writes to the last. base_step, base_ticket,
 * slot_free, known, past_step: step, ticket, slots[].free, peer_steps, past[].step of kolo_comm; known is forgotten
 * between calls, so that claim looks again where kolo_slot_claim need not, and states are fewer. claim, compare_stamps,
 * step_await, publish: kolo_slot_claim, its `differs`, kolo_step_await, kolo_step_publish. AWAIT: kolo_wait_at_least
 * with its check.
 *
 * Left out: parts of slots (tests/schedules has them), slices in pieces (a piece is read whole before it is written, as a
 * slice is here), kernels, lines (lines.pml; they share nothing with slots), the other algorithms, how a wait waits
 * (wake.pml), and how a failure is found (abort.pml): here whoever cannot go on finds `failed`, or a dead rank, at once.
 * Memory order: a rank's steps happen in its program's order; the release of progress and its acquire are what makes
 * that so for slots and stamps, and no other order is relied on.
 *
 * SLOTS is KOLO_SLOTS and not less: with three, mesh would wait for a step of its peers that they publish only behind
 * a wait for its own (the control WITHOUT_FOURTH_SLOT). Enough calls and chunks: nothing depends on a number but
 * through its place among the slots and the stamps, so that what goes wrong does so within a turn of them and a call
 * more; CALLS of one chunk turn stamps and slots across calls, CHUNKS beyond SLOTS turn them within one.
 *
 * Controls. WITHOUT_CLAIM: a slot is written without waiting for its readers. WITHOUT_FOURTH_SLOT: see above.
 * WITHOUT_REDUCED_WAIT: mesh copies results out without waiting for them. WITHOUT_CALL_STEP: in mesh the last slots of
 * a call count as free at the call's last step rather than at the first one of the next call, when the results have
 * been copied out of them: a root may broadcast three times and then show its input in the slot of a peer that is
 * still busy there. WITHOUT_PRESENT_STAMP: a claim takes no stamp for right but that of the call that the peer's
 * progress is of; the peer may have stored one of the present call over it. */

#ifndef RANKS
#define RANKS 2
#endif
#ifndef CALLS
#define CALLS 3
#endif
#ifndef CHUNKS
#define CHUNKS 1
#endif
#ifndef DEATHS
#define DEATHS 0 /* at most */
#endif
#ifdef WITHOUT_FOURTH_SLOT
#define SLOTS 3
#else
#define SLOTS 4
#endif
#define STAMPS 4 /* the library has one more than parts, for trees, of which no rank reads all slots */

mtype = {MESH, ONESHOT, BROADCAST};
#ifndef ALGORITHMS
#define ALGORITHMS                                                                                                  \
    if                                                                                                              \
    :: algorithm[call] = MESH                                                                                       \
    :: algorithm[call] = ONESHOT                                                                                    \
    :: algorithm[call] = BROADCAST                                                                                  \
    fi
#endif

#define EMPTY 0
#define TORN 255
#define INPUT(ticket, rank) ((ticket) * 8 + 1 + (rank))
#define RESULT(ticket, rank) ((ticket) * 8 + 5 + (rank))
#define PART(owner, ticket, slice) (((owner) * SLOTS + (ticket) % SLOTS) * RANKS + (slice))
#define AFTER(rank) (((rank) + 1) % RANKS)

byte progress[RANKS];
byte stamps[RANKS * STAMPS];
byte slot[RANKS * SLOTS * RANKS];
mtype algorithm[CALLS];
byte chunks_of[CALLS];
bool dead[RANKS];
byte deaths;
bool failed;

#if DEATHS
#define UNLESS_DEAD unless { dead[me] }
#else
#define UNLESS_DEAD /* lets spin see which steps are local */
#endif

#define AWAIT(reached)                                                                                              \
    if                                                                                                              \
    :: (reached)                                                                                                    \
    :: !(reached) && (failed || deaths) -> failed = true; goto broken                                               \
    fi

/* step: of this call, from 1. The stamp is stored before progress, and nobody looks at it sooner. */
inline publish(step) {
    atomic { assert(base_step + step > progress[me]); stamps[me * STAMPS + call % STAMPS] = call };
    progress[me] = base_step + step
}

inline step_await(step) {
    AWAIT(progress[peer] >= base_step + step);
    atomic { known[peer] = base_step + step; assert(stamps[peer * STAMPS + call % STAMPS] == call) }
}

inline step_await_all(step) {
    peer = AFTER(me);
    do
    :: atomic { peer != me -> AWAIT(progress[peer] >= base_step + step) };
        atomic {
            known[peer] = base_step + step;
            assert(stamps[peer * STAMPS + call % STAMPS] == call);
            peer = AFTER(peer)
        }
    :: atomic { peer == me -> break }
    od
}

/* Of the last call that known[peer] is of. */
inline compare_stamps() {
    past = call;
    do
    :: known[peer] <= (past == call -> base_step : past_step[past % STAMPS]) && past > 0 && past + STAMPS > call ->
        past--
    :: else -> break
    od;
    assert(stamps[peer * STAMPS + past % STAMPS] == past
#ifndef WITHOUT_PRESENT_STAMP
           || stamps[peer * STAMPS + past % STAMPS] == call
#endif
    );
    past = 0
}

inline claim(chunk) {
#ifdef WITHOUT_CLAIM
    skip
#else
    peer = AFTER(me);
    do
    :: atomic { peer != me && known[peer] < slot_free[(base_ticket + chunk) % SLOTS] ->
        AWAIT(progress[peer] >= slot_free[(base_ticket + chunk) % SLOTS]) };
        known[peer] = progress[peer];
        atomic { compare_stamps(); peer = AFTER(peer) }
    :: peer != me && known[peer] >= slot_free[(base_ticket + chunk) % SLOTS] -> peer = AFTER(peer)
    :: atomic { peer == me -> break }
    od
#endif
}

#define RETIRE(chunk, step) slot_free[(base_ticket + (chunk)) % SLOTS] = base_step + (step)

/* Writes `value` into the slices of a slot but `spared`: torn all together from the first byte to the last. */
inline slot_write(owner, chunk, spared, value) {
    atomic {
        for (slice : 0 .. RANKS - 1) {
            if
            :: slice != spared ->
                assert(slot[PART(owner, base_ticket + chunk, slice)] != TORN);
                slot[PART(owner, base_ticket + chunk, slice)] = TORN
            :: else
            fi
        }
    };
    atomic {
        for (slice : 0 .. RANKS - 1) {
            if
            :: slice != spared -> slot[PART(owner, base_ticket + chunk, slice)] = value
            :: else
            fi
        }
    }
}

#define STEP_IN(chunk) (2 * (chunk) + ((chunk) == 0)) /* 1, 2, 4, 6, ... */
#define STEP_REDUCED(chunk) (2 * (chunk) + 3)

inline mesh_copy_in(chunk) {
    claim(chunk);
    slot_write(me, chunk, me, INPUT(base_ticket + chunk, me));
    publish(STEP_IN(chunk))
}

inline mesh_reduce(chunk) {
    step_await_all(STEP_IN(chunk));
    atomic { /* the fold's reading, then the first byte that is given back */
        for (peer : 0 .. RANKS - 1) {
            if
            :: peer != me ->
                assert(slot[PART(peer, base_ticket + chunk, me)] == INPUT(base_ticket + chunk, peer));
                slot[PART(peer, base_ticket + chunk, me)] = TORN
            :: else
            fi
        }
    };
    atomic {
        for (peer : 0 .. RANKS - 1) {
            if
            :: peer != me -> slot[PART(peer, base_ticket + chunk, me)] = RESULT(base_ticket + chunk, me)
            :: else
            fi
        }
    };
    publish(STEP_REDUCED(chunk))
}

inline mesh_copy_out(chunk) {
    peer = AFTER(me);
    do
    :: peer != me ->
#ifndef WITHOUT_REDUCED_WAIT
        step_await(STEP_REDUCED(chunk));
#endif
        atomic {
            assert(slot[PART(me, base_ticket + chunk, peer)] == RESULT(base_ticket + chunk, peer));
            peer = AFTER(peer)
        }
    :: atomic { peer == me -> break }
    od
}

#ifdef WITHOUT_CALL_STEP
#define MESH_END(chunks) STEP_REDUCED((chunks) - 1)
#else
#define MESH_END(chunks) (STEP_REDUCED((chunks) - 1) + 1)
#endif

inline mesh_retire(chunk) {
    if
    :: chunk + 3 < chunks -> RETIRE(chunk, STEP_IN(chunk + 3))
    :: else -> RETIRE(chunk, MESH_END(chunks))
    fi
}

inline mesh() {
    mesh_copy_in(0);
    chunk = 0;
    do
    :: chunk <= chunks ->
        if
        :: chunk + 1 < chunks -> mesh_copy_in(chunk + 1)
        :: else
        fi;
        if
        :: chunk < chunks -> mesh_reduce(chunk)
        :: else
        fi;
        if
        :: chunk > 0 ->
            mesh_copy_out(chunk - 1);
            mesh_retire(chunk - 1)
        :: else
        fi;
        chunk++
    :: else -> break
    od;
    base_step = base_step + STEP_REDUCED(chunks - 1)
}

#define TURN(chunk) ((base_ticket + (chunk)) / SLOTS % 2)
#define SHOWN_AT(rank, chunk) (((rank) + (RANKS == 2) * TURN(chunk)) % RANKS)

inline show_chunk(chunk) {
    claim(chunk);
    slot_write(SHOWN_AT(me, chunk), chunk, RANKS, INPUT(base_ticket + chunk, me));
    publish(chunk + 1)
}

inline oneshot() {
    show_chunk(0);
    chunk = 0;
    do
    :: chunk < chunks ->
        if
        :: chunk + 1 < chunks -> show_chunk(chunk + 1)
        :: else
        fi;
        step_await_all(chunk + 1);
        atomic { /* the fold */
            for (peer : 0 .. RANKS - 1) {
                for (slice : 0 .. RANKS - 1) {
                    assert(peer == me || slot[PART(SHOWN_AT(peer, chunk), base_ticket + chunk, slice)] ==
                                             INPUT(base_ticket + chunk, peer))
                }
            }
            if
            :: chunk + 3 < chunks + 1 -> RETIRE(chunk, chunk + 3)
            :: else -> RETIRE(chunk, chunks + 1)
            fi;
            chunk++
        }
    :: else -> break
    od;
    base_step = base_step + chunks
}

#define ROOT 0

inline broadcast() {
    chunk = 0;
    do
    :: chunk < chunks ->
        if
        :: me == ROOT ->
            claim(chunk);
            slot_write(ROOT, chunk, RANKS, INPUT(base_ticket + chunk, ROOT))
        :: else ->
            peer = ROOT;
            step_await(2 * chunk + 1);
            assert(slot[PART(ROOT, base_ticket + chunk, 0)] == INPUT(base_ticket + chunk, ROOT))
        fi;
        publish(2 * chunk + 2);
        atomic { RETIRE(chunk, 2 * chunk + 2); chunk++ }
    :: else -> break
    od;
    base_step = base_step + 2 * chunks
}

proctype rank(byte me) {
    byte call, chunk, chunks, peer, slice;
    byte base_step, base_ticket, past, past_step[STAMPS], first_step;
    byte slot_free[SLOTS], known[RANKS];
    {
        do
        :: atomic { call < CALLS -> chunks = chunks_of[call]; first_step = base_step };
            if
            :: algorithm[call] == MESH -> mesh()
            :: algorithm[call] == ONESHOT -> oneshot()
            :: algorithm[call] == BROADCAST -> broadcast()
            fi;
            atomic {
                base_ticket = base_ticket + chunks;
                past_step[call % STAMPS] = first_step;
                for (peer : 0 .. RANKS - 1) {
                    known[peer] = 0
                }
                chunk = 0;
                peer = 0;
                slice = 0;
                call++
            }
        :: atomic { call == CALLS -> break }
        od;
broken:
        skip
    } UNLESS_DEAD
}

proctype death() {
    byte victim;
    do
    :: atomic { deaths < DEATHS ->
        select(victim : 0 .. RANKS - 1);
        if
        :: !dead[victim] -> dead[victim] = true; deaths++
        :: else
        fi }
    :: break
    od
}

init {
    byte call, i;
    atomic {
        for (call : 0 .. CALLS - 1) {
            ALGORITHMS;
            select(i : 1 .. CHUNKS);
            chunks_of[call] = i
        }
        for (i : 0 .. RANKS * STAMPS - 1) {
            stamps[i] = TORN
        }
        run death();
        for (i : 0 .. RANKS - 1) {
            run rank(i)
        }
    }
}
