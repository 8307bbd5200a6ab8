"""The examples of lib/bindings/torch/examples, as people start them. One whose packages are missing is skipped.

    programs_test.py CLASS..."""

import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import launching
import readme_blocks

EXAMPLES = pathlib.Path(os.environ["KOLO_TORCH_EXAMPLES"])
PATIENCE_S = 400


def needs(*packages):
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    return unittest.skipIf(missing, f"not installed: {', '.join(missing)}")


def kolorun(ranks, script, *options):
    return [os.environ["KOLORUN"], "-n", str(ranks), sys.executable, "-B", EXAMPLES / script, *options]


def torchrun(ranks, script, *options):
    return [sys.executable, "-B", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks),
            EXAMPLES / script, *options]


# Scripts, each a list of words, as one program: one after the other.
EACH = """import json, runpy, sys
for sys.argv in json.loads(sys.argv[1]):
    runpy.run_path(sys.argv[0], run_name="__main__")"""


def printed(command, cwd=None, **variables):
    """What a command prints that goes well."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=cwd,
                          env={**os.environ, **variables})
    if done.returncode:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


@needs("torch")
class Training(unittest.TestCase):
    STEPS, HIDDEN = 25, 256
    OPTIONS = ("--steps", str(STEPS), "--hidden", str(HIDDEN))

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="kolo-programs-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def options(self, name, *options):
        """Of a program that reports to files of this name."""
        return [*self.OPTIONS, *options, "--json", str(self.folder / f"{name}.json"), "--plot", str(self.folder / f"{name}.svg")]

    def reports(self, name, said):
        self.assertTrue((self.folder / f"{name}.svg").exists() or "matplotlib is not installed" in said, said)
        return json.loads((self.folder / f"{name}.json").read_text())

    def check_train(self, said, parallel):
        gloo, kolo = self.reports(parallel, said)
        self.assertRegex(said, rf"{parallel}, 2 ranks, {self.STEPS} steps")
        self.assertEqual((("gloo", 2), ("kolo", 2)), tuple((each["backend"], each["ranks"]) for each in (gloo, kolo)))
        self.assertEqual(self.STEPS, len(kolo["losses"]))
        self.assertLess(kolo["losses"][-1], 0.7 * kolo["losses"][0])
        self.assertLess(max(abs(a - b) for a, b in zip(gloo["losses"], kolo["losses"])), 1e-4)
        self.assertTrue(0 < kolo["alone_ms"] and 0 <= kolo["communication_share"] < 1)

    def check_fused(self, said, optimizer):
        ddp, fused = self.reports(optimizer, said)
        self.assertRegex(said, f"{optimizer}, 2 ranks, {self.STEPS} steps")
        self.assertLess(fused["losses"][-1], 0.9 * fused["losses"][0])
        self.assertLess(max(abs(a - b) for a, b in zip(ddp["losses"], fused["losses"])), 1e-4)
        self.assertLess(fused["state_mib"], 0.51 * ddp["state_mib"])

    def train(self, parallel):
        return ["digits_train.py", *self.options(parallel, "--backend", "gloo", "kolo", "--parallel", parallel)]

    def test_under_kolorun(self):
        """Both programs in the same ranks: to import PyTorch takes longer than all else."""
        programs = [self.train("ddp"), ["digits_fused.py", *self.options("adamw")],
                    ["digits_fused.py", *self.options("sgd", "--optimizer", "sgd", "--shared-parameters")]]
        words = json.dumps([[str(EXAMPLES / script), *options] for script, *options in programs])
        said = printed([os.environ["KOLORUN"], "-n", "2", sys.executable, "-B", "-c", EACH, words],
                       PYTHONPATH=f"{os.environ['PYTHONPATH']}:{EXAMPLES}")
        for check, which in ((self.check_train, "ddp"), (self.check_fused, "adamw"), (self.check_fused, "sgd")):
            with self.subTest(which):
                check(said, which)

    def test_fsdp_under_torchrun(self):
        self.check_train(printed(torchrun(2, *self.train("fsdp"))), "fsdp")


@needs("torch", "transformers", "accelerate")
class HuggingFace(unittest.TestCase):
    """Programs that ask for "gloo": they get kolo, and the same curve."""

    def losses(self, script, *options):
        found = {}
        for backend, variables in (("gloo", {}), ("kolo", {"KOLO_TORCH_GLOO": "1"})):
            said = printed(torchrun(2, script, *options), **variables)
            self.assertRegex(said, "2 ranks over " + (r"kolo \([1-9]\d* calls\)" if backend == "kolo" else "gloo"))
            found[backend] = [float(loss) for loss in re.findall(r"(\d+\.\d+)", said.partition("loss")[2])]
        for gloo, kolo in zip(found["gloo"], found["kolo"]):
            self.assertAlmostEqual(gloo, kolo, delta=2e-3 * gloo)
        return found["kolo"]

    def test_trainer(self):
        first, last = self.losses("tiny_trainer.py", "--steps", "15")
        self.assertLess(last, 0.9 * first)

    def test_accelerate(self):
        _, accuracy = self.losses("digits_accelerate.py", "--epochs", "2")
        self.assertGreater(accuracy, 80)


@needs("torch", "ray")
class Ray(unittest.TestCase):
    def test_two_workers(self):
        with tempfile.TemporaryDirectory(prefix="kolo-programs-") as home:  # Ray writes a token there
            said = printed([sys.executable, "-B", EXAMPLES / "digits_ray.py", "--steps", "30"], HOME=home,
                           RAY_DEDUP_LOGS="0")
        self.assertRegex(said, r"2 workers over kolo \([1-9]\d* calls\): test accuracy [89]\d\.")


@needs("torch", "torchft")
class Torchft(unittest.TestCase):
    QUORUMS = """
import os, sys, torch, torch.distributed as dist, torchft.process_group as groups
from kolo4py.torch.torchft import ProcessGroupKolo
rank, port = int(os.environ["KOLO_RANK"]), int(sys.argv[1])
store, group = dist.TCPStore("localhost", port, is_master=rank == 0), ProcessGroupKolo()
def meet(number):
    address = f"localhost:{port}/{number}"
    if hasattr(groups, "reconfigure_with_store"):  # after 0.2
        groups.reconfigure_with_store(group, address, rank, 2)
    else:
        group.configure(address, str(rank), rank, 2)
def total():
    x = torch.tensor([rank + 1.0])
    group.allreduce([x], dist.AllreduceOptions()).wait()
    return x.item()
for number in range(3):
    meet(number)
    assert total() == 3 and group.size() == 2
    if rank == 0:
        group.abort()
    else:
        try:
            total()
        except dist.DistBackendError as error:
            assert "aborted" in str(error), error
        else:
            raise AssertionError("a rank has made an all-reduce alone")
"""

    def test_abort_ends_calls_until_the_next_quorum(self):
        port = str(launching.free_port())
        printed([os.environ["KOLORUN"], "-n", "2", sys.executable, "-B", "-c", self.QUORUMS, port])

    def test_replica_dies_and_joins_again(self):
        said = printed([sys.executable, "-B", EXAMPLES / "digits_torchft.py"], RUST_LOG="warn")
        _, _, dead = said.partition("replica 0 dies")
        self.assertRegex(dead, r"(?s)replica 1: step \d+ of 3 replicas: dropped.*of 2 replicas: loss.*of 3 replicas: loss")
        self.assertIn("parameters of all replicas are the same", said)
        self.assertGreater(float(re.search("accuracy (.*) %", said).group(1)), 85, said)


@needs("torch", "numpy")
@unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one CPU: --measure has less to show")
class Tutorial(unittest.TestCase):
    """The commands of TUTORIAL.md as they are typed, but for those that install, with a small model and fewer steps."""
    SMALL = "tutorial.py --width 16 --batch 4 --length 16 --steps 60"
    CPUS = 2  # of those that --measure would try

    def test_commands(self):
        with tempfile.TemporaryDirectory(prefix="kolo-programs-") as folder:
            self.type_all(folder)
        one, two, measured, fused, killed, dump, slow, trace = self.said
        for single, double in zip(self.losses(one), self.losses(two)):
            self.assertAlmostEqual(single, double, delta=0.01 * single)
        for said in (one, two, fused, slow):
            self.assertLess(self.losses(said)[-1], 0.8 * self.losses(said)[0])
        self.assertIn(("1", "1"), re.findall(r"^ +(\d+) +(\d+) +\d+$", measured, re.MULTILINE))
        self.assertEqual(*(re.search("checksum.*", said).group() for said in (fused, killed)))
        self.assertRegex(killed, r"rank 1 \(pid \d+\) was killed .*, and it is started again")
        self.assertRegex(dump, r"What failed\n  rank 1 \(pid \d+\) ")
        last = re.search(r"^1 .* (\d+)% +\S+ \S+ +\d+$", trace, re.MULTILINE)  # also where rank 0 began much later
        self.assertGreater(int(last.group(1)), 50, trace)
        for name in ("forward", "backward", "optimizer"):
            self.assertRegex(trace, rf"\n{name} +120 ")

    def type_all(self, folder):
        shutil.copy(EXAMPLES / "tutorial.py", folder)
        installing, *steps = readme_blocks.parse((EXAMPLES.parent / "TUTORIAL.md").read_text(encoding="utf-8"))[0]
        self.assertEqual("tools/quickstart --python", installing.commands[0])
        cpus = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, cpus)
        os.sched_setaffinity(0, sorted(cpus)[:self.CPUS])
        path = f"{pathlib.Path(os.environ['KOLORUN']).parent}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        self.said = []
        for step in steps:
            for command in step.commands:
                self.said.append(printed(["sh", "-c", "exec 2>&1; " + command.replace("tutorial.py", self.SMALL)], folder,
                                         PATH=path, PYTHONDONTWRITEBYTECODE="1", OMP_WAIT_POLICY="passive"))
            if step.shown:
                # Before Linux 6.15 a rank that kolorun has waited for "has ended".
                told = self.said[-1].replace(") has ended;", ") was killed by signal 9 (SIGKILL);")
                self.assertIsNone(readme_blocks.difference(step, told.replace(self.SMALL, "tutorial.py")), told)

    def losses(self, said):
        return [float(loss) for loss in re.findall(r"loss (\S+)", said)]


@needs("lightgbm", "numpy")
class LightGbm(unittest.TestCase):
    def test_same_as_one_process(self):
        said = printed(kolorun(3, "digits_lightgbm.py", "--rounds", "4"))
        self.assertEqual(0, float(re.search("difference from one process: (.*)", said).group(1)), said)
        self.assertGreater(float(re.search("accuracy (.*) %", said).group(1)), 80, said)
        self.assertGreater(int(re.search(r"(\d+) calls", said).group(1)), 100, said)


@needs("jax", "numpy")
class Jax(unittest.TestCase):
    CALLS = """
import jax, jax.numpy as jnp, kolo4py as kolo, jax_collectives
with kolo.init() as comm:
    over = jax_collectives.Collectives(comm)
    x, total = jnp.arange(3.0), sum(range(1, comm.size + 1))
    function = jax.jit(lambda x: (over.psum({"x": (comm.rank + 1) * x})["x"] ** 2).sum())
    assert function(x) == total ** 2 * 5
    assert jnp.array_equal(jax.grad(function)(x), 2 * total * comm.size * (comm.rank + 1) * x)
    assert over.pmean(jnp.bfloat16(comm.rank + 1)) == total / comm.size
    assert over.all_gather(jnp.float32(comm.rank)).tolist() == list(range(comm.size))
"""

    def test_calls(self):
        printed([os.environ["KOLORUN"], "-n", "2", sys.executable, "-B", "-c", self.CALLS],
                PYTHONPATH=f"{os.environ['PYTHONPATH']}:{EXAMPLES}")

    def test_same_as_one_process(self):
        said = printed(kolorun(3, "digits_jax.py", "--steps", "30"))
        self.assertLess(float(re.search("difference from one process: (.*)", said).group(1)), 1e-5, said)
        self.assertIn("parameters of all ranks are the same", said)
        self.assertGreater(float(re.search("accuracy (.*) %", said).group(1)), 75, said)


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=2).result
    for _, reason in result.skipped:
        print(reason)
    all_skipped = result.testsRun == len(result.skipped)
    sys.exit(1 if not result.wasSuccessful() else 77 if all_skipped else 0)
