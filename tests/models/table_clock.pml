/* Clocks with staleness above 0: lib/table/clocks.h. WORKERS workers push one update in each of CLOCKS clocks, then
 * end the clock; any of them may die at any step, or leave the table between two clocks.
 *
 * Shown, for all interleavings: a worker that has come to clock c finds applied all updates of clocks up to c -
 * STALENESS - 1 of all workers, of those that have died or left too if their pushes had returned, and all of its own;
 * nobody is more than STALENESS clocks ahead of a worker that is there; and nobody waits for ever. All runs are
 * finite, so that a search for invalid end states shows the last.
 *
 * Names. word[w]: `reached` of worker w, its clock or GONE. role, head, tail: as in table_writers.pml, which shows
 * what is simplified here: an update is applied in one step, a holder sees which queues have something in them, and
 * who takes over knows what the dead holder has done. pushed[w]: pushes of worker w that have returned; applied[w]:
 * its updates that are applied, in order. limit: how much of a queue has to be applied before the worker goes on: what
 * was in it at its look.
 *
 * Controls. WITHOUT_DRAIN: a worker that has waited for the others goes on at once. WITHOUT_DRAIN_LAST: it sees to the
 * queues, then waits. WITHOUT_PUSH_FIRST: the clock is published before the push is in its queue. WITHOUT_GONE: a dead
 * worker stays in the minimum. WITHOUT_LEAVING: so does one that has left. WITHOUT_BOUND: one clock more than
 * STALENESS. WITHOUT_TAKEOVER: who waits does not take the role of a dead holder.
 * WITHOUT_FINISHING: a worker that has said that it leaves, and then died, is left as it is. */

#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef CLOCKS
#define CLOCKS 3
#endif
#ifndef STALENESS
#define STALENESS 1
#endif
#ifndef ENTRIES
#define ENTRIES 1 /* that a queue holds */
#endif
#ifndef DEATHS
#define DEATHS 1 /* at most, as the next */
#endif
#ifndef LEAVES
#define LEAVES 1
#endif

#define GONE 255
#ifdef WITHOUT_BOUND
#define ALLOWED (STALENESS + 1)
#else
#define ALLOWED STALENESS
#endif
#define IS_NEAR(peer, clock) (word[peer] == GONE || word[peer] + ALLOWED >= clock)
#define ENDED(peer) (word[peer] == GONE || dead[peer])
#define SOME(queue) (queue < WORKERS && head[queue] != tail[queue])

byte word[WORKERS];
byte role; /* 0: free, else 1 + its holder */
byte head[WORKERS + 1], tail[WORKERS + 1];
byte pushed[WORKERS], applied[WORKERS];
bool dead[WORKERS], has_left[WORKERS];
byte deaths, leaves;

#if DEATHS
#define UNLESS_DEAD unless { dead[me] }
#else
#define UNLESS_DEAD
#endif

#ifdef WITHOUT_FINISHING
#define MAY_FINISH (!has_left[peer])
#else
#define MAY_FINISH true
#endif
#ifdef WITHOUT_TAKEOVER
#define IS_FREE (role == 0)
#else
#define IS_FREE (role == 0 || dead[role - 1])
#endif

/* Of the holder: applies entries, with has_own its own update too, and gives the role back. */
inline hold() {
    do
    :: atomic { holds && (SOME(0) || SOME(1) || SOME(2)) ->
            if
            :: SOME(0) -> tail[0]++; applied[0]++
            :: SOME(1) -> tail[1]++; applied[1]++
            :: SOME(2) -> tail[2]++; applied[2]++
            fi }
    :: atomic { holds && has_own && !SOME(me) -> applied[me]++; has_own = false }
    :: atomic { holds && !has_own -> role = 0; holds = false };
        atomic {
            if
            :: role == 0 && (SOME(0) || SOME(1) || SOME(2)) -> role = me + 1; holds = true
            :: else
            fi }
    :: !holds -> break
    od
}

inline push() {
    if
    :: atomic { IS_FREE -> role = me + 1; holds = true; has_own = true }
    :: atomic { role != 0 && head[me] - tail[me] < ENTRIES -> head[me]++ };
        if
        :: atomic { role == 0 -> role = me + 1; holds = true }
        :: role != 0
        fi
    fi;
    hold()
}

/* Until the queue of worker `queue` is empty up to where it is now; takes the role where it is free. */
inline drain(queue) {
    limit = head[queue];
    do
    :: atomic { tail[queue] >= limit -> limit = 0; break }
    :: atomic { tail[queue] < limit && IS_FREE -> role = me + 1; holds = true };
        hold()
    od
}

inline drain_all() {
    peer = 0;
    do
    :: peer < WORKERS -> drain(peer); peer++
    :: atomic { peer == WORKERS -> peer = 0; break }
    od
}

inline await_others() {
    do
    :: atomic { peer < WORKERS && IS_NEAR(peer, clock) -> peer++ }
#ifndef WITHOUT_GONE
    :: atomic { peer < WORKERS && !IS_NEAR(peer, clock) && dead[peer] && MAY_FINISH -> word[peer] = GONE }
#endif
    :: atomic { peer == WORKERS -> peer = 0; break }
    od
}

inline check() {
    atomic {
        assert(applied[me] == clock);
        for (peer : 0 .. WORKERS - 1) {
            assert(applied[peer] + STALENESS >= clock || (ENDED(peer) && applied[peer] >= pushed[peer]));
            assert(word[peer] + STALENESS >= clock || ENDED(peer))
        }
        peer = 0
    }
}

proctype worker(byte me) {
    byte clock, peer, limit;
    bool holds, has_own;
    {
        do
        :: clock < CLOCKS ->
#ifdef WITHOUT_PUSH_FIRST
            word[me] = clock + 1;
            push();
            atomic { pushed[me]++; clock++ };
#else
            push();
            atomic { pushed[me]++; clock++ };
            word[me] = clock;
#endif
#ifdef WITHOUT_DRAIN_LAST
            drain_all();
            await_others();
#else
            await_others();
#ifndef WITHOUT_DRAIN
            drain_all();
#endif
#endif
            check()
        :: atomic { clock == CLOCKS -> break }
        :: atomic { clock && clock < CLOCKS && leaves < LEAVES -> leaves++; break }
        od;
        /* kolo_table_destroy */
        drain(me);
        has_left[me] = true;
#ifndef WITHOUT_LEAVING
        word[me] = GONE
#endif
    } UNLESS_DEAD
}

/* Workers are alike, so that it may be the first ones who die. */
proctype death() {
    do
    :: atomic { deaths < DEATHS -> dead[deaths] = true; deaths++ }
    :: break
    od
}

init {
    byte i;
    atomic {
        run death();
        for (i : 0 .. WORKERS - 1) {
            run worker(i)
        }
    }
}
