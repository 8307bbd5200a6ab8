"""A rank of a DistributedDataParallel job is killed: every other one raises within a second, with its number; then
shrink_group goes on training. Also other ends: abort, shutdown, timeouts, calls that differ."""

import copy
import datetime
import os
import re
import signal
import threading
import time
import unittest

import torch_ranks
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import kolo.torch

VICTIM = 1


def train(model, steps, before_step=lambda step: None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(steps):
        before_step(step)
        optimizer.zero_grad()
        model(torch.full((4, 100), float(dist.get_rank() + 1))).square().mean().backward()
        optimizer.step()


def killed_in_training(in_backward):
    dist.init_process_group("kolo")
    torch.manual_seed(1)
    layers = torch.nn.Sequential(torch.nn.Linear(100, 400), torch.nn.ReLU(), torch.nn.Linear(400, 10))
    model = DistributedDataParallel(layers)
    killed_at = torch.zeros(1, dtype=torch.float64)
    clock = time.monotonic

    def die(*_):
        if dist.get_rank() == VICTIM:
            os.kill(os.getpid(), signal.SIGKILL)
        killed_at[0] = clock()

    def before_step(step):
        if step == 3 and in_backward:
            layers[0].weight.register_hook(die)  # the last gradient: others' reductions are in flight
        elif step == 3:
            die()

    try:
        train(model, 10, before_step)
    except RuntimeError as error:
        took_s = clock() - killed_at.item()
        assert isinstance(error, torch_ranks.BackendError), type(error)
        assert re.search(rf"\brank {VICTIM}\b", str(error)), error
        assert "killed by signal 9" in str(error) or "ended" in str(error), error
        assert took_s < 1, took_s
    else:
        raise AssertionError("no rank noticed")
    if not hasattr(dist, "shrink_group"):
        return
    survivors = dist.get_world_size() - 1
    dist.shrink_group([VICTIM])
    assert dist.get_world_size() == survivors
    layers = copy.deepcopy(layers)  # without the hooks of the backward pass that has failed
    model = DistributedDataParallel(layers)
    train(model, 3)
    weights = [torch.zeros_like(layers[0].weight) for _ in range(survivors)]
    dist.all_gather(weights, layers[0].weight.detach())
    assert all(torch.equal(weights[0], other) for other in weights)


def shrunk_without_failure():
    dist.init_process_group("kolo")
    rank = dist.get_rank()
    if rank == VICTIM:
        time.sleep(0.5)
        return
    dist.shrink_group([VICTIM])
    x = torch.ones(3)
    dist.all_reduce(x)
    assert x.tolist() == [2] * 3, x


def aborted():
    dist.init_process_group("kolo")
    if dist.get_rank() == 0:
        time.sleep(0.3)
        kolo.torch.backend().abort()
    with unittest.TestCase().assertRaisesRegex(torch_ranks.BackendError, "abort|broken"):
        dist.all_reduce(torch.ones(1))
    work = None
    with unittest.TestCase().assertRaisesRegex(torch_ranks.BackendError, "abort|broken"):
        work = dist.all_reduce(torch.ones(1), async_op=True)
        work.wait()


def aborted_while_it_waits():
    """By another thread of the same process."""
    dist.init_process_group("kolo")
    if dist.get_rank() == 0:
        threading.Timer(0.3, kolo.torch.backend().abort).start()
        begun = time.monotonic()
        with unittest.TestCase().assertRaisesRegex(torch_ranks.BackendError, "abort"):
            dist.all_reduce(torch.ones(1))
        assert time.monotonic() - begun < 2
    else:
        time.sleep(1)
        with unittest.TestCase().assertRaisesRegex(torch_ranks.BackendError, "abort"):
            dist.all_reduce(torch.ones(1))  # may succeed, as the other rank's input is there
            dist.all_reduce(torch.ones(1))


def timed_out():
    dist.init_process_group("kolo", timeout=datetime.timedelta(seconds=1))
    if dist.get_rank() == 0:
        work = dist.barrier(async_op=True)
        with unittest.TestCase().assertRaisesRegex(RuntimeError, "[Tt]imed out"):
            work.wait(datetime.timedelta(milliseconds=100))
        begun = time.monotonic()
        with unittest.TestCase().assertRaisesRegex(torch_ranks.BackendError, "rank 1"):
            work.wait()
        assert time.monotonic() - begun < 3
    else:
        time.sleep(3)


def timed_out_later():
    """The timeout of a group that lives: rank 0 gets a shorter one while it waits, which ends the group for both."""
    dist.init_process_group("kolo")
    begun = time.monotonic()
    if dist.get_rank() == 0:
        backend = kolo.torch.backend()
        threading.Timer(0.3, backend.set_timeout, [datetime.timedelta(seconds=1)]).start()
        with unittest.TestCase().assertRaisesRegex(torch_ranks.BackendError, "[Tt]imed out.*rank 1"):
            dist.all_reduce(torch.ones(1))
        assert 0.9 < time.monotonic() - begun < 10
    else:
        time.sleep(2)
        with unittest.TestCase().assertRaisesRegex(torch_ranks.BackendError, "[Tt]imed out"):
            dist.all_reduce(torch.ones(1))  # may succeed, as the other rank's input is there
            dist.all_reduce(torch.ones(1))


def timed_out_never():
    """A longer one lets a rank come late; PyTorch's own name for it, where it has one."""
    dist.init_process_group("kolo", timeout=datetime.timedelta(seconds=1))
    backend = kolo.torch.backend()
    change = getattr(backend, "_set_default_timeout", backend.set_timeout)
    if dist.get_rank() == 0:
        threading.Timer(0.3, change, [datetime.timedelta(seconds=60)]).start()
    else:
        change(datetime.timedelta(seconds=60))
        time.sleep(2)
    x = torch.ones(1)
    dist.all_reduce(x, async_op=True).wait()
    assert x.item() == 2


def different_calls():
    dist.init_process_group("kolo")
    with unittest.TestCase().assertRaisesRegex(torch_ranks.BackendError, r"allreduce of 4 f32.*broadcast|broadcast.*allreduce"):
        if dist.get_rank() == 0:
            dist.all_reduce(torch.ones(4))
        else:
            dist.broadcast(torch.ones(4), 0)
        dist.barrier()


def over():
    dist.init_process_group("kolo")
    backend = kolo.torch.backend()
    pending = dist.irecv(torch.ones(3), 1 - dist.get_rank())
    dist.destroy_process_group()
    backend.shutdown()  # PyTorch 2.6 and later did so
    for call in (lambda: backend.comm, lambda: backend.allreduce([torch.ones(1)]), pending.wait):
        with unittest.TestCase().assertRaises(torch_ranks.BackendError):
            call()


def forked():
    dist.init_process_group("kolo")
    dist.all_reduce(torch.ones(1), async_op=True).get_future().wait()  # the threads are there
    child = os.fork()
    if child == 0:
        try:
            dist.all_reduce(torch.ones(1))
        except torch_ranks.BackendError as error:
            os._exit(42 if "fork" in str(error) else 43)
        os._exit(44)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
    data = torch.utils.data.DataLoader(list(range(8)), batch_size=4, num_workers=2, multiprocessing_context="fork")
    for batch in data:
        dist.all_reduce(batch)
        assert batch.sum() > 0
    dist.barrier()


class Failures(torch_ranks.JobTest):
    def test_killed_rank(self):
        for in_backward in (False, True):
            with self.subTest(in_backward=in_backward):
                self.run_ranks(killed_in_training, 3, in_backward, killed=(VICTIM,))

    @unittest.skipUnless(hasattr(dist, "shrink_group"), "this PyTorch has no shrink_group")
    def test_shrink_without_failure(self):
        self.run_ranks(shrunk_without_failure, 3)

    def test_ends(self):
        for ending in (aborted, aborted_while_it_waits, timed_out, timed_out_later, timed_out_never,
                       different_calls, over):
            with self.subTest(ending=ending.__name__):
                self.run_ranks(ending, 2)

    def test_fork(self):
        self.run_ranks(forked, 2)


if __name__ == "__main__":
    unittest.main()
