/* Going on after a failure: lib/core/comm/creation/agreement.h and shrink.c. RANKS ranks of a broken communicator shrink it,
 * through as many generations as it takes. At any step any of them may die, be stopped for ever, be so slow that a
 * deadline passes for the others, or lack memory, and then try again or leave.
 *
 * Shown. Agreement: all that get a communicator get the same one, of the same generation with the same ranks. Whole
 * views: what a rank takes over was written for its generation, and is no torn copy. Membership: whoever is in a view
 * has come; whoever is told that the others went on without it is not in what they made; that happens to nobody, and
 * every survivor gets a communicator, where no deadline passes and nobody lacks anything. One outcome a generation, and
 * none of a generation in which somebody gets a communicator. Survival: whoever is neither dead nor stopped ends. All
 * runs are finite, so that a search for invalid end states shows the last one.
 *
 * Names. decision, outcome: shrink_decision and shrink_outcome of kolo_shared_header, packed as there. arrived, departed
 * (state): of kolo_shared_member; view, offered, file: of its proposals. open[r]: the file of which generation the
 * leader r has open; 0: none. attached, job: the creation in that file, of kolo_job_member and the outcome of
 * kolo_job_header, which is a word of its own in each file. dead[r]: r makes no step any more; then its files are
 * closed; then its pidfd shows it, gone[r]. known: kolo_comm.survivors of a rank; mine: the file that it has opened.
 *
 * Left out: what a creation does beside its word of outcome; damage. Looks at several words in a row are one step where
 * the words only grow: what is seen is what would be seen at the last of the looks. But who is gone need not be known to
 * who writes a view. Memory order: after a store no rank relies on what it then loads from another word to be as new;
 * all else are releases and acquires, so that a rank's steps happen in its program's order.
 *
 * Controls. WITHOUT_DECISION_SWAP, WITHOUT_OUTCOME_SWAP, WITHOUT_JOB_SWAP: that word is stored, not swapped in.
 * WITHOUT_RECHECK: the decision is not looked at again after the view was copied. WITHOUT_SECOND_PROPOSAL: one proposal
 * instead of two in turn. WITHOUT_SECOND_LOOK: who has opened the file does not look again for an outcome.
 * WITHOUT_ATTACHED: the leader completes the creation without waiting for the others. WITHOUT_GONE: who waits for the
 * offer does not look whether the leader is gone. WITHOUT_LOOK: who waits in the creation looks neither at the outcome
 * nor whether others are gone. */

#ifndef RANKS
#define RANKS 3
#endif
#ifndef DEATHS
#define DEATHS 1 /* at most, as the next three */
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
#ifdef WITHOUT_SECOND_PROPOSAL
#define PROPOSALS 1
#else
#define PROPOSALS 2
#endif

#define ABORTED 1
#define FAILED 2
#define COMPLETE 1 /* of a creation */
#define GIVEN_UP(rank) (2 + (rank))
#define TORN 255
#define ALL ((1 << RANKS) - 1)
#define HAS(set, rank) ((set) >> (rank) & 1)
#define LOWEST(set) (HAS(set, 0) -> 0 : (HAS(set, 1) -> 1 : (HAS(set, 2) -> 2 : 3)))
#define PROPOSAL(rank) ((rank) * PROPOSALS + generation % PROPOSALS)
#define VIEW(set) (generation * 16 + (set))
#define GENERATIONS (RANKS + LACKS + 2)

#define DECISION(author) (generation * 4 + (author))
#define DECIDED(word) ((word) / 4)
#define AUTHOR(word) ((word) % 4)
#define OUTCOME(kind, rank) (generation * 16 + (kind) * 4 + (rank))
#define CONCLUDED(word) ((word) / 16)
#define KIND(word) ((word) / 4 % 4)
#define NAMED(word) ((word) % 4)
#define IS_SETTLED (CONCLUDED(outcome) >= generation)

byte decision, outcome;
byte arrived[RANKS], attached[RANKS];
byte view[RANKS * PROPOSALS], offered[RANKS * PROPOSALS], file[RANKS * PROPOSALS];
byte open[RANKS];
byte job[GENERATIONS];
bool departed[RANKS];
bool gone[RANKS];

bool dead[RANKS], stopped[RANKS], left_out[RANKS];
byte deaths, stops, late, lacks;
byte said[GENERATIONS]; /* [generation] the outcome that ranks have read */
byte made;                    /* generation and view of the communicator that has come of it */

#define IS_GONE(rank) (gone[rank] || departed[rank])
#define HAS_COME(rank) (!HAS(known, rank) || arrived[rank] >= generation || IS_GONE(rank))
#define HAS_ATTACHED(rank) (!HAS(known, rank) || attached[rank] == generation)
#define IS_THERE(rank) (!HAS(known, rank) || !IS_GONE(rank))
#if RANKS == 2
#define OF_ALL(holds) (holds(0) && holds(1))
#elif RANKS == 3
#define OF_ALL(holds) (holds(0) && holds(1) && holds(2))
#else
#define OF_ALL(holds) (holds(0) && holds(1) && holds(2) && holds(3))
#endif

/* Whether the deadline of a wait may pass. */
#define IS_LATE (stops || late < LATE)
#define PASS_DEADLINE                                                                                               \
    if                                                                                                              \
    :: stops                                                                                                        \
    :: else -> late++                                                                                               \
    fi

inline settle_decision(value) {
    atomic {
        word = decision;
#ifdef WITHOUT_DECISION_SWAP
    };
    atomic {
#endif
        if
        :: DECIDED(word) < generation -> word = value; decision = value
        :: else
        fi
    }
}

inline settle_outcome(value) {
    atomic {
        word = outcome;
#ifdef WITHOUT_OUTCOME_SWAP
    };
    atomic {
#endif
        if
        :: CONCLUDED(word) < generation ->
            word = value;
            outcome = value
        :: else
        fi
    }
}

inline come() {
    arrived[me] = generation;
    if
    :: DECIDED(decision) >= generation || OF_ALL(HAS_COME)
    :: atomic { IS_LATE && DECIDED(decision) < generation && !OF_ALL(HAS_COME) -> PASS_DEADLINE }
    fi
}

inline propose_view() {
    atomic {
        set = 0;
        for (other : 0 .. RANKS - 1) {
            if
            :: HAS(known, other) && arrived[other] >= generation -> set = set | 1 << other
            :: HAS(known, other) && arrived[other] < generation || !HAS(known, other) || IS_GONE(other)
            fi
        }
        other = 0;
        view[PROPOSAL(me)] = TORN
    };
    atomic { view[PROPOSAL(me)] = VIEW(set); set = 0 };
    settle_decision(DECISION(me))
}

inline adopt_view() {
    atomic {
        if
        :: DECIDED(word) != generation -> goto without
        :: else -> set = view[PROPOSAL(AUTHOR(word))]
        fi
    };
    atomic {
        if
#ifndef WITHOUT_RECHECK
        :: decision != word -> goto without
        :: else
#else
        :: true
#endif
            -> assert(set != TORN && set / 16 == generation);
            set = set % 16;
            assert((set & ~known) == 0);
            for (other : 0 .. RANKS - 1) {
                assert(!HAS(set, other) || arrived[other] >= generation)
            }
            other = 0;
            if
            :: !HAS(set, me) -> goto without
            :: else -> known = set; set = 0; word = 0; leader = LOWEST(known)
            fi
        fi
    }
}

inline offer() {
    atomic { open[me] = generation; mine = generation };
    file[PROPOSAL(me)] = generation;
    offered[PROPOSAL(me)] = generation
}

inline accept_offer() {
    if
    :: offered[PROPOSAL(leader)] == generation
    :: offered[PROPOSAL(leader)] != generation && IS_SETTLED -> goto concluding
#ifndef WITHOUT_GONE
    :: offered[PROPOSAL(leader)] != generation && IS_GONE(leader) ->
        settle_outcome(OUTCOME(ABORTED, leader));
        goto concluding
#endif
    :: atomic { offered[PROPOSAL(leader)] != generation && IS_LATE -> PASS_DEADLINE };
        settle_outcome(OUTCOME(ABORTED, leader));
        goto concluding
    fi;
    mine = file[PROPOSAL(leader)];
    if
    :: open[leader] == mine
    :: open[leader] != mine && IS_SETTLED -> goto concluding
    :: open[leader] != mine && IS_GONE(leader) ->
        settle_outcome(OUTCOME(ABORTED, leader));
        goto concluding
    fi;
#ifndef WITHOUT_SECOND_LOOK
    if
    :: IS_SETTLED -> goto concluding
    :: else
    fi;
#endif
    assert(mine == generation)
}

/* Ends the creation in this rank's file, unless it has ended. */
inline end_creation(value) {
    atomic {
        word = job[generation];
#ifdef WITHOUT_JOB_SWAP
    };
    atomic {
#endif
        if
        :: word == 0 -> job[generation] = value; word = value
        :: else
        fi
    }
}

inline create() {
    attached[me] = generation;
    if
    :: job[generation]
#ifdef WITHOUT_ATTACHED
    :: !job[generation] && leader == me -> end_creation(COMPLETE)
#else
    :: !job[generation] && leader == me && OF_ALL(HAS_ATTACHED) -> end_creation(COMPLETE)
#endif
#ifndef WITHOUT_LOOK
    :: !job[generation] && IS_SETTLED -> end_creation(GIVEN_UP(me))
    :: atomic { !job[generation] && !OF_ALL(IS_THERE) ->
        do
        :: IS_THERE(other) -> other++
        :: else -> break
        od };
        end_creation(GIVEN_UP(other))
#endif
    :: atomic { !job[generation] && IS_LATE ->
        PASS_DEADLINE;
        do
        :: other < RANKS && HAS_ATTACHED(other) -> other++
        :: other == RANKS -> other = leader; break
        :: other < RANKS && !HAS_ATTACHED(other) -> break
        od };
        end_creation(GIVEN_UP(other))
    fi;
    atomic {
        other = 0;
        word = job[generation];
        if
        :: word == COMPLETE -> take_into_use(); goto leave
        :: else
        fi
    };
    settle_outcome(OUTCOME(ABORTED, job[generation] - GIVEN_UP(0)))
}

/* A rank that gets an error tries again or leaves. */
inline conclude() {
    atomic {
        word = outcome;
        other = 0;
        if
        :: CONCLUDED(word) == generation ->
            assert(said[generation] == 0 || said[generation] == word);
            said[generation] = word
        :: else
        fi;
        mine = 0;
        if
        :: leader == me -> open[me] = 0
        :: else
        fi;
        leader = 0;
        if
        :: CONCLUDED(word) != generation -> goto without
        :: CONCLUDED(word) == generation && KIND(word) == ABORTED -> known = known & ~(1 << NAMED(word))
        :: CONCLUDED(word) == generation && KIND(word) == FAILED
        :: CONCLUDED(word) == generation && KIND(word) == FAILED -> goto leave
        fi;
        word = 0
    }
}

inline take_into_use() {
    assert(mine == generation);
    assert(made == 0 || made == VIEW(known));
    assert(!IS_SETTLED);
    for (other : 0 .. RANKS - 1) {
        assert(!HAS(known, other) || !left_out[other])
    }
    made = VIEW(known)
}

/* For fewer states. */
inline forget() {
    generation = 0;
    known = 0;
    leader = 0;
    mine = 0;
    set = 0;
    other = 0;
    word = 0
}

proctype rank(byte me) {
    byte generation, known = ALL, leader, mine, set, other, word;
    {
        do
        :: atomic { !HAS(known, me) -> goto without }
        :: atomic { HAS(known, me) -> generation++ };
            come();
            propose_view();
            adopt_view();
            if
            :: atomic { lacks < LACKS -> lacks++ };
                settle_outcome(OUTCOME(FAILED, me));
                goto concluding
            :: atomic { known == 1 << me -> mine = generation; take_into_use(); goto leave }
            :: known != 1 << me && leader == me -> offer()
            :: known != 1 << me && leader != me -> accept_offer()
            fi;
            create();
concluding:
            conclude()
        od;
without:
        atomic {
            assert(late || stops);
            assert(!HAS(made % 16, me));
            left_out[me] = true
        };
leave:
        atomic { departed[me] = true; forget() }
    } unless { atomic { dead[me] || stopped[me] -> forget() } }
}

proctype fate() {
    byte victim;
    do
    :: atomic { deaths < DEATHS ->
        select(victim : 0 .. RANKS - 1);
        if
        :: !dead[victim] && !stopped[victim] && !departed[victim] -> dead[victim] = true; deaths++
        :: else -> break
        fi };
        open[victim] = 0;
        atomic { gone[victim] = true; victim = 0 }
    :: atomic { stops < STOPS ->
        select(victim : 0 .. RANKS - 1);
        if
        :: !dead[victim] && !stopped[victim] && !departed[victim] -> stopped[victim] = true; stops++
        :: else -> break
        fi;
        victim = 0 }
    :: break
    od
}

init {
    byte i;
    atomic {
        run fate();
        for (i : 0 .. RANKS - 1) {
            run rank(i)
        }
    }
}
