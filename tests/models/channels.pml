/* Channels: lib/core/comm/channels/transfer.h. One rank has MESSAGES sends in flight to each of two others, all begun before
 * it waits for any. Each of those receives its messages by blocking receives, in the order of sending or, by their
 * tags, the other way round; and receiver 0 may begin only after receiver 1 has all of its own, so that messages to one
 * that does not receive yet must not keep those to the other.
 *
 * Shown, for all interleavings and kinds of messages: a receive gets its own message whole, from the cell or in all its
 * chunks; no cell and no chunk is written while somebody still reads it; `taken` of the stream only grows, so it has
 * one writer at a time; and all ends. All runs are finite, so that a search for invalid end states shows the last.
 *
 * Names. CELL(r, m): the cell of message m to receiver r. cell[...]: all that is in it besides its sequence, as one
 * word: the number of the message that it is for, or TORN from the first byte stored to the last. chunk[...]: likewise,
 * as a number of receiver, message and chunk. large[...]: whether a message goes through the stream.
 *
 * Left out: memory, the list of what is put aside (here: the ring is taken up to the message that is wanted), how a
 * wait waits (wake.pml) and what ends it when a rank dies (abort.pml). Memory order: a rank's steps happen one by one,
 * in its program's order; each release and the acquire that pairs with it are what makes that so.
 *
 * Controls. WITHOUT_ASKING: a message is in the stream as soon as it is posted and the stream is free. WITHOUT_RELEASE:
 * the sequence may be stored before the rest of the cell. WITHOUT_CREDIT, WITHOUT_CHUNK_CREDIT: a cell, a chunk is
 * written without a look at `taken`. WITHOUT_NUMBER_FIRST: `asked` before the number. WITHOUT_PLACE_FIRST: `served`
 * before the place. WITHOUT_LAST_CHUNK: the stream is given on before the last chunk is taken. */

#ifndef MESSAGES
#define MESSAGES 2
#endif
#ifndef CELLS
#define CELLS 1
#endif
#ifndef CHUNKS
#define CHUNKS 2 /* of the stream */
#endif
#ifndef PIECES
#define PIECES 3 /* chunks of a large message */
#endif

#define RECEIVERS 2
#define TORN      255
#define NOWHERE   255
#define CELL(r, m)       ((r) * CELLS + (m) % CELLS)
#define PIECE(r, m, c)   (((r) * MESSAGES + (m) - 1) * PIECES + (c) + 1)
#define MESSAGE(r, m)    ((r) * MESSAGES + (m) - 1)

bool large[RECEIVERS * MESSAGES];

/* Of each receiver's ring. */
byte sequence[RECEIVERS * CELLS];
byte cell[RECEIVERS * CELLS];
byte cell_place[RECEIVERS * CELLS];
byte taken[RECEIVERS];
byte asked[RECEIVERS], asked_number[RECEIVERS];
byte served[RECEIVERS], served_place[RECEIVERS];

/* The stream. */
byte chunk[CHUNKS];
byte filled, stream_taken;

bool has_all; /* receiver 1 */

/* The message in the stream. */
#define BEGIN_STREAM(r, m) streaming = true; to = r; number = m; piece = 0

inline post(r) {
    atomic { posted[r]++; place = NOWHERE;
#ifdef WITHOUT_ASKING
        if
        :: large[MESSAGE(r, posted[r])] && !streaming -> place = before; BEGIN_STREAM(r, posted[r])
        :: else
        fi;
#endif
#ifdef WITHOUT_RELEASE
        sequence[CELL(r, posted[r])] = posted[r] }
    atomic {
#endif
        cell[CELL(r, posted[r])] = TORN }
    atomic { cell[CELL(r, posted[r])] = posted[r]; cell_place[CELL(r, posted[r])] = place;
#ifndef WITHOUT_RELEASE
    } atomic {
        sequence[CELL(r, posted[r])] = posted[r];
#endif
        if
        :: !large[MESSAGE(r, posted[r])] -> done++
        :: else
        fi;
        place = 0 }
}

inline serve(r) {
    atomic { handled[r]++;
        BEGIN_STREAM(r, asked_number[r]);
#ifdef WITHOUT_PLACE_FIRST
        served[r] = handled[r] }
    served_place[r] = before;
#else
        served_place[r] = before }
    served[r] = handled[r];
#endif
}

#ifdef WITHOUT_CREDIT
#define HAS_CELL(r) true
#else
#define HAS_CELL(r) (posted[r] < taken[r] + CELLS)
#endif
#ifdef WITHOUT_CHUNK_CREDIT
#define HAS_CHUNK true
#else
#define HAS_CHUNK (before + piece < stream_taken + CHUNKS)
#endif
#ifdef WITHOUT_LAST_CHUNK
#define ALL_TAKEN true
#else
#define ALL_TAKEN (stream_taken == before + PIECES)
#endif

proctype sender() {
    byte posted[RECEIVERS], handled[RECEIVERS], before, done, to, number, piece, place;
    bool streaming;
    do
    :: posted[0] < MESSAGES && HAS_CELL(0) -> post(0)
    :: posted[1] < MESSAGES && HAS_CELL(1) -> post(1)
    :: !streaming && asked[0] > handled[0] -> serve(0)
    :: !streaming && asked[1] > handled[1] -> serve(1)
    :: atomic { streaming && piece < PIECES && HAS_CHUNK -> chunk[(before + piece) % CHUNKS] = TORN };
        chunk[(before + piece) % CHUNKS] = PIECE(to, number, piece);
        atomic { piece++; filled = before + piece }
    :: atomic { streaming && piece == PIECES && ALL_TAKEN ->
            before = before + PIECES; streaming = false; done++; to = 0; number = 0; piece = 0 }
    :: atomic { done == RECEIVERS * MESSAGES -> break }
    od
}

/* Takes messages from the ring up to `wanted`. */
inline take() {
    do
    :: got < wanted ->
        atomic { sequence[CELL(me, got + 1)] >= got + 1 ->
            assert(sequence[CELL(me, got + 1)] == got + 1 && cell[CELL(me, got + 1)] == got + 1);
            place[got] = cell_place[CELL(me, got + 1)];
            got++ };
        taken[me] = got
    :: got >= wanted -> break
    od
}

inline ask() {
#ifdef WITHOUT_NUMBER_FIRST
    asked[me] = asked[me] + 1;
    asked_number[me] = wanted;
#else
    asked_number[me] = wanted;
    asked[me] = asked[me] + 1;
#endif
    atomic { served[me] == asked[me] -> place[wanted - 1] = served_place[me] }
}

inline receive_chunks() {
    at = place[wanted - 1];
    do
    :: c < PIECES ->
        atomic { filled > at + c -> assert(chunk[(at + c) % CHUNKS] == PIECE(me, wanted, c)) };
        atomic { c++; assert(at + c > stream_taken); stream_taken = at + c }
    :: atomic { c == PIECES -> c = 0; at = 0; break }
    od
}

proctype receiver(byte me) {
    byte got, wanted, c, at, received, place[MESSAGES];
    bool reversed;
    if
    :: reversed = false
    :: reversed = true
    fi;
    if
    :: me == 1 || has_all
    :: me == 0
    fi;
    do
    :: received < MESSAGES ->
        wanted = (reversed -> MESSAGES - received : received + 1);
        take();
        if
        :: !large[MESSAGE(me, wanted)]
        :: large[MESSAGE(me, wanted)] ->
            if
            :: place[wanted - 1] == NOWHERE -> ask()
            :: else
            fi;
            receive_chunks()
        fi;
        received++
    :: received == MESSAGES -> break
    od;
    if
    :: me == 1 -> has_all = true
    :: else
    fi
}

init {
    byte i;
    atomic {
        for (i : 0 .. RECEIVERS * MESSAGES - 1) {
            if
            :: large[i] = false
            :: large[i] = true
            fi
        }
        run sender();
        for (i : 0 .. RECEIVERS - 1) {
            run receiver(i)
        }
    }
}
