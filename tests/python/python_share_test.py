"""As ranks: Comm.share on arrays of mmap, of NumPy and of DLPack: contents and addresses are kept, calls copy nothing, and
the memory is this process's own again afterwards."""

import array
import ctypes
import gc
import itertools
import mmap
import os
import weakref

import kolo4py as kolo
import python_arrays
import python_ranks
from python_arrays import numpy

PAGE = 4096
PAGES = 33
ITEMS = PAGES * PAGE // 4  # of float


def pages(count=PAGES):
    return mmap.mmap(-1, count * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def child_writes(view):
    """Whether what a forked child writes there is seen here."""
    view[0] = 1
    child = os.fork()
    if child == 0:
        view[0] = 2
        os._exit(0)
    os.waitpid(child, 0)
    return view[0] == 2


class Share(python_ranks.RankTest):
    def direct_calls(self, comm=None):
        return (comm or self.comm).stats["calls_by_algorithm"]["direct"]

    def reduce_in(self, x):
        """Sums x, and says how often that needed no copies."""
        before = self.direct_calls()
        self.comm.all_reduce(x, x)
        return self.direct_calls() - before

    def check(self, x):
        """x: with ITEMS floats, or more."""
        without_copies = int(self.comm.size > 1)
        self.assertEqual(0, self.reduce_in(x))
        with self.comm.share(x) as shared:
            self.assertFalse(shared.closed)
            self.assertEqual(len(x) * 4, shared.bytes)
            self.assertEqual(without_copies, self.reduce_in(x))
        self.assertTrue(shared.closed)
        shared.close()
        self.assertEqual(0, self.reduce_in(x))
        factor = self.comm.size ** 2  # ranks that have the same have summed twice since the first time
        self.assertEqual([i % 5 * sum(range(1, self.comm.size + 1)) * factor for i in (0, 1, len(x) - 1)],
                         [x[i] for i in (0, 1, len(x) - 1)])

    def filled(self, memory):
        x = memoryview(memory).cast("f")
        x[:] = array.array("f", [i % 5 * (self.comm.rank + 1) for i in range(len(x))])
        return x

    def test_mmap(self):
        self.check(self.filled(pages()))

    def test_numpy(self):
        if numpy is None:
            self.skipTest("no NumPy")
        larger = numpy.empty(ITEMS + PAGE // 4, "f4")
        first = -larger.ctypes.data % PAGE // 4
        x = larger[first:first + ITEMS]
        x[:] = numpy.arange(ITEMS) % 5 * (self.comm.rank + 1)
        self.check(x)
        self.check(numpy.frombuffer(self.filled(pages(200)), "f4"))

    def test_dlpack(self):
        x = self.filled(pages())
        lent = python_arrays.Lent([], (ITEMS,))
        lent.data = (ctypes.c_float * ITEMS).from_buffer(x)
        with self.comm.share(lent):
            self.assertEqual(int(self.comm.size > 1), self.reduce_in(x))

    def test_fork(self):
        x = memoryview(pages())
        self.assertFalse(child_writes(x))
        with kolo.share(self.comm, x):
            self.assertTrue(child_writes(x))
        self.assertFalse(child_writes(x))

    def test_array_is_kept(self):
        memory = pages()
        kept = weakref.ref(memory)
        shared = self.comm.share(memory)
        del memory
        gc.collect()
        self.assertIsNotNone(kept())
        shared.close()
        gc.collect()
        self.assertIsNone(kept())

    def test_a_handler_raises_anywhere(self):
        """What the library has mapped is kept."""
        alone, memory = self.comm.split(self.comm.rank), pages()
        address, seen = ctypes.addressof(ctypes.c_char.from_buffer(memory)), set()
        for line in itertools.count():
            if not python_ranks.is_raised_at(line, alone.share, memory):
                break
            is_kept = address in alone._handle.adopted
            try:
                alone._handle.give_back(address)
                self.assertTrue(is_kept)
                seen.add("shared")
            except kolo.ArgumentError:
                seen.add("not shared")
        self.assertEqual({"shared", "not shared"}, seen)
        alone.close()

    def test_closed_communicator(self):
        for keeps in (False, True):
            other = self.comm.dup()
            rest = other.empty(4) if keeps else None  # which keeps the library's communicator
            x = self.filled(pages())
            shared = other.share(x)
            other.close()
            self.assertEqual(rest is None, shared.closed)
            shared.close()
            self.assertTrue(shared.closed)
            del rest
            self.assertFalse(child_writes(memoryview(x).cast("B")))
            self.assertEqual(3 * (self.comm.rank + 1), x[8])
            with self.assertRaises(kolo.Broken):
                other.share(x)

    def test_refused(self):
        memory = pages()
        with self.assertRaisesRegex(kolo.ArgumentError, "whole pages of 4096"):
            self.comm.share(memoryview(memory)[:PAGE + 8])
        odd = self.comm.rank == self.comm.size - 1  # one alone; but all get the error
        why = "does not begin a page" if odd else f"failed on rank {self.comm.size - 1}; see"
        with self.assertRaisesRegex(kolo.ArgumentError, why):
            self.comm.share(memoryview(memory)[64 * odd:64 * odd + PAGE])
        with self.assertRaisesRegex(kolo.ArgumentError, "shared already"):
            self.comm.share(mmap.mmap(-1, PAGE))
        with self.comm.share(memory), self.assertRaisesRegex(kolo.ArgumentError, "shared already"):
            self.comm.share(memory)
        with self.assertRaises(TypeError):
            self.comm.share(7)
        self.check(self.filled(memory))


if __name__ == "__main__":
    python_ranks.main()
