/* Shrinking across nodes (lib/machines/internode/assembly/shrink_nodes.c): at most one part of a broken communicator goes on.
 *
 * A node has a leader and, where REST<n> is not 0, so many other ranks, which are one process here: they share memory,
 * so that what one of them decides all do. Who speaks for a node goes to a coordinator or, a leader alone, is one. The
 * coordinator concludes whenever it likes, from the nodes that came: more than half go on, or half with node 0. Who was
 * told to go on meets the others; all that came make the communicator, or nobody does.
 *
 * Nothing here keeps time. A timer may run out at once or never: whoever waits may give up at any moment, whoever
 * answers may do so late, and a rank that is stopped is one that does nothing for a while. So what holds here holds for
 * all values of the timeouts. A cut is silent, or refuses every probe, as one does that comes to a leader which has
 * ended. A rank dies before it has gone on: of one that dies later the source's opening comment speaks.
 *
 * Claimed: no second communicator comes of it.
 *
 * Bounds: NODES, 2 or 3, REST0, REST1, REST2 (other ranks of each of them), ATTEMPTS of each speaker, DEATHS of leaders,
 * CUTS of one node from the two others, each of which may heal.
 *
 * Controls:
 *   QUORUM      the coordinator says "go on" whoever is missing
 *   TIE         half of the nodes go on, not only the half with node 0
 *   REFUSAL     nodes that refuse a probe do not count among all
 *   ALL         the communicator is made of those that meet, not of all that came
 *   NODE        a node's leader and its other ranks may go on without each other
 *   END         nobody ever goes on: shows that this model comes to that at all
 */
#ifndef REST0
#define REST0 0
#endif
#ifndef REST1
#define REST1 0
#endif
#ifndef REST2
#define REST2 0
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 1
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#ifndef CUTS
#define CUTS 0
#endif

#ifndef NODES
#define NODES 3
#endif
#define PLACES  3
#define NOBODY  PLACES
#define REST(n) ((n) == 0 -> REST0 : ((n) == 1 -> REST1 : REST2))

/* A proposal of coordinator h: its number is in the code, so that it is never taken for a later one. */
#define CODE(h, number) (1 + (h) + PLACES * (number))
#define HOST(code)      (((code) - 1) % PLACES)

#define REACHES(a, b) ((a) == (b) || (cut_off != (a) && cut_off != (b)))

/* What only one node writes, or the death that stands for it. */
bool ended[PLACES];     /* its leader has */
bool gone_on[PLACES];   /* its leader has a new communicator */
bool rest_gone_on[PLACES];
bool without_leader[PLACES]; /* what the ranks of a node have decided, by compare-and-swap: never both */
bool without_rest[PLACES];
bool names_rest[PLACES]; /* what its leader says in the present attempt */

/* Coordinators. */
bool answers[PLACES];
byte number[PLACES];
bool leader_in[PLACES * PLACES], rest_in[PLACES * PLACES]; /* S of its last proposal: [h * PLACES + n] */

/* Speakers: at which coordinator; what it has answered; and which proposal they are meeting for. */
byte guest[PLACES] = NOBODY, rest_guest[PLACES] = NOBODY;
byte told[PLACES], rest_told[PLACES];
byte meets[PLACES], rest_meets[PLACES];

byte cut_off = NOBODY;
bool refuses; /* the cut */
byte communicators;

#define REFUSED(h, n) ((ended[n] && REACHES(h, n)) || (refuses && !REACHES(h, n)))

/* Counts the nodes that have come to coordinator h, and says what comes of it. */
inline conclude(h) {
    d_step {
        here = 0; all = 0; came = false;
        n = 0;
        do
        :: n < NODES ->
            came = n == h || guest[n] == h || rest_guest[n] == h;
            leader_in[h * PLACES + n] = n == h || (guest[n] == h && rest_guest[n] != h);
            rest_in[h * PLACES + n] = REST(n) > 0 && ((leader_in[h * PLACES + n] && names_rest[n]) || rest_guest[n] == h);
            here = here + (came -> 1 : 0);
#ifdef WITHOUT_REFUSAL
            all = all + (came || !REFUSED(h, n) -> 1 : 0);
#else
            all++;
#endif
            n++
        :: else -> break
        od;
        goes_on = 2 * here > all || (2 * here == all && (leader_in[h * PLACES] || rest_in[h * PLACES]));
#ifdef WITHOUT_TIE
        goes_on = 2 * here >= all;
#endif
#ifdef WITHOUT_QUORUM
        goes_on = true;
#endif
        answers[h] = false;
        n = 0;
        do
        :: n < NODES ->
            if
            :: goes_on && n != h && guest[n] == h && leader_in[h * PLACES + n] && REACHES(h, n) ->
                told[n] = CODE(h, number[h])
            :: else -> skip
            fi;
            if
            :: goes_on && rest_guest[n] == h && REACHES(h, n) -> rest_told[n] = CODE(h, number[h])
            :: else -> skip
            fi;
            n++
        :: else -> break
        od;
        if
        :: goes_on -> meets[h] = CODE(h, number[h])
        :: else -> skip
        fi;
        n = 0; here = 0; all = 0; came = false
    }
}

#define HAS_COME(h, n)                                                                                                 \
    ((!leader_in[(h) * PLACES + (n)] || meets[n] == CODE(h, number[h])) &&                                              \
     (!rest_in[(h) * PLACES + (n)] || rest_meets[n] == CODE(h, number[h])))
#ifdef WITHOUT_ALL
#define ALL_HAVE_COME(h) HAS_COME(h, h)
#else
#define ALL_HAVE_COME(h) (HAS_COME(h, 0) && HAS_COME(h, 1) && HAS_COME(h, 2))
#endif

/* All of S have a communicator, in one step: creation ends alike on all (lib/core/comm/creation/outcome.h). */
inline go_on(h) {
    d_step {
        communicators++;
        n = 0;
        do
        :: n < NODES ->
            if
            :: leader_in[h * PLACES + n] && meets[n] == CODE(h, number[h]) -> gone_on[n] = true
            :: else -> skip
            fi;
            if
            :: rest_in[h * PLACES + n] && rest_meets[n] == CODE(h, number[h]) -> rest_gone_on[n] = true
            :: else -> skip
            fi;
            n++
        :: else -> break
        od;
        n = 0;
        assert(communicators == 1);
#ifdef WITHOUT_END
        assert(false)
#endif
    }
}

#define ACTS(me) (!ended[me] && !gone_on[me])

inline forget(me) {
    guest[me] = NOBODY;
    told[me] = 0;
    meets[me] = 0
}

proctype Leader(byte me) {
    byte attempts, h, n, here, all;
    bool came, goes_on;
end:
    do
#ifdef WITHOUT_NODE
    :: atomic { ACTS(me) && attempts < ATTEMPTS -> attempts++; names_rest[me] = !without_leader[me] && !without_rest[me] }
#else
    :: atomic { ACTS(me) && attempts < ATTEMPTS && !without_leader[me] -> attempts++; names_rest[me] = !without_rest[me] }
#endif
        if
        :: atomic { REST(me) > 0 && !without_leader[me] -> /* they have not come in time */
            without_rest[me] = true; names_rest[me] = false }
        :: skip
        fi;
        if
        :: atomic { ACTS(me) -> number[me] = number[me] + 1; answers[me] = true };
            if
            :: atomic { ACTS(me) -> conclude(me) };
end_meeting:
                if
                :: atomic { ACTS(me) && goes_on && ALL_HAVE_COME(me) -> go_on(me) }
                :: atomic { ACTS(me) -> forget(me) }
                :: ended[me] || gone_on[me]
                fi
            :: atomic { ACTS(me) -> answers[me] = false } /* for another coordinator */
            :: ended[me]
            fi;
            d_step {
                goes_on = false;
                n = 0;
                do /* who was its guest finds the connection closed */
                :: n < NODES ->
                    if
                    :: guest[n] == me && told[n] == 0 && meets[n] == 0 -> guest[n] = NOBODY
                    :: else -> skip
                    fi;
                    if
                    :: rest_guest[n] == me && rest_told[n] == 0 && rest_meets[n] == 0 -> rest_guest[n] = NOBODY
                    :: else -> skip
                    fi;
                    n++
                :: else -> break
                od;
                n = 0
            }
        :: ACTS(me);
            if
            :: atomic { me != 0 && answers[0] && REACHES(me, 0) && ACTS(me) -> guest[me] = 0 }
            :: atomic { me != 1 && answers[1] && REACHES(me, 1) && ACTS(me) -> guest[me] = 1 }
            :: atomic { me != 2 && answers[2] && REACHES(me, 2) && ACTS(me) -> guest[me] = 2 }
            :: true
            fi;
            if
            :: atomic { ACTS(me) && told[me] -> meets[me] = told[me] };
end_guest:
                if
                :: atomic { ACTS(me) -> forget(me) }
                :: ended[me] || gone_on[me]
                fi
            :: atomic { ACTS(me) -> forget(me) }
            :: ended[me]
            fi
        :: ended[me]
        fi
    od
}

/* They follow their leader, or leave it out and look for a coordinator themselves. They never are one. */
proctype Rest(byte me) {
    byte attempts;
end:
    do
    :: atomic { !rest_gone_on[me] && !without_leader[me] && !without_rest[me] && meets[me] && names_rest[me] ->
        rest_meets[me] = meets[me] };
end_following:
        if
        :: atomic { !rest_gone_on[me] -> rest_meets[me] = 0 }
        :: rest_gone_on[me]
        fi
#ifdef WITHOUT_NODE
    :: atomic { !rest_gone_on[me] && !without_leader[me] -> without_leader[me] = true }
#else
    :: atomic { !rest_gone_on[me] && !without_leader[me] && !without_rest[me] -> without_leader[me] = true }
#endif
    :: atomic { !rest_gone_on[me] && without_leader[me] && attempts < ATTEMPTS -> attempts++ };
        if
        :: atomic { me != 0 && answers[0] && REACHES(me, 0) -> rest_guest[me] = 0 }
        :: atomic { me != 1 && answers[1] && REACHES(me, 1) -> rest_guest[me] = 1 }
        :: atomic { me != 2 && answers[2] && REACHES(me, 2) -> rest_guest[me] = 2 }
        :: true
        fi;
        if
        :: atomic { rest_told[me] -> rest_meets[me] = rest_told[me] };
end_meeting:
            if
            :: atomic { !rest_gone_on[me] -> rest_guest[me] = NOBODY; rest_told[me] = 0; rest_meets[me] = 0 }
            :: rest_gone_on[me]
            fi
        :: atomic { rest_guest[me] = NOBODY; rest_told[me] = 0 }
        fi
    od
}

/* Deaths and cuts, at any moment. */
proctype World() {
    byte deaths, cuts, n;
end:
    do
    :: deaths < DEATHS;
        if
        :: n = 0
        :: n = 1
        :: n = 2
        fi;
        atomic {
            if
            :: ACTS(n) -> ended[n] = true; answers[n] = false; forget(n); deaths++
            :: else -> skip
            fi
        }
    :: atomic { cuts < CUTS && cut_off == NOBODY -> cuts++;
            if
            :: cut_off = 0
            :: cut_off = 1
            :: cut_off = 2
            fi;
            if
            :: refuses = false
            :: refuses = true
            fi }
    :: atomic { cut_off != NOBODY -> cut_off = NOBODY }
    od
}

init {
    atomic {
        byte n = 0;
        do
        :: n < NODES ->
            run Leader(n);
            if
            :: REST(n) > 0 -> run Rest(n)
            :: else -> skip
            fi;
            n++
        :: else -> break
        od;
        run World()
    }
}
