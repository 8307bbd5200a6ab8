/* Staleness 0: lib/table/clocks.h. WORKERS workers push to any of PIECES pieces of one shard, in each of CLOCKS
 * clocks, and end the clock, which is closed without BACKUPS workers that are late or have died, at any step; then
 * whoever holds the shard's role folds what has been pushed. After its last clock a worker leaves.
 *
 * Shown, for all interleavings: in each clock each piece that somebody has pushed is written once, with the updates of
 * all workers that have ended the clock before it was closed, and of nobody else, whoever folds it; nobody reads an
 * update of another clock; and whoever lives ends. All runs are finite, so that a search for invalid end states shows
 * the last.
 *
 * Names. word[w]: `clock` of worker w: OVER(c), it has ended c clocks and is in the fold of the last one, or
 * LEFT_OUT(c). closed: of the table; folded, place, role: of the shard. NOTE: a piece and the low bits of its
 * sequence, in one word; DONE: all pieces, of so many clocks. sequence: as in table_versions.pml; version_clock,
 * version_workers: which updates a version has got last. pushed[w]: the set of pieces in its staging; staged[...]: the
 * clock that its update of a piece is of. in_time, pushes: what must be in a fold.
 *
 * Left out: sums. Memory order: all words are releases and acquires.
 *
 * Controls. WITHOUT_NOTE: who takes over begins with the first piece. WITHOUT_ONE_WORD: the sequence is a word of its
 * own, noted before the piece. WITHOUT_NOTE_FIRST: a piece is noted after its sequence. WITHOUT_DONE: all pieces being
 * done is not noted. WITHOUT_SECOND_LOOK: who has got the role does not look at `folded` again. WITHOUT_SWAP: a worker
 * is left out by a store. WITHOUT_CLOSING: a fold begins when enough have ended the clock. WITHOUT_ENDED: a clock is
 * closed though nobody has ended it, as so many have left. WITHOUT_DEATH: the role is taken from who lives.
 * WITHOUT_WAIT: a worker goes on before all is folded. WITHOUT_CLEARING: it leaves its bits as they are. */

#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef CLOCKS
#define CLOCKS 2
#endif
#ifndef PIECES
#define PIECES 2
#endif
#ifndef BACKUPS
#define BACKUPS 1
#endif
#ifndef DEATHS
#define DEATHS BACKUPS /* at most */
#endif

#define BIT(n) (1 << (n))
#define OVER(clocks) (2 * (clocks))
#define LEFT_OUT(clocks) (2 * (clocks) - 1)
#define IS_OVER(w, clocks) ((w) < WORKERS && word[w] >= OVER(clocks))
#define COUNTS(w, clocks) ((w) < WORKERS && (word[w] >= OVER(clocks) || has_left[w]))
#ifdef WITHOUT_ENDED
#define HAS_ENDED(clocks) true
#else
#define HAS_ENDED(clocks) (IS_OVER(0, clocks) || IS_OVER(1, clocks) || IS_OVER(2, clocks))
#endif
#define ENOUGH(clocks)                                                                                              \
    (HAS_ENDED(clocks) && COUNTS(0, clocks) + COUNTS(1, clocks) + COUNTS(2, clocks) >= WORKERS - BACKUPS)
#define VERSION(piece, number) ((piece) * 2 + (number) % 2)
#define NOTE(piece, number) ((piece) * 8 + (number) % 8)
#define DONE 128

byte word[3], pushed[3], staged[3 * PIECES]; /* of three workers, or of two */
bool has_left[3];
byte closed, folded, place = DONE, noted;
byte role; /* 0: free, else 1 + its holder */
byte sequence[PIECES], version_clock[2 * PIECES], version_workers[2 * PIECES];
byte in_time[CLOCKS], pushes[CLOCKS * PIECES]; /* sets of workers */
bool dead[WORKERS];
byte deaths;

#if DEATHS
#define UNLESS_DEAD unless { dead[me] }
#else
#define UNLESS_DEAD
#endif
#ifdef WITHOUT_DEATH
#define MAY_TAKE (role != me + 1)
#else
#define MAY_TAKE (role == 0 || dead[role - 1])
#endif
#ifdef WITHOUT_SECOND_LOOK
#define IS_FOLDED false
#else
#define IS_FOLDED (folded >= at)
#endif
#ifdef WITHOUT_CLOSING
#define MAY_FOLD (folded < closed || ENOUGH(folded + 1))
#else
#define MAY_FOLD (folded < closed)
#endif

inline push() {
    atomic {
        for (piece : 0 .. PIECES - 1) {
            if
            :: pushed[me] = pushed[me] | BIT(piece);
                staged[me * PIECES + piece] = clock + 1;
                pushes[clock * PIECES + piece] = pushes[clock * PIECES + piece] | BIT(me)
            :: true
            fi
        }
        piece = 0 }
}

inline end() {
    atomic {
        if
        :: word[me] == OVER(clock) -> word[me] = OVER(clock + 1); in_time[clock] = in_time[clock] | BIT(me)
        :: else /* it has been left out */
        fi }
}

/* close_clock: leaves out one worker, or closes. */
inline leave_out(w) {
#ifdef WITHOUT_SWAP
    w < WORKERS && word[w] < LEFT_OUT(closed + 1) && ENOUGH(closed + 1) -> at = closed + 1;
    atomic { word[w] = LEFT_OUT(at); at = 0 }
#else
    atomic { w < WORKERS && word[w] < LEFT_OUT(closed + 1) && ENOUGH(closed + 1) -> word[w] = LEFT_OUT(closed + 1) }
#endif
}

#define IS_DECIDED(w) ((w) >= WORKERS || word[w] >= LEFT_OUT(closed + 1))

#define PUSHED(w) (IS_OVER(w, at) && (pushed[w] >> piece & 1))
#define PUSHERS (PUSHED(0) | PUSHED(1) << 1 | PUSHED(2) << 2)
#define FITS(w) (!PUSHED(w) || staged[(w) * PIECES + piece] == at)

inline note() {
#ifdef WITHOUT_ONE_WORD
    noted = sequence[piece] % 8;
#endif
    place = NOTE(piece, number - 1)
}

inline fold_piece() {
    number = sequence[piece] + 1;
#ifndef WITHOUT_NOTE_FIRST
    note();
#endif
    atomic {
        assert(FITS(0) && FITS(1) && FITS(2));
        version_workers[VERSION(piece, number)] = PUSHERS;
        version_clock[VERSION(piece, number)] = at };
    atomic {
        assert(version_clock[VERSION(piece, number - 1)] < at);
        assert(version_workers[VERSION(piece, number)] == (in_time[at - 1] & pushes[(at - 1) * PIECES + piece]));
        sequence[piece] = number };
#ifdef WITHOUT_NOTE_FIRST
    note();
#endif
    atomic { number = 0; piece++ }
}

#ifdef WITHOUT_ONE_WORD
#define NOTED noted
#else
#define NOTED (place % 8)
#endif

inline first_unwritten() {
    atomic {
        if
#ifdef WITHOUT_NOTE
        :: true
#else
        :: place >= DONE -> piece = (place == DONE + at -> PIECES : 0)
        :: place < DONE -> piece = place / 8; piece = piece + (sequence[piece] % 8 != NOTED)
#endif
        fi }
}

/* kolo_synchronous_help, of one shard. */
inline help() {
    atomic { MAY_FOLD -> at = folded + 1 };
    if
    :: atomic { MAY_TAKE -> role = me + 1 };
        if
        :: IS_FOLDED
        :: !IS_FOLDED ->
            first_unwritten();
            do
            :: piece < PIECES && PUSHERS -> fold_piece()
            :: atomic { piece < PIECES && !PUSHERS -> piece++ }
            :: atomic { piece == PIECES -> piece = 0; break }
            od;
#ifndef WITHOUT_DONE
            place = DONE + at;
#endif
            folded = at
        fi;
        role = 0
    :: folded >= at
    fi;
    at = 0
}

/* Nothing is missing; the others may be in the next fold already. */
inline check() {
    for (piece : 0 .. PIECES - 1) {
        assert(!(in_time[clock - 1] & pushes[(clock - 1) * PIECES + piece]) ||
               version_clock[VERSION(piece, sequence[piece])] >= clock)
    }
    piece = 0
}

#ifdef WITHOUT_CLEARING
#define CLEAR skip
#else
#define CLEAR pushed[me] = 0
#endif

/* kolo_synchronous_wait. Who has ended its clock may be left out of the next one before it sees that it can go on. */
inline go_on() {
    if
    :: atomic { in_time[clock] & BIT(me) && folded > clock -> clock++; check(); CLEAR }
    :: atomic { word[me] % 2 && folded >= (word[me] + 1) / 2 ->
            clock = (word[me] + 1) / 2;
            word[me] = OVER(clock);
            CLEAR }
    fi
}

proctype worker(byte me) {
    byte clock, at, piece, number;
    {
        do
        :: clock < CLOCKS ->
            push();
            end();
            do
            :: go_on(); break
#ifdef WITHOUT_WAIT
            :: atomic { word[me] == OVER(clock + 1) -> clock++; pushed[me] = 0; break }
#endif
            :: leave_out(0)
            :: leave_out(1)
            :: leave_out(2)
            :: atomic { ENOUGH(closed + 1) && IS_DECIDED(0) && IS_DECIDED(1) && IS_DECIDED(2) -> closed++ }
            :: help()
            od
        :: clock >= CLOCKS -> break
        od;
        has_left[me] = true
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
