"""Every operation of the backend on every type, inline and in the background, on tensors that are contiguous or not,
against a reference that each rank computes from all ranks' inputs. And what PyTorch's profiler shows of them."""

import functools
import itertools
import json
import operator
import os
import tempfile
import time
import unittest

import torch_ranks
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

import kolo4py.torch

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
COMPLEX = [torch.complex64, torch.complex128]
MOVED = [getattr(torch, name) for name in ("float8_e4m3fn", "float8_e5m2", "uint16", "uint32", "uint64")
         if hasattr(torch, name)]
ALL = FLOATS + INTEGERS + COMPLEX + [torch.bool] + MOVED
OPS = {
    ReduceOp.SUM: (operator.add, FLOATS + INTEGERS + COMPLEX), ReduceOp.PRODUCT: (operator.mul, FLOATS + INTEGERS),
    ReduceOp.MIN: (torch.minimum, FLOATS + INTEGERS), ReduceOp.MAX: (torch.maximum, FLOATS + INTEGERS),
    ReduceOp.BAND: (operator.and_, INTEGERS + [torch.bool]), ReduceOp.BOR: (operator.or_, INTEGERS + [torch.bool]),
    ReduceOp.BXOR: (operator.xor, INTEGERS + [torch.bool]),
}


def values(shape, dtype, rank, salt=0):
    """A rank's input: small numbers, whose sums and products are exact in every type."""
    count = functools.reduce(operator.mul, shape, 1)
    numbers = (torch.arange(count) * 7 + rank * 5 + salt * 3) % 4
    if dtype.is_complex:
        return torch.complex((numbers % 3).double(), (numbers % 2).double()).to(dtype).reshape(shape)
    return (numbers % 2 if dtype == torch.bool else numbers).float().to(dtype).reshape(shape)


def strided(tensor):
    """The same values in memory with holes."""
    holes = torch.zeros(*tensor.shape, 2, dtype=tensor.dtype)
    holes[..., 0].copy_(tensor)
    return holes[..., 0]


def apart(tensor, places=itertools.count()):
    """The same values at an address of which the others' are no whole elements away."""
    memory = bytearray(tensor.nbytes + 7)
    made = torch.frombuffer(memory, dtype=tensor.dtype, count=tensor.numel(), offset=next(places) % 8).view(tensor.shape)
    return made.copy_(tensor)


def raw(tensor):
    """Its bytes: what types without arithmetic can be compared by."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)


class Ranks:
    """The operations as one rank makes them."""

    def __init__(self):
        dist.init_process_group("kolo")
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.cases = 0

    def case(self, name, expected, outputs, call):
        """call(async_op) fills the outputs."""
        for is_async in (False, True):
            self.cases += 1
            before = [output.clone() for output in outputs]
            work = call(is_async)
            if is_async:
                work.wait()
            for want, found in zip(expected, outputs):
                assert torch.equal(raw(want), raw(found)), f"{name}, async {is_async}: {found}, not {want}"
            for output, old in zip(outputs, before):
                output.copy_(old)

    def inputs(self, shape, dtype, salt=0):
        return [values(shape, dtype, rank, salt) for rank in range(self.size)]

    def reductions(self, shape, make):
        for op, (function, dtypes) in OPS.items():
            for dtype in dtypes:
                inputs = self.inputs(shape, dtype)
                total = functools.reduce(function, inputs)
                name = f"{op} of {dtype}"
                mine = make(inputs[self.rank])
                self.case(f"all_reduce, {name}", [total], [mine],
                          lambda is_async: dist.all_reduce(mine, op=op, async_op=is_async))
                root = self.size - 1
                self.case(f"reduce, {name}", [total if self.rank == root else inputs[self.rank]], [mine],
                          lambda is_async: dist.reduce(mine, root, op=op, async_op=is_async))
                self.scattered(name, inputs, total, op, make)

    def scattered(self, name, inputs, total, op, make):
        rows = total.shape[0] // self.size
        part = total[self.rank * rows:(self.rank + 1) * rows]
        mine, output = make(inputs[self.rank]), make(torch.zeros_like(part))
        self.case(f"reduce_scatter_tensor, {name}", [part], [output],
                  lambda is_async: dist.reduce_scatter_tensor(output, mine, op=op, async_op=is_async))
        parts = [make(chunk.clone()) for chunk in inputs[self.rank].split(rows)]
        self.case(f"reduce_scatter, {name}", [part], [output],
                  lambda is_async: dist.reduce_scatter(output, parts, op=op, async_op=is_async))

    def movements(self, dtype, make):
        inputs, root = self.inputs((self.size, 3), dtype), self.size // 2
        mine, whole = make(inputs[self.rank]), torch.stack(inputs).reshape(-1, 3)
        self.case(f"broadcast of {dtype}", [inputs[root]], [mine],
                  lambda is_async: dist.broadcast(mine, root, async_op=is_async))
        every = [make(torch.zeros_like(x)) for x in inputs]
        self.case(f"all_gather of {dtype}", inputs, every,
                  lambda is_async: dist.all_gather(every, mine, async_op=is_async))
        all_of_them = make(torch.zeros_like(whole))
        self.case(f"all_gather_into_tensor of {dtype}", [whole], [all_of_them],
                  lambda is_async: dist.all_gather_into_tensor(all_of_them, mine, async_op=is_async))
        at_root = every if self.rank == root else None
        self.case(f"gather of {dtype}", inputs if at_root else [], at_root or [],
                  lambda is_async: dist.gather(mine, at_root, root, async_op=is_async))
        to_scatter = [make(x) for x in inputs] if self.rank == root else None
        output = make(torch.zeros_like(inputs[0]))
        self.case(f"scatter of {dtype}", [inputs[self.rank]], [output],
                  lambda is_async: dist.scatter(output, to_scatter, root, async_op=is_async))
        rows = torch.cat([x[self.rank:self.rank + 1] for x in inputs])
        exchanged = make(torch.zeros_like(rows))
        self.case(f"all_to_all_single of {dtype}", [rows], [exchanged],
                  lambda is_async: dist.all_to_all_single(exchanged, mine, async_op=is_async))
        came = [make(torch.zeros(1, 3, dtype=torch.uint8).to(dtype)) for _ in inputs]
        sent = [make(row.clone()) for row in inputs[self.rank].split(1)]
        self.case(f"all_to_all of {dtype}", list(rows.split(1)), came,
                  lambda is_async: dist.all_to_all(came, sent, async_op=is_async))

    def uneven(self):
        shapes = [(rank + 1, 2) for rank in range(self.size)]
        inputs = [values(shape, torch.float32, rank) for rank, shape in enumerate(shapes)]
        every = [torch.zeros(shape) for shape in shapes]
        self.case("all_gather, uneven", inputs, every, lambda is_async: dist.all_gather(
            every, inputs[self.rank], async_op=is_async))
        parts = [[values(shape, torch.float32, rank, to) for to, shape in enumerate(shapes)] for rank in range(self.size)]
        total = functools.reduce(operator.add, [of_rank[self.rank] for of_rank in parts])
        output = torch.zeros(shapes[self.rank])
        self.case("reduce_scatter, uneven", [total], [output], lambda is_async: dist.reduce_scatter(
            output, list(parts[self.rank]), async_op=is_async))
        sizes = [[(rank + 2 * to) % 3 for to in range(self.size)] for rank in range(self.size)]  # 0 is among them
        rows = [[values((n, 2), torch.int64, rank, to) for to, n in enumerate(of_rank)]
                for rank, of_rank in enumerate(sizes)]
        expected = torch.cat([of_rank[self.rank] for of_rank in rows])
        exchanged = torch.zeros_like(expected)
        self.case("all_to_all_single, uneven", [expected], [exchanged], lambda is_async: dist.all_to_all_single(
            exchanged, torch.cat(rows[self.rank]), [of_rank[self.rank] for of_rank in sizes], sizes[self.rank],
            async_op=is_async))
        came = [torch.zeros_like(of_rank[self.rank]) for of_rank in rows]
        self.case("all_to_all, uneven", [of_rank[self.rank] for of_rank in rows], came,
                  lambda is_async: dist.all_to_all(came, list(rows[self.rank]), async_op=is_async))

    def overlapping(self):
        """The last of the outputs that share memory is what stays there, on every rank."""
        inputs = self.inputs((6,), torch.float32)
        mine, memory = inputs[self.rank], torch.zeros(self.size + 5)
        shifted = [memory[rank:rank + 6] for rank in range(self.size)]
        last = torch.cat([x[:1] for x in inputs[:-1]] + [inputs[-1]])
        at_root = self.rank == 0
        for outputs, expected in ((shifted, last), (shifted[::-1], torch.cat([inputs[-1]] + [x[-1:] for x in inputs[-2::-1]])),
                                  ([memory[:6]] * self.size, torch.cat([inputs[-1], memory[6:]]))):
            self.case("all_gather, overlapping", [expected], [memory],
                      lambda is_async: dist.all_gather(outputs, mine, async_op=is_async))
            self.case("gather, overlapping", [expected] * at_root, [memory] * at_root,
                      lambda is_async: dist.gather(mine, outputs if at_root else None, async_op=is_async))
            self.case("all_to_all, overlapping", [expected], [memory],
                      lambda is_async: dist.all_to_all(outputs, [mine] * self.size, async_op=is_async))

    def overlapping_calls(self):
        """Every call of an operation of several reads what the tensors had before all of them."""
        first, second = self.inputs((4 * self.size,), torch.float32), self.inputs((4 * self.size,), torch.float32, 1)
        mine, other, begin = first[self.rank].clone(), second[self.rank].clone(), 4 * self.rank
        for parts in ([mine, mine], [mine[:3], mine[2:]], [mine[2:], mine[:3]], [mine[::2], mine[1::2]], [mine, mine[::2]]):
            self.case("all_reduce_coalesced, overlapping", [sum(first)], [mine],
                      lambda is_async: dist.all_reduce_coalesced(parts, async_op=is_async))
        came, old = [[torch.zeros_like(mine), torch.zeros_like(mine)] for _ in first], torch.zeros_like(mine)
        firsts, seconds = zip(*came)
        self.case("all_gather_coalesced, overlapping", [*first, *[old] * self.size], [*firsts, *seconds],
                  lambda is_async: dist.all_gather_coalesced(came, [mine, came[0][0]], async_op=is_async))
        if torch_ranks.VERSION < (2, 1):
            return

        def both(function, *calls):
            def call(is_async):
                with dist._coalescing_manager(async_ops=is_async) as manager:
                    for tensors in calls:
                        function(*tensors)
                return manager
            return call

        self.case("all_reduce twice", [sum(first)], [mine], both(dist.all_reduce, [mine], [mine]))
        whole, gathered, ones = torch.ones(4 * self.size ** 2), torch.zeros(4 * self.size), torch.ones(4 * self.size)
        self.case("all_gather_into_tensor of what one gathers", [torch.cat(first), ones], [whole, gathered],
                  both(dist.all_gather_into_tensor, [whole, mine], [gathered, whole[:4]]))
        output, sums = torch.zeros(4), [sum(inputs)[begin:begin + 4] for inputs in (first, second)]
        self.case("reduce_scatter_tensor of what one scatters", [torch.cat([sums[0], other[4:]]), sums[1]], [other, output],
                  both(dist.reduce_scatter_tensor, [other[:4], mine], [output, other]))

    def averages(self):
        for dtype in FLOATS + COMPLEX:
            inputs = self.inputs((8,), dtype)
            wide = torch.complex128 if dtype.is_complex else torch.float64
            mean, mine = sum(x.to(wide) for x in inputs) / self.size, inputs[self.rank].clone()
            dist.all_reduce(mine, op=ReduceOp.AVG)
            torch.testing.assert_close(mine.to(wide), mean, rtol=1e-2, atol=0)
            factor = 0.5
            for by in (factor, torch.tensor([factor]) if torch_ranks.VERSION >= (2, 0) else [torch.tensor([factor])]):
                mine = inputs[self.rank].clone()
                dist.all_reduce(mine, op=dist._make_nccl_premul_sum(by))
                torch.testing.assert_close(mine.to(wide), mean * factor * self.size, rtol=1e-6, atol=0)

    def coalesced(self):
        if torch_ranks.VERSION < (2, 1):
            return
        inputs = [self.inputs((n,), torch.float32, n) for n in (1, 5, 0, 300)]
        sums = [functools.reduce(operator.add, of_ranks) for of_ranks in inputs]
        mine = [of_ranks[self.rank].clone() for of_ranks in inputs]
        with dist._coalescing_manager(async_ops=True) as manager:
            for tensor in mine:
                dist.all_reduce(tensor)
        manager.wait()
        assert all(torch.equal(a, b) for a, b in zip(sums, mine)), mine
        outputs = [torch.zeros(self.size * len(of_ranks[0])) for of_ranks in inputs]
        with dist._coalescing_manager():
            for output, of_ranks in zip(outputs, inputs):
                dist.all_gather_into_tensor(output, of_ranks[self.rank])
        assert all(torch.equal(torch.cat(of_ranks), output) for of_ranks, output in zip(inputs, outputs)), outputs
        with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
            outputs = [torch.zeros(5), torch.zeros(300)]
            for output, of_ranks in zip(outputs, (inputs[1], inputs[3])):
                whole = torch.cat([of_ranks[self.rank]] * self.size)
                dist.reduce_scatter_tensor(output, whole)
        manager.wait()
        assert torch.equal(outputs[0], sums[1]) and torch.equal(outputs[1], sums[3]), outputs
        with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
            first, second = (torch.full((100000,), float(self.rank)) for _ in range(2))
            dist.broadcast(first, 0)
            assert (first == 0).all(), first
            time.sleep(0.3 * (self.rank == 0))
            work = dist.broadcast(second, 0, async_op=True)
            assert not work.is_completed()
            future = work.get_future()
        assert (future.wait()[-1] == 0).all() and work.is_completed()
        manager.wait()
        assert (second == 0).all(), second

    def not_coalesced(self):
        """After an error, which PyTorch lets leave a group coalescing."""
        if self.size == 1:
            return
        following, previous = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        came = torch.zeros(1)
        with unittest.TestCase().assertRaisesRegex(torch_ranks.BackendError, "tag -5"):
            dist.batch_isend_irecv([dist.P2POp(dist.irecv, came, previous), dist.P2POp(dist.isend, came, following, tag=-5)])
        with unittest.TestCase().assertRaises(ZeroDivisionError), dist._coalescing_manager(device=torch.device("cpu")):
            raise ZeroDivisionError
        for _ in range(2):  # as DDP does
            x = torch.ones(3)
            work = dist.group.WORLD.allreduce([x])
            future = work.get_future()
            work.wait()
            assert future.done(), "nobody settles it"
            assert future.wait()[0].data_ptr() == x.data_ptr() and x.tolist() == [self.size] * 3, future.wait()
        sent, back = torch.full((3,), float(self.rank)), torch.zeros(3)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.irecv, back, previous, tag=7),
                                            dist.P2POp(dist.isend, sent, following, tag=7)]):
            work.wait()
        assert (back == previous).all(), back
        for _ in range(2):
            x = torch.full((100000,), float(self.rank))
            time.sleep(0.3 * (self.rank == 0))
            dist.broadcast(x, 0)
            assert (x == 0).all(), x
        dist.send(torch.ones(1), following)  # for the receive before the error

    def messages(self):
        following, previous = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        if self.size == 1:
            return
        for count in (1, 100, 100000):
            mine, came = torch.full((count,), float(self.rank)), torch.zeros(count)
            works = dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, following),
                                            dist.P2POp(dist.irecv, came, previous)])
            for work in works:
                work.wait()
            assert (came == previous).all(), came
            receives = [dist.irecv(came[tag:tag + 1], previous, tag=tag) for tag in range(min(count, 5))]
            for tag in reversed(range(min(count, 5))):
                dist.send(mine[:1] + tag, following, tag=tag)
            for tag, receive in enumerate(receives):
                receive.wait()
                assert came[tag] == previous + tag
        if self.rank == 0:
            came = torch.zeros(1)
            senders = {dist.recv(came) for _ in range(self.size - 1)}
            assert senders == set(range(1, self.size)), senders
        else:
            dist.send(torch.tensor([float(self.rank)]), 0)

    def message_beside_collective(self):
        """A collective in the background waits for a rank that first wants a message, which is sent behind it."""
        if self.size < 2:
            return
        x, message = torch.ones(1000), torch.zeros(1000)
        if self.rank == 0:
            work = dist.all_reduce(x, async_op=True)
            sent = dist.isend(torch.ones(1000), 1)
            sent.wait()
        else:
            if self.rank == 1:
                dist.recv(message, 0)
                assert message.sum() == 1000
            work = dist.all_reduce(x, async_op=True)
        work.wait()
        assert (x == self.size).all()

    def objects(self):
        told = [None] * self.size
        dist.all_gather_object(told, {"rank": self.rank})
        assert told == [{"rank": rank} for rank in range(self.size)]
        things = [str(self.rank), None]
        dist.broadcast_object_list(things, 0)
        assert things == ["0", None]

    def sparse(self):
        indices = torch.tensor([[0, self.rank, 2], [1, 1, 0]])
        mine = torch.sparse_coo_tensor(indices, torch.tensor([1.0, 2.0, 3.0]), (self.size + 2, 2))
        dense = torch.zeros(self.size + 2, 2)
        for rank in range(self.size):
            dense[0, 1] += 1
            dense[rank, 1] += 2
            dense[2, 0] += 3
        dist.all_reduce(mine)
        assert torch.equal(dense, mine.to_dense()) and mine.values().sum() == dense.sum(), mine
        mine = torch.sparse_coo_tensor(indices[:, :2], torch.tensor([1.0, 2.0]), (self.size + 2, 2))  # not coalesced yet
        before = dist.all_reduce(mine._values(), async_op=True)
        dist.all_reduce(mine)
        before.wait()
        column = torch.tensor([2.0 * self.size * (rank < self.size) for rank in range(self.size + 2)])
        column[0] += self.size ** 2
        assert torch.equal(column, mine.to_dense()[:, 1]), mine

    def refusals(self):
        def factor(by):
            return dist._make_nccl_premul_sum(by if torch_ranks.VERSION >= (2, 0) else [by])

        def lists(shape, dtype):
            return [[torch.zeros(shape, dtype=dtype)] for _ in range(self.size)]

        cases = [
            (lambda: dist.all_reduce(torch.ones(1).expand(3)), "single memory location"),
            (lambda: dist.all_reduce(torch.ones(2, dtype=torch.int64), op=dist._make_nccl_premul_sum(0.5)), "multiplied"),
            (lambda: dist.all_reduce(torch.ones(2, dtype=torch.int64), op=factor(torch.tensor(0.5))), "multiplied"),
            (lambda: dist.all_reduce(torch.ones(2), op=factor(torch.tensor(0.5j))), "multiplied"),
            (lambda: dist.all_gather_coalesced(lists(8, torch.float32), [torch.ones(4)]), "has 4 elements, but output"),
            (lambda: dist.all_gather_coalesced(lists(4, torch.int32), [torch.ones(4)]), "another one of"),
            (lambda: dist.all_reduce(torch.ones(2), op=ReduceOp.BAND),
             r"ReduceOp\.BAND cannot be done with tensors of torch\.float32, but SUM, AVG, PRODUCT, MIN, MAX can"),
            (lambda: dist.all_reduce(torch.zeros(2, dtype=torch.bool), op=ReduceOp.AVG),
             r"ReduceOp\.AVG cannot be done with tensors of torch\.bool, but SUM, PRODUCT.* convert"),
            (lambda: dist.all_gather_into_tensor(torch.zeros(7), torch.zeros(5)), "times as large"),
            (lambda: dist.all_to_all_single(torch.zeros(3), torch.zeros(3), [9] * self.size, [3] * self.size), "add up to"),
        ]
        if MOVED:
            cases.append((lambda: dist.all_reduce(torch.zeros(2, dtype=MOVED[0])), "convert|[Ff]loat8"))
        if torch_ranks.VERSION >= (2, 9):
            allocate = kolo4py.torch.backend().allocate_tensor
            cases.append((lambda: allocate(2**61 + 1, dtype=torch.float64, device=torch.device("cpu")), "larger than memory"))
        for call, message in cases:
            with unittest.TestCase().assertRaisesRegex((RuntimeError, ValueError), message):
                call()

    def negated(self):
        """Outputs in whose memory PyTorch has the negated values."""
        outputs = [torch._neg_view(torch.zeros(3)) for _ in range(self.size)]
        dist.all_gather(outputs, torch.full((3,), self.rank + 1.0))
        assert all((output == rank + 1).all() for rank, output in enumerate(outputs)), outputs

    def inference(self):
        """Tensors that were made in inference mode, with holes, in operations that end outside of it."""
        total, following = sum(range(1, self.size + 1)), (self.rank + 1) % self.size
        with torch.inference_mode():
            views = [torch.full((3, 4), self.rank + 1.0)[:, ::2] for _ in range(4)]
            factor = dist._make_nccl_premul_sum(2.0)
            works = [dist.all_reduce(views[0], async_op=True), dist.all_reduce(views[1], op=factor, async_op=True),
                     dist.broadcast(views[2], 0, async_op=True), dist.irecv(views[3], (self.rank - 1) % self.size),
                     dist.isend(views[0].new_full((2, 3), self.rank + 1.0).t(), following)]
            sparse = torch.full((4,), self.rank + 1.0).to_sparse()
        for work in works:
            work.wait()
        dist.all_reduce(views[0])
        dist.all_reduce(views[0], op=dist._make_nccl_premul_sum(torch.tensor(2.0)))
        dist.all_reduce(sparse)
        for view, expected in zip([*views, sparse.to_dense()], (2 * total * self.size ** 2, 2 * total, 1,
                                                               (self.rank - 1) % self.size + 1, total)):
            assert view.unique().tolist() == [expected], (view, expected)

    def futures(self):
        x = torch.full((4,), float(self.rank + 1))
        future = dist.all_reduce(x, async_op=True).get_future().then(lambda done: done.value()[0] * 2)
        assert future.wait().tolist() == [2.0 * sum(range(1, self.size + 1))] * 4
        work = dist.barrier(async_op=True)
        work.wait()
        assert work.is_completed() and work.is_success()
        late = dist.all_reduce(torch.ones(1), async_op=True)
        assert late.wait(__import__("datetime").timedelta(seconds=30))
        while not late.is_completed():
            pass
        forgotten = [dist.all_reduce(torch.ones(1000), async_op=True) for _ in range(5)]
        del forgotten, late
        dist.barrier()  # or a rank might leave before another one has issued them


def operations():
    ranks = Ranks()
    for make in (lambda tensor: tensor.clone(), strided):
        ranks.reductions((4 * ranks.size,), make)
        for dtype in ALL:
            ranks.movements(dtype, make)
    ranks.movements(torch.float32, apart)
    ranks.reductions((500 * ranks.size, 3), lambda tensor: tensor.clone())
    for part in (ranks.uneven, ranks.overlapping, ranks.overlapping_calls, ranks.averages, ranks.coalesced,
                 ranks.not_coalesced, ranks.messages, ranks.message_beside_collective, ranks.objects, ranks.sparse,
                 ranks.refusals, ranks.futures, ranks.inference, ranks.negated):
        part()
    print(f"{ranks.cases} cases")


def profile():
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True)


def ranges(profiler):
    """Those of kolo's operations, in the order of issue."""
    return [event for event in profiler.events() if event.name.startswith("kolo:")]


def profiled():
    """Every operation is there, under its name and with the shapes of its inputs."""
    dist.init_process_group("kolo")
    rank = dist.get_rank()
    x, whole, both = torch.ones(3), torch.ones(6), [torch.ones(3), torch.ones(3)]
    to_scatter, gathered = (both, list(both)) if rank == 0 else (None, None)
    cases = [
        ("all_reduce", [[4, 5]], functools.partial(dist.all_reduce, torch.ones(4, 5))),
        ("all_reduce", [[3]], functools.partial(dist.all_reduce, strided(x))),
        ("broadcast", [[3]], functools.partial(dist.broadcast, x, 0)),
        ("reduce", [[3]], functools.partial(dist.reduce, x, 0)),
        ("all_gather", [[3]], functools.partial(dist.all_gather, both, x)),
        ("_allgather_base", [[3]], functools.partial(dist.all_gather_into_tensor, whole, x)),
        ("gather", [[3]], functools.partial(dist.gather, x, gathered, 0)),
        ("scatter", [[3], [3]] if rank == 0 else [], functools.partial(dist.scatter, x, to_scatter, 0)),
        ("reduce_scatter", [[3], [3]], functools.partial(dist.reduce_scatter, x, both)),
        ("_reduce_scatter_base", [[6]], functools.partial(dist.reduce_scatter_tensor, x, whole)),
        ("all_to_all", [[6]], functools.partial(dist.all_to_all_single, torch.ones(6), whole)),
        ("all_to_all", [[3], [3]], functools.partial(dist.all_to_all, [x, x + 1], both)),
        ("barrier", [], dist.barrier),
        ("sparse_all_reduce", [[3, 3]], lambda async_op: dist.all_reduce(torch.eye(3).to_sparse())),
    ]
    wanted, begun_ns = [], time.time_ns()
    with profile() as profiler:
        for name, shapes, call in cases:
            for is_async in (False, True):
                work = call(async_op=is_async)
                if is_async and work:
                    work.wait()
                wanted.append((f"kolo:{name}", shapes))
        for source in (0, None):
            dist.send(x, 1) if rank == 0 else dist.recv(x, source)
            wanted.append(("kolo:send" if rank == 0 else "kolo:recv" if source == 0 else "kolo:recvAnySource", [[3]]))
        if torch_ranks.VERSION >= (2, 1):
            with dist._coalescing_manager(async_ops=True) as manager:
                for tensor in (x, torch.ones(2, 2)):
                    dist.all_reduce(tensor)
            manager.wait()
            wanted.append(("kolo:all_reduce", [[3], [2, 2]]))
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, 1 - rank),
                                            dist.P2POp(dist.irecv, whole, 1 - rank)]):
            work.wait()
        wanted += [("kolo:send", [[3]]), ("kolo:recv", [[6]])]
    found = [(event.name, event.input_shapes) for event in ranges(profiler)]
    assert found == wanted, f"{found}, not {wanted}"
    if torch_ranks.VERSION >= (2, 5):
        exported_in_utc(profiler, begun_ns, time.time_ns())


def exported_in_utc(profiler, begin_ns, end_ns):
    """So that it can be laid beside kolo-trace's timeline."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "profile.json")
        profiler.export_chrome_trace(path)
        with open(path) as exported:
            told = json.load(exported)
    times = [event["ts"] for event in told["traceEvents"] if event["name"] == "kolo:all_reduce"]
    clocks_differ_ns = 1e6
    for ts in times:
        ns = told["baseTimeNanoseconds"] + ts * 1000
        assert begin_ns - clocks_differ_ns < ns < end_ns + clocks_differ_ns, (begin_ns, ns, end_ns)
    assert times


def profiled_until_complete():
    """A range ends when its operation is complete, and not before, whenever its work is waited for."""
    dist.init_process_group("kolo")
    rank, late_s, idle_s = dist.get_rank(), 0.3, 3
    dist.barrier()
    with profile() as profiler:
        torch_ranks.await_all("profiler")  # one may start seconds later
        begun = time.monotonic()
        if rank == 1:
            torch_ranks.await_ranks("called", [0])
            time.sleep(late_s)
        x = torch.ones(3)
        works = [dist.all_reduce(x, async_op=True), dist.all_reduce(strided(x), async_op=True), dist.barrier(async_op=True),
                 dist.irecv(x, 1) if rank == 0 else dist.isend(x, 0)]
        torch_ranks.await_all("called")  # on a busy machine one may be seconds later than that
        dist.barrier()  # what was called before is complete by then
        completed_s = time.monotonic() - begun
        time.sleep(idle_s)
        for work in works:
            work.wait()
    took_s = {(event.name, i): event.time_range.elapsed_us() / 1e6 for i, event in enumerate(ranges(profiler)[:4])}
    assert len(took_s) == 4, took_s
    for name, seconds in took_s.items():
        assert seconds < completed_s + idle_s / 3, (name, seconds, completed_s)
        assert rank or seconds > late_s / 2, (name, seconds)


class Operations(torch_ranks.JobTest):
    def test_profiler(self):
        self.run_ranks(profiled, 2)
        self.run_ranks(profiled_until_complete, 2)

    def test_against_reference(self):
        for ranks in (1, 2, 3, 4):
            with self.subTest(ranks=ranks):
                print(ranks, "ranks:", self.run_ranks(operations, ranks)[0].split("\n")[-2])


if __name__ == "__main__":
    unittest.main()
