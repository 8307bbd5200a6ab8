/* Making a communicator in a call on another one, the old one: lib/core/api/groups/grow.c and, with GROUPS=2, split.c.
 * MEMBERS ranks make the call; in grow, JOINERS processes join them. At any step any of them may die, be stopped for
 * ever, be so slow that a deadline passes for the others or, a member, lack memory.
 *
 * Shown, of grow. All members move to the larger communicator, or all stay, and who moves has it. They stay only where
 * something failed; and the old communicator is whole then, unless a member died or was late. A joiner never joins
 * members that stay, and fails only where something failed. Of split. All groups have their communicators or none has,
 * and the old one is whole, unless a member died or was late; even so the first call in a communicator that not all of
 * its group have fails. Of both: whoever is neither dead nor stopped ends. All runs are finite, so that a search for
 * invalid end states shows the last one.
 *
 * Names. Sets have a bit a rank; joiners come after the members. failure: kolo_shared_header.failure of the old
 * communicator; MOVED: the abort of step 3. made_failure[g], job[g]: the same of the new communicator of group g, and
 * the outcome of kolo_job_header in its creation. told: who has come to the exchange of step 1. answered: the joiners
 * have their answers. attached: of kolo_job_member. has, lacks: who has said in the last exchange that it has the new
 * communicator, or that it has not. come: who has come to the first call in it; in grow that is rank 0's message.
 * departed: who has destroyed it. moved, stayed: what members have concluded; in split, who has it in the end. dead:
 * who makes no step any more; then its pidfd shows it, gone.
 *
 * Left out. How a failure is found, and published once: abort.pml. Step 1 but for one exchange: who fails in it comes
 * to no other. The creation but for its word of outcome; a rank that dies before it is attached is missed at a
 * deadline, unless it is found in the old communicator. In split, who finds a failure in step 3 does not come to step 4: here it
 * may, which only adds runs. Memory order: all words are releases and acquires, so that a rank's steps happen in its
 * program's order.
 *
 * Controls. WITHOUT_MOVING: nobody moves; shows that this model comes to it. WITHOUT_ORDER: rank 0 answers the joiners
 * before it knows that all members have come. WITHOUT_ABORT: the exchange's own result decides. WITHOUT_SWAP: the abort
 * is stored, not swapped in. WITHOUT_SECOND_LOOK: who has aborted does not look whether another failure came first.
 * WITHOUT_LAST_LOOK: who fails in the exchange does not look whether that was the abort. WITHOUT_EXCHANGE: who has it
 * aborts without asking the others. WITHOUT_AGREEMENT: or, in split, keeps it. WITHOUT_LACKS: who has it not says that
 * it has. WITHOUT_MESSAGE: joiners do not wait for rank 0's. WITHOUT_DROP: who stays does not destroy it.
 * WITHOUT_AHEAD: who waits in the creation does not look whether another member is past it. WITHOUT_FAILURE: nor
 * whether the old communicator has failed. */

#ifndef MEMBERS
#define MEMBERS 3
#endif
#ifndef JOINERS
#define JOINERS 1
#endif
#ifndef GROUPS
#define GROUPS 1 /* 2: a split */
#endif
#ifndef DEATHS
#define DEATHS 1 /* of members, at most, as the next four */
#endif
#ifndef JOINERS_DEATHS
#define JOINERS_DEATHS 0
#endif
#ifndef STOPS
#define STOPS 0
#endif
#ifndef LATE
#define LATE 0 /* deadlines that pass without a rank that is stopped */
#endif
#ifndef LACKS
#define LACKS 0
#endif

#ifdef WITHOUT_FAILURE
#define SEES_FAILURE false
#else
#define SEES_FAILURE true
#endif
#ifdef WITHOUT_AHEAD
#define SEES_AHEAD false
#else
#define SEES_AHEAD true
#endif

#define DEAD 1
#define TIMEOUT 2
#define MOVED 3
#define COMPLETE 1 /* of a creation */
#define GIVEN_UP 2

#define RANKS (MEMBERS + JOINERS)
#define BIT(rank) (1 << (rank))
#define ALL_MEMBERS (BIT(MEMBERS) - 1)
#define ALL (BIT(RANKS) - 1)
#define GROUP(rank) ((rank) % GROUPS)
#if GROUPS == 1
#define OWN_GROUP ALL
#else
#define OWN_GROUP (5 << GROUP(me) & ALL) /* every second rank */
#endif
#define IS_FIRST (me < GROUPS) /* of its group */
#define JOB job[GROUP(me)]
#define HAS_FILE (attached & BIT(GROUP(me)))
#define HAVE_ALL(set, others) (((set) & (others)) == (others))

byte failure, made_failure[GROUPS];
bool answered;
byte told, attached, has, lacks, come, departed;
byte job[GROUPS];

byte dead, stopped, gone;
byte moved, stayed;
bool joined;
byte deaths, joiners_deaths, stops, late, lacking;

#define IS_LATE (stops || late < LATE)
#define PASS_DEADLINE                                                                                               \
    if                                                                                                              \
    :: stops                                                                                                        \
    :: else -> late++                                                                                               \
    fi
#define IF_ANY_LACKS(then)                                                                                          \
    if                                                                                                              \
    :: lacks -> then                                                                                                \
    :: else                                                                                                         \
    fi
#define NO_MEMBER_FAILED (!deaths && !stops && !late)
#define NOTHING_FAILED (NO_MEMBER_FAILED && !joiners_deaths && !lacking)

/* kolo_failure_publish, some time after the failure was found; and conclude of comm/creation/outcome.c. */
inline publish(word, status) {
    atomic {
        if
        :: word == 0 -> word = status
        :: else
        fi
    }
}

/* An exchange in the old communicator: waits until `set` has all members. */
#define EXCHANGE(set, then, otherwise)                                                                              \
    if                                                                                                              \
    :: atomic { HAVE_ALL(set, ALL_MEMBERS) -> then }                                                                \
    :: atomic { !HAVE_ALL(set, ALL_MEMBERS) && failure -> otherwise }                                               \
    :: !HAVE_ALL(set, ALL_MEMBERS) && !failure && (gone & ALL_MEMBERS) -> publish(failure, DEAD); otherwise         \
    :: atomic { !HAVE_ALL(set, ALL_MEMBERS) && !failure && IS_LATE -> PASS_DEADLINE };                              \
        publish(failure, TIMEOUT);                                                                                  \
        otherwise                                                                                                   \
    fi

/* What a member finds in the old communicator while it waits in the creation. */
#define OLD_ONE_FAILS(waits, give_up)                                                                               \
    :: is_member && (waits) && SEES_FAILURE && failure -> give_up                                                   \
    :: is_member && (waits) && SEES_FAILURE && !failure && (gone & ALL_MEMBERS) -> publish(failure, DEAD); give_up  \
    :: is_member && (waits) && SEES_AHEAD && ((has | lacks) & OWN_GROUP) -> give_up

inline say_late(is_member) {
    if
    :: is_member -> publish(failure, TIMEOUT)
    :: true /* it was no member that was late, or the old communicator has more time */
    fi
}

/* Step 2 of grow, step 3 of split. The group's first rank makes the file. */
inline create(is_member) {
    if
    :: IS_FIRST || HAS_FILE
    OLD_ONE_FAILS(!IS_FIRST && !HAS_FILE, goto without)
    :: !is_member && !HAS_FILE && (gone & BIT(0) || lacks & BIT(0)) -> goto without /* at its deadline */
    :: atomic { !IS_FIRST && !HAS_FILE && IS_LATE -> PASS_DEADLINE };
        say_late(is_member);
        goto without
    fi;
    attached = attached | BIT(me);
    if
    :: JOB
    :: !JOB && IS_FIRST && HAVE_ALL(attached, OWN_GROUP) -> publish(JOB, COMPLETE)
    OLD_ONE_FAILS(!JOB, publish(JOB, GIVEN_UP))
    :: !JOB && (gone & OWN_GROUP) -> publish(JOB, GIVEN_UP)
    :: atomic { !JOB && IS_LATE -> PASS_DEADLINE };
        publish(JOB, GIVEN_UP);
        if
        :: JOB == GIVEN_UP -> say_late(is_member)
        :: JOB == COMPLETE
        fi
    :: atomic { is_member && !JOB && lacking < LACKS -> lacking++ };
        publish(JOB, GIVEN_UP)
    fi;
    if
    :: atomic { JOB == COMPLETE -> made = true }
    :: atomic { JOB == GIVEN_UP -> goto without }
    fi
}

/* The first call in the new communicator: waits for all in `awaited`. */
inline call(awaited) {
    come = come | BIT(me);
    if
    :: HAVE_ALL(come, awaited)
    :: atomic { !HAVE_ALL(come, awaited) && made_failure[GROUP(me)] -> goto broken }
    :: !HAVE_ALL(come, awaited) && (((gone & ~departed) | (awaited & departed & ~come)) & OWN_GROUP) ->
        publish(made_failure[GROUP(me)], DEAD);
        goto broken
    :: atomic { !HAVE_ALL(come, awaited) && IS_LATE -> PASS_DEADLINE };
        publish(made_failure[GROUP(me)], TIMEOUT);
        goto broken
    fi
}

/* Step 3 of grow, step 4 of split. */
inline decide() {
    atomic {
        if
        :: made -> has = has | BIT(me)
#ifdef WITHOUT_LACKS
        :: !made -> has = has | BIT(me)
#else
        :: !made -> lacks = lacks | BIT(me)
#endif
        fi
    };
#ifdef WITHOUT_EXCHANGE
    if
    :: atomic { made -> goto all_have }
    :: !made
    fi;
#endif
#ifdef WITHOUT_AGREEMENT
    if
    :: atomic { made -> goto move }
    :: atomic { !made -> goto stay }
    fi;
#endif
    EXCHANGE(has | lacks, IF_ANY_LACKS(goto stay), goto failed);
all_have:
#if GROUPS > 1 || defined(WITHOUT_ABORT)
    goto move;
#elif defined(WITHOUT_SWAP)
    failure = MOVED;
#else
    publish(failure, MOVED);
#endif
#ifdef WITHOUT_SECOND_LOOK
    goto move;
#endif
    goto look;
failed:
#if GROUPS > 1 || defined(WITHOUT_LAST_LOOK)
    goto stay;
#endif
look:
    if
    :: atomic { failure == MOVED -> goto move }
    :: atomic { failure != MOVED -> goto stay }
    fi
}

/* Whenever a member has moved or stayed, or a joiner joined. */
inline check_members() {
#if GROUPS == 1
    assert(!moved || !stayed);
    assert(!joined || !stayed);
    assert(failure == 0 || failure == MOVED || !NO_MEMBER_FAILED);
#else
    assert(!moved || !stayed || !NO_MEMBER_FAILED);
    assert(failure == 0 || !NO_MEMBER_FAILED);
#endif
    assert(!stayed || !NOTHING_FAILED)
}

proctype member(byte me) {
    bool made;
    {
#ifdef WITHOUT_ORDER
        answered = answered || me == 0;
#endif
        told = told | BIT(me);
        EXCHANGE(told, answered = answered || me == 0, goto stay);
        if
        :: create(true)
        :: atomic { lacking < LACKS -> lacking++ } /* before it can say so in the creation */
        fi;
        if
        :: true
        :: atomic { made && lacking < LACKS -> lacking++; made = false; departed = departed | BIT(me) }
        fi;
without:
        decide();
move:
        atomic {
            assert(JOB == COMPLETE && made);
#ifdef WITHOUT_MOVING
            assert(false);
#endif
            moved = moved | BIT(me);
            check_members()
        };
#if GROUPS == 1
        call(BIT(0));
#else
        call(OWN_GROUP);
        assert(HAVE_ALL(moved, OWN_GROUP));
#endif
        goto broken;
stay:
        atomic {
            stayed = stayed | BIT(me);
            check_members()
        };
#ifndef WITHOUT_DROP
        departed = departed | BIT(me);
#endif
broken:
        made = false
    } unless { (dead | stopped) & BIT(me) }
}

proctype joiner(byte me) {
    bool made;
    {
        made = false;
end_asking: /* for as long as rank 0 is stopped */
        if
        :: answered
        :: !answered && ((gone | stayed) & BIT(0)) -> goto without
        fi;
        create(false);
#ifndef WITHOUT_MESSAGE
        call(BIT(0));
#endif
        atomic { joined = true; check_members(); goto leave };
without:
broken:
        atomic { assert(!NOTHING_FAILED); departed = departed | BIT(me) };
leave:
        made = false
    } unless { (dead | stopped) & BIT(me) }
}

proctype fate() {
    byte victim;
    do
    :: atomic { deaths < DEATHS ->
        select(victim : 0 .. MEMBERS - 1);
        dead = dead | BIT(victim);
        deaths++ };
        atomic { gone = gone | BIT(victim); victim = 0 }
    :: atomic { joiners_deaths < JOINERS_DEATHS ->
        select(victim : MEMBERS .. RANKS - 1);
        dead = dead | BIT(victim);
        joiners_deaths++ };
        atomic { gone = gone | BIT(victim); victim = 0 }
    :: atomic { stops < STOPS ->
        select(victim : 0 .. RANKS - 1);
        stopped = stopped | BIT(victim);
        stops++;
        victim = 0 }
    :: break
    od
}

init {
    byte i;
    atomic {
        run fate();
        for (i : 0 .. MEMBERS - 1) {
            run member(i)
        }
        for (i : MEMBERS .. RANKS - 1) {
            run joiner(i)
        }
    }
}
