/* Lines: lib/core/algo/lines.h (kolo_lines_round, kolo_lines_pass, kolo_lines_write, kolo_lines_read, kolo_lines_unpack) as
 * lib/core/algo/allreduce/oneshot.c (kolo_oneshot_lines) uses them, and with PASSES also as broadcast.c and reduce.c do:
 * RANKS ranks make CALLS calls one after another, of 1 to LINES lines each.
 *
 * Shown, for all interleavings: what a rank takes in call c is what each peer wrote for call c, whole; nobody writes a
 * line that somebody still reads (it would be read torn, or of another call); while nobody dies, all calls end; when
 * ranks die, at any step, every survivor ends, with its result or with a failure. All runs are finite, so that a search
 * for invalid end states shows the last two.
 *
 * Names. round_word[LINE(rank, set, line)]: kolo_shared_line.round. payload[...]: its payload, the stamp included, as
 * one word: the number of the call that it is for, or TORN from the first byte stored to the last, however many there
 * are. lines_of[c]: how many lines the message of call c takes. kind[c]: ALL, all need something of all; FROM(r), all
 * need something of r; TO(r), r needs something of all. AWAIT: kolo_wait_at_least with its check.
 *
 * Left out: what is folded (kernels), how a wait waits (wake.pml), and how a failure is found and agreed on
 * (abort.pml): here whoever cannot go on finds `failed`, or a dead rank, at once. Memory order: a rank's steps happen
 * one by one, in its program's order; the release of the round and the acquire that pairs with it are what makes that
 * so for payload and round, and no other order is relied on.
 *
 * Enough calls: the sets for rounds alternate, and no rank is more than one round ahead of another, so that rounds r and
 * r + 2 differ in nothing but the number. Four rounds use each set twice, five see the first set's second reuse. With
 * one pass between two rounds, four calls use its set twice. The sets for passes stand for the lines that each pass takes
 * behind those of the last one, and PASSES for how many find room.
 *
 * Controls. WITHOUT_RELEASE: the round may be stored before the payload. WITHOUT_SECOND_SET: one set for rounds.
 * WITHOUT_READING_ALL: in rounds the last rank leaves out the first one's lines, as one that has no need of them might.
 * WITHOUT_DUE_ROUND: when the sets for passes have been used, they are used again without a round. */

#ifndef RANKS
#define RANKS 2
#endif
#ifndef CALLS
#define CALLS 4
#endif
#ifndef LINES
#define LINES 2
#endif
#ifndef DEATHS
#define DEATHS RANKS /* at most */
#endif
#ifndef PASSES
#define PASSES 0
#endif
#ifdef WITHOUT_SECOND_SET
#define ROUND_SETS 1
#else
#define ROUND_SETS 2
#endif
#define SETS (ROUND_SETS + PASSES)

#define TORN 255
#define LINE(rank, set, line) (((rank) * SETS + (set)) * LINES + (line))

#define ALL        0
#define FROM(rank) (1 + (rank))
#define TO(rank)   (1 + RANKS + (rank))
#define TAKES(rank, peer)                                                                                           \
    (is_round || kind[call] == FROM(peer) || kind[call] == TO(rank)) /* in call `call`, of another rank */
#define SHOWS(rank) (is_round || kind[call] == FROM(rank) || (kind[call] > RANKS && kind[call] != TO(rank)))

byte round_word[RANKS * SETS * LINES];
byte payload[RANKS * SETS * LINES];
byte lines_of[CALLS + 1];
byte kind[CALLS + 1];
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

/* kolo_lines_round and kolo_lines_pass. */
inline begin() {
    atomic {
        is_round = kind[call] == ALL;
#if PASSES
        if
        :: !is_round && passes == PASSES ->
#ifdef WITHOUT_DUE_ROUND
            passes = 0; rounds++
#else
            is_round = true
#endif
        :: else
        fi;
#endif
        if
        :: is_round -> rounds++; passes = 0; number = rounds; set = rounds % ROUND_SETS
        :: else -> number = rounds + 1; set = ROUND_SETS + passes; passes++
        fi
    }
}

inline lines_write() {
    line = 0;
    do
    :: atomic { line < lines_of[call] ->
#ifdef WITHOUT_RELEASE
        round_word[LINE(me, set, line)] = number };
        atomic {
#endif
        payload[LINE(me, set, line)] = TORN };
        payload[LINE(me, set, line)] = call;
        atomic {
#ifndef WITHOUT_RELEASE
        round_word[LINE(me, set, line)] = number;
#endif
        line++ }
    :: atomic { else -> peer = 0; break }
    od
}

/* Waits for the peer's lines and reads the stamp in the first one; a message of one line stays where it is until it is
 * folded, a longer one is copied as it comes. */
inline lines_read() {
    line = 0;
    do
    :: atomic { line < lines_of[call] -> AWAIT(round_word[LINE(peer, set, line)] >= number) };
        atomic { assert(payload[LINE(peer, set, line)] == call); line++ }
    :: atomic { else -> peer++; break }
    od
}

#ifdef WITHOUT_READING_ALL
#define READS(peer) ((peer) != me && TAKES(me, peer) && !(me == RANKS - 1 && (peer) == 0))
#else
#define READS(peer) ((peer) != me && TAKES(me, peer))
#endif

proctype rank(byte me) {
    byte call = 1, rounds, passes, number, set, peer, line;
    bool is_round;
    {
        do
        :: call <= CALLS ->
            begin();
            if
            :: SHOWS(me) -> lines_write()
            :: else
            fi;
            do
            :: peer < RANKS && READS(peer) -> lines_read()
            :: peer < RANKS && !READS(peer) -> peer++
            :: atomic { peer == RANKS -> peer = 0; break }
            od;
            do
            :: atomic { peer < RANKS && READS(peer) && lines_of[call] == 1 ->
                assert(payload[LINE(peer, set, 0)] == call); /* the fold */
                peer++ }
            :: peer < RANKS && (!READS(peer) || lines_of[call] > 1) -> peer++
            :: atomic { peer == RANKS -> peer = 0; call++; break }
            od
        :: atomic { call > CALLS -> break }
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
    byte i;
    atomic {
        for (i : 1 .. CALLS) {
            if
            :: lines_of[i] = 1
            :: LINES > 1 -> lines_of[i] = LINES
            fi;
#if PASSES
            if
            :: kind[i] = ALL
            :: kind[i] = FROM(0)
            :: kind[i] = FROM(RANKS - 1)
            :: RANKS > 2 -> kind[i] = TO(0)
            :: RANKS > 2 -> kind[i] = TO(RANKS - 1)
            fi
#endif
        }
        run death();
        for (i : 0 .. RANKS - 1) {
            run rank(i)
        }
    }
}
