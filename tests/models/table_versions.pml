/* A piece of a table: lib/table/rows/versions.h. One piece with two versions of WORDS words each and a sequence. One rank
 * commits UPDATES updates, one after another; if it dies, at any step, another goes on. A reader pulls it READS times.
 *
 * Shown, for all interleavings: a pull accepts only whole versions, the one that the sequence names, and never an
 * older one than the pull before; and all ends. All runs are finite (a pull copies again only after a commit), so that
 * a search for invalid end states shows the last. One reader is enough, as readers write nothing.
 *
 * Names. sequence: of the piece; version[WORD(number, word)]: in the version of number % 2, by the update that it is
 * of, and by its writer. `after`: the second look at the sequence.
 *
 * Memory order. Two orders are relied on in each rank. The writer: the words of version n, then the sequence n
 * (release), then the words of version n + 1 (a release fence: a release alone lets later stores pass it). The reader:
 * the sequence (acquire), then the words, then the sequence again (an acquire fence before). The words of a version
 * may be stored and loaded in any order; here it is one, as neither side can tell.
 *
 * Controls. WITHOUT_RELEASE: the sequence is stored before the words. WITHOUT_WRITER_FENCE: the first word of the next
 * version may be stored before the sequence. WITHOUT_LOOK: no second look. WITHOUT_READER_FENCE: that look comes
 * before the last word. WITHOUT_OTHER: the writer writes to the current version. */

#ifndef UPDATES
#define UPDATES 4
#endif
#ifndef WORDS
#define WORDS 3
#endif
#ifndef READS
#define READS 2
#endif
#ifndef DEATHS
#define DEATHS 1 /* at most */
#endif

#define WRITERS 2
#ifdef WITHOUT_OTHER
#define WORD(number, word) (((number) - ((number) > sequence)) % 2 * WORDS + (word))
#else
#define WORD(number, word) ((number) % 2 * WORDS + (word))
#endif
#define CONTENT(number) ((number) * WRITERS + me)
#define NUMBER(content) ((content) / WRITERS)

byte sequence;
byte version[2 * WORDS];
bool dead[WRITERS];
byte deaths;

proctype writer(byte me) {
    byte number, word;
    bool late;
end:
    me == 0 || dead[0];
    {
        number = sequence + 1;
        do
        :: number <= UPDATES ->
#ifdef WITHOUT_RELEASE
            sequence = number;
#endif
            do
            :: atomic { word < WORDS -> version[WORD(number, word)] = CONTENT(number); word++ };
#ifdef WITHOUT_WRITER_FENCE
                if
                :: atomic { late -> sequence = number - 1; late = false }
                :: !late
                fi
#endif
            :: atomic { word == WORDS -> word = 0; break }
            od;
            if
            :: atomic { sequence = number; number++ }
#ifdef WITHOUT_WRITER_FENCE
            :: atomic { number < UPDATES -> late = true; number++ }
#endif
            fi
        :: number > UPDATES -> break
        od
    } unless { dead[me] }
}

#ifdef WITHOUT_LOOK
#define SAME true
#else
#define SAME (after == before)
#endif

proctype reader() {
    byte before, after, last, word, reads, copy[WORDS];
    do
    :: reads < READS ->
        before = sequence;
        do
        :: atomic { word < WORDS ->
#ifdef WITHOUT_READER_FENCE
            if
            :: word == WORDS - 1 -> after = sequence
            :: else
            fi };
            atomic {
#endif
            copy[word] = version[WORD(before, word)]; word++ }
        :: atomic { word == WORDS -> word = 0; break }
        od;
        atomic {
#ifndef WITHOUT_READER_FENCE
            after = sequence;
#endif
            if
            :: SAME ->
                for (word : 0 .. WORDS - 1) {
                    assert(copy[word] == copy[0])
                }
                assert(NUMBER(copy[0]) == before && before >= last);
                last = before;
                reads++
            :: else
            fi;
            for (word : 0 .. WORDS - 1) {
                copy[word] = 0
            }
            word = 0; before = 0; after = 0 }
    :: reads == READS -> break
    od
}

proctype death() {
    if
    :: deaths < DEATHS -> atomic { dead[0] = true; deaths++ }
    :: true
    fi
}

init {
    atomic {
        run death();
        run writer(0);
        run writer(1);
        run reader()
    }
}
