"""As ranks: kolo4py.hvd, and a script for Horovod that is run after its import was changed. 77: PyTorch is not installed."""

import contextlib
import gc
import io
import itertools
import os
import sys
import time
import unittest
import weakref
from unittest import mock

import torch_ranks
import torch
import torch.nn.functional as F
from torch import nn

import kolo4py as kolo
import kolo4py.hvd as hvd

EXAMPLES = os.environ["KOLO_TORCH_EXAMPLES"]
sys.path.append(EXAMPLES)
import digits  # noqa: E402
import digits_hvd  # noqa: E402


def rank_sum(function):
    return sum(function(rank) for rank in range(hvd.size()))


class Tensors(unittest.TestCase):
    def test_place(self):
        self.assertTrue(hvd.is_initialized())
        self.assertEqual((hvd.rank(), hvd.size()), (hvd.local_rank(), hvd.local_size()))
        self.assertEqual((0, 1), (hvd.cross_rank(), hvd.cross_size()))
        self.assertEqual(list(range(hvd.size())), hvd.allgather_object(hvd.rank()))
        self.assertEqual({"root": 1}, hvd.broadcast_object({"root": hvd.rank()}, root_rank=1))

    def test_allreduce(self):
        x = torch.arange(5.0) + hvd.rank()
        total = rank_sum(lambda rank: torch.arange(5.0) + rank)
        for op, expected in ((None, total / hvd.size()), (hvd.Average, total / hvd.size()), (hvd.Sum, total),
                             (hvd.Min, torch.arange(5.0)), (hvd.Max, torch.arange(5.0) + hvd.size() - 1)):
            torch.testing.assert_close(hvd.allreduce(x, op=op), expected, rtol=1e-6, atol=0)
        torch.testing.assert_close(hvd.allreduce(x, average=False, name="x"), total)
        torch.testing.assert_close(hvd.allreduce(x, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4), 2 * total)
        for narrow in (hvd.Compression.fp16, hvd.Compression.bf16):
            found = hvd.allreduce(x, compression=narrow)
            self.assertEqual(torch.float32, found.dtype)
            torch.testing.assert_close(found, total / hvd.size(), rtol=1e-2, atol=0)
        self.assertTrue(torch.equal(torch.arange(5.0) + hvd.rank(), x), "the argument has changed")
        self.assertEqual(rank_sum(lambda rank: rank), hvd.allreduce(torch.tensor(hvd.rank()), op=hvd.Sum).item())
        whole = (1 << 40) + torch.arange(5) + hvd.rank()  # integers are scaled too, and cut off
        scaled = hvd.allreduce(whole, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.5)
        self.assertTrue(torch.equal(hvd.size() * (1 << 40) + total.long(), scaled), scaled)
        for pattern, call in (("Adasum is not in kolo", lambda: hvd.allreduce(x, op=hvd.Adasum)),
                              ("both op and average", lambda: hvd.allreduce(x, average=True, op=hvd.Sum)),
                              ("'avg' cannot be done with bool", lambda: hvd.allreduce(x > 0)),
                              ("layout is torch.sparse_coo: make it dense", lambda: hvd.broadcast(x.to_sparse(), 0)),
                              ("layout is torch.sparse_csr: make it dense",
                               lambda: hvd.allreduce(torch.ones(2, 2).to_sparse_csr())),
                              ("only Average and Sum", lambda: hvd.allreduce(x.to_sparse(), op=hvd.Max)),
                              ("not torch.sparse_coo", lambda: hvd.sparse_allreduce_async(x, "x", hvd.Sum))):
            with self.assertRaisesRegex(kolo.ArgumentError, pattern):
                call()

    def test_grouped(self):
        def tensors(rank):
            return [torch.arange(5.0) + rank, torch.full((2, 3), rank), torch.zeros(0), torch.arange(6.0).view(2, 3).t() - rank]
        totals = [rank_sum(lambda rank, i=i: tensors(rank)[i]) for i in range(4)]
        own = tensors(hvd.rank())
        for found in (hvd.grouped_allreduce(own, average=False),
                      hvd.synchronize(hvd.grouped_allreduce_async(own, op=hvd.Sum, prescale_factor=2, postscale_factor=0.5))):
            for each, expected, kept, before in zip(found, totals, own, tensors(hvd.rank())):
                torch.testing.assert_close(each, expected)
                self.assertTrue(torch.equal(kept, before), "the argument has changed")
        half = hvd.grouped_allreduce(own, op=hvd.Sum, compression=hvd.Compression.fp16)
        torch.testing.assert_close(half[0], totals[0], rtol=1e-2, atol=0)
        for function in (hvd.grouped_allreduce_, lambda *x, **o: hvd.grouped_allreduce_async_(*x, **o).wait()):
            own = tensors(hvd.rank())
            for each, given, expected in zip(function(own, op=hvd.Sum), own, totals):
                self.assertIs(each, given)
                torch.testing.assert_close(each, expected)
        with self.assertRaisesRegex(kolo.ArgumentError, "both op and average"):
            hvd.grouped_allreduce(own, average=True, op=hvd.Sum)
        with self.assertRaisesRegex(kolo.ArgumentError, "arrays.0. and arrays.1. overlap"):
            hvd.grouped_allreduce_([own[0], own[0]])
        with self.assertRaisesRegex(kolo.ArgumentError, "cannot be done with bool"):
            hvd.grouped_allreduce([own[0], torch.ones(2, dtype=torch.bool)], op=hvd.Sum)
        self.assertEqual(([], []), (hvd.grouped_allreduce([]), hvd.grouped_allreduce_([])))
        hvd.barrier()

    def test_reducescatter(self):
        for rows in (2 * hvd.size(), 2 * hvd.size() + 1, 1, 0):
            def tensor(rank, rows=rows):
                return torch.arange(2.0 * rows).view(rows, 2) + rank
            total = rank_sum(tensor)
            part = torch.tensor_split(total, hvd.size())[hvd.rank()]  # the first ones have one row more
            torch.testing.assert_close(hvd.reducescatter(tensor(hvd.rank())), part / hvd.size())
            found = hvd.synchronize(hvd.reducescatter_async(tensor(hvd.rank()), op=hvd.Sum, postscale_factor=2))
            torch.testing.assert_close(found, 2 * part)
        with self.assertRaisesRegex(kolo.ArgumentError, "no rows for the ranks"):
            hvd.reducescatter(torch.tensor(1.0))

    def test_sparse(self):
        indices = torch.tensor([[0, hvd.rank() + 1, 0]])
        own = torch.sparse_coo_tensor(indices, torch.arange(6.0).view(3, 2) * hvd.rank(), (5, 2))
        total = rank_sum(lambda rank: torch.sparse_coo_tensor(torch.tensor([[0, rank + 1, 0]]),
                                                              torch.arange(6.0).view(3, 2) * rank, (5, 2)).to_dense())
        changed = own.clone()
        self.assertIs(changed, hvd.allreduce_(changed))
        for found, expected in ((hvd.sparse_allreduce_async(own, "own", hvd.Sum)(), total),
                                (hvd.synchronize(hvd.sparse_allreduce_async(own)), total / hvd.size()),
                                (hvd.allreduce(own, op=hvd.Sum), total), (changed, total / hvd.size())):
            self.assertTrue(found.is_sparse)
            torch.testing.assert_close(found.to_dense(), expected)
        with (self.assertRaisesRegex(kolo.ArgumentError, "rank 1's sparse tensor has the sizes") if hvd.size() > 1
              else contextlib.nullcontext()):  # on all ranks, and the communicator stays usable
            hvd.allreduce(torch.ones(5 + hvd.rank()).to_sparse())

    def test_in_place_and_in_the_background(self):
        tensors = [torch.full((3, 2), float(hvd.rank() + i)) for i in range(4)]
        tensors.append(tensors.pop().t())  # not contiguous
        handles = [hvd.allreduce_async_(tensor, op=hvd.Sum) for tensor in tensors]
        other = hvd.allreduce_async(tensors[0].new_ones(7))
        self.assertTrue((hvd.synchronize(other) == 1).all())
        for i, (tensor, handle) in enumerate(zip(tensors, handles)):
            self.assertTrue(hvd.poll(handle))
            self.assertIs(tensor, hvd.synchronize(handle))
            self.assertTrue((tensor == rank_sum(lambda rank: rank + i)).all())
        for view in (lambda x: x, lambda x: x.t(), lambda x: x[:, ::2]):  # several in flight on one tensor
            x = torch.ones(4, 4)
            handles = [hvd.allreduce_async_(view(x), op=hvd.Sum), hvd.broadcast_async_(x.t(), 1),
                       hvd.allreduce_async_(view(x), op=hvd.Sum, prescale_factor=0.5, postscale_factor=2),
                       hvd.allreduce_async_(x, op=hvd.Sum)]
            for handle in reversed(handles):
                hvd.synchronize(handle)
            self.assertEqual(hvd.size() ** 3, x[0, 0].item())
        s = torch.ones(4).to_sparse()
        handles = [hvd.allreduce_async_(x, op=hvd.Sum) for x in (s._values(), s, s)]
        for handle in reversed(handles):
            hvd.synchronize(handle)
        self.assertEqual([hvd.size() ** 3] * 4, s.to_dense().tolist())
        time.sleep(0.3 * (hvd.rank() == 1))
        x = torch.ones(4)
        with mock.patch.object(kolo.Request, "wait", side_effect=KeyboardInterrupt), self.assertRaises(KeyboardInterrupt):
            hvd.allreduce_(x, op=hvd.Sum)  # as when a signal's handler raises: the call goes on
        hvd.allreduce_(x, op=hvd.Sum, prescale_factor=0.5, postscale_factor=2)
        self.assertEqual([hvd.size() ** 2] * 4, x.tolist())
        x = torch.tensor([hvd.rank()])
        self.assertIs(x, hvd.broadcast_(x, root_rank=1))
        self.assertEqual(1, x.item())

    def test_rows(self):
        rows = torch.cat([torch.full((rank + 1, 2), rank) for rank in range(hvd.size())])
        self.assertTrue(torch.equal(rows, hvd.allgather(torch.full((hvd.rank() + 1, 2), hvd.rank()))))
        self.assertEqual(list(range(hvd.size())), hvd.allgather(torch.tensor(hvd.rank())).tolist())
        splits = [hvd.rank() + 1] * hvd.size()
        found, counts = hvd.alltoall(torch.full((sum(splits), 2), hvd.rank()), splits)
        self.assertTrue(torch.equal(rows, found))
        self.assertEqual([rank + 1 for rank in range(hvd.size())], counts.tolist())
        hvd.barrier()

    def test_gradients(self):
        weight = torch.arange(6.0).view(3, 2) + hvd.rank()
        mean = rank_sum(lambda rank: torch.arange(6.0).view(3, 2) + rank) / hvd.size()
        for function, expected in (
                (hvd.allreduce, mean), (lambda x: hvd.broadcast(x, 1), mean * hvd.size() * (hvd.rank() == 1)),
                (lambda x: hvd.allgather(x)[3:6], mean * hvd.size() * (hvd.rank() == 1)),
                (lambda x: hvd.grouped_allreduce([x * 2, x])[1], mean)):
            x = torch.ones(3, 2, requires_grad=True)
            (function(x) * weight).sum().backward()
            torch.testing.assert_close(x.grad, expected)
        x = torch.ones(4, 2, requires_grad=True)  # its rows are of 2, 1 and 1 ranks
        (hvd.reducescatter(x, op=hvd.Sum) * (hvd.rank() + 1)).sum().backward()
        rows = torch.tensor_split(torch.ones(4, 2), hvd.size())
        torch.testing.assert_close(x.grad, torch.cat([part * (rank + 1) for rank, part in enumerate(rows)]))


class Forked(nn.Module):
    """Uses its layers in an order that depends on the rank, so that gradients come in different orders."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(5))
        self.unused = nn.Parameter(torch.ones(3))
        self.wide = nn.Linear(6, 6, dtype=torch.float64)

    def forward(self, x, rank):
        for layer in self.layers if rank % 2 else reversed(self.layers):
            x = torch.tanh(layer(x))
        return self.wide(x.double()).square().mean() + (self.unused.sum() if rank == 0 else 0)


def rows_of(rank, step):
    return torch.randn(4, 6, generator=torch.Generator().manual_seed(100 * step + rank))


class Optimizers(unittest.TestCase):
    def model(self):
        torch.manual_seed(hvd.rank())
        model = Forked()
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        return model

    def reference(self, steps, make=torch.optim.SGD, passes=1, clip=None, **options):
        """What one process gets that does the work of all ranks."""
        torch.manual_seed(0)
        model = Forked()
        optimizer = make(model.parameters(), **options)
        for step in range(steps):
            optimizer.zero_grad()
            for rank, part in itertools.product(range(hvd.size()), range(passes)):
                (model(rows_of(rank, passes * step + part), rank) / hvd.size()).backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
        return model

    def assert_same(self, reference, model, tolerance=1e-6):
        for (name, expected), found in zip(reference.named_parameters(), model.parameters()):
            torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance, msg=name)
            bits = hvd.allgather(found.detach().reshape(1, -1))
            self.assertTrue((bits == bits[0]).all(), f"{name} differs between ranks")

    def test_any_order_of_gradients(self):
        model = self.model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        torch.optim.lr_scheduler.StepLR(optimizer, 100)  # which puts a function of its own in the place of step
        os.environ["HOROVOD_FUSION_THRESHOLD"] = "400"
        self.addCleanup(os.environ.pop, "HOROVOD_FUSION_THRESHOLD")
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
        self.assertIsInstance(optimizer, torch.optim.SGD)
        for step in range(6):
            optimizer.zero_grad()
            model(rows_of(hvd.rank(), step), hvd.rank()).backward()
            with self.assertRaisesRegex(RuntimeError, "on their way"):  # the first bucket has started
                optimizer.zero_grad()
            optimizer.step()
        self.assert_same(self.reference(6, lr=0.1, momentum=0.9), model)

    def test_several_passes_and_clipping(self):
        model = self.model()
        optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters(), lr=0.01), backward_passes_per_step=2)
        for step in range(4):
            optimizer.zero_grad()
            for part in range(2):
                model(rows_of(hvd.rank(), 2 * step + part), hvd.rank()).backward()
            if step == 3:
                with self.assertRaisesRegex(RuntimeError, "parameter .* more than 2 gradients"):
                    model(rows_of(hvd.rank(), 0), hvd.rank()).backward()
                break
            optimizer.synchronize()
            nn.utils.clip_grad_norm_(model.parameters(), 0.01)
            with optimizer.skip_synchronize():
                optimizer.step()
        optimizer.synchronize()
        self.assert_same(self.reference(3, torch.optim.Adam, 2, 0.01, lr=0.01), model)

    def test_compression_and_closure(self):
        for options in ({"compression": hvd.Compression.fp16}, {"compression": hvd.Compression.bf16},
                        {"gradient_predivide_factor": 4.0}):
            model = self.model()
            optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), **options)
            for step in range(3):
                def closure(step=step, optimizer=optimizer, model=model):
                    optimizer.zero_grad()
                    loss = model(rows_of(hvd.rank(), step), hvd.rank())
                    loss.backward()
                    return loss
                self.assertGreater(optimizer.step(closure).item(), 0)
            self.assert_same(self.reference(3, lr=0.1), model, 1e-3 if "compression" in options else 1e-6)

    def test_synchronize_without_a_step(self):
        """Only what a later backward pass has added is reduced again, also where rank 1 has had none."""
        def train(gradients, is_reduced=False, is_zeroed=True):
            """gradients: for each rank; None: it makes no backward pass."""
            if is_zeroed:
                weight.grad = None  # as model.zero_grad() does
            if gradients[hvd.rank()] is not None:
                (weight * gradients[hvd.rank()]).sum().backward()
            optimizer.synchronize() if is_reduced else optimizer.step()
            seen.append(weight.tolist())

        weight, seen = nn.Parameter(torch.zeros(2)), []
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1), op=hvd.Sum)
        train((1, 2, 3))
        train((4, 5, float("nan")), is_reduced=True)  # as when a GradScaler finds an infinity: no step
        train((1, None, 3))
        train((1, None, None), is_reduced=True)
        weight.grad /= 2  # as clipping does
        optimizer.step()
        train((1, None, 1), is_reduced=True)
        train((None, None, 1), is_zeroed=False)  # each rank has 2 before
        train((1, 1, 1))
        self.assertEqual([[-x] * 2 for x in (6, 6, 10, 10, 10.5, 17.5, 20.5)], seen)
        train((1, 1, 1), is_reduced=True)
        train((1, 1, 1), is_zeroed=False, is_reduced=True)

        def closure():
            weight.grad = None
            weight.sum().backward()
            optimizer.synchronize()
            return weight.grad[0].item()
        for _ in range(2):
            self.assertEqual(3, optimizer.step(closure))
        self.assertEqual([-26.5] * 2, weight.tolist())

    def test_other_calls_while_gradients_travel(self):
        """Rank 1 lacks a gradient in each backward pass, so that its first bucket starts in step()."""
        weights = [nn.Parameter(torch.zeros(2)) for _ in range(4)]
        table = nn.Embedding(2, 2, sparse=True)
        table.weight.data.zero_()
        os.environ["HOROVOD_FUSION_THRESHOLD"] = "8"
        self.addCleanup(os.environ.pop, "HOROVOD_FUSION_THRESHOLD")
        optimizers = [hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=1), op=hvd.Sum)
                      for parameters in ((table.weight, *weights[:2]), weights[2:])]
        for step in range(3):
            used = weights[:3] if hvd.rank() == 1 else weights
            loss = sum((weight * (i + 1)).sum() for i, weight in enumerate(used)) + table(torch.tensor([1])).sum()
            loss.backward()
            self.assertEqual([hvd.size() * 7.0] * 2, hvd.allreduce(torch.full((2,), 7.0), op=hvd.Sum).tolist())
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
            for i, weight in enumerate(weights):
                ranks = hvd.size() - 1 if i == 3 else hvd.size()
                self.assertEqual([-(i + 1.0) * (step + 1) * ranks] * 2, weight.tolist())
            self.assertEqual([[0, 0], [-(step + 1.0) * hvd.size()] * 2], table.weight.tolist())

    def test_next_job_and_next_optimizer(self):
        """An optimizer goes on after shutdown and init, also amid a step, and is forgotten when it is gone."""
        weight = nn.Parameter(torch.zeros(2))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1), op=hvd.Sum)
        for step in range(4):
            weight.sum().backward()
            if step % 2:
                hvd.barrier()  # no rank leaves while others begin
                hvd.shutdown()
                hvd.init(timeout=60)
            optimizer.step()
            optimizer.zero_grad()
        of_the_first = weakref.ref(optimizer._reducer._comm)
        del optimizer
        gc.collect()
        self.assertIsNone(of_the_first())
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1), op=hvd.Sum)
        for _ in range(2):
            weight.sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        self.assertEqual([-6.0 * hvd.size()] * 2, weight.tolist())

    def test_sparse_gradients(self):
        """Rank 2 has none in the first step; a dense parameter travels beside them."""
        for as_dense, op in ((True, hvd.Average), (False, hvd.Average), (False, hvd.Sum)):
            table, weight = nn.Embedding(5, 2, sparse=True), nn.Parameter(torch.ones(2))
            parameters = [table.weight, weight]
            optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=1), op=op, sparse_as_dense=as_dense)
            hvd.broadcast_(table.weight.data, 0)
            for step in range(2):
                before, expected = [x.detach().clone() for x in parameters], torch.zeros(5, 2)
                for rank in range(hvd.size()):
                    for row in (rank, 4) if rank != 2 or step else ():
                        expected[row] += before[1]
                optimizer.zero_grad()
                loss = weight.sum()
                if hvd.rank() != 2 or step:
                    loss = loss + (table(torch.tensor([hvd.rank(), 4])) * weight).sum()
                loss.backward()
                optimizer.step()
                self.assertEqual(not as_dense, table.weight.grad.is_sparse)
                scale = hvd.size() if op == hvd.Average else 1
                torch.testing.assert_close(before[0] - table.weight.data, expected / scale)
                bits = hvd.allgather(torch.cat([x.detach().flatten() for x in parameters]).view(1, -1))
                self.assertTrue((bits == bits[0]).all(), "ranks differ")

    def test_state_of_the_root(self):
        model = self.model()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1 / (1 + hvd.rank()))
        if hvd.rank() == 1:
            model(rows_of(1, 0), 0).backward()
            optimizer.step()
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        optimizer = hvd.DistributedOptimizer(optimizer)
        hvd.broadcast_optimizer_state(optimizer, root_rank=1)
        self.assertEqual(0.05, optimizer.param_groups[0]["lr"])
        scheduler.step()
        self.assertEqual(0.025, optimizer.param_groups[0]["lr"])
        moments = hvd.allgather(torch.cat([state["exp_avg"].double().reshape(1, -1) for state in optimizer.state.values()], 1))
        self.assertTrue((moments == moments[0]).all())
        self.assertGreater(moments.abs().sum(), 0)

    def test_failure_of_one_rank(self):
        """All ranks are told, and no later call takes the place of the one that has failed."""
        model = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=1 + hvd.rank())
        too_few = itertools.islice(model.parameters(), 1 if hvd.rank() == 1 else None)
        no_list = (1 / (tensor.numel() - (4 if hvd.rank() == 1 else 5)) for tensor in model.parameters())
        for text, parameters in (("rank 1 has 1 tensors to broadcast, and rank 0 2", too_few),
                                 ("rank 1 could not list its parameters: ZeroDivisionError", no_list)):
            with self.assertRaisesRegex(kolo.RankFailed, text):
                hvd.broadcast_parameters(parameters, 0)
        if hvd.rank() == 1:
            optimizer.register_state_dict_pre_hook(lambda _: 1 / 0)
        with self.assertRaisesRegex(kolo.RankFailed, "rank 1 could not pickle its object: ZeroDivisionError"):
            hvd.broadcast_optimizer_state(optimizer, 1)
        hvd.broadcast_optimizer_state(optimizer, 0)
        self.assertEqual(1, optimizer.param_groups[0]["lr"])
        with self.assertRaisesRegex(kolo.ArgumentError, "splits is .*: give a number of rows"):
            hvd.alltoall(torch.zeros(3), [3] * hvd.size())
        hvd.barrier()

    def test_refusals(self):
        model = nn.Linear(2, 2)
        for pattern, options in (("Adasum", {"op": hvd.Adasum}), ("neither Average nor Sum", {"op": hvd.Max}),
                                 ("for op Average only", {"op": hvd.Sum, "gradient_predivide_factor": 2}),
                                 ("lacks a parameter", {"named_parameters": [("weight", model.weight)]}),
                                 ("a name twice", {"named_parameters": [("a", model.weight), ("a", model.bias)]}),
                                 ("is 0: it has to be", {"backward_passes_per_step": 0})):
            with self.assertRaisesRegex(kolo.ArgumentError, pattern):
                hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1), **options)
        model.bias.requires_grad_(False)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1))
        model.bias.requires_grad_()
        model(torch.ones(2)).sum().backward()
        for error, pattern, call in (
                (RuntimeError, "parameter 1 required no gradient", optimizer.step),
                (kolo.ArgumentError, "made already", lambda: hvd.DistributedOptimizer(optimizer)),
                (kolo.ArgumentError, "added", lambda: optimizer.add_param_group({"params": [torch.ones(1)]}))):
            with self.assertRaisesRegex(error, pattern):
                call()


class Script(unittest.TestCase):
    """The example, with one process that does the work of all ranks beside it, in the same order: training turns a
    difference in rounding into one of percents where a unit is about to change sign."""
    BATCH, EPOCHS = 24, 3

    def reference(self):
        torch.manual_seed(42)
        model = digits_hvd.Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02 * hvd.size(), momentum=0.9)
        train_set, _ = digits.load()
        samplers = [digits_hvd.DistributedSampler(train_set.labels, hvd.size(), rank) for rank in range(hvd.size())]
        for epoch in range(self.EPOCHS):
            for sampler in samplers:
                sampler.set_epoch(epoch)
            for batches in zip(*(torch.tensor(list(sampler)).split(self.BATCH) for sampler in samplers)):
                optimizer.zero_grad()
                for rows in batches:
                    F.nll_loss(model(train_set.images[rows]), train_set.labels[rows]).backward()
                for parameter in model.parameters():
                    parameter.grad /= hvd.size()
                optimizer.step()
        return model

    def test_same_as_one_process(self):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            model, accuracy = digits_hvd.main(["--batch-size", str(self.BATCH), "--epochs", str(self.EPOCHS)])
        self.assertEqual(self.EPOCHS + 1 if hvd.rank() == 0 else 0, len(printed.getvalue().splitlines()))
        self.assertGreater(accuracy, 0.7)
        for (name, found), expected in zip(model.named_parameters(), self.reference().parameters()):
            bits = hvd.allgather(found.detach().reshape(1, -1))
            self.assertTrue((bits == bits[0]).all(), f"{name} differs between ranks")
            torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4, msg=name)


def main():
    with unittest.TestCase().assertRaisesRegex(kolo.ArgumentError, "call hvd.init"):
        hvd.rank()
    hvd.init(timeout=60)
    done = unittest.main(exit=False, failfast=True, verbosity=2 if hvd.rank() == 0 else 0).result
    hvd.shutdown()
    sys.exit(not done.wasSuccessful())


if __name__ == "__main__":
    torch_ranks.run_tests(main, 3)
