"""A rank of a DistributedDataParallel job is killed: every other one raises within a second, with its number; then
shrink_group goes on training. Also other ends: abort, shutdown, timeouts, calls that differ. And random programs of
operations, in which ranks come late, abort, leave or die: what succeeds is right, and what is over is left alone. And
PyTorch's Flight Recorder: `torchfrtrace` names the rank that is missing, or calls something else.

    torch_failures_test.py [--seed FIRST]    the random programs alone, from that seed on"""

import atexit
import contextlib
import copy
import ctypes
import datetime
import functools
import multiprocessing
import operator
import os
import random
import re
import resource
import select
import signal
import sys
import tempfile
import threading
import time
import unittest

import torch_ranks
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import kolo4py.torch
from kolo4py import _library

VICTIM = 1
TOLD_S_MAX = 1.5  # what is to be told within 0.2 s, on a busy machine too


def train(model, steps, before_step=lambda step: None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(steps):
        before_step(step)
        optimizer.zero_grad()
        model(torch.full((4, 100), float(dist.get_rank() + 1))).square().mean().backward()
        optimizer.step()


def killed_in_training(in_backward, killed_at):
    dist.init_process_group("kolo")
    torch.manual_seed(1)
    layers = torch.nn.Sequential(torch.nn.Linear(100, 400), torch.nn.ReLU(), torch.nn.Linear(400, 10))
    model = DistributedDataParallel(layers)

    def die(*_):
        if dist.get_rank() == VICTIM:
            killed_at.value = time.monotonic()
            os.kill(os.getpid(), signal.SIGKILL)

    def before_step(step):
        if step == 3 and in_backward:
            layers[0].weight.register_hook(die)  # the last gradient: others' reductions are in flight
        elif step == 3:
            die()

    try:
        train(model, 10, before_step)
    except RuntimeError as error:
        took_s = time.monotonic() - killed_at.value
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
        kolo4py.torch.backend().abort()
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
        threading.Timer(0.3, kolo4py.torch.backend().abort).start()
        begun = time.monotonic()
        with unittest.TestCase().assertRaisesRegex(torch_ranks.BackendError, "abort"):
            dist.all_reduce(torch.ones(1))
        assert time.monotonic() - begun < 2
        torch_ranks.await_all("aborted")
    else:
        torch_ranks.await_all("aborted")
        with unittest.TestCase().assertRaisesRegex(torch_ranks.BackendError, "abort"):
            dist.all_reduce(torch.ones(1))  # may succeed, as the other rank's input is there
            dist.all_reduce(torch.ones(1))


def timed_out():
    torch_ranks.init_with_timeout(4)
    if dist.get_rank() == 0:
        work = dist.barrier(async_op=True)
        with unittest.TestCase().assertRaisesRegex(RuntimeError, "[Tt]imed out"):
            work.wait(datetime.timedelta(milliseconds=100))
        begun = time.monotonic()
        with unittest.TestCase().assertRaisesRegex(torch_ranks.BackendError, "rank 1"):
            work.wait()
        assert time.monotonic() - begun < 4 + 2
    torch_ranks.await_all("timed out")  # until then rank 1 lives


def timed_out_later():
    """The timeout of a group that lives: rank 0 gets a shorter one while it waits, which ends the group for both."""
    dist.init_process_group("kolo")
    begun = time.monotonic()
    if dist.get_rank() == 0:
        backend = kolo4py.torch.backend()
        threading.Timer(0.3, backend.set_timeout, [datetime.timedelta(seconds=1)]).start()
        with unittest.TestCase().assertRaisesRegex(torch_ranks.BackendError, "[Tt]imed out.*rank 1"):
            dist.all_reduce(torch.ones(1))
        assert 0.9 < time.monotonic() - begun < 10
    torch_ranks.await_all("ended")
    if dist.get_rank() == 1:
        with unittest.TestCase().assertRaisesRegex(torch_ranks.BackendError, "[Tt]imed out"):
            dist.all_reduce(torch.ones(1))  # may succeed, as the other rank's input is there
            dist.all_reduce(torch.ones(1))


def timed_out_never():
    """A longer one lets a rank come late; PyTorch's own name for it, where it has one."""
    torch_ranks.init_with_timeout(3)
    backend = kolo4py.torch.backend()
    change = getattr(backend, "_set_default_timeout", backend.set_timeout)
    x = torch.ones(1)
    if dist.get_rank() == 0:
        threading.Timer(0.3, change, [datetime.timedelta(seconds=60)]).start()
        work, begun = dist.all_reduce(x, async_op=True), time.monotonic()
        with unittest.TestCase().assertRaisesRegex(RuntimeError, "[Tt]imed out"):
            work.wait(datetime.timedelta(seconds=2))
        assert 2 <= time.monotonic() - begun < 2 + TOLD_S_MAX
        torch_ranks.await_all("waited")
    else:
        change(datetime.timedelta(seconds=60))
        torch_ranks.await_all("waited")
        time.sleep(2)
        work = dist.all_reduce(x, async_op=True)
    work.wait()
    assert x.item() == 2


def timed_out_in_ages():
    """The longest timeouts are as good as none, for the meeting, an operation, a wait, a barrier and a group that lives."""
    for days in (400, 10 ** 5, 10 ** 6):
        limit = datetime.timedelta(days=days)
        backend = kolo4py.torch.load().Backend(dist.HashStore(), 0, 1, limit)
        backend.set_timeout(limit)
        x = torch.ones(1)
        backend.allreduce([x]).wait(limit)
        backend.barrier().wait()
    dist.init_process_group("kolo", timeout=datetime.timedelta(days=400))
    if dist.get_rank() == 1:
        time.sleep(0.3)  # rank 0 waits
    assert dist.all_reduce(x, async_op=True).wait(limit)
    assert x.item() == 2


def unwatched():
    """No thread can be started to watch a work, or it can have no descriptor: the work can be waited for all the same.
    There is room for what malloc() and the loader need, which ends the process where it has none, but for no stack."""
    dist.init_process_group("kolo")
    for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_AS):
        x, limits = torch.ones(1), resource.getrlimit(kind)
        work = dist.all_reduce(x, async_op=True)
        with open("/proc/self/statm") as statm:
            room = int(statm.read().split()[0]) * resource.getpagesize() + resource.getrlimit(resource.RLIMIT_STACK)[0] // 2
        resource.setrlimit(kind, (3 if kind == resource.RLIMIT_NOFILE else room, limits[1]))
        with unittest.TestCase().assertRaisesRegex(RuntimeError, "open files|temporarily unavailable"):
            work.get_future()
        resource.setrlimit(kind, limits)
        work.wait()
        assert x.item() == 2
    work = dist.all_reduce(x, async_op=True)
    assert work.get_future().wait()[0].item() == 4


def interrupted(wait, code):
    """Rank 0 waits, and gets SIGINT; rank 1 comes after that, so that nothing else can have ended the wait."""
    dist.init_process_group("kolo")
    if dist.get_rank() == 0:
        signals = threading.Thread(target=lambda: (time.sleep(0.3), sent.append(time.monotonic()),
                                                   os.kill(os.getpid(), signal.SIGINT)))
        sent = []
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signals.start()
        with unittest.TestCase().assertRaises(KeyboardInterrupt):
            exec(wait)
        assert time.monotonic() - sent[0] < TOLD_S_MAX, "the handler came late"
    torch_ranks.await_all("interrupted")
    with unittest.TestCase().assertRaisesRegex(torch_ranks.BackendError, f"rank 0 aborted.*code {code}"):
        while True:  # rank 1's first may succeed, as rank 0 has come
            dist.barrier()


def interrupted_by_handlers():
    """What handlers do while a call waits: note the signal, use the group in vain, raise when the call is over, and end the
    group and the program."""
    dist.init_process_group("kolo")
    x, told = torch.ones(1), []

    def note():
        told.append("noted")

    def use_group():
        try:
            dist.all_reduce(torch.ones(1))
        except torch_ranks.BackendError as error:
            told.append(str(error))

    def raise_late():
        torch_ranks.await_ranks(place, [1])
        raise KeyboardInterrupt

    def end():
        dist.destroy_process_group()
        raise SystemExit(3)

    store, reduce = dist.distributed_c10d._get_default_store(), functools.partial(dist.all_reduce, x)
    allocate = functools.partial(kolo4py.torch.backend().allocate_tensor, 1, dtype=x.dtype, device=x.device)
    allocate()  # a buffer that later ones take, so that they wait once
    cases = ((note, None, reduce), (use_group, None, reduce), (raise_late, KeyboardInterrupt, reduce),
             (raise_late, KeyboardInterrupt, allocate), (end, SystemExit, reduce))
    if dist.get_rank() == 0:
        for place, (handler, raised, call) in enumerate(cases):
            signal.signal(signal.SIGALRM, lambda *_: (store.set(f"{place} 0", ""), handler()))
            with unittest.TestCase().assertRaises(raised) if raised else contextlib.nullcontext():
                signal.setitimer(signal.ITIMER_REAL, 1)  # the call has begun by then
                call()
        assert told[0] == "noted" and "signal handler" in told[1], told
        torch_ranks.await_ranks("over", [1], store)  # it needs this rank's store until then
    else:
        for place, (_, _, call) in enumerate(cases[:-1]):
            torch_ranks.await_ranks(place, [0])
            call()
            store.set(f"{place} 1", "")
        torch_ranks.await_ranks(len(cases) - 1, [0])
        time.sleep(0.5)
        with unittest.TestCase().assertRaisesRegex(torch_ranks.BackendError, "rank 0 (aborted|has left)"):
            while True:
                dist.all_reduce(x)  # the first may succeed, as rank 0 has come
        store.set("over 1", "")


def different_calls():
    dist.init_process_group("kolo")
    with unittest.TestCase().assertRaisesRegex(torch_ranks.BackendError, r"allreduce of 4 f32.*broadcast|broadcast.*allreduce"):
        if dist.get_rank() == 0:
            dist.all_reduce(torch.ones(4))
        else:
            dist.broadcast(torch.ones(4), 0)
        dist.barrier()


def different_types(call):
    """Of one width: one rank would take the other's bits for numbers of its own type."""
    dist.init_process_group("kolo")
    rank = dist.get_rank()
    x = torch.eye(2, dtype=(torch.float32, torch.int32)[rank])
    both = [x.clone(), x.clone()]
    with unittest.TestCase().assertRaisesRegex(torch_ranks.BackendError, "f32.*i32|i32.*f32"):
        eval(call, {"dist": dist, "x": x, "both": both, "at_root": both if rank == 0 else None, "rank": rank})
        dist.barrier()


def different_sparse_shapes():
    """All ranks refuse it; what is larger elsewhere would be written beyond a tensor. The group stays usable."""
    dist.init_process_group("kolo")
    rank, x = dist.get_rank(), torch.ones(3)
    for mine in (torch.ones(5 + rank), torch.ones(2, 3 + rank), torch.ones(4, 4).t()[:4 - rank]):
        with unittest.TestCase().assertRaisesRegex(RuntimeError, r"rank 1's sparse tensor .* rank 0's"):
            dist.all_reduce(mine.to_sparse())
    with unittest.TestCase().assertRaisesRegex(RuntimeError, r"the first 2 of them sparse, .* the first 1"):
        dist.all_reduce(torch.ones(2, 2).to_sparse(1 + rank))
    dist.all_reduce(x)
    assert x.tolist() == [2] * 3, x


def waited_in_a_callback():
    """A callback waits for the other rank. Threads of this one go on meanwhile: with one of them that rank meets before."""
    torch_ranks.init_with_timeout(20)
    if dist.get_rank() == 0:
        begun = threading.Event()

        def wait(_):
            work = dist.all_reduce(torch.ones(1), async_op=True)
            begun.set()
            return work.get_future().wait()

        future = dist.barrier(async_op=True).get_future().then(wait)
        torch_ranks.await_all("callback")  # of a barrier that is over it would run here
        begun.wait()
        time.sleep(0.2)
        torch_ranks.await_all("wait")
        assert future.wait()[0].item() == 2
    else:
        torch_ranks.await_all("callback")
        dist.barrier()
        torch_ranks.await_all("wait")
        dist.all_reduce(torch.ones(1))


def used_in_a_callback():
    """It waits for a later work, whose future is asked for already: the thread that would settle it runs the callback."""
    dist.init_process_group("kolo")
    for use in (lambda work: work.wait(), lambda work: work.wait(datetime.timedelta(seconds=60)),
                lambda work: work.get_future().wait(), lambda work: [None for _ in iter(work.is_completed, True)]):
        x = torch.ones(1000)
        works = [dist.all_reduce(x, async_op=True) for _ in range(2)]
        futures = [work.get_future() for work in works]
        futures[0].then(lambda _, use=use, work=works[1]: use(work)).wait()
        assert futures[1].done() and (x == 4).all(), x
    for i in range(2000):
        work = dist.all_reduce(torch.zeros(1), async_op=True)
        future = work.get_future()
        _ = work.wait() if i % 2 else [None for _ in iter(work.is_completed, True)]
        assert future.done(), i


def destroyed_in_a_callback():
    """Files that are opened then get the descriptors of the group. They are left alone."""
    dist.init_process_group("kolo")
    files = []

    def destroy(_):
        dist.destroy_process_group()
        files.extend(open(__file__, "rb", 0) for _ in range(50))

    dist.barrier(async_op=True).get_future().then(destroy).wait()
    time.sleep(0.5)
    assert {file.tell() for file in files} == {0}, files


def recorded(is_stopped):
    """Healthy operations of all kinds, and then one for which rank 1 does not come, or makes another one."""
    torch_ranks.init_with_timeout(4)
    rank, size, x = dist.get_rank(), dist.get_world_size(), torch.ones(3)
    pids = [None] * size
    dist.all_gather_object(pids, os.getpid())
    others = dist.new_group([0, 2])
    if rank != VICTIM:
        dist.all_reduce(x, group=others)
    dist.all_reduce(x)
    dist.all_reduce(x, async_op=True).wait()
    dist.broadcast(x, 1)
    dist.all_gather([torch.ones(3, 2) for _ in range(size)], torch.ones(3, 2))
    dist.all_gather([torch.ones(i) for i in range(size)], torch.ones(rank))
    dist.all_gather_into_tensor(torch.ones(3 * size), x)
    dist.reduce_scatter(x, [torch.ones(3) for _ in range(size)])
    dist.reduce_scatter_tensor(x, torch.ones(3 * size))
    dist.gather(x, [torch.ones(3) for _ in range(size)] if rank == 0 else None, 0)
    dist.scatter(x, [torch.ones(3) for _ in range(size)] if rank == 0 else None, 0)
    dist.all_to_all_single(torch.ones(size), torch.ones(size))
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, (rank + 1) % size),
                                        dist.P2POp(dist.irecv, torch.ones(3), (rank - 1) % size)]):
        work.wait()
    dist.barrier()
    if is_stopped and rank == VICTIM:
        os.kill(os.getpid(), signal.SIGSTOP)
        return
    with unittest.TestCase().assertRaisesRegex(torch_ranks.BackendError, "rank 1.*stopped" if is_stopped else "rank 1.*broad"):
        if rank == VICTIM:
            dist.broadcast(torch.ones(7), 0)
        else:
            dist.all_reduce(torch.ones(4, 4), async_op=True).wait()
    if is_stopped and rank == 0:
        os.kill(pids[VICTIM], signal.SIGCONT)


def read_records(folder):
    from torch.distributed.flight_recorder import fr_trace
    fr_trace.main([folder])


def over():
    dist.init_process_group("kolo")
    backend = kolo4py.torch.backend()
    pending = dist.irecv(torch.ones(3), 1 - dist.get_rank())
    dist.destroy_process_group()
    backend.shutdown()  # PyTorch 2.6 and later did so
    for call in (lambda: backend.comm, lambda: backend.allreduce([torch.ones(1)]), pending.wait):
        with unittest.TestCase().assertRaises(torch_ranks.BackendError):
            call()


def ended_during_an_abort():
    """Rank 0's backend is shut down by one thread while another one aborts it: that stops in writing to the log, which is
    a full pipe, until the communicator has been left. Both ranks are in this process."""
    made, store, (reading, writing) = [None, None], dist.HashStore(), os.pipe()

    def create(rank):
        made[rank] = kolo4py.torch.load().Backend(store, rank, 2, datetime.timedelta(seconds=60))

    other = threading.Thread(target=create, args=(1,))
    other.start()
    create(0)
    other.join()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, bytes(4096))
    os.set_blocking(writing, True)
    stderr = os.dup(2)
    os.dup2(writing, 2)
    aborting = threading.Thread(target=made[0].abort)
    aborting.start()
    failure = _library.Failure(ctypes.sizeof(_library.Failure))
    while not failure.status:
        _library.load().kolo_comm_failure(made[1].comm, ctypes.byref(failure))
        time.sleep(0.05)
    made[0].shutdown()
    while aborting.is_alive():
        if select.select([reading], [], [], 0.01)[0]:
            os.read(reading, 1 << 16)
    os.dup2(stderr, 2)


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


def forked_amid_works():
    """The group's thread may have any lock at a fork. The children come to their ends, as programs do."""
    dist.init_process_group("kolo")
    for i in range(60):
        futures = [dist.all_reduce(torch.ones(50), async_op=True).get_future() for _ in range(1 + i % 4)]
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            if i % 2:
                atexit._run_exitfuncs()
            del futures
            dist.destroy_process_group()
            os._exit(0)
        for future in futures:
            future.wait()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, i


# Random programs.

PREMULTIPLIED = 3
BASES = "ABSR"  # A and B are those of collectives, S is sent and R received
COLLECTIVES = {  # what each writes, and the call with views of A and B
    "all_reduce": ("A", lambda a, b, root, **how: dist.all_reduce(a, **how)),
    "premultiplied": ("A", lambda a, b, root, **how: dist.all_reduce(a, op=premultiply(), **how)),
    "all_reduce_coalesced": ("AB", lambda a, b, root, **how: dist.all_reduce_coalesced([a, b], **how)),
    "broadcast": ("A", lambda a, b, root, **how: dist.broadcast(a, root, **how)),
    "reduce": ("A", lambda a, b, root, **how: dist.reduce(a, root, **how)),
    "all_gather": ("B", lambda a, b, root, **how: dist.all_gather(list(b), a[0], **how)),
    "all_gather_into_tensor": ("B", lambda a, b, root, **how: dist.all_gather_into_tensor(b, a[:1], **how)),
    "reduce_scatter": ("B", lambda a, b, root, **how: dist.reduce_scatter(b[0], list(a), **how)),
    "reduce_scatter_tensor": ("B", lambda a, b, root, **how: dist.reduce_scatter_tensor(b[:1], a, **how)),
    "all_to_all": ("B", lambda a, b, root, **how: dist.all_to_all(list(b), list(a), **how)),
    "all_to_all_single": ("B", lambda a, b, root, **how: dist.all_to_all_single(b, a, **how)),
    "gather": ("B", lambda a, b, root, **how: dist.gather(a[0], list(b) if dist.get_rank() == root else None, root, **how)),
    "scatter": ("B", lambda a, b, root, **how: dist.scatter(b[0], list(a) if dist.get_rank() == root else None, root, **how)),
}
EVENTS = ("nothing", "abort", "abort in a thread", "leave", "timeout", "death")


def premultiply():
    factor = torch.tensor([PREMULTIPLIED])
    return dist._make_nccl_premul_sum(factor if torch_ranks.VERSION >= (2, 0) else [factor])


def carry_out(name, a, b, root):
    """What the collective makes of all ranks' views."""
    ranks, old = range(len(a)), [x.clone() for x in a]
    total = functools.reduce(operator.add, old)
    if name == "all_reduce_coalesced":
        carry_out("all_reduce", b, a, root)
    for rank in ranks:
        if name in ("all_reduce", "premultiplied", "all_reduce_coalesced") or (name == "reduce" and rank == root):
            a[rank].copy_(total * (PREMULTIPLIED if name == "premultiplied" else 1))
        elif name == "broadcast":
            a[rank].copy_(old[root])
        elif name.startswith("all_gather") or (name == "gather" and rank == root):
            b[rank].copy_(torch.stack([x[0] for x in old]))
        elif name.startswith("reduce_scatter"):
            b[rank][0].copy_(total[rank])
        elif name.startswith("all_to_all"):
            b[rank].copy_(torch.stack([x[rank] for x in old]))
        elif name == "scatter":
            b[rank][0].copy_(old[root][rank])


class Operation:
    """One that has been issued. The model of all ranks' memory follows when it is known to have succeeded."""

    def __init__(self, writes, call, apply):
        self.writes, self.apply, self.error, self.work = writes, apply, None, None
        self.is_over = False
        self._try(lambda: setattr(self, "work", call()))
        self.is_over = self.work is None

    def _try(self, function):
        try:
            function()
        except RuntimeError as error:
            assert "kolo" in str(error), error
            self.error = error

    def wait(self, way):
        if way == 0:
            is_done = getattr(self.work, "is_completed", None) or self.work.done  # of a future
            while not is_done():
                time.sleep(0.0005)
        elif way == 1 and hasattr(self.work, "get_future"):
            self._try(lambda: self.work.get_future().wait())
        self._try(self.work.wait)
        self.is_over = True


class Program:
    """Operations on one group, the same on every rank, by the seed. Each rank also has the model of all ranks' memory. As
    soon as all of its operations are over it overwrites its own: with what the next ones read, if there are any."""

    def __init__(self, seed, ranks):
        self.random, self.own_random = random.Random(seed), random.Random(f"{seed}, rank {dist.get_rank()}")
        self.rank, self.ranks = dist.get_rank(), ranks
        self.group = dist.new_group(list(range(ranks)), timeout=datetime.timedelta(seconds=60))
        self.backend = kolo4py.torch.backend(self.group)
        self.columns = self.random.choice((5, 400, 20000))
        self.memory = {name: torch.zeros(2 * ranks * self.columns, dtype=torch.int64) for name in BASES}
        self.scribbles, self.is_broken, self.has_left, self.flight = 0, False, False, []
        self.scribble()

    def scribble(self):
        self.scribbles += 1
        pattern = torch.arange(2 * self.ranks * self.columns)
        self.model = {name: [pattern * (7919 * self.scribbles + 31 * rank + ord(name)) for rank in range(self.ranks)]
                      for name in BASES}
        for name, memory in self.memory.items():
            memory.copy_(self.model[name][self.rank])

    def view(self, memory, kind):
        """Of a row for each rank: contiguous, with holes, or transposed."""
        whole = memory[:self.ranks * self.columns]
        return (whole.view(self.ranks, -1) if kind == 0 else memory.view(self.ranks, -1)[:, ::2] if kind == 1
                else whole.view(-1, self.ranks).t())

    def check(self, names=BASES):
        for name in names:
            assert torch.equal(self.memory[name], self.model[name][self.rank]), \
                f"{name} of rank {self.rank} is not what it is to be: {self.memory[name]}, {self.model[name][self.rank]}"

    def issue(self):
        name = self.random.choice(list(COLLECTIVES))
        writes, call = COLLECTIVES[name]
        kinds, root = [self.random.randrange(3) for _ in "AB"], self.random.randrange(self.ranks)
        is_async = self.random.random() < 0.7
        views = [self.view(self.memory[base], kind) for base, kind in zip("AB", kinds)]
        model = [[self.view(memory, kind) for memory in self.model[base]] for base, kind in zip("AB", kinds)]
        with torch.inference_mode(self.random.random() < 0.3):
            made = Operation(writes, lambda: call(*views, root, group=self.group, async_op=is_async),
                             lambda: carry_out(name, *model, root))
        self.flight.append(made)
        if made.is_over and not made.error:  # all before it are over, too
            self.apply()
            self.check("AB")

    def exchange(self):
        """Messages, which go on beside the collectives."""
        kinds, following, previous = [self.random.randrange(3) for _ in "SR"], self.rank + 1, self.rank - 1
        sent, taken = (self.view(self.memory[base], kind) for base, kind in zip("SR", kinds))
        came = self.view(self.model["S"][previous % self.ranks], kinds[0])
        self.messages = [
            Operation("", lambda: dist.isend(sent, following % self.ranks, group=self.group), lambda: None),
            Operation("R", lambda: dist.irecv(taken, previous % self.ranks, group=self.group),
                      lambda: self.view(self.model["R"][self.rank], kinds[1]).copy_(came))]

    def apply(self):
        for made in self.flight:
            if made.apply:
                made.apply()
                made.apply = None

    def land(self):
        """Waits for all that is in flight, compares, and overwrites."""
        waited = [made for made in self.flight + self.messages if not made.is_over]
        for made in self.own_random.sample(waited, len(waited)):
            made.wait(self.own_random.randrange(4))
        failed = [made for made in self.flight if made.error]
        assert not failed or self.flight[-len(failed):] == failed, "an operation succeeded behind one that failed"
        undefined = "".join(made.writes for made in failed + self.messages if made.error)
        self.is_broken = self.has_left or any(made.error for made in self.flight + self.messages)
        self.flight = [made for made in self.flight + self.messages if not made.error]
        self.apply()
        self.check([name for name in BASES if name not in undefined])
        self.flight = []
        self.scribble()

    def happen(self, event):
        if event == "abort":
            self.backend.abort()
        elif event == "abort in a thread":
            threading.Timer(self.own_random.random() / 100, self.backend.abort).start()
        elif event == "leave":
            dist.destroy_process_group(self.group)
            self.backend.shutdown()  # PyTorch 2.6 and later did so
            self.has_left = True
        elif event == "timeout":
            self.backend.set_timeout(datetime.timedelta(milliseconds=20))
        elif event == "death":
            os.kill(os.getpid(), signal.SIGKILL)

    def round(self, event):
        """One of its rounds; `event` is what this rank is to do, while operations are in flight."""
        if self.is_broken:
            self.check()
            return
        self.messages = []
        if self.random.random() < 0.5:
            self.exchange()
        calls = self.random.randrange(1, 6)
        event_before = self.random.randrange(calls + 1)
        for index in range(calls + 1):
            if index == event_before:
                self.happen(event)
                if event == "leave":
                    return
            if self.own_random.random() < 0.1:
                time.sleep(self.own_random.random() / 50)
            if index < calls:
                self.issue()


def random_programs(seeds, event=None):
    """For each seed a program in which something happens, beside one on another group in which nothing does."""
    dist.init_process_group("kolo")
    ranks = dist.get_world_size()
    for seed in seeds:
        print(f"seed {seed}: torch_failures_test.py --seed {seed}", flush=True)
        common = random.Random(f"{seed}, all")
        happens, victim, when = event or common.choice(EVENTS[:-1]), common.randrange(ranks), common.randrange(6)
        victim = VICTIM if event == "death" else victim
        programs = [Program(f"{seed}, {index}", ranks) for index in range(2)]
        for number in range(6):
            is_now = number == when and dist.get_rank() == victim
            if number == when and happens == "timeout" and not is_now:
                time.sleep(0.1)
            for program, each in zip(programs, (happens if is_now else "nothing", "nothing")):
                program.round(each)
            for program in common.sample(programs, 2):
                if not program.is_broken:
                    program.land()
        assert happens == "death" or not programs[1].is_broken, "a group broke in which nothing happened"
        assert happens != "nothing" or not programs[0].is_broken
        for program in programs:
            time.sleep(0.01)
            program.check()
            with contextlib.suppress(ValueError, AssertionError):  # it has been left
                dist.destroy_process_group(program.group)
            program.backend.shutdown()
        for program in programs:
            program.check()
        del program, programs
        if happens != "death":
            dist.barrier()


class RandomPrograms(torch_ranks.JobTest):
    FIRST, COUNT = 1, 24

    def test_all_ends_but_death(self):
        for ranks in (2, 3):
            self.run_ranks(random_programs, ranks, range(self.FIRST, self.FIRST + self.COUNT))

    def test_death(self):
        for seed in range(self.FIRST, self.FIRST + 3):
            self.run_ranks(random_programs, 3, [seed], "death", killed=(VICTIM,))


class Latency(torch_ranks.JobTest):
    """How soon a call ends."""

    def test_killed_rank(self):
        for in_backward in (False, True):
            with self.subTest(in_backward=in_backward):
                self.run_ranks(killed_in_training, 3, in_backward, multiprocessing.RawValue("d"), killed=(VICTIM,))

    def test_ends(self):
        for ending in (aborted_while_it_waits, timed_out, timed_out_never):
            with self.subTest(ending=ending.__name__):
                self.run_ranks(ending, 2)

    def test_interrupts(self):
        tensor, later = "torch.ones(1 << 20)", "[dist.barrier(async_op=True), time.sleep(0.1)]"
        for wait in ("dist.barrier()", f"dist.all_reduce({tensor})", f"dist.recv({tensor}, 1)",
                     "dist.barrier(async_op=True).wait()", f"dist.irecv({tensor}, 1).wait()", f"{later}[0].wait()",
                     f"[{later}, dist.barrier()]", "dist.barrier(async_op=True).wait(datetime.timedelta(seconds=60))",
                     "[w := dist.barrier(async_op=True), w.get_future(), w.wait()]"):
            with self.subTest(wait=wait):
                self.run_ranks(interrupted, 2, wait, 130)


class Failures(torch_ranks.JobTest):
    @unittest.skipUnless(hasattr(dist, "shrink_group"), "this PyTorch has no shrink_group")
    def test_shrink_without_failure(self):
        self.run_ranks(shrunk_without_failure, 3)

    def test_ends(self):
        for ending in (aborted, timed_out_later, timed_out_in_ages, interrupted_by_handlers, different_calls,
                       different_sparse_shapes, over, unwatched, waited_in_a_callback, used_in_a_callback,
                       destroyed_in_a_callback):
            with self.subTest(ending=ending.__name__):
                self.run_ranks(ending, 2)

    def test_different_types(self):
        for call in ("dist.all_gather(both, x)", "dist.gather(x, at_root)", "dist.scatter(x, at_root)",
                     "dist.all_to_all(both, [x, x])", "dist.send(x, 1) if rank == 0 else dist.recv(x, 0)",
                     "dist.all_reduce(x.to_sparse())"):
            with self.subTest(call=call):
                self.run_ranks(different_types, 2, call)

    @unittest.skipIf(torch_ranks.VERSION < (2, 13), "this PyTorch exports no writer")
    def test_flight_recorder(self):
        for is_stopped, found in ((True, r"Not all ranks joining collective, .*?missing ranks: \{1\}"),
                                  (False, "Culprit rank 1; .*'all_reduce' does not match found collective type: 'broadcast'")):
            with self.subTest(is_stopped=is_stopped), tempfile.TemporaryDirectory() as folder:
                self.run_ranks(recorded, 3, is_stopped, TORCH_FR_BUFFER_SIZE="100",
                               TORCH_FR_DUMP_TEMP_FILE=os.path.join(folder, "rank_"))
                self.assertEqual([f"rank_{rank}" for rank in range(3)], sorted(os.listdir(folder)))
                told = self.run_ranks(read_records, 1, folder)[0]
                self.assertRegex(told, f"(?s){found}")
                self.assertRegex(told, r"input sizes: \[\[4, 4\]\]")
                self.assertEqual(1, told.count("internal record id"), told)

    def test_end_during_an_abort(self):
        self.run_ranks(ended_during_an_abort, 1, KOLO_LOG="info")

    def test_fork(self):
        self.run_ranks(forked, 2)
        self.run_ranks(forked_amid_works, 2)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--seed"]:
        RandomPrograms.FIRST = int(sys.argv[2])
        sys.argv[1:3] = ["RandomPrograms"]
    unittest.main()
