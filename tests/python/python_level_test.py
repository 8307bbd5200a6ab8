"""As ranks: after 10,000 calls of changing sizes, and 200 groups made and destroyed, this process has no more memory,
descriptors and threads than before."""

import ctypes
import gc
import os
import pathlib

import kolo4py as kolo
import python_ranks

MEMORY_BYTES_MAX = 3 << 20  # that Python's own pools and the allocator may take meanwhile


def resident_bytes():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def taken():
    gc.collect()
    return resident_bytes(), len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


class Level(python_ranks.RankTest):
    def assert_level(self, before):
        memory, *others = taken()
        self.assertEqual(before[1:], tuple(others), "descriptors, threads")
        self.assertLess(memory - before[0], MEMORY_BYTES_MAX)

    def calls(self, begin, end):
        data = bytearray(1 << 14)
        for i in range(begin, end):
            part = memoryview(data)[:1 + i * 37 % (1 << 14)]
            if i % 3 == 0:
                self.comm.all_reduce(part, part)
            elif i % 3 == 1:
                self.comm.broadcast(part)
            else:
                self.comm.all_reduce(part, async_=True).wait()

    def test_calls(self):
        self.calls(0, 1000)
        before = taken()
        self.calls(1000, 11000)
        self.assert_level(before)

    def groups(self, count):
        for i in range(count):
            group = self.comm.split(self.comm.rank % 2 if i % 2 else 0)
            group.all_reduce((ctypes.c_int * 4)(), op="max")
            if i % 10 == 0:
                group.empty(1000, "float32")
            group.close()

    def test_groups(self):
        self.groups(20)
        before = taken()
        self.groups(200)
        self.assert_level(before)


if __name__ == "__main__":
    python_ranks.main()
