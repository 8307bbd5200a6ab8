"""As ranks: every collective, in and out of place, even and uneven, on arrays of every kind; plans, shared memory and
what is refused."""

import contextlib
import ctypes
import gc
import math
import os
import subprocess
import sys
import unittest
import weakref
from unittest import mock

import kolo4py as kolo
from kolo4py import _dlpack, _elements, _memory, _messages
import python_arrays
import python_ranks
from python_arrays import each_kind, numpy


def block(rank, length=6):
    """What a rank puts in, small enough to be exact in every type."""
    return [(rank + 1) * (i % 5 + 1) for i in range(length)]


class Results(python_ranks.RankTest):
    def expected(self, op, ranks, length=6):
        columns = list(zip(*(block(rank, length) for rank in ranks)))
        fold = {"sum": sum, "prod": math.prod, "min": min, "max": max}[op]
        return [fold(column) for column in columns]

    def test_all_reduce(self):
        for kind in each_kind(self):
            for op in ("sum", "min", "max"):
                expected = self.expected(op, range(self.comm.size))
                x, out = kind.make(block(self.comm.rank), (2, 3)), kind.filled(2, 3)
                self.assertIs(out, self.comm.all_reduce(x, out, op))
                self.assert_values(expected, out)
                self.assert_values(block(self.comm.rank), x)
                self.assertIs(x, self.comm.all_reduce(x, x, op))
                self.assert_values(expected, x)

    def test_new_result_has_the_kind_of_x(self):
        for kind in each_kind(self):
            x = kind.make(block(self.comm.rank), (2, 3))
            result = self.comm.all_reduce(x)
            if kind.name.startswith("memoryview"):
                self.assertEqual((x.shape, x.format), (result.shape, result.format))
            if kind.name.startswith("numpy"):
                self.assertEqual((x.shape, x.dtype), (result.shape, result.dtype))

    def test_average_and_bits(self):
        x = (ctypes.c_double * 3)(*(self.comm.rank + i for i in range(3)))
        mean = (self.comm.size - 1) / 2
        self.assert_values([mean, mean + 1, mean + 2], self.comm.all_reduce(x, op="avg"))
        bits = self.comm.all_reduce(bytes([1 << self.comm.rank]), bytearray(1), "bor")
        self.assertEqual((1 << self.comm.size) - 1, bits[0])

    def test_exscan(self):
        ranks = range(self.comm.rank)
        for kind in each_kind(self):
            x, out = kind.make(block(self.comm.rank), (6,)), kind.filled(6, value=3)
            self.assert_values(self.expected("sum", ranks) if self.comm.rank else [3] * 6, self.comm.exscan(x, out))

    def cases(self):
        """Every other call with a result: how many items this rank's x has, options, and what the result has."""
        size, rank, ranks = self.comm.size, self.comm.rank, range(self.comm.size)
        rows, counts = [r + 1 for r in ranks], [2 * r + 2 for r in ranks]
        before, own, whole = sum(counts[:rank]), counts[rank], sum(counts)
        same, uneven = sum((block(r) for r in ranks), []), sum((block(r, counts[r]) for r in ranks), [])
        total = self.expected("sum", ranks, whole + 4 * size)
        yield "all_reduce", 6, {}, total[:6]
        yield "scan", 6, {}, self.expected("sum", ranks[:rank + 1])
        yield "reduce_scatter", 4 * size, {}, total[4 * rank:4 * rank + 4]
        yield "reduce_scatter", whole, {"counts": rows}, total[before:before + own]
        yield "all_gather", 6, {}, same
        yield "all_gather", own, {"counts": rows}, uneven
        yield "all_to_all", 4 * size, {}, sum((block(r, 4 * size)[4 * rank:4 * rank + 4] for r in ranks), [])
        yield ("all_to_all", own * size, {"send_counts": [rank + 1] * size, "recv_counts": rows},
               sum((block(r, counts[r] * size)[counts[r] * rank:counts[r] * (rank + 1)] for r in ranks), []))
        for root in ranks:
            options = {"root": root}
            with_counts = {"root": root, "counts": rows if rank == root else ()}
            yield "reduce", 6, options, total[:6] if rank == root else None
            yield "gather", 6, options, same if rank == root else None
            yield "gather", own, with_counts, uneven if rank == root else None
            yield "scatter", 4 * size, options, block(root, 4 * size)[4 * rank:4 * rank + 4]
            yield "scatter", whole, with_counts, block(root, whole)[before:before + own]

    def test_results(self):
        """In `out`, in a new array, and in place."""
        for kind in each_kind(self, python_arrays.KINDS + python_arrays.WITHOUT_VALUES):
            for name, items, options, expected in self.cases():
                elsewhere = name == "scatter" and self.comm.rank != options["root"]
                for how in ["out", "out" if elsewhere else "new"] + ["x"] * (name == "all_to_all" and not options):
                    due = kind.make(expected or [0] * 6, (len(expected or [0] * 6) // 2, 2))
                    x, out = kind.make(block(self.comm.rank, items), (items // 2, 2)), kind.filled(*due.shape)
                    given = {"out": out, "new": None, "x": x}[how]
                    result = getattr(self.comm, name)(None if elsewhere else x, given, **options)
                    if expected is None or given is not None:
                        self.assertIs(result, None if expected is None else given)
                    self.assertEqual(due.tobytes(), (out if expected is None else result).tobytes(), (kind.name, name, options, how))


class Movements(python_ranks.RankTest):
    def test_broadcast(self):
        for kind in each_kind(self):
            for root in range(self.comm.size):
                x = kind.make(block(self.comm.rank), (3, 2))
                self.assertIs(x, self.comm.broadcast(x, root))
                self.assert_values(block(root), x)

    def test_nothing_of_some_ranks(self):
        size, rank = self.comm.size, self.comm.rank
        out = self.comm.all_gather(bytes([rank] * rank), counts=range(size))
        self.assertEqual(b"".join(bytes([r] * r) for r in range(size)), bytes(out))
        self.assertEqual(b"", bytes(self.comm.all_reduce(b"")))

    @unittest.skipUnless(numpy, "NumPy is missing")
    def test_counts_of_numpy(self):
        """Their sum may be too large for their type."""
        size, rank, counts = self.comm.size, self.comm.rank, numpy.full(self.comm.size, 200, "u1")
        x = numpy.full(200, rank, "u1")
        whole = numpy.repeat(numpy.arange(size, dtype="u1"), 200)
        self.assertEqual(whole.tolist(), self.comm.all_gather(x, counts=counts).tolist())
        gathered = self.comm.gather(x, counts=counts)
        self.assertEqual(whole.tolist() if rank == 0 else None, gathered.tolist() if rank == 0 else gathered)
        self.assertEqual(x.tolist(), self.comm.scatter(gathered, numpy.zeros(200, "u1"), counts=counts).tolist())
        self.assertEqual([size * rank] * 200, self.comm.reduce_scatter(whole, counts=counts).tolist())
        self.assertEqual(whole.tolist(), self.comm.all_to_all(numpy.repeat(x[:1], 200 * size), None, counts, counts).tolist())

    def test_bytes_and_unknown_types(self):
        text = self.comm.broadcast(bytearray(b"hello" if self.comm.rank == 0 else 5))
        self.assertEqual(b"hello", text)
        gathered = self.comm.all_gather(bytes([self.comm.rank] * 3))
        self.assertEqual(b"".join(bytes([r] * 3) for r in range(self.comm.size)), bytes(gathered))

        class Pair(ctypes.Structure):
            _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_double)]

        pairs = (Pair * 2)((1, 2.5), (3, 4.5)) if self.comm.rank == 0 else (Pair * 2)()
        self.comm.broadcast(pairs)
        self.assertEqual((3, 4.5), (pairs[1].a, pairs[1].b))
        with self.assertRaisesRegex(kolo.ArgumentError, "can only be moved"):
            self.comm.all_reduce(pairs)


class Unfit:
    """Cannot be pickled; or with a rank, not be loaded there."""

    def __init__(self, rank=None):
        self.rank = rank

    def __reduce__(self):
        if self.rank is None:
            raise RuntimeError("no pickle of this")
        return _refuse, (self.rank,)


def _refuse(rank):
    if python_ranks.comm.rank == rank:
        raise LookupError("not here")
    return rank


class Objects(python_ranks.RankTest):
    """What goes wrong on one rank ends that call on all ranks, and no later call takes its place."""

    def calls(self, root):
        """Every call that moves objects, as a function of what this rank puts in; and what it gives for the numbers that
        ranks put in."""
        size, rank = self.comm.size, self.comm.rank
        return {
            "broadcast": (lambda thing: self.comm.broadcast_object(thing if rank == root else None, root),
                          lambda n: n[root]),
            "all_gather": (self.comm.all_gather_object, lambda n: n),
            "gather": (lambda thing: self.comm.gather_object(thing, root), lambda n: n if rank == root else None),
            "scatter": (lambda thing: self.comm.scatter_object([thing] * size if rank == root else None, root),
                        lambda n: n[root]),
        }

    def assert_step(self, call, expected, step):
        numbers = [(step, rank) for rank in range(self.comm.size)]
        self.assertEqual(expected(numbers), call(numbers[self.comm.rank]))

    def fails(self, call, put, failed, text, cause):
        with self.assertRaisesRegex(kolo.RankFailed, f"^rank {failed} {text}") as caught:
            call(put)
        self.assertEqual(failed, caught.exception.rank)
        self.assertIsInstance(caught.exception.__cause__, cause if self.comm.rank == failed else type(None))

    def test_objects(self):
        for root in range(self.comm.size):
            for call, expected in self.calls(root).values():
                self.assert_step(call, expected, root)
            things = [(root, rank) for rank in range(self.comm.size)]
            self.assertEqual((root, self.comm.rank), self.comm.scatter_object(things, root))
        own = f"{self.comm.rank}" * self.comm.rank
        self.assertEqual([f"{r}" * r for r in range(self.comm.size)], self.comm.all_gather_object(own))

    def test_object_that_cannot_be_pickled(self):
        for failed in range(self.comm.size):
            for root in range(self.comm.size):
                for name, (call, expected) in self.calls(root).items():
                    if failed == root or name.endswith("gather"):
                        put = Unfit() if self.comm.rank == failed else "good"
                        self.fails(call, put, failed, "could not pickle its object: RuntimeError: no pickle", RuntimeError)
                    for step in range(3):
                        self.assert_step(call, expected, step)

    def test_several_ranks_fail(self):
        self.fails(self.comm.all_gather_object, Unfit(), 0, "could not pickle", (RuntimeError, type(None)))
        self.comm.barrier()

    def test_object_that_one_rank_cannot_load(self):
        for failed in range(self.comm.size):
            for root in range(self.comm.size):
                for name, (call, expected) in self.calls(root).items():
                    loads = not (name == "broadcast" and failed == root or name == "gather" and failed != root)
                    if loads and self.comm.rank == failed:
                        self.fails(call, Unfit(failed), failed, "could not load the object of rank [0-9]+: Look", LookupError)
                    else:
                        call(Unfit(failed))
                    self.assert_step(call, expected, root)

    def test_rank_without_memory(self):
        for failed in range(self.comm.size):
            for root in range(self.comm.size):
                for call, expected in self.calls(root).values():
                    no_memory = mock.patch.object(_messages, "bytearray", side_effect=MemoryError, create=True)
                    with no_memory if self.comm.rank == failed and failed != root else contextlib.nullcontext():
                        if failed != root:
                            self.fails(call, "x", failed, "has no memory", MemoryError)
                    self.assert_step(call, expected, root)

    def test_number_of_things_to_scatter(self):
        for things in (None, [], [1] * (self.comm.size + 1), 5):
            self.fails(lambda put: self.comm.scatter_object(put, 0), things if self.comm.rank == 0 else None, 0,
                       "could not pickle its object: ", (kolo.ArgumentError, TypeError))
        self.assertEqual("x", self.comm.scatter_object(["x"] * self.comm.size, 0))

    def test_messages(self):
        """A sender that has nothing to send says so to the receiver."""
        if self.comm.size == 1:
            return
        for thing, text, failed in ((Unfit(), "could not pickle", 1), (Unfit(0), "could not load the object of rank 1", 0)):
            if self.comm.rank == 1:
                if failed == 1:
                    self.fails(lambda put: self.comm.send_object(put, 0, 3), thing, 1, text, RuntimeError)
                else:
                    self.comm.send_object(thing, 0, 3)
                self.comm.send_object("next", 0, 3)
            elif self.comm.rank == 0:
                self.fails(lambda _: self.comm.recv_object(), None, failed, text, (LookupError, type(None)))
                self.assertEqual("next", self.comm.recv_object(1, 3))

    def test_wrong_arguments(self):
        for call in (lambda: self.comm.send_object("x", self.comm.size), lambda: self.comm.recv_object(self.comm.size),
                     lambda: self.comm.broadcast_object("x", -1), lambda: self.comm.gather_object("x", self.comm.size)):
            with self.assertRaises(kolo.ArgumentError):
                call()
        self.comm.barrier()


class Plans(python_ranks.RankTest):
    def test_plan(self):
        for kind in each_kind(self):
            x, out = kind.make([self.comm.rank], (1,)), kind.filled(1)
            plan = self.comm.plan(x, out, "max")
            for _ in range(3):
                self.assertIs(out, plan())
                self.assert_values([self.comm.size - 1], out)

    def test_plan_sees_new_values_and_keeps_its_arrays(self):
        x = (ctypes.c_int * 1)(1)
        plan = self.comm.plan(x)
        for value in range(3):
            x[0] = value
            self.assertEqual(value * self.comm.size, plan()[0])
        del x
        self.assertEqual(2 * self.comm.size, plan()[0])

    @unittest.skipIf(os.environ.get("KOLO_PROGRESS") == "1", "with a thread it first looks for requests in flight")
    def test_plan_is_one_function(self):
        """What it costs, by count: its own frame and the call of the library, nothing else of Python's."""
        plan, events = self.comm.plan(bytearray(8)), []
        plan()
        sys.setprofile(lambda frame, event, argument: events.append((event, frame.f_code.co_name)))
        plan()
        sys.setprofile(None)
        self.assertEqual([("call", "planned"), ("return", "planned")], [each for each in events if each[1] == "planned"])
        # A wait of 100 ms, as on a busy machine, asks answers whether to go on.
        self.assertEqual(["call", "return"],
                         [event for event, name in events if not event.startswith("c_") and name != "answers"])

    def test_plan_after_the_end(self):
        group = self.comm.dup()
        plan = group.plan(bytearray(8))
        plan()
        group.close()
        with self.assertRaises(kolo.Broken):
            plan()


@contextlib.contextmanager
def _freed(comm, array):
    yield array
    comm.free(array)


class Shared(python_ranks.RankTest):
    def test_empty(self):
        x, out = self.comm.empty((2, 3), "int64"), self.comm.empty((2, 3), "int64")
        self.assertEqual(((2, 3), "int64", 48), (x.shape, x.dtype, memoryview(x).nbytes))
        self.assertEqual([[0] * 3] * 2, x.tolist())
        for i in range(6):
            x[i // 3][i % 3] = i + self.comm.rank
        self.comm.all_reduce(x, out)
        ranks = self.comm.size
        self.assertEqual([ranks * i + ranks * (ranks - 1) // 2 for i in range(6)], sum(out.tolist(), []))
        self.comm.free(x)
        self.comm.free(out)
        with self.assertRaises(kolo.ArgumentError):
            self.comm.free(out)

    def test_free_gives_back(self):
        def mapped_bytes():
            with open("/proc/self/statm", encoding="ascii") as file:
                return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        size, before = 64 << 20, mapped_bytes()
        x = self.comm.empty(size, "uint8")
        self.assertGreaterEqual(mapped_bytes(), before + size)
        self.comm.free(x)
        self.assertLess(mapped_bytes(), before + size // 2)

    def test_dlpack_takes_and_gives(self):
        x = self.comm.empty(4, "float32")
        x[:] = [1, 2, 3, 4]
        lent = python_arrays.Lent([0] * 4, (4,))
        self.comm.all_reduce(x, lent)
        self.assertEqual([self.comm.size * i for i in (1, 2, 3, 4)], lent.tolist())
        del lent
        capsule = x.__dlpack__()
        self.assertIn("dltensor", repr(capsule))
        del capsule
        self.assertEqual({}, _dlpack._lent)

    @unittest.skipUnless(numpy, "NumPy is missing")
    def test_dlpack_outlives_the_package(self):
        for keep in ("sys.kept = x", "contextvars.ContextVar('kept').set(x)"):
            code = f"""if True:
                import contextvars, numpy, python_arrays, sys
                x = numpy.from_dlpack(python_arrays.Lent([1], (1,)))
                {keep}"""
            done = subprocess.run([sys.executable, "-B", "-c", code], cwd=os.path.dirname(__file__), check=False)
            self.assertEqual(0, done.returncode, keep)

    def test_dlpack_copies(self):
        for name in ("float32", "complex64"):
            x = self.comm.empty(4, name)
            capsule = x.__dlpack__(max_version=(1, 0), dl_device=(1, 0), copy=True)
            managed = ctypes.cast(_dlpack._get_pointer(capsule, b"dltensor_versioned"), ctypes.POINTER(_dlpack.Versioned))
            ctypes.memset(x.address, 1, 4)
            self.assertEqual(bytes(4), ctypes.string_at(managed.contents.tensor.data, 4))
            self.assertEqual(_dlpack.IS_COPIED, managed.contents.flags)
            with self.assertRaises(BufferError):
                x.__dlpack__(dl_device=(2, 0))
            del capsule
            self.assertEqual({}, _dlpack._lent)

    def test_dlpack_of_read_only_memory(self):
        """Which only the struct with a version tells. Some objects' memory has no format of the buffer protocol, too."""
        class ReadOnly(python_arrays.Lent):
            def __dlpack__(self, stream=None, max_version=None):
                capsule = _dlpack.lend(ctypes.addressof(self.data), _elements.must_name("float32"), self.shape, self.data,
                                       max_version)
                if max_version:
                    managed = ctypes.cast(_dlpack._get_pointer(capsule, b"dltensor_versioned"),
                                          ctypes.POINTER(_dlpack.Versioned))
                    managed.contents.flags |= _dlpack.READ_ONLY
                return capsule

        for refusal in (TypeError, BufferError):  # of JAX's bfloat16, which has the buffer protocol, but not for that type
            with mock.patch.object(_memory, "memoryview", side_effect=refusal, create=True):
                x, out = ReadOnly([1, 2], (2,)), python_arrays.Lent([0, 0], (2,))
                self.comm.all_reduce(x, out)
                self.assertEqual([self.comm.size, 2 * self.comm.size], out.tolist())
                for target in (out, x):
                    with self.assertRaisesRegex(kolo.ArgumentError, "read-only"):
                        self.comm.all_reduce(target, x)
                self.assertEqual([1, 2], x.tolist())

    @unittest.skipUnless(numpy, "NumPy is missing")
    def test_numpy_views_outlive_the_communicator(self):
        group = self.comm.dup()
        numbers = group.empty(3, "float64")
        views = [group.empty((5, 2), "float16").numpy(), numbers.numpy(), numpy.from_dlpack(numbers)]
        del numbers
        for view in views[:2]:  # before NumPy 2.1 the third one is read-only
            view[...] = self.comm.rank + 1
            group.all_reduce(view, view)
        group.close()
        with self.assertRaises(kolo.Broken):
            group.barrier()
        part = views[0][1:, 1]
        del views[0]
        self.assertEqual([sum(range(1, self.comm.size + 1))] * 4, part.tolist())
        self.assertEqual(views[0].tolist(), views[1].tolist())
        handle = group._handle
        self.assertIsNotNone(handle._owned)
        del part, views, view
        self.assertIsNone(handle._owned, "nothing refers to the memory any more")

    @unittest.skipUnless(numpy, "NumPy is missing")
    def test_numpy_views_of_a_forgotten_communicator(self):
        for name in ("float16", "float32", "complex64"):
            group = self.comm.dup()
            view, handle = group.empty((64, 1024), name).numpy(), weakref.ref(group._handle)
            del group
            gc.collect()
            view[...] = 1
            self.assertEqual(64, view[:, 5].sum())
            del view
            gc.collect()
            self.assertIsNone(handle())

    @unittest.skipUnless(numpy, "NumPy is missing")
    def test_types_have_the_meaning_of_numpy(self):
        names = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "int8", "uint8", "float", "?",
                 "double", "half", "int", "long", "bool", "d", "<i8", float, int, bool, complex, numpy.float32, numpy.int64,
                 numpy.longlong, numpy.dtype("i8"), numpy.dtype("=u4")]
        for name in names:
            with self.subTest(name), _freed(self.comm, self.comm.empty(numpy.int64(3), name)) as x:
                whole = numpy.asarray(x)
                self.assertEqual((numpy.dtype(name), (3,), x.address),
                                 (whole.dtype, whole.shape, whole.__array_interface__["data"][0]))
                if numpy.dtype(name) != bool:
                    whole[:] = self.comm.rank + 1
                    result = numpy.asarray(self.comm.all_reduce(x))
                    self.assertEqual((whole.dtype, [sum(range(1, self.comm.size + 1))] * 3), (result.dtype, result.tolist()))
                    self.assertIs(x, self.comm.all_reduce(x, x))
                    self.assertEqual(result.tolist(), whole.tolist())
                    del result
                del whole
        for name in (name for name in numpy.sctypeDict if isinstance(name, str) and _elements.named(name)):
            self.assertEqual(numpy.dtype(name).name, _elements.named(name).name, name)
        with _freed(self.comm, self.comm.empty(2, "i8")) as x:
            x[0] = 300
            self.comm.all_reduce(x, x, "max")
            self.assertEqual([300, 0], x.tolist())

    def test_types_that_are_refused(self):
        for name, meant in (("i16", "'i2' or 'int16'"), ("i32", "'i4'"), ("i64", "'int64'"), ("u16", "'u2'"), ("u32", "'u4'"),
                            ("u64", "'u8'"), ("f16", "float128 in NumPy.*'f2' or 'float16'"), ("f32", "'f4'"),
                            ("f64", "'f8'"), (">i8", "byte order"), ("float31", "none of int8"), (str, "none of int8")):
            for call in (self.comm.empty, lambda _, dtype: kolo.exact(dtype),
                         lambda rows, dtype: kolo.Table(self.comm, rows, 1, dtype)):
                with self.subTest(name), self.assertRaisesRegex(kolo.ArgumentError, meant):
                    call(3, name)
        for name in ("bf16", "bfloat16"):
            with _freed(self.comm, self.comm.empty(3, name)) as x:
                self.assertEqual("bfloat16", x.dtype)

    def test_shapes_that_are_refused(self):
        for arguments in (((2, 0),), ((-1,),), ((3,), "float31")):
            with self.assertRaises(kolo.ArgumentError):
                self.comm.empty(*arguments)


class Refusals(python_ranks.RankTest):
    """Nothing was done, so that ranks need not agree on these, and the next call works."""

    def tearDown(self):
        self.comm.barrier()

    def refused(self, pattern, call, *arguments, **options):
        with self.assertRaisesRegex(kolo.ArgumentError, pattern) as caught:
            call(*arguments, **options)
        self.assertIsInstance(caught.exception, ValueError)
        self.assertEqual(-1, caught.exception.status)

    def test_names_the_argument(self):
        data = memoryview(bytearray(8))
        self.refused("x is not contiguous", self.comm.all_reduce, data[::2])
        self.refused("out is not contiguous", self.comm.all_reduce, data[:4], data[::2])
        self.refused("out is read-only", self.comm.all_reduce, bytes(4), bytes(4))
        self.refused("out has 3 items, but the result has 4", self.comm.all_reduce, bytes(4), bytearray(3))
        self.refused("out has items of type float64, but those of x are uint8", self.comm.all_reduce, bytes(4),
                     (ctypes.c_double * 4)())
        self.refused("op 'mean' is none of sum, prod", self.comm.all_reduce, bytes(4), op="mean")
        self.refused("op 'bor' cannot be done with float64", self.comm.all_reduce, (ctypes.c_double * 4)(), op="bor")
        self.refused("root 9 is none of the ranks", self.comm.broadcast, bytearray(4), 9)
        self.refused("other byte order", self.comm.all_reduce, (ctypes.c_int.__ctype_be__ * 2)())
        self.refused("counts is", self.comm.all_gather, bytes(4), counts=[1] * (self.comm.size + 1))
        self.refused("recv_counts is missing", self.comm.all_to_all, bytes(self.comm.size),
                     send_counts=[1] * self.comm.size)
        self.refused("items of 0 bytes", self.comm.broadcast, (type("Empty", (ctypes.Structure,), {}) * 9)())
        pair = type("Pair", (ctypes.Structure,), {"_fields_": [("a", ctypes.c_int), ("b", ctypes.py_object)]})
        for kind in (ctypes.py_object, pair):
            self.refused("Python objects cannot be moved", self.comm.broadcast, (kind * 2)())
        for lanes in (1, 3):
            self.refused(f"items of {4 * lanes} bits cannot be moved", _elements.of_dlpack, 1, 4, lanes)
        with self.assertRaisesRegex(TypeError, "x is of type float"):
            self.comm.all_reduce(1.5)

    def test_integers(self):
        """One that is too large is refused: its last bits mean something else."""
        comm, x, wide = self.comm, bytearray(1), 1 << 32
        for call in (comm.split, lambda n: comm.split(0, n), comm.abort, lambda n: comm.send(x, n), lambda n: comm.recv(x, n),
                     lambda n: comm.send(x, comm.rank, n), lambda n: comm.recv(x, tag=n), lambda n: comm.sendrecv(x, n, x),
                     lambda n: comm.sendrecv(x, comm.rank, x, n), lambda n: comm.sendrecv(x, comm.rank, x, send_tag=n),
                     lambda n: comm.sendrecv(x, comm.rank, x, recv_tag=n), lambda n: comm.send_object(x, n), comm.recv_object,
                     lambda n: kolo.init(n, 1), lambda n: kolo.init(0, n), lambda n: kolo.init(threads=n),
                     lambda n: kolo.init(shm_fd=n), comm.grow, kolo.unlisten):
            self.refused(f"^[a-z_]+ {wide + 5}: must be from -?[0-9]+ to {wide // 2 - 1}$", call, wide + 5)
        self.refused("color 2147483648", comm.split, 1 << 31)
        self.refused("color -1", comm.split, -1)
        self.refused("shape", comm.empty, (wide, wide), "uint8")
        self.refused("slot_bytes -1: must be from 0", kolo.init, slot_bytes=-1)
        self.refused("^create_timeout -1 is negative", kolo.init, create_timeout=-1)
        for call in (lambda n: kolo.init(timeout=n), lambda n: comm.grow(0, n), lambda n: kolo.join("", timeout=n)):
            for wrong in (-1, -1e-9, float("inf"), float("nan")):
                self.refused(f"^timeout {wrong} is (negative|no time); 0 is no limit", call, wrong)
        self.refused("counts", comm.all_gather, x, counts=[(1 << 64) + 1] * comm.size)
        with self.assertRaises(TypeError):
            comm.split(0.5)

    @unittest.skipUnless(numpy, "NumPy is missing")
    def test_integers_of_numpy(self):
        rank, tag, x = (numpy.int64(value) for value in (self.comm.rank, 5, 7))
        with self.comm.split(numpy.int64(0), numpy.int64(-self.comm.rank)) as group:
            self.assertEqual(self.comm.size - 1 - rank, group.rank)
        self.assertEqual((rank, 5, 1), self.comm.sendrecv(x, rank, numpy.zeros(1, "i8"), rank, tag, tag))

    @unittest.skipUnless(numpy, "NumPy is missing")
    def test_numpy(self):
        data = numpy.zeros((4, 4), "float32")
        self.refused("x is not contiguous: pass numpy.ascontiguousarray", self.comm.all_reduce, data[:, 1])
        self.refused("x is of the other byte order", self.comm.all_reduce, data.astype(">f4"))
        for nothing in (numpy.empty(9, []), numpy.empty(9, "V0")):
            for call in (self.comm.broadcast, self.comm.gather, lambda x: self.comm.recv(x, self.comm.rank)):
                self.refused("items of 0 bytes", call, nothing)
        self.refused("x holds Python objects", self.comm.all_reduce, numpy.array([object()]))
        self.refused("x has a mask, which would be lost", self.comm.all_reduce, numpy.ma.array([1, 2], mask=[0, 1]))
        data.flags.writeable = False
        self.refused("out is read-only", self.comm.all_reduce, data, data)


if __name__ == "__main__":
    python_ranks.main()
