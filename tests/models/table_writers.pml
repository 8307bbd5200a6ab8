/* Who writes a shard's pieces: lib/table/shard.h. WORKERS workers push UPDATES updates each, to one shard of PIECES
 * pieces; any of them may die at any step. Then, where somebody has died, one that lives waits until all is applied.
 *
 * Shown, for all interleavings: an update whose push has returned is applied, once; one whose push has not, at most
 * once. While nobody dies nothing is left in a queue when all pushes have returned, though nobody waits for it.
 * Whoever lives ends. All runs are finite, so that a search for invalid end states shows the last.
 *
 * Names. role, noted_piece, noted (its sequence), place, pending: of kolo_shared_shard. Of the queue of worker w:
 * head[w] and tail[w], positions that only grow (filled and taken), and entry[...]. PLACE: queue and position, in one
 * word. sequence[p], version[VERSION(p, n)]: of piece p, as in table_versions.pml; a version is the set of updates
 * that are in it. A holder's own update comes at any time after those in its own queue.
 *
 * Left out: readers (table_versions.pml); how a death is found: here whoever looks sees it, as by a pidfd. Seeing it
 * and the compare-and-swap are one step: the dead rank stores nothing any more, so that the swap fails if another was
 * faster. Memory order: a rank's steps happen in its program's order. Where that is a store followed by a load of
 * another word, it takes a full fence: in a push, `pending`, then the role; in giving it back, the role, then
 * `pending`.
 *
 * Controls. WITHOUT_RECORD: who takes over does not look at the record. WITHOUT_PLACE_LAST: the place is noted before
 * piece and sequence. WITHOUT_ONE_WORD: the queue is a word of its own, noted before them. WITHOUT_TAIL_LAST: the tail
 * is moved before the sequence. WITHOUT_CLEAR: who takes over leaves the place of an entry that has not been applied.
 * WITHOUT_ALL_PENDING: nor does it look at all queues. WITHOUT_SETTLING: who waits for a queue does not see to it that
 * it is looked at. WITHOUT_LOOK: the holder does not look at `pending` again. WITHOUT_SECOND_TRY: nor the pusher at
 * the role. WITHOUT_DEATH: the role is taken from who lives. WITHOUT_SWAP: it is stored, not swapped in. */

#ifndef WORKERS
#define WORKERS 3
#endif
#ifndef UPDATES
#define UPDATES 1
#endif
#ifndef PIECES
#define PIECES 1
#endif
#ifndef ENTRIES
#define ENTRIES 1 /* that a queue holds */
#endif
#ifndef DEATHS
#define DEATHS 2 /* at most */
#endif

#define SURVIVOR WORKERS
#define NOTHING  255
#define TORN     255
#define BIT(update) (1 << (update))
#define PLACE(queue, position) ((queue) * 16 + (position))
#define QUEUE(place) ((place) / 16)
#define POSITION(place) ((place) % 16)
#define VERSION(piece, number) ((piece) * 2 + (number) % 2)
#define ENTRY(queue, position) ((queue) * ENTRIES + (position) % ENTRIES)
#define IS_EMPTY(queue) (head[queue] == tail[queue])
#define ALL (BIT(WORKERS) - 1)

byte role; /* 0: free, else 1 + its holder */
byte noted_piece, noted, place = NOTHING;
byte pending; /* a set of queues */
byte head[WORKERS + 1], tail[WORKERS + 1], entry[WORKERS * ENTRIES];
byte sequence[PIECES], version[2 * PIECES];
byte piece_of[WORKERS * UPDATES];
byte returned; /* updates whose pushes have */
bool dead[WORKERS + 1];
byte deaths;

#if DEATHS
#define UNLESS_DEAD unless { dead[me] }
#else
#define UNLESS_DEAD
#endif
#ifdef WITHOUT_DEATH
#define MAY_TAKE_OVER (role != 0 && role != me + 1)
#else
#define MAY_TAKE_OVER (role != 0 && dead[role - 1])
#endif

/* The new version is written while nobody else reads it, so that its last word and the sequence can be one step. */
#define BEGIN number = sequence[piece] + 1; version[VERSION(piece, number)] = TORN
inline commit() {
    assert(version[VERSION(piece, number - 1)] != TORN);
    assert(!(version[VERSION(piece, number - 1)] & BIT(update)));
    version[VERSION(piece, number)] = version[VERSION(piece, number - 1)] | BIT(update);
    sequence[piece] = number;
    number = 0;
    update = 0;
    piece = 0
}

#ifdef WITHOUT_PLACE_LAST
#define PLACE_FIRST place = PLACE(queue, tail[queue]) }; atomic {
#define PLACE_LAST
#else
#ifdef WITHOUT_ONE_WORD
#define PLACE_FIRST place = PLACE(queue, POSITION(place)) }; atomic {
#else
#define PLACE_FIRST
#endif
#define PLACE_LAST place = PLACE(queue, tail[queue]);
#endif
#ifdef WITHOUT_TAIL_LAST
#define TAIL_FIRST tail[queue]++
#define TAIL_LAST skip
#else
#define TAIL_FIRST skip
#define TAIL_LAST tail[queue]++
#endif

inline apply_entry() {
    atomic {
        update = entry[ENTRY(queue, tail[queue])];
        piece = piece_of[update];
        PLACE_FIRST
        noted_piece = piece };
    noted = sequence[piece];
    atomic { PLACE_LAST BEGIN; TAIL_FIRST };
    atomic { commit() };
    atomic { TAIL_LAST }
}

/* Of who has taken the role from a dead holder. */
inline resolve() {
#ifndef WITHOUT_ALL_PENDING
    pending = ALL;
#endif
#ifndef WITHOUT_RECORD
    if
    :: place != NOTHING && POSITION(place) == tail[QUEUE(place)] &&
       sequence[noted_piece] == noted + 1 ->
        tail[QUEUE(place)]++
    :: else
    fi;
#endif
#ifndef WITHOUT_CLEAR
    place = NOTHING
#else
    skip
#endif
}

inline apply_own() {
    atomic { update = own; piece = piece_of[own]; BEGIN };
    atomic { commit(); has_own = false }
}

/* Of the holder: applies entries, with has_own its own update too, and gives the role back. */
inline hold() {
    do
    :: atomic { holds && !bits && pending -> bits = pending; pending = 0 }
    :: atomic { holds && bits ->
            if
            :: bits & 1 -> queue = 0
            :: bits & 2 -> queue = 1
            :: bits & 4 -> queue = 2
            fi };
        do
        :: !IS_EMPTY(queue) -> apply_entry()
        :: atomic { IS_EMPTY(queue) -> bits = bits & ~BIT(queue); queue = 0; break }
        od
    :: holds && has_own && IS_EMPTY(me) -> apply_own()
    :: atomic { holds && !has_own && !bits -> role = 0; holds = false };
#ifndef WITHOUT_LOOK
        atomic {
            if
            :: role == 0 && pending -> role = me + 1; holds = true
            :: else
            fi }
#endif
    :: !holds -> break
    od
}

inline take_over() {
#ifdef WITHOUT_SWAP
    MAY_TAKE_OVER;
    atomic { role = me + 1; holds = true };
#else
    atomic { MAY_TAKE_OVER -> role = me + 1; holds = true };
#endif
    resolve()
}

proctype worker(byte me) {
    byte own, update, piece, number, queue, bits, pushed;
    bool holds, has_own;
    {
        do
        :: atomic { pushed < UPDATES -> own = me * UPDATES + pushed; has_own = true };
            if
            :: atomic { role == 0 -> role = me + 1; holds = true }
            :: take_over()
            :: atomic { role != 0 && head[me] - tail[me] < ENTRIES ->
                    entry[ENTRY(me, head[me])] = own; has_own = false };
                head[me]++;
                pending = pending | BIT(me);
#ifndef WITHOUT_SECOND_TRY
                if
                :: atomic { role == 0 -> role = me + 1; holds = true }
                :: role != 0
                fi
#endif
            fi;
            hold();
            atomic { returned = returned | BIT(own); own = 0; pushed++ }
        :: pushed == UPDATES -> break
        od
    } UNLESS_DEAD
}

/* kolo_shard_settle, of all queues, in one that lives. */
proctype survivor(byte me) {
    byte own, update, piece, number, queue, bits;
    bool holds, has_own;
#ifndef WITHOUT_SETTLING
    pending = ALL;
#endif
    if
    :: role == 0 -> atomic { role = me + 1; holds = true }
    :: take_over()
    fi;
    hold()
}

/* Workers are alike, so that it may be the first ones who die. */
proctype death() {
    do
    :: atomic { deaths < DEATHS -> dead[deaths] = true; deaths++ }
    :: break
    od
}

init {
    byte i, piece;
    atomic {
        for (i : 0 .. WORKERS * UPDATES - 1) {
            select(piece : 0 .. PIECES - 1);
            piece_of[i] = piece
        }
        piece = 0;
        run death();
        for (i : 0 .. WORKERS - 1) {
            run worker(i)
        }
    }
    atomic { _nr_pr == 1 ->
        if
        :: deaths -> run survivor(SURVIVOR)
        :: else
        fi }
    atomic { _nr_pr == 1 ->
        for (i : 0 .. WORKERS - 1) {
            assert(IS_EMPTY(i))
        }
        for (i : 0 .. WORKERS * UPDATES - 1) {
            assert(!(returned & BIT(i)) || version[VERSION(piece_of[i], sequence[piece_of[i]])] & BIT(i))
        }
        assert(role == 0) }
}
