"""Random programs: ranks make the same random calls on buffers of all kinds, at once or in the background, while one of
them comes late, sleeps in the middle of a wait, has a short deadline, leaves, aborts, or makes another call.

Each program runs in episodes. An episode has a communicator of its own, at most one fault, and ends on each rank at its
first error. Two things hold whatever happens:
    - a call that succeeds has the right data;
    - a rank whose call is over, well or not, fills the call's buffers with rubbish at once, and nobody writes there: it
      is all there when every rank is done with the episode. Nor is it read: then another rank's data would be wrong.

--seed N runs the programs from that seed on, --programs N so many. What fails is named with its seed. With --rank this is
a rank of the program."""

import argparse
import array
import contextlib
import mmap
import os
import random
import signal
import subprocess
import sys
import time

import kolo4py as kolo

ALGORITHMS = ("auto", "auto", "oneshot", "mesh", "ring", "tree", "central", "direct")
FAULTS = ("none", "late", "late", "dozes", "deadline", "leaves", "aborts", "differs")
LETTERS = "iqfd"
EPISODES, STEPS = 10, 14
COUNT_MAX = 1 << 16
DEADLINE_S, LATE_S, PATIENCE_S = 0.3, 0.8, 100
POOL, POOL_BYTES = 6, 16 << 12


class Wrong(Exception):
    """What no rank may see."""


def pattern(letter, count, factor, step):
    """`count` items, exact in every type however many ranks are summed, that tell steps apart."""
    return array.array(letter, [factor * ((5 * step + i) % 7 + 1) for i in range(7)] * (count // 7 + 1))[:count].tobytes()


class Buffers:
    """Memory for the calls of an episode: a rank's own, and some that all ranks have mapped, which is used again."""

    def __init__(self, comm, dice):
        self.comm, self.dice = comm, dice
        self.memory = mmap.mmap(-1, POOL_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.shared = comm.share(self.memory)
        self.pool = [memoryview(comm.empty(POOL_BYTES, "u1")) for _ in range(POOL)] + [memoryview(self.memory)]
        self.common = memoryview(comm.empty(POOL_BYTES, "u1", shared=True)).cast("B")
        self.pool = [memory.cast("B") for memory in self.pool]
        self.free = list(range(len(self.pool)))
        self.watched = {}  # by number: view, rubbish, and of which call
        self.numbers = iter(range(1 << 30))

    def take(self, contents, mapped):
        """A buffer with those contents: of the pool, if it is to be and one is left."""
        length = len(contents)
        offset = 64 * self.dice.randrange(3)
        if mapped and self.free and offset + length <= POOL_BYTES:
            place = self.free.pop(self.dice.randrange(len(self.free)))
            if place in self.watched:
                self.look(place)
            view = self.pool[place][offset:offset + length]
        else:
            place, view = len(self.pool) + next(self.numbers), memoryview(bytearray(length))
        view[:] = contents
        return place, view

    def spoil(self, place, view, call):
        """The call that had the buffer is over."""
        rubbish = os.urandom(1) * len(view)
        view[:] = rubbish
        self.watched[place] = (view, rubbish, call)
        if place < len(self.pool):
            self.free.append(place)

    def look(self, place):
        view, rubbish, call = self.watched.pop(place)
        if view != rubbish:
            wrong = sum(a != b for a, b in zip(view, rubbish))
            raise Wrong(f"{wrong} of {len(view)} bytes were written after the end of {call}, in "
                        f"{'mapped' if place < len(self.pool) else 'own'} memory")

    def look_at_all(self):
        for place in list(self.watched):
            self.look(place)

    def drop(self):
        """Refers to nothing of the communicator any more, so that it can end."""
        self.watched = {place: kept for place, kept in self.watched.items() if place >= len(self.pool)}
        self.pool, self.common, self.free = [], None, []


class Step:
    """One call: its buffers, what it is to leave in them, and how it is made."""

    def __init__(self, buffers, name, number, letter, is_background):
        self.buffers, self.letter, self.number, self.is_background = buffers, letter, number, is_background
        self.name = name + " in the background" * is_background
        self.places, self.expected = [], []  # (place, view); (view, bytes)
        self.make = None

    def buffer(self, contents, expected=None, mapped=False):
        place, view = self.buffers.take(contents, mapped)
        self.places.append((place, view))
        if expected is not None:
            self.expected.append((view, expected))
        return view.cast(self.letter) if len(view) else view.cast("B")

    def over(self, succeeded):
        """The call has returned. Its results are looked at, and its buffers filled with rubbish."""
        wrong = [len(view) for view, expected in self.expected if succeeded and view != expected]
        for place, view in self.places:
            self.buffers.spoil(place, view, self.name)
        if wrong:
            raise Wrong(f"{self.name} succeeded with wrong data in buffers of {wrong} bytes")


class Program:
    """An episode, as one rank sees it. In each step `dice` falls alike on all ranks, `own` for this one alone."""

    def __init__(self, comm, name, fault):
        self.comm, self.name, self.fault = comm, name, fault
        self.rank, self.size = comm.rank, comm.size
        self.own = random.Random(f"{name} {comm.rank}")
        self.buffers = Buffers(comm, random.Random(f"{name} buffers"))
        self.flying = []  # (request, step)
        self.number = 0

    # The calls. Each says what it puts in, what comes out, and how it is made.

    def all_reduce(self, step, count, mapped):
        op = self.dice.choice(("sum", "max", "min"))
        factor = {"sum": self.size * (self.size + 1) // 2, "max": self.size, "min": 1}[op]
        expected = pattern(step.letter, count, factor, step.number)
        contents = pattern(step.letter, count, self.rank + 1, step.number)
        way = self.dice.choice(("in place", "out", "out", "common"))
        if way == "in place":
            x = out = step.buffer(contents, expected, mapped)
        elif way == "common" and not step.is_background and len(contents) <= POOL_BYTES:
            x, common = step.buffer(contents, None, mapped), self.buffers.common[:len(contents)]
            step.expected.append((common, expected))
            out = common.cast(step.letter) if count else common
        else:
            x, out = step.buffer(contents, contents, mapped), step.buffer(bytes(len(contents)), expected, mapped)
        step.make = lambda **how: self.comm.all_reduce(x, out, op, **how) if how else self.comm.plan(x, out, op)()

    def all_reduce_many(self, step, count, mapped):
        counts = [self.dice.randrange(count + 1) for _ in range(4)]
        factor = self.size * (self.size + 1) // 2
        arrays = [step.buffer(pattern(step.letter, n, self.rank + 1, step.number),
                              pattern(step.letter, n, factor, step.number), mapped) for n in counts if n]
        step.make = lambda **how: self.comm.all_reduce_many(arrays, **how)

    def scan(self, step, count, mapped):
        is_exclusive = self.dice.random() < 0.5
        factor = (self.rank + 1) * (self.rank + (0 if is_exclusive else 2)) // 2
        x = step.buffer(pattern(step.letter, count, self.rank + 1, step.number), None, mapped)
        expected = None if is_exclusive and self.rank == 0 else pattern(step.letter, count, factor, step.number)
        out = step.buffer(bytes(x.nbytes), expected, mapped)
        step.make = lambda **how: (self.comm.exscan if is_exclusive else self.comm.scan)(x, out, **how)

    def reduce(self, step, count, mapped):
        root = self.dice.randrange(self.size)
        expected = pattern(step.letter, count, self.size * (self.size + 1) // 2, step.number)
        x = step.buffer(pattern(step.letter, count, self.rank + 1, step.number), None, mapped)
        out = step.buffer(bytes(x.nbytes), expected if self.rank == root else bytes(x.nbytes), mapped)
        step.make = lambda **how: self.comm.reduce(x, out, root=root, **how)

    def broadcast(self, step, count, mapped):
        root = self.dice.randrange(self.size)
        x = step.buffer(pattern(step.letter, count, self.rank + 1, step.number),
                        pattern(step.letter, count, root + 1, step.number), mapped)
        step.make = lambda **how: self.comm.broadcast(x, root, **how)

    def all_gather(self, step, count, mapped):
        counts = [count] * self.size
        if self.dice.random() < 0.3:
            counts = [self.dice.randrange(count + 1) for _ in counts]
        x = step.buffer(pattern(step.letter, counts[self.rank], self.rank + 1, step.number), None, mapped)
        whole = b"".join(pattern(step.letter, n, r + 1, step.number) for r, n in enumerate(counts))
        out = step.buffer(bytes(len(whole)), whole, mapped)
        if len(set(counts)) > 1:
            of_bytes = [len(pattern(step.letter, n, 1, 0)) for n in counts]
            step.make = lambda **how: self.comm.all_gather(x.cast("B"), out.cast("B"), of_bytes, **how)
        else:
            step.make = lambda **how: self.comm.all_gather(x, out, **how)

    def gather(self, step, count, mapped):
        root = self.dice.randrange(self.size)
        whole = b"".join(pattern(step.letter, count, r + 1, step.number) for r in range(self.size))
        x = step.buffer(pattern(step.letter, count, self.rank + 1, step.number), None, mapped)
        out = step.buffer(bytes(len(whole)), whole if self.rank == root else None, mapped)
        step.make = lambda **how: self.comm.gather(x, out, root, **how)

    def scatter(self, step, count, mapped):
        root = self.dice.randrange(self.size)
        whole = b"".join(pattern(step.letter, count, r + 1, step.number) for r in range(self.size))
        x = step.buffer(whole, None, mapped)
        expected = pattern(step.letter, count, self.rank + 1, step.number)
        out = step.buffer(bytes(len(expected)), expected, mapped)
        step.make = lambda **how: self.comm.scatter(x, out, root, **how)

    def reduce_scatter(self, step, count, mapped):
        whole = pattern(step.letter, count * self.size, self.rank + 1, step.number)
        x = step.buffer(whole, None, mapped)
        total = pattern(step.letter, count * self.size, self.size * (self.size + 1) // 2, step.number)
        length = len(whole) // self.size
        out = step.buffer(bytes(length), total[self.rank * length:(self.rank + 1) * length], mapped)
        step.make = lambda **how: self.comm.reduce_scatter(x, out, **how)

    def all_to_all(self, step, count, mapped):
        sent = [pattern(step.letter, count, 10 * self.rank + r + 1, step.number) for r in range(self.size)]
        taken = [pattern(step.letter, count, 10 * r + self.rank + 1, step.number) for r in range(self.size)]
        x = step.buffer(b"".join(sent), None, mapped)
        out = step.buffer(bytes(len(sent[0]) * self.size), b"".join(taken), mapped)
        step.make = lambda **how: self.comm.all_to_all(x, out, **how)

    def sendrecv(self, step, count, mapped):
        to, source, tag = (self.rank + 1) % self.size, (self.rank - 1) % self.size, self.dice.randrange(3)
        x = step.buffer(pattern(step.letter, count, self.rank + 1, step.number), None, mapped)
        out = step.buffer(bytes(x.nbytes), pattern(step.letter, count, source + 1, step.number), mapped)
        step.make = lambda **how: self.comm.sendrecv(x, to, out, source, tag, tag, **how)

    def objects(self, step, count, mapped):
        failed = self.dice.randrange(3 * self.size)  # none in most cases

        def make(**_):
            try:
                got = self.comm.all_gather_object(lambda: 0) if self.rank == failed else \
                    self.comm.all_gather_object((self.rank, step.number, "x" * count))
            except kolo.RankFailed as error:
                if error.rank != failed:
                    raise Wrong(f"{error}, but it was rank {failed}") from error
                return
            if failed < self.size or got != [(r, step.number, "x" * count) for r in range(self.size)]:
                raise Wrong(f"{step.name}: wrong objects, or rank {failed} did not fail")

        step.make = make

    def buckets(self, step, count, mapped):
        """Which the communicator makes nothing else beside."""
        self.settle()
        counts = [self.dice.randrange(1, count + 2) for _ in range(5)]
        arrays = [step.buffer(pattern(step.letter, n, self.rank + 1, step.number),
                              pattern(step.letter, n, self.size * (self.size + 1) // 2, step.number), mapped)
                  for n in counts]

        def make(**_):
            with kolo.Buckets(self.comm, arrays, "sum", bucket_bytes=1 << self.dice.randrange(8, 16)) as made:
                for index in self.own.sample(range(5), 5):
                    made.ready(index)
                made.wait()

        step.make = make

    def table(self, step, count, mapped):
        rows, columns = 3, count % 50 + 1
        self.settle()
        x = step.buffer(pattern(step.letter, rows * columns, self.rank + 1, step.number))
        total = pattern(step.letter, rows * columns, self.size * (self.size + 1) // 2, step.number)
        out = step.buffer(bytes(x.nbytes), total)

        def make(**_):
            with kolo.Table(self.comm, rows, columns, {"i": "i4", "q": "i8", "f": "f4", "d": "f8"}[step.letter]) as made:
                made.push(x)
                made.clock()
                made.pull(out)
                self.comm.barrier()

        step.make = make

    CALLS = (all_reduce, all_reduce, all_reduce, all_reduce_many, scan, reduce, broadcast, all_gather, gather, scatter,
             reduce_scatter, all_to_all, sendrecv, objects, buckets, table)
    BLOCKS = (all_gather, gather, scatter, reduce_scatter, all_to_all)  # of `count` items for each rank
    AT_ONCE = (objects, buckets, table)  # never in the background
    MAY_DIFFER = set(CALLS) - {objects, sendrecv, table}  # which no rank is to survive with another length

    def step(self, differs=False, leaves=False):
        """One random call. differs: of another length than the other ranks' one. leaves: in the background, if that can
        be, with this rank's own memory."""
        self.number += 1
        self.dice = random.Random(f"{self.name} {self.number}")
        call = self.dice.choice(self.CALLS)
        is_background = (self.dice.random() < 0.4 or leaves) and call not in self.AT_ONCE
        letter = self.dice.choice(LETTERS)
        count = int(COUNT_MAX ** self.dice.random())
        if call in self.BLOCKS:
            count //= self.size
        mapped = self.dice.random() < 0.6 and not leaves
        name = f"{call.__name__} of {count} {letter}, {'mapped, ' if mapped else ''}step {self.number}"
        step = Step(self.buffers, name, self.number, letter, is_background)
        call(self, step, count + (differs and call in self.MAY_DIFFER), mapped)
        if is_background:
            self.issue(step)
            return
        with self.ending(step):
            step.make()

    @contextlib.contextmanager
    def ending(self, step):
        try:
            yield
        except kolo.Error as error:
            if isinstance(error, (kolo.ArgumentError, kolo.Unsupported)):
                raise Wrong(f"{step.name} was refused: {error}") from error
            step.over(False)
            raise
        step.over(True)

    def issue(self, step):
        try:
            self.flying.append((step.make(async_=True), step))
        except kolo.Error:
            step.over(False)
            raise

    def settle(self, most=None):
        """Waits for requests, in any order: all, or so many."""
        errors = []
        for _ in range(len(self.flying) if most is None else min(most, len(self.flying))):
            request, step = self.flying.pop(self.own.randrange(len(self.flying)))
            try:
                with self.ending(step):
                    request.wait()
            except kolo.Error as error:
                errors.append(error)
        if errors:
            raise errors[0]

    # Faults, of one rank, before a step.

    def late(self):
        time.sleep(LATE_S)

    def dozes(self):
        """In the middle of a wait, perhaps: where Python runs the handler."""
        signal.signal(signal.SIGALRM, lambda *_: time.sleep(LATE_S))
        signal.setitimer(signal.ITIMER_REAL, self.own.uniform(0.001, 0.2))

    def deadline(self):
        self.comm.timeout = 0.002

    def aborts(self):
        self.comm.abort(7)

    def leaves(self):
        """With requests in flight, whose buffers are its own again then."""
        with contextlib.suppress(kolo.Error):
            self.settle()  # requests keep mapped memory, and so the communicator
            for _ in range(min(3, STEPS - self.number)):
                self.step(leaves=True)
        self.buffers.drop()
        self.comm.close()
        if self.comm._handle._owned is not None:
            raise Wrong("it has left, but the communicator is still there")
        for _, step in self.flying:
            step.over(False)
        self.flying.clear()
        raise kolo.Broken("it has left")

    def run(self):
        """The error that ended it; None: it came to its end."""
        dice = random.Random(self.name)
        last, culprit = dice.randrange(STEPS), dice.randrange(self.size)
        try:
            for number in range(STEPS):
                is_faulty = number == last and self.rank == culprit
                if is_faulty and self.fault not in ("none", "differs"):
                    getattr(self, self.fault)()
                self.step(is_faulty and self.fault == "differs")
                if self.own.random() < 0.3:
                    self.settle(self.own.randrange(3))
            self.settle()
        except kolo.Error as error:
            with contextlib.suppress(kolo.Error):
                self.settle()
            return error
        return None


def run_rank(seed, algorithm):
    """A rank: episodes one after the other, each with a communicator that only it has."""
    with kolo.init(timeout=PATIENCE_S, create_timeout=PATIENCE_S, algorithm=algorithm,
                   slot_bytes=random.Random(seed).choice((0, 0, 4096, 65536))) as base:
        for episode in range(EPISODES):
            fault = random.Random(f"{seed} {episode} fault").choice(FAULTS)
            comm = base.dup()
            program = Program(comm, f"{seed} {episode}", fault)
            base.barrier()
            comm.timeout = PATIENCE_S if fault in ("none", "differs", "aborts", "leaves") else DEADLINE_S
            try:
                error = program.run()
                signal.setitimer(signal.ITIMER_REAL, 0)
                base.barrier()
                program.buffers.look_at_all()
                if fault == "none" and error is not None:
                    raise Wrong(f"{type(error).__name__}: {error}") from error
            except Wrong as wrong:
                os.write(2, f"seed {seed}, episode {episode}, {fault}, rank {base.rank}: {wrong}\n".encode())
                os._exit(1)
            base.barrier()
            program.buffers.drop()
            del program
            comm.close()


def run_program(seed):
    """Whether all ranks of a program saw what they should."""
    dice = random.Random(seed)
    ranks, algorithm = dice.choice((2, 3, 4)), dice.choice(ALGORITHMS)
    variables = dict(os.environ, KOLO_LOG="off", KOLO_PROGRESS=str(int(dice.random() < 0.4)))
    again = f"{os.environ['KOLORUN']} -n {ranks} {sys.executable} {__file__} --rank --seed {seed}"
    print(f"seed {seed}: {ranks} ranks, {algorithm}, KOLO_PROGRESS={variables['KOLO_PROGRESS']}", flush=True)
    done = subprocess.run([*again.split(), "--algorithm", algorithm], env=variables, timeout=3 * PATIENCE_S,
                          capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"status {done.returncode}; again: {again} --algorithm {algorithm}\n{done.stdout}{done.stderr}")
    return done.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seed", type=int, default=21)
    parser.add_argument("--programs", type=int, default=6)
    parser.add_argument("--rank", action="store_true")
    parser.add_argument("--algorithm", default="auto")
    options = parser.parse_args()
    if options.rank:
        run_rank(options.seed, options.algorithm)
        return
    failed = [seed for seed in range(options.seed, options.seed + options.programs) if not run_program(seed)]
    sys.exit(f"seeds that failed: {failed}" if failed else 0)


if __name__ == "__main__":
    main()
