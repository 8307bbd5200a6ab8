"""The backend is there without an import, by each name, also under torchrun; and is gone without a trace."""

import datetime
import glob
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import launching
import torch_ranks
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

DEATH_S = 30  # nobody lives on for so long


def meet(name, **named):
    dist.init_process_group(name, **named)
    x = torch.ones(3) * (dist.get_rank() + 1)
    dist.all_reduce(x)
    dist.broadcast(x, dist.get_world_size() - 1)
    dist.barrier()
    total = sum(range(1, dist.get_world_size() + 1))
    assert x.tolist() == [total] * 3, x


def meet_as_named(rank, ranks, name):
    """As the ranks that the program names, whatever its launcher says."""
    meet(name, rank=rank, world_size=ranks)
    assert dist.get_world_size() == ranks
    dist.destroy_process_group()


def meet_again_and_again(name):
    """A store outlives the groups that have met in it: each time they find one another, and not what is left there. The
    second group has other members each time, but the same name."""
    for i in range(20):
        dist.init_process_group(name, timeout=datetime.timedelta(seconds=torch_ranks.DEADLINE_S / 2))
        ranks = dist.get_world_size()
        members = sorted({i % ranks, (i + 1 + i // ranks) % ranks})
        for group, size in ((None, ranks), (dist.new_group(members), len(members))):
            if size < ranks and dist.get_rank() not in members:
                continue
            x = torch.ones(2) * i
            if name == "gloo":  # PyTorch knows it of Gloo alone
                dist.monitored_barrier(group)
            dist.all_reduce(x, group=group)
            assert x.tolist() == [i * size] * 2, x
        dist.destroy_process_group()


def meet_after_a_death():
    """Rank 1 ends amid a meeting of the first start, and after one of the second; the third is well."""
    start = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    if start == 0 and os.environ["RANK"] == "1":
        os._exit(1)
    dist.init_process_group("kolo", timeout=datetime.timedelta(seconds=torch_ranks.DEADLINE_S / 2))
    if start == 1 and dist.get_rank() == 1:
        os._exit(1)
    dist.barrier()
    dist.destroy_process_group()


def meet_by_file(path, absent=None):
    """Of a group one rank never comes: the others end while they wait for it."""
    import kolo4py.torch
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if absent is not None:
        threading.Timer(0 if rank == absent else 1, os.kill, [os.getpid(), signal.SIGKILL]).start()
        time.sleep(DEATH_S if rank == absent else 0)
    limit = datetime.timedelta(seconds=torch_ranks.DEADLINE_S / 2)
    backend = kolo4py.torch.load().Backend(dist.FileStore(path, 1000), rank, ranks, limit)
    backend.barrier().wait()
    backend.shutdown()


def late_rank_is_named(path, limit_s):
    import kolo4py.torch
    rank, limit = int(os.environ["RANK"]), datetime.timedelta(seconds=limit_s)
    if rank != 1:
        wanted = "ranks 1 of the group" if rank == 0 else "rank 0 of the group, or another"
        backend, store = kolo4py.torch.load().Backend, dist.FileStore(path, 1000)
        store.set(f"loaded {rank}", "")
        torch_ranks.await_ranks("loaded", (0, 2), store)
        with unittest.TestCase().assertRaisesRegex(torch_ranks.BackendError, f"Timed out.*{wanted}"):
            backend(store, rank, 3, limit)


def interrupted_meeting():
    import kolo4py.torch
    signal.signal(signal.SIGINT, signal.default_int_handler)
    backend = kolo4py.torch.load().Backend
    with unittest.TestCase().assertRaises(KeyboardInterrupt):
        threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
        backend(dist.HashStore(), 0, 2, datetime.timedelta(seconds=torch_ranks.DEADLINE_S))


def late_for_monitored_barrier():
    """Rank 0 comes when rank 1 has given up: all ranks fail, and then go on."""
    limit_s = torch_ranks.DEADLINE_S / 4
    if dist.get_rank() != 1:
        torch_ranks.await_ranks("gave up", [1])
    wanted = "Rank 1 failed to pass" if dist.get_rank() == 0 else "successfully reached"
    with unittest.TestCase().assertRaisesRegex(RuntimeError, wanted):
        dist.monitored_barrier(timeout=datetime.timedelta(seconds=0.1 if dist.get_rank() == 1 else limit_s))
    if dist.get_rank() == 1:
        dist.distributed_c10d._get_default_store().set("gave up 1", "")
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=limit_s))
    x = torch.ones(3)
    dist.all_reduce(x)
    assert x.tolist() == [dist.get_world_size()] * 3, x


def with_name_gloo():
    import kolo4py.torch
    kolo4py.torch._take_gloos_place(dist.distributed_c10d)  # what KOLO_TORCH_GLOO=1 does when torch is imported
    meet("gloo")
    assert dist.get_backend() == "gloo"
    assert kolo4py.torch.stats()["calls"] > 0
    DistributedDataParallel(torch.nn.Linear(3, 3))
    dist.monitored_barrier()
    late_for_monitored_barrier()
    group, neighbours = dist.new_group([0]), [(dist.get_rank() + step) % dist.get_world_size() for step in (1, -1)]
    if dist.get_rank() == 0:
        assert kolo4py.torch.stats(group)["calls"] == 0
    x = torch.full((3,), dist.get_rank())
    works = dist.batch_isend_irecv([dist.P2POp(call, tensor, peer) for call, tensor, peer
                                    in zip((dist.isend, dist.irecv), (x.clone(), x), neighbours)])
    works[1].wait()  # Gloo has one for each
    works[0].wait()
    assert x.tolist() == [neighbours[1]] * 3, x


def with_debug_detail():
    """PyTorch compares the ranks' calls by Gloo before it makes them: calls that differ do not even reach kolo."""
    import kolo4py.torch
    dist.set_debug_level_from_env()
    meet("kolo")
    assert type(dist.group.WORLD._get_backend(torch.device("cpu"))) is not kolo4py.torch.load().Backend
    model = DistributedDataParallel(torch.nn.Linear(3, 3))
    model(torch.full((2, 3), dist.get_rank() + 1.0)).sum().backward()
    assert model.module.weight.grad.tolist() == [[3.0] * 3] * 3, model.module.weight.grad
    calls = kolo4py.torch.stats()["calls"]
    assert calls > 0
    shape = dist.get_rank() + 2
    with unittest.TestCase().assertRaisesRegex(RuntimeError, rf"TensorShape=\[{shape}\].*TensorShape=\[{5 - shape}\]"):
        dist.all_reduce(torch.ones(shape))
    assert kolo4py.torch.stats()["calls"] == calls
    x = torch.ones(2)
    dist.all_reduce(x)
    assert x.tolist() == [2.0, 2.0]


def with_other_version():
    import kolo4py._library
    kolo4py._library.VERSION = "0.0.0"
    try:
        meet("kolo")
    except ImportError as error:
        assert "0.0.0" in str(error) and kolo4py.__version__ in str(error), error
    else:
        raise AssertionError("a library of another version is taken")


def shrink_group_of_gloo():
    """Nothing of kolo's is loaded for it."""
    import kolo4py.torch
    kolo4py.torch.__path__, kolo4py.torch._builder.find = [], None
    store = dist.HashStore()
    options = {"new_group_name": "new", "original_group_name": "old", "store": store, "backend_config": "",
               "bound_device_id": None}
    gloo = dist.ProcessGroupGloo(store, 0, 1, datetime.timedelta(seconds=torch_ranks.DEADLINE_S))
    assert dist.distributed_c10d._create_shrunk_process_group(gloo, [0], options, True).size() == 1


COMPILER = """#!/bin/sh
for word; do
    [ "$before" != -o ] || output=$word
    case $word in *libkolo*) [ -e "$word" ] || exit 1; esac
    before=$word
done
echo "$output" >>"$CALLS"
sleep 0.2
exec cp "$MADE/${output##*/}" "$output"
"""


def meet_with_part_compiled():
    """By a compiler that copies what the build has made, which the package has not here."""
    import kolo4py.torch
    os.environ["MADE"] = next(folder for folder in kolo4py.torch.__path__ if glob.glob(f"{folder}/_backend_*"))
    kolo4py.torch.__path__ = []
    meet("kolo")


def without_compiled_part():
    import kolo4py.torch
    kolo4py.torch.__path__ = []
    try:
        meet("kolo")
    except ImportError as error:
        assert "-m kolo4py.torch build" in str(error) and ".".join(torch.__version__.split(".")[:2]) in str(error), error
    else:
        raise AssertionError("it is there")


def end_while_callbacks_run():
    dist.init_process_group("kolo")
    for i in range(100):
        dist.all_reduce(torch.ones(3), async_op=True).get_future().then(lambda _: time.sleep(0.002))
    dist.barrier()


def launch(options, ranks, function, *arguments):
    """What torchrun does with these options, but its ranks are forked, and need not import PyTorch again."""
    from torch.distributed import launcher, run
    config, _, _ = run.config_from_args(run.parse_args(["--nproc_per_node", str(ranks), *options, "function"]))
    config.start_method = "fork"
    launcher.elastic_launch(config, function)(*arguments)


class Start(torch_ranks.JobTest):
    def test_without_an_import(self):
        before = launching.shm_names()
        for ranks in (1, 2, 3):
            self.run_ranks(meet, ranks, "kolo")
        self.assertEqual(set(), launching.shm_names() - before)

    def test_name_gloo(self):
        self.run_ranks(with_name_gloo, 2)

    def test_debug_detail(self):
        self.run_ranks(with_debug_detail, 2, TORCH_DISTRIBUTED_DEBUG="DETAIL")

    def test_other_version(self):
        self.run_ranks(with_other_version, 1)

    def test_without_compiled_part(self):
        with tempfile.TemporaryDirectory() as folder:
            self.run_ranks(without_compiled_part, 1, XDG_CACHE_HOME=folder, CXX="/nonexistent/g++")

    @unittest.skipUnless(hasattr(dist, "shrink_group"), "this PyTorch has no shrink_group")
    def test_shrink_group_of_gloo(self):
        self.run_ranks(shrink_group_of_gloo, 1)

    def test_missing_part_is_compiled_once(self):
        with tempfile.TemporaryDirectory() as folder:
            compiler, calls = os.path.join(folder, "g++"), os.path.join(folder, "calls")
            with open(compiler, "w", opener=lambda path, flags: os.open(path, flags, 0o700)) as script:
                script.write(COMPILER)
            variables = {"XDG_CACHE_HOME": folder, "CXX": compiler, "CALLS": calls}
            self.run_ranks(meet_with_part_compiled, 3, **variables)
            with open(calls) as file:
                made = [os.path.basename(line) for line in file.read().split()]
            self.assertEqual(len(set(made)), len(made), made)
            shutil.rmtree(os.path.join(folder, "kolo"))
            library = os.environ["KOLO_LIBRARY"]
            self.kolorun(1, "start.meet_with_part_compiled()", LD_LIBRARY_PATH=os.path.dirname(library),
                         KOLO_LIBRARY=os.path.basename(library), **variables)  # which the loader alone finds

    def kolorun(self, ranks, code, *before, **variables):
        """Ranks run `code`, with this module as `start`, by the command `before`."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MASTER_")}  # of another job
        done = subprocess.run([os.environ["KOLORUN"], "-n", str(ranks), *before, sys.executable, "-B", "-c",
                               f"import torch_start_test as start\n{code}"],
                              cwd=os.path.dirname(os.path.abspath(__file__)), capture_output=True, text=True,
                              env={**kept, **variables}, timeout=torch_ranks.DEADLINE_S)
        self.assertEqual(0, done.returncode, done.stderr)

    def test_kolorun(self):
        """Each group is destroyed but the last, which is there when Python ends. PyTorch's own Gloo sometimes ends in
        std::terminate then: a thread of its frees a tensor while Python ends."""
        self.kolorun(2, """for name in ("kolo", "gloo"):
    start.meet(name)
    start.dist.destroy_process_group()
start.end_while_callbacks_run()""")

    def test_kolorun_of_a_program_that_names_ranks(self):
        """It starts them itself, as PyTorch's tutorials do. A second group would need another port: a rank could still
        reach the store of the first."""
        for name in ("gloo", "kolo"):
            self.kolorun(1, f"""start.os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="{launching.free_port()}")
start.torch.multiprocessing.start_processes(start.meet_as_named, (2, "{name}"), 2, start_method="fork")""")

    def test_kolorun_with_its_own_numbers(self):
        """Which the program may name, but no others without an address to meet at."""
        self.kolorun(2, """rank = int(start.os.environ["KOLO_RANK"])
start.meet_as_named(rank, 2, "kolo")
for wrong, pattern in ((dict(rank=1 - rank, world_size=2), "rank is"), (dict(rank=rank, world_size=3), "world_size is 3")):
    with start.unittest.TestCase().assertRaisesRegex(ValueError, pattern):
        start.meet("kolo", **wrong)
start.meet("kolo", rank=rank, timeout=start.datetime.timedelta(days=10 ** 6))""")

    def test_kolorun_again_and_again(self):
        """No meeting leaves a descriptor behind."""
        self.kolorun(2, """counts = []
for i in range(6):
    start.meet("kolo")
    start.dist.destroy_process_group()
    counts.append(len(start.os.listdir("/proc/self/fd")))
assert len(set(counts[1:])) == 1, counts""")

    def test_kolorun_without_proc(self):
        """No rank finds rank 0's file: they meet at a port."""
        self.kolorun(2, """import kolo4py.torch._rendezvous as rendezvous
rendezvous._file_at = lambda path: None
for _ in range(2):
    start.meet_as_named(int(start.os.environ["KOLO_RANK"]), 2, "kolo")
assert "MASTER_ADDR" in start.os.environ""")

    def test_kolorun_between_pid_namespaces(self):
        """Rank 0's process has no number, or another one's, in the /proc of rank 1."""
        unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        if not shutil.which("unshare") or subprocess.run([*unshare, "true"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("namespaces are not allowed")
        self.kolorun(2, "start.meet('kolo', timeout=start.datetime.timedelta(seconds=start.torch_ranks.DEADLINE_S / 4))",
                     "sh", "-c", f'[ "$KOLO_RANK" = 0 ] || exec {" ".join(unshare)} "$@"; exec "$@"', "sh")

    def test_file_that_deaths_have_left(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "store")
            for absent in range(3):
                self.run_ranks(meet_by_file, 3, path, absent, killed=range(3))
                self.run_ranks(meet_by_file, 3, path)

    def test_late_rank_is_named(self):
        """Ranks 0 and 2 have to come in time, however busy this machine is."""
        with tempfile.TemporaryDirectory() as folder:
            launching.LaunchingTest.assert_in_time(
                lambda limit_s: self.run_ranks(late_rank_is_named, 3, os.path.join(folder, str(limit_s)), limit_s))

    def test_interrupted_meeting(self):
        self.run_ranks(interrupted_meeting, 1)

    def torchrun(self, code, *options, **variables):
        """Two ranks run `code`, with this module as `start`."""
        done = subprocess.run([sys.executable, "-B", "-m", "torch.distributed.run", "--nproc_per_node", "2", "--no_python",
                               *options, sys.executable, "-B", "-c", f"import torch_start_test as start; {code}"],
                              cwd=os.path.dirname(os.path.abspath(__file__)), capture_output=True, text=True,
                              env=dict(os.environ, **variables), timeout=torch_ranks.DEADLINE_S)
        self.assertEqual(0, done.returncode, done.stderr)

    def test_torchrun(self):
        self.torchrun("start.meet_again_and_again('kolo')", "--master_port", str(launching.free_port()))

    def test_torchrun_with_name_gloo(self):
        self.torchrun("start.meet_again_and_again('gloo'); start.meet('gloo'); import kolo4py.torch; kolo4py.torch.comm()",
                      "--standalone", KOLO_TORCH_GLOO="1")

    def launch(self, options, ranks, function, *arguments):
        options = ["--master_port", str(launching.free_port()), *options]
        self.run_ranks(launch, 1, options, ranks, function, *arguments)

    def test_torchrun_with_port_and_name_gloo(self):
        self.launch([], 3, with_name_gloo)

    def test_torchrun_with_more_ranks(self):
        self.launch([], 3, meet_again_and_again, "kolo")

    def test_torchrun_restarts(self):
        self.launch(["--max-restarts", "2"], 2, meet_after_a_death)


if __name__ == "__main__":
    unittest.main()
