/* Lines: lib/algo/lines.h (kolo_lines_write, kolo_lines_read, kolo_lines_unpack) as lib/algo/allreduce/oneshot.c
 * (kolo_oneshot_lines) uses them: RANKS ranks reduce ROUNDS messages one after another, of 1 to LINES lines each.
 *
 * Shown, for all interleavings: what a rank folds in round r is what each peer wrote for round r, whole; nobody writes
 * a line that somebody still reads (it would be read torn, or of another round); while nobody dies, all rounds end;
 * when ranks die, at any step, every survivor ends, with its result or with a failure. All runs are finite, so that a
 * search for invalid end states shows the last two.
 *
 * Names. round_word[LINE(rank, set, line)]: kolo_shared_line.round. payload[...]: its payload, the stamp included, as
 * one word: the number of the round that it is for, or TORN from the first byte stored to the last, however many there
 * are. lines_of[r]: how many lines the message of round r takes. AWAIT: kolo_wait_at_least with its check.
 *
 * Left out: what is folded (kernels), how a wait waits (wake.pml), and how a failure is found and agreed on
 * (abort.pml): here whoever cannot go on finds `failed`, or a dead rank, at once. Memory order: a rank's steps happen
 * one by one, in its program's order; the release of the round and the acquire that pairs with it are what makes that
 * so for payload and round, and no other order is relied on.
 *
 * Enough rounds: the sets alternate, and no rank is more than one round ahead of another, so that rounds r and r + 2
 * differ in nothing but the number. Four rounds use each set twice, five see the first set's second reuse.
 *
 * Controls. WITHOUT_RELEASE: the round may be stored before the payload. WITHOUT_SECOND_SET: one set.
 * WITHOUT_READING_ALL: the last rank leaves out the first one's lines, as one that has no need of them might. */

#ifndef RANKS
#define RANKS 2
#endif
#ifndef ROUNDS
#define ROUNDS 4
#endif
#ifndef LINES
#define LINES 2
#endif
#ifndef DEATHS
#define DEATHS RANKS /* at most */
#endif
#ifdef WITHOUT_SECOND_SET
#define SETS 1
#else
#define SETS 2
#endif

#define TORN 255
#define LINE(rank, round, line) (((rank) * SETS + (round) % SETS) * LINES + (line))

byte round_word[RANKS * SETS * LINES];
byte payload[RANKS * SETS * LINES];
byte lines_of[ROUNDS + 1];
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

inline lines_write() {
    line = 0;
    do
    :: atomic { line < lines_of[round] ->
#ifdef WITHOUT_RELEASE
        round_word[LINE(me, round, line)] = round };
        atomic {
#endif
        payload[LINE(me, round, line)] = TORN };
        payload[LINE(me, round, line)] = round;
        atomic {
#ifndef WITHOUT_RELEASE
        round_word[LINE(me, round, line)] = round;
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
    :: atomic { line < lines_of[round] -> AWAIT(round_word[LINE(peer, round, line)] >= round) };
        atomic { assert(payload[LINE(peer, round, line)] == round); line++ }
    :: atomic { else -> peer++; break }
    od
}

#ifdef WITHOUT_READING_ALL
#define READS(peer) ((peer) != me && !(me == RANKS - 1 && (peer) == 0))
#else
#define READS(peer) ((peer) != me)
#endif

proctype rank(byte me) {
    byte round = 1, peer, line;
    {
        do
        :: round <= ROUNDS ->
            lines_write();
            do
            :: peer < RANKS && READS(peer) -> lines_read()
            :: peer < RANKS && !READS(peer) -> peer++
            :: atomic { peer == RANKS -> peer = 0; break }
            od;
            do
            :: atomic { peer < RANKS && READS(peer) && lines_of[round] == 1 ->
                assert(payload[LINE(peer, round, 0)] == round); /* the fold */
                peer++ }
            :: peer < RANKS && (!READS(peer) || lines_of[round] > 1) -> peer++
            :: atomic { peer == RANKS -> peer = 0; round++; break }
            od
        :: atomic { round > ROUNDS -> break }
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
        for (i : 1 .. ROUNDS) {
            if
            :: lines_of[i] = 1
            :: LINES > 1 -> lines_of[i] = LINES
            fi
        }
        run death();
        for (i : 0 .. RANKS - 1) {
            run rank(i)
        }
    }
}
