"""As ranks: many arrays as one message, and buckets of arrays that become ready in another order on each rank."""

import ctypes
import random
import unittest

import kolo4py as kolo
import python_ranks
from python_arrays import each_kind, numpy


class ManyArrays(python_ranks.RankTest):
    def make(self, kind, factor):
        return [kind.make([factor * (i + 1)] * 6, (2, 3)) for i in range(5)]

    def test_every_kind(self):
        total = sum(rank + 1 for rank in range(self.comm.size))
        for kind in each_kind(self):
            arrays = self.make(kind, self.comm.rank + 1)
            self.assertIs(arrays, self.comm.all_reduce_many(arrays))
            for i, x in enumerate(arrays):
                self.assert_values([total * (i + 1)] * 6, x)
            arrays = self.make(kind, self.comm.rank + 1)
            request = self.comm.all_reduce_many(arrays, "max", async_=True)
            self.assertIs(arrays, request.wait())
            for i, x in enumerate(arrays):
                self.assert_values([self.comm.size * (i + 1)] * 6, x)

    def test_nothing(self):
        self.assertEqual([], self.comm.all_reduce_many([]))

    def test_refused(self):
        with self.assertRaisesRegex(kolo.ArgumentError, "arrays.1. is of float64"):
            self.comm.all_reduce_many([(ctypes.c_float * 2)(), (ctypes.c_double * 2)()])
        with self.assertRaisesRegex(kolo.ArgumentError, "arrays.0. is read-only"):
            self.comm.all_reduce_many([b"12"])


class Buckets(python_ranks.RankTest):
    LENGTHS = [1, 300, 7, 64, 2000, 5, 90]

    def steps(self, count, skipped=(), **options):
        arrays = [(ctypes.c_float * length)() for length in self.LENGTHS]
        orders = random.Random(self.comm.rank)
        ranks = range(self.comm.size)
        with kolo.Buckets(self.comm, arrays, **options) as buckets:
            for step in range(count):
                order = [i for i in range(len(arrays)) if i not in skipped]
                orders.shuffle(order)
                for i, x in enumerate(arrays):
                    x[:] = [self.comm.rank + i + step] * len(x)
                for i in order:
                    buckets.ready(i)
                buckets.wait()
                for i, x in enumerate(arrays):
                    value = 0 if i in skipped else sum(rank + i + step for rank in ranks)
                    self.assert_values([value] * len(x), x)
            return len(buckets)

    def test_orders(self):
        self.assertEqual(1, self.steps(3, op="sum"))
        self.assertEqual(len(self.LENGTHS), self.steps(5, op="sum", bucket_bytes=1))
        self.assertGreater(self.steps(5, op="sum", bucket_bytes=2000, keep_order=True), 1)

    def test_unused(self):
        self.steps(3, skipped=(2, 4), op="sum", unused="zero")

    def test_average(self):
        if numpy is None:
            self.skipTest("no NumPy")
        x = [numpy.full((2, 3), self.comm.rank, "f4"), numpy.full(0, 1, "f4"), numpy.full(9, 2, "f4")]
        with kolo.Buckets(self.comm, x) as buckets:
            for i in range(3):
                buckets.ready(i)
            buckets.wait()
        self.assertEqual([[(self.comm.size - 1) / 2] * 3] * 2, x[0].tolist())
        self.assertEqual([2] * 9, x[2].tolist())

    def test_compression(self):
        """What was applied in all steps and what is left of them make up what was given."""
        for kind in ("bf16", "f16", "topk", "onebit"):
            x, applied = (ctypes.c_float * 8)(), [0.0] * 8
            with kolo.Buckets(self.comm, [x], op="sum", compression=kind, share=0.25) as buckets:
                for _ in range(8):
                    x[:] = [(-1) ** self.comm.rank * (i + 1) / 4 for i in range(8)]
                    buckets.ready(0)
                    buckets.wait()
                    applied = [a + b for a, b in zip(applied, x)]
                left = (ctypes.c_float * 8)(*buckets.residual(0))
                self.comm.all_reduce(left, left)
                given = [8 * (self.comm.size % 2) * (i + 1) / 4 for i in range(8)]
                self.assertEqual([round(x, 3) for x in given], [round(a + b, 3) for a, b in zip(applied, left)], kind)
                buckets.set_residual(0, [0.5] * 8)
                self.assertEqual([0.5] * 8, list(buckets.residual(0)))
        with kolo.Buckets(self.comm, [x], compression="bf16", error_feedback=False) as buckets:
            with self.assertRaisesRegex(kolo.ArgumentError, "no residuals"):
                buckets.residual(0)
        with self.assertRaisesRegex(kolo.ArgumentError, "is for f32"):
            kolo.Buckets(self.comm, [(ctypes.c_double * 2)()], compression="f16")
        with self.assertRaisesRegex(kolo.ArgumentError, "compression 'zip'"):
            kolo.Buckets(self.comm, [x], compression="zip")

    def test_refused(self):
        x = (ctypes.c_float * 4)()
        with self.assertRaisesRegex(kolo.ArgumentError, "arrays.1. is of int32"):
            kolo.Buckets(self.comm, [x, (ctypes.c_int * 4)()])
        with self.assertRaisesRegex(kolo.ArgumentError, "unused 'never'"):
            kolo.Buckets(self.comm, [x], unused="never")
        with self.assertRaisesRegex(kolo.ArgumentError, "not for max"):
            kolo.Buckets(self.comm, [x], op="max", unused="zero")
        buckets = kolo.Buckets(self.comm, [x, (ctypes.c_float * 2)()])
        with self.assertRaisesRegex(kolo.ArgumentError, "array -1"):
            buckets.ready(-1)
        with self.assertRaisesRegex(kolo.ArgumentError, "tensor 2: there are 2"):
            buckets.ready(2)
        buckets.ready(1)
        with self.assertRaisesRegex(kolo.ArgumentError, "tensor 1 was ready already"):
            buckets.ready(1)
        with self.assertRaisesRegex(kolo.ArgumentError, "tensor 0 was not marked ready"):
            buckets.wait()
        buckets.ready(0)
        buckets.wait()
        buckets.close()
        buckets.close()
        with self.assertRaises(kolo.Broken):
            buckets.ready(0)

    def test_closed_communicator(self):
        other = self.comm.dup()
        buckets = kolo.Buckets(other, [(ctypes.c_float * 4)()])
        other.close()
        with self.assertRaises(kolo.Broken):
            buckets.ready(0)
        buckets.close()


if __name__ == "__main__":
    python_ranks.main()
