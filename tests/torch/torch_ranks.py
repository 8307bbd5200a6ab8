"""What the tests of the backend share: ranks that run a function, and what they say.

Ranks are forked, since importing PyTorch takes seconds of processor time, and so does importing its compiler, as
optimizers do when they are made. Before the fork nothing is done with either."""

import datetime
import importlib
import importlib.util
import os
import signal
import sys
import tempfile
import time
import traceback
import unittest
import warnings

if importlib.util.find_spec("torch") is None:
    print("PyTorch is not installed")
    sys.exit(77)
import torch
import torch.distributed as dist

import launching

DEADLINE_S = 100
VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
if VERSION < (2, 5):  # which loads no backends by itself
    import kolo4py.torch  # noqa: F401
BackendError = getattr(dist, "DistBackendError", RuntimeError)  # before 2.1 there is none


def await_ranks(place, ranks, store=None):
    """Returns when these ranks have come to await_all of that place."""
    store = store or dist.distributed_c10d._get_default_store()
    store.wait([f"{place} {rank}" for rank in ranks])


def await_all(place, store=None):
    """Returns when each rank has come to this place of the program, without an operation of the backend."""
    store = store or dist.distributed_c10d._get_default_store()
    store.set(f"{place} {os.environ['RANK']}", "")
    await_ranks(place, range(int(os.environ["WORLD_SIZE"])), store)


def init_with_timeout(seconds):
    """init_process_group with a timeout that begins when all ranks are there and have loaded the backend. Without a store it
    would hold for the ranks' meeting, too, to which a busy machine lets one come later."""
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), ranks, rank == 0,
                          datetime.timedelta(seconds=DEADLINE_S))
    importlib.import_module("kolo4py.torch").load()
    await_all("start", store)
    dist.init_process_group("kolo", store=store, rank=rank, world_size=ranks,
                            timeout=datetime.timedelta(seconds=seconds))


class Job:
    """Processes that call function(*arguments) as ranks, with the variables by which torch.distributed finds them."""

    def __init__(self, function, ranks, *arguments, **variables):
        importlib.import_module("torch._dynamo")
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(launching.free_port()), WORLD_SIZE=str(ranks))
        self.outputs = [tempfile.TemporaryFile("w+") for _ in range(ranks)]
        self.pids = [self._start(function, rank, arguments, variables) for rank in range(ranks)]

    def _start(self, function, rank, arguments, variables):
        pid = os.fork()
        if pid:
            return pid
        status = 1
        try:
            for fd in (1, 2):
                os.dup2(self.outputs[rank].fileno(), fd)
            os.environ.update(RANK=str(rank), **variables)
            torch.set_num_threads(1)
            warnings.simplefilter("ignore")  # names that a later version of PyTorch deprecates
            function(*arguments)
            if dist.is_initialized():
                dist.destroy_process_group()
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(status)

    def wait(self, deadline_s=DEADLINE_S):
        """[(exit status or minus the signal, output)] of the ranks. Those that are not over in time are killed."""
        statuses, end_s = {}, time.monotonic() + deadline_s
        while len(statuses) < len(self.pids):
            for rank, pid in enumerate(self.pids):
                ended, status = os.waitpid(pid, os.WNOHANG) if rank not in statuses else (0, 0)
                if ended:
                    statuses[rank] = os.waitstatus_to_exitcode(status)
                elif rank not in statuses and time.monotonic() > end_s:
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        told = []
        for rank, output in enumerate(self.outputs):
            output.seek(0)
            told.append((statuses[rank], output.read()))
            output.close()
        return told


def run_tests(as_rank, ranks):
    """Ends the program after as_rank() in each rank, which runs the program's tests and exits. What rank 0 says is shown,
    and what those say that fail. The ranks find each other by kolo's own variables, too."""
    def launched():
        os.environ.update(KOLO_RANK=os.environ["RANK"], KOLO_SIZE=str(ranks), KOLO_JOB=f"test-{os.getppid()}")
        as_rank()

    ends = Job(launched, ranks).wait(deadline_s=5 * DEADLINE_S)
    for rank, (status, output) in enumerate(ends):
        if rank == 0 or status:
            print(f"rank {rank} of {ranks}, status {status}:\n{output}")
    sys.exit(any(status for status, _ in ends))


class JobTest(unittest.TestCase):
    def run_ranks(self, function, ranks, *arguments, killed=(), **variables):
        """Their outputs. All have to succeed but those that are `killed`."""
        ends = Job(function, ranks, *arguments, **variables).wait()
        wanted = [-signal.SIGKILL if rank in killed else 0 for rank in range(ranks)]
        told = "\n".join(f"rank {rank}, status {status}:\n{output}" for rank, (status, output) in enumerate(ends))
        self.assertEqual(wanted, [status for status, _ in ends], f"{function.__name__}{arguments}: {told}")
        return [output for _, output in ends]
