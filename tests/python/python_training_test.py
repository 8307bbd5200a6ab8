"""As ranks: what trainings are made of. Exact sums and the operation sum_exact, against sums of fractions. Optimizers,
against PyTorch's formulas in float64: groups, segments, clipping, skipped steps, and state that is saved and loaded. Many
arrays as one message, and buckets of arrays that become ready in another order on each rank."""

import array
import ctypes
import fractions
import itertools
import math
import random
import struct
import unittest
from unittest import mock

import kolo4py as kolo
import python_ranks
from python_arrays import each_kind, numpy

COUNT, STEPS = 37, 5  # of optimizers


def true_sum(values):
    """The float nearest to the sum, ties to even: a division of integers is rounded like that."""
    return float(sum(map(fractions.Fraction, values), fractions.Fraction()))


def as_f32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


class Sums(python_ranks.RankTest):
    def addends(self, seed, count, exponents):
        """The same on all ranks."""
        draw = random.Random(seed)
        return [math.ldexp(draw.uniform(-1, 1), draw.randint(-exponents, exponents)) for _ in range(count)]

    def sum_over_ranks(self, values, dtype="float64"):
        """Of values that the ranks hold by turns."""
        own = array.array("d" if dtype == "float64" else "f", values[self.comm.rank::self.comm.size])
        total = kolo.exact(dtype)
        cut = len(own) // 3
        self.assertIs(total, total.add(own[:cut]))
        return total.merge(kolo.exact(dtype).add(own[cut:])).all_reduce(self.comm).value

    def test_sum_of_any_range(self):
        for seed, exponents in enumerate((0, 1, 10, 50, 300, 1000)):
            for count in (0, 1, 7, 100, 4000):
                values = self.addends(seed, count, exponents)
                self.assertEqual(true_sum(values), self.sum_over_ranks(values), (exponents, count))

    def test_f32(self):
        values = [as_f32(value) for value in self.addends(3, 2000, 4)]
        self.assertEqual(as_f32(true_sum(values)), self.sum_over_ranks(values, "float32"))  # which a double holds

    def test_parts_may_overflow(self):
        largest = 1.7976931348623157e308
        self.assertEqual(1.0, self.sum_over_ranks([largest, largest, 1.0, -largest, -largest]))
        self.assertEqual(math.inf, self.sum_over_ranks([largest, largest]))
        self.assertTrue(math.isnan(self.sum_over_ranks([math.inf, 1.0, -math.inf])))

    def test_several_sums(self):
        total = kolo.exact("float64", 3)
        total.add_rows(array.array("d", [1, 2, 3, 10, 20, 30])).add(array.array("d", [0.5]), sum=1)
        size = self.comm.size
        self.assertEqual((11.0 * size, 22.5 * size, 33.0 * size), total.all_reduce(self.comm).values)
        self.assertEqual((0.0, 0.0, 0.0), total.reset().values)
        self.assertRaises(kolo.ArgumentError, lambda: total.value)

    def test_refused(self):
        total = kolo.exact("float32")
        self.assertRaises(kolo.ArgumentError, kolo.exact, "int32")
        for sums in (0, (1 << 64) + 1):
            self.assertRaises(kolo.ArgumentError, kolo.exact, "float64", sums)
        self.assertRaises(kolo.ArgumentError, total.add, array.array("d", [1]))
        self.assertRaises(kolo.ArgumentError, total.add, array.array("f", [1]), 1)
        self.assertRaises(kolo.ArgumentError, total.merge, kolo.exact("float64"))
        self.assertEqual(0.0, total.value)

    def test_operation(self):
        size, count = self.comm.size, 50
        rows = [self.addends(100 + rank, count, 60) for rank in range(size)]
        x = array.array("d", rows[self.comm.rank])
        self.comm.all_reduce(x, x, "sum_exact")
        self.assertEqual([true_sum(column) for column in zip(*rows)], list(x))
        self.assertRaises(kolo.ArgumentError, self.comm.all_reduce, array.array("i", [1]), None, "sum_exact")


def plain_step(kind, step, g, p, m, v, lr=0.001, weight_decay=0, betas=(0.9, 0.999), eps=1e-8, momentum=0, dampening=0,
               nesterov=0):
    """New p, m and v of one parameter."""
    if kind == "adamw":
        p -= lr * weight_decay * p
    else:
        g += weight_decay * p
    if kind == "sgd":
        m = g if step == 1 else momentum * m + (1 - dampening) * g
        return p - lr * (g if not momentum else g + momentum * m if nesterov else m), m, v
    m = betas[0] * m + (1 - betas[0]) * g
    v = betas[1] * v + (1 - betas[1]) * g * g
    root = math.sqrt(v / (1 - betas[1] ** step)) + eps
    return p - lr * m / (1 - betas[0] ** step) / root, m, v


class Optimizers(python_ranks.RankTest):
    def gradients(self, step, code="d"):
        """Of this rank; their average over the ranks is `average`."""
        shift = self.comm.rank - (self.comm.size - 1) / 2
        return array.array(code, [self.average(step, i) + shift for i in range(COUNT)])

    def average(self, step, i):
        return ((i * 7 + step * 3) % 11 - 5) / 4

    def check(self, kind, **settings):
        parameters = array.array("d", [i / 8 for i in range(COUNT)])
        wanted, m, v = list(parameters), [0.0] * COUNT, [0.0] * COUNT
        optimizer = kolo.Optimizer(self.comm, parameters, kind, **settings)
        for step in range(1, STEPS + 1):
            self.assertEqual((step, False, 0, 1), optimizer.step(self.gradients(step)))
            for i in range(COUNT):
                wanted[i], m[i], v[i] = plain_step(kind, step, self.average(step, i), wanted[i], m[i], v[i], **settings)
        for found, due in zip(parameters, wanted):
            self.assertAlmostEqual(due, found, 12)

    def test_formulas(self):
        self.check("sgd", lr=0.1)
        self.check("sgd", lr=0.1, momentum=0.9, dampening=0.2, weight_decay=0.01)
        self.check("sgd", lr=0.1, momentum=0.9, nesterov=1)
        self.check("adam", lr=0.01, weight_decay=0.1)
        self.check("adamw", lr=0.01, weight_decay=0.1, betas=(0.8, 0.95), eps=1e-6)

    def test_state_goes_on(self):
        whole, parts = (array.array("f", [1] * COUNT) for _ in range(2))
        straight = kolo.Optimizer(self.comm, whole, lr=0.01)
        first = kolo.Optimizer(self.comm, parts, lr=0.01)
        for step in range(3):
            straight.step(self.gradients(step, "f"))
            first.step(self.gradients(step, "f"))
        state = first.state_dict()
        self.assertEqual((3, {"steps", "momentum", "variance"}), (state["steps"], set(state)))
        second = kolo.Optimizer(self.comm, parts, lr=0.01, segments=[10, COUNT])
        second.load_state_dict(state)
        for step in range(3, 6):
            gradients = self.gradients(step, "f")
            second.begin(1, gradients)
            straight.step(gradients)
            self.assertEqual(step + 1, second.step(gradients).steps)
        self.assertEqual(whole, parts)

    def test_a_handler_raises_anywhere(self):
        """An optimizer that was made is freed, and the gradients of a segment that has begun are kept."""
        alone, parameters, seen = self.comm.split(self.comm.rank), array.array("f", [1] * COUNT), set()
        library, made = alone._handle.library, []
        with mock.patch.object(library, "kolo_optimizer_create", wraps=library.kolo_optimizer_create) as create, \
                mock.patch.object(library, "kolo_optimizer_destroy", wraps=library.kolo_optimizer_destroy) as destroy:
            for line in itertools.count():
                if not python_ranks.is_raised_at(line, lambda: made.append(kolo.Optimizer(alone, parameters))):
                    break
                self.assertEqual(create.call_count, destroy.call_count)
        self.assertGreater(create.call_count, 1)
        for has_begun, call in ((False, lambda: optimizer.begin(0, gradients)), (True, lambda: optimizer.step(gradients))):
            for line in itertools.count():
                optimizer, gradients = kolo.Optimizer(alone, parameters), self.gradients(0, "f")
                if has_begun:
                    optimizer.begin(0, gradients)
                if not python_ranks.is_raised_at(line, call):
                    break
                is_kept = bool(optimizer._begun)
                try:
                    optimizer.begin(0, gradients)
                    seen.add("not begun")
                except kolo.Error:
                    self.assertTrue(is_kept)
                    seen.add("begun")
                optimizer.step(gradients)
        self.assertEqual({"begun", "not begun"}, seen)
        optimizer.step(gradients)
        alone.close()

    def test_groups(self):
        parameters = array.array("d", [1] * COUNT)
        groups = [{"end": 5, "lr": 0}, {"end": COUNT, "momentum": 0.5}]
        optimizer = kolo.Optimizer(self.comm, parameters, "sgd", groups=groups, lr=1)
        ones = array.array("d", [1] * COUNT)
        optimizer.step(ones)
        self.assertEqual([1] * 5 + [0] * (COUNT - 5), list(parameters))
        optimizer.set_group(1, lr=2, momentum=0)
        optimizer.step(ones)
        self.assertEqual([1] * 5 + [-2] * (COUNT - 5), list(parameters))

    def test_clip_and_skip(self):
        parameters = array.array("d", [0] * COUNT)
        optimizer = kolo.Optimizer(self.comm, parameters, "sgd", lr=1, clip_norm=1, skip_nonfinite=True)
        gradients = array.array("d", [2] * COUNT)
        done = optimizer.step(gradients)
        self.assertAlmostEqual(2 * math.sqrt(COUNT), done.norm, 12)
        self.assertAlmostEqual(-2 * done.clip, parameters[0], 12)
        before = list(parameters)
        if self.comm.rank == 0:
            gradients[3] = math.nan
        done = optimizer.step(gradients)
        self.assertEqual((1, True, before), (done.steps, done.skipped, list(parameters)))

    def test_refused(self):
        parameters = array.array("f", [0] * COUNT)
        self.assertRaises(kolo.ArgumentError, kolo.Optimizer, self.comm, parameters, "adagrad")
        self.assertRaises(kolo.ArgumentError, kolo.Optimizer, self.comm, parameters, learning_rate=1)
        self.assertRaises(kolo.ArgumentError, kolo.Optimizer, self.comm, parameters, lr=-1)
        self.assertRaises(kolo.ArgumentError, kolo.Optimizer, self.comm, array.array("i", [1]))
        optimizer = kolo.Optimizer(self.comm, parameters)
        self.assertRaises(kolo.ArgumentError, optimizer.step, array.array("f", [1]))
        self.assertRaises(kolo.ArgumentError, optimizer.step, array.array("d", [1] * COUNT))
        self.assertRaises(kolo.ArgumentError, optimizer.set_group, 1, lr=1)
        self.assertRaises(kolo.ArgumentError, optimizer.set_group, 1 << 64, lr=1)
        self.assertRaises(kolo.ArgumentError, optimizer.begin, 1, array.array("f", [1] * COUNT))
        self.assertRaises(kolo.ArgumentError, optimizer.set_group, 0, rate=1)
        optimizer, gradients = kolo.Optimizer(self.comm, parameters, segments=[10, COUNT]), array.array("f", [1] * COUNT)
        optimizer.begin(0, gradients)
        self.assertRaises(kolo.ArgumentError, optimizer.state_dict)
        self.assertRaises(kolo.ArgumentError, optimizer.step, parameters)
        self.assertTrue(optimizer._begun)
        optimizer.step(gradients)
        self.assertEqual((1, []), (optimizer.state_dict()["steps"], optimizer._begun))


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
        whole = memoryview((ctypes.c_float * 6)()).cast("B").cast("f")
        for arrays, pair in (([whole[:1], whole[2:], whole[1:3]], "arrays.2. and arrays.1."),
                             ([whole[5:], whole[:0], whole, whole[:0]], "arrays.2. and arrays.0."),
                             ([whole, whole], "arrays.0. and arrays.1.")):
            for call in (self.comm.all_reduce_many, lambda x: kolo.Buckets(self.comm, x)):
                with self.assertRaisesRegex(kolo.ArgumentError, f"^{pair} overlap"):
                    call(arrays)
        self.comm.all_reduce_many([whole[3:], whole[:3]])


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
        with self.assertRaisesRegex(kolo.ArgumentError, "bucket_bytes -1"):
            kolo.Buckets(self.comm, [x], bucket_bytes=-1)
        with self.assertRaisesRegex(kolo.ArgumentError, "unused 'never'"):
            kolo.Buckets(self.comm, [x], unused="never")
        with self.assertRaisesRegex(kolo.ArgumentError, "not for max"):
            kolo.Buckets(self.comm, [x], op="max", unused="zero")
        buckets = kolo.Buckets(self.comm, [x, (ctypes.c_float * 2)()])
        with self.assertRaisesRegex(kolo.ArgumentError, "array -1"):
            buckets.ready(-1)
        with self.assertRaisesRegex(kolo.ArgumentError, "array 18446744073709551616"):
            buckets.ready(1 << 64)
        with self.assertRaisesRegex(kolo.ArgumentError, "array 2: must be from 0 to 1"):
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
