"""As ranks: torch.ops.kolo. 77: PyTorch is not installed."""

import gc
import os
import sys
import unittest

import torch_ranks
import torch

import kolo4py as kolo

import kolo4py.torch.ops as ops

run = torch.ops.kolo
comm = None
REDUCED = (torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64, torch.uint64,
           torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128)
MOVED = (*REDUCED, torch.bool, torch.float8_e4m3fn, torch.float8_e5m2, torch.complex32)


def input_of(rank, shape, dtype):
    """Small integers, so that sums are exact in every dtype."""
    items = torch.arange(torch.Size(shape).numel(), dtype=torch.int32) % 5 + rank
    return items.reshape(shape).to(torch.float32).to(dtype)


def inputs(shape, dtype):
    return [input_of(rank, shape, dtype) for rank in range(comm.size)]


def summed(tensors):
    """In a type wide enough for the sum of few small integers, then back."""
    wide = torch.complex128 if tensors[0].dtype.is_complex else torch.float64
    return sum(tensor.to(wide) for tensor in tensors).to(tensors[0].dtype)


def same(expected, found):
    return (expected.dtype, expected.shape) == (found.dtype, found.shape) and torch.equal(
        *(tensor.reshape(-1).view(torch.uint8) for tensor in (expected, found)))


class OperatorsTest(unittest.TestCase):
    def setUp(self):
        self.number = ops.handle(comm)

    def assert_same(self, expected, found):
        self.assertTrue(same(expected, found), f"{found} is not {expected}")


class Results(OperatorsTest):
    def test_reductions_of_every_dtype(self):
        for dtype in REDUCED:
            with self.subTest(dtype=dtype):
                x = input_of(comm.rank, (3, 7), dtype)
                total = summed(inputs((3, 7), dtype))
                self.assert_same(total, run.all_reduce(x, self.number))
                self.assert_same(input_of(comm.rank, (3, 7), dtype), x)
                run.all_reduce_(x, self.number)
                self.assert_same(total, x)
                blocks = input_of(comm.rank, (2 * comm.size, 3), dtype)
                part = summed(inputs((2 * comm.size, 3), dtype))[2 * comm.rank:2 * comm.rank + 2]
                self.assert_same(part, run.reduce_scatter(blocks, self.number))
                out = torch.empty_like(part)
                run.reduce_scatter_into(out, blocks, self.number)
                self.assert_same(part, out)

    def test_moves_of_every_dtype(self):
        for dtype in MOVED:
            with self.subTest(dtype=dtype):
                x = input_of(comm.rank, (2, 3), dtype)
                all_of_them = torch.cat(inputs((2, 3), dtype))
                self.assert_same(all_of_them, run.all_gather(x, self.number))
                out = torch.empty(comm.size, 6, dtype=dtype)
                run.all_gather_into(out, x, self.number)
                self.assert_same(all_of_them.reshape(out.shape), out)
                out.zero_()
                run.gather_into(out, x, self.number, comm.size - 1)
                is_root = comm.rank == comm.size - 1
                self.assert_same(all_of_them.reshape(out.shape) if is_root else torch.zeros_like(out), out)
                blocks = input_of(comm.rank, (comm.size, 4), dtype)
                mine = torch.stack([tensor[comm.rank] for tensor in inputs((comm.size, 4), dtype)])
                self.assert_same(mine, run.all_to_all(blocks, self.number))
                out = torch.empty_like(blocks)
                run.all_to_all_into(out, blocks, self.number)
                self.assert_same(mine, out)

    def test_operations(self):
        x = torch.tensor([comm.rank + 2, 7 - comm.rank])
        every = [torch.tensor([rank + 2, 7 - rank]) for rank in range(comm.size)]
        stack = torch.stack(every)
        for op, expected in ((ops.PROD, stack.prod(0)), (ops.MIN, stack.amin(0)), (ops.MAX, stack.amax(0)),
                             (ops.AVG, stack.sum(0) // comm.size)):
            self.assert_same(expected, run.all_reduce(x, self.number, op))
        bits = [torch.tensor([rank == 0, True, False]) for rank in range(comm.size)]
        self.assert_same(torch.stack(bits).any(0), run.all_reduce(bits[comm.rank], self.number, ops.BOR))
        self.assert_same(torch.stack(bits).all(0), run.all_reduce(bits[comm.rank], self.number, ops.MIN))

    def test_shapes_without_items_or_dimensions(self):
        self.assert_same(torch.tensor(float(comm.size)), run.all_reduce(torch.tensor(1.0), self.number))
        self.assert_same(torch.ones(comm.size), run.all_gather(torch.tensor(1.0), self.number))
        self.assert_same(torch.empty(0, 4), run.all_reduce(torch.empty(0, 4), self.number))
        self.assert_same(torch.empty(0, 4), run.reduce_scatter(torch.empty(0, 4), self.number))

    def test_large_messages(self):
        x = torch.full((1 << 20,), comm.rank + 1, dtype=torch.bfloat16)
        run.all_reduce_(x, self.number)
        self.assertTrue((x == comm.size * (comm.size + 1) // 2).all())


class Compiled(OperatorsTest):
    def test_graphs_are_whole(self):
        number, size = self.number, comm.size

        def layer(x, w):
            y = run.all_reduce(torch.relu(x @ w), number)
            run.all_reduce_(y, number, ops.MAX)
            parts = run.reduce_scatter(y + 1, number)
            return run.all_to_all(run.all_gather(parts, number), number) * 2

        def into(x, out, whole):
            run.all_gather_into(whole, x + 1, number)
            run.reduce_scatter_into(out, whole * 2, number)
            run.all_to_all_into(whole, whole.clone(), number)
            return out + whole[:out.shape[0]]

        w = torch.eye(6) * 2
        for function, shapes in ((layer, ((2 * size, 6), (6, 6))), (into, ((2, 6), (2, 6), (2 * size, 6)))):
            arguments = [torch.full(shape, comm.rank + 1.0) for shape in shapes]
            if function is layer:
                arguments[1] = w
            eager = [tensor.clone() for tensor in arguments]
            expected = function(*eager)
            compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
            self.assert_same(expected, compiled(*arguments))
            for one, other in zip(eager, arguments):
                self.assert_same(one, other)

    def test_rank_that_drops_results(self):
        """It takes part in the calls, for which the other ranks wait."""
        def function(x):
            outs = [x * 2, x.new_empty(size, *x.shape), x.new_empty(2, 3), x.new_empty(x.shape), x.new_empty(size, *x.shape)]
            made = [operator(x, number) for operator in (run.all_reduce, run.all_gather, run.reduce_scatter, run.all_to_all)]
            run.all_reduce_(outs[0], number)
            run.all_gather_into(outs[1], x, number)
            run.reduce_scatter_into(outs[2], x, number)
            run.all_to_all_into(outs[3], x, number)
            run.gather_into(outs[4], x, number, 0)
            return x + 1 if drops else (made, outs)

        number, size, drops = self.number, comm.size, comm.rank == 0
        begun = comm.stats["calls"]
        torch.compile(function, fullgraph=True, backend="aot_eager")(torch.ones(2 * size, 3))
        self.assertEqual(begun + 9, comm.stats["calls"])

    def test_operators_are_described_right(self):
        """PyTorch's own checks of schema, mutation and shapes for tracing."""
        x = torch.ones(2 * comm.size, 3)
        for name, arguments in (
                ("all_reduce", (x, self.number)), ("all_reduce_", (x.clone(), self.number)),
                ("all_gather", (x, self.number)), ("reduce_scatter", (x, self.number)),
                ("all_to_all", (x, self.number)),
                ("all_gather_into", (torch.empty(2 * comm.size * comm.size, 3), x, self.number)),
                ("reduce_scatter_into", (torch.empty(2, 3), x, self.number)),
                ("all_to_all_into", (torch.empty_like(x), x, self.number))):
            torch.library.opcheck(getattr(run, name).default, arguments,
                                  test_utils=("test_schema", "test_faketensor"))


class Refusals(OperatorsTest):
    def test_arguments(self):
        x = torch.ones(3, 4)
        for call, message in (
                (lambda: run.all_reduce_(x.t(), self.number), r"self is not contiguous: pass self\.contiguous\(\)"),
                (lambda: run.all_reduce_(x, self.number, 9), "op 9 is none of"),
                (lambda: run.all_reduce_(x > 0, self.number), "op sum cannot be done with this dtype"),
                (lambda: run.all_reduce_(x, self.number, ops.BOR), "op bor is for integers, not for f32"),
                (lambda: run.all_gather_into(x, x[:1, :1], self.number), "out has 12 items, but needs 1"
                 if comm.size == 1 else "out has 12 items, but needs 2"),
                (lambda: run.all_gather_into(x.half(), x, self.number), "out and input are of different dtypes"),
                (lambda: run.gather_into(x, x, self.number, comm.size), "root [12] is no rank: 0 to [01]"),
                (lambda: run.reduce_scatter(torch.tensor(1.0), self.number), "input has no dimension"),
                (lambda: run.all_reduce_(x, 0), "comm 0 is no communicator"),
                (lambda: run.all_reduce_(x, -7), "comm -7 is no communicator"),
                (lambda: run.all_reduce_(x, self.number + 4096), f"comm {self.number + 4096} is no communicator")):
            with self.assertRaisesRegex(RuntimeError, message):
                call()
        if comm.size == 2:
            with self.assertRaisesRegex(RuntimeError, "is 3, which 2 ranks do not divide"):
                run.all_to_all(x, self.number)
        self.assertIsNone(comm.failure)

    def test_communicators_that_ended(self):
        x = torch.ones(1)
        copy = comm.dup()
        number = ops.handle(copy)
        self.assertEqual(number, ops.handle(copy))
        run.all_reduce_(x, number)
        copy.close()
        with self.assertRaisesRegex(RuntimeError, f"the communicator {number} is closed"):
            run.all_reduce_(x, number)
        with self.assertRaises(kolo.Broken):
            ops.handle(copy)
        del copy
        gc.collect()
        with self.assertRaisesRegex(RuntimeError, f"comm {number} is no communicator"):
            run.all_reduce_(x, number)
        self.assertNotIn(ops.handle(comm.dup()), (number, self.number))

    def test_mismatch(self):
        if comm.size == 1:
            self.skipTest("one rank")
        copy = comm.dup()
        with self.assertRaisesRegex(RuntimeError, "allreduce"):
            run.all_reduce(torch.ones(4 + comm.rank), ops.handle(copy))
        self.assertIsInstance(copy.failure.error, kolo.Mismatch)
        with self.assertRaisesRegex(RuntimeError, "rank"):
            run.all_reduce(torch.ones(4), ops.handle(copy))


def main():
    global comm
    with kolo.init(timeout=60) as made:
        comm = made
        result = unittest.main(module="__main__", exit=False, failfast=True).result
        if not result.wasSuccessful() and comm.failure is None:
            comm.abort(1)
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    torch_ranks.run_tests(main, 2)
