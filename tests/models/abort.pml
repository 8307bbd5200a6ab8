/* Failing together: lib/core/comm/failure/failure.c (kolo_failure_publish, adopt, kolo_failure_check, find_cause), wait_asleep of
 * lib/core/sync/wait.c, and of lib/core/api/communicator.c kolo_comm_abort and kolo_comm_destroy. RANKS ranks make CALLS calls,
 * in each of which a rank publishes its flag and waits for every peer's, then leave; at any step any of them may die,
 * be stopped for ever, or, between its calls, abort.
 *
 * Shown. Agreement: there is one failure, published once, and every rank that fails returns that one, with the code
 * that its reporter gave it. Cause: nothing is published but what is so: a rank named as dead has died, or has left
 * and not come to the call that is waited in; no deadline passes where nobody is stopped. These are assertions, in a
 * search of all states. Survival: whoever is neither dead nor stopped ends, with its result or with the failure: the
 * claim survivors_end, with weak fairness (a rank that can always go on does), since who waits looks again and again.
 *
 * Names. failure: kolo_shared_header.failure, packed as there. failure_code[r], state[r], flag[r]: of
 * kolo_shared_member and kolo_shared_signal of rank r; failure_call goes as failure_code does. gone[r]: r's process
 * has ended, as its pidfd shows; it comes some time after its last step. known: kolo_watched.ending, a bit a rank.
 * CODE: what a rank that publishes a status gives as the code, made different for each.
 *
 * Left out: spinning and yielding look at the flag alone, and as often as one likes; so one look stands for them. A
 * sleep ends by a wake-up or after a slice, here at any time. A clock: deadlines pass once a rank is stopped, not
 * before, and name who is waited for. Mismatches, which are published in the same way. Pids that are used again.
 * Memory order: the swap releases the reporter's fields and whoever loads the failure acquires them; a rank's steps
 * happen in its program's order.
 *
 * Controls. WITHOUT_SWAP: the failure is stored, not swapped in. WITHOUT_FIELDS_FIRST: the code is stored after it.
 * WITHOUT_LAST_LOOK: the check does not look at the flag after it has found a cause. WITHOUT_FAILURE: it does not look
 * for a published failure (survival). WITHOUT_CHECK: there is no check (survival). */

#ifndef RANKS
#define RANKS 2
#endif
#ifndef CALLS
#define CALLS 2
#endif
#ifndef DEATHS
#define DEATHS 1 /* at most */
#endif
#ifndef STOPS
#define STOPS 1 /* at most */
#endif

#define DEAD 1
#define TIMEOUT 2
#define ABORTED 3
#define PACK(status, culprit, reporter) ((status) * 16 + (culprit) * 4 + (reporter))
#define STATUS(word) ((word) / 16)
#define CULPRIT(word) ((word) / 4 % 4)
#define REPORTER(word) ((word) % 4)
#define CODE(status, reporter) ((status) * 8 + 1 + (reporter))

byte failure;
byte failure_code[RANKS];
bool departed[RANKS]; /* state */
byte flag[RANKS];
bool gone[RANKS];

bool dead[RANKS], stopped[RANKS], finished[RANKS];
byte deaths, stops;

/* kolo_failure_publish, with status and culprit set. */
inline publish() {
    if
    :: failure == 0 ->
#ifndef WITHOUT_FIELDS_FIRST
        failure_code[me] = CODE(status, me);
#endif
        atomic {
            if
#ifdef WITHOUT_SWAP
            :: true ->
#else
            :: failure == 0 ->
#endif
                assert(failure == 0);
                assert(status != DEAD || dead[culprit] || (departed[culprit] && flag[culprit] < call));
                assert(status != TIMEOUT || stops);
                failure = PACK(status, culprit, me)
            :: else
            fi
        };
#ifdef WITHOUT_FIELDS_FIRST
        failure_code[me] = CODE(status, me);
#endif
    :: failure != 0
    fi
}

/* What keeps the wait from ending; status stays 0 if nothing does. */
inline find_cause() {
    atomic { status = 0; culprit = peer; known = 0; left = 0; other = 0 };
    look_at_processes();
    look_at_states();
    atomic {
        for (other : 0 .. RANKS - 1) {
            if
            :: status == 0 && (known >> other & 1) && !(left >> other & 1) -> status = DEAD; culprit = other
            :: status == 0 && other == peer && (left >> other & 1) -> status = DEAD; culprit = other
            :: else
            fi
        }
        if
        :: status == 0 && stops -> status = TIMEOUT
        :: else
        fi;
        known = 0;
        left = 0;
        other = 0
    }
}

inline look_at_processes() {
    do
    :: atomic { other < RANKS -> known = known | (gone[other] << other); other++ }
    :: atomic { other == RANKS -> other = 0; break }
    od
}

inline look_at_states() {
    do
    :: atomic { other < RANKS -> left = left | (departed[other] << other); other++ }
    :: atomic { other == RANKS -> other = 0; break }
    od
}

/* kolo_failure_check, before each sleep. */
inline check() {
#ifndef WITHOUT_FAILURE
    if
    :: failure != 0 -> goto broken
    :: failure == 0
    fi;
#endif
    find_cause();
    if
    :: status == 0
    :: status != 0 ->
        if
#ifndef WITHOUT_LAST_LOOK
        :: atomic { flag[peer] >= call -> status = 0 }
        :: flag[peer] < call ->
#else
        :: true ->
#endif
            publish();
            goto broken
        fi
    fi
}

proctype rank(byte me) {
    byte call = 1, peer, other, known, left, status, culprit;
    {
        do
        :: call <= CALLS ->
            if
            :: true
            :: atomic { status = ABORTED; culprit = me }; publish(); goto broken /* kolo_comm_abort */
            fi;
            flag[me] = call;
            do
            :: peer < RANKS && peer != me ->
                do
                :: flag[peer] >= call -> break
                :: flag[peer] < call ->
#ifndef WITHOUT_CHECK
                    check()
#else
                    skip
#endif
                od;
                atomic { status = 0; culprit = 0; peer++ }
            :: peer == me -> peer++
            :: atomic { peer == RANKS -> peer = 0; call++; break }
            od
        :: atomic { call > CALLS -> break }
        od;
        goto leave;
broken:
        atomic { status = failure; culprit = 0; peer = 0; call = 0; assert(status != 0) }; /* adopt */
        assert(failure_code[REPORTER(status)] == CODE(STATUS(status), REPORTER(status)));
        assert(status == failure);
leave:
        finished[me] = true;
        if
        :: departed[me] = true; gone[me] = true /* kolo_comm_destroy, and the process ends */
        :: true                                 /* it does something else for ever */
        fi
    } unless { dead[me] || stopped[me] }
}

proctype fate() {
    byte victim;
    do
    :: atomic { deaths < DEATHS ->
        select(victim : 0 .. RANKS - 1);
        if
        :: !dead[victim] && !gone[victim] -> dead[victim] = true; deaths++
        :: else -> break
        fi };
        atomic { gone[victim] = true; victim = 0 }
    :: atomic { stops < STOPS ->
        select(victim : 0 .. RANKS - 1);
        if
        :: !dead[victim] && !stopped[victim] && !gone[victim] -> stopped[victim] = true; stops++
        :: else -> break
        fi;
        victim = 0 }
    :: break
    od
}

#define ENDED(rank) (finished[rank] || dead[rank] || stopped[rank])
#if RANKS == 2
ltl survivors_end { <> (ENDED(0) && ENDED(1)) }
#else
ltl survivors_end { <> (ENDED(0) && ENDED(1) && ENDED(2)) }
#endif

init {
    byte i;
    atomic {
        run fate();
        for (i : 0 .. RANKS - 1) {
            run rank(i)
        }
    }
}
