"""What the tests of jobs on several nodes share: labs, jobs, relays; and which cases of many a run takes."""

import argparse
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import lab  # noqa: E402 (the path has to be set first)

KOLORUN = os.environ.get("KOLORUN")
KOLO_PERF = os.environ.get("KOLO_PERF")
NET_RANK = os.environ.get("NET_RANK")
RELAY = pathlib.Path(__file__).with_name("relay.py")
SKIPPED = 77
PATIENCE_S = 60  # long enough for a machine that is busy with other things; only a hang takes so long
PORT = 29500
SECRET = "a secret of the tests, known to all of them"

whole = False  # every case, not a sample
seed = 0


def sample(cases, count):
    """`count` of the cases, by the seed; in a whole run all of them."""
    cases = list(cases)
    return cases if whole or len(cases) <= count else random.Random(f"{seed} {cases}").sample(cases, count)


def environment(**variables):
    """The environment without what a launcher may have left in it."""
    launchers = ("KOLO_", "OMPI_", "PMI", "SLURM_", "HYD", "MASTER_", "RANK", "WORLD_SIZE", "LOCAL_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(launchers)}
    return {**kept, "KOLO_TUNE_FILE": "none", **variables}


def wait_of(ranks):
    """KOLO_WAIT for so many ranks: a rank counts those of its own node only, and would spin on others' processors."""
    return "yield" if ranks > len(os.sched_getaffinity(0)) else "auto"


class Job:
    """A command on every node, as ranks of one job. local: how many ranks there are on each node, in order."""

    def __init__(self, machines, local, command, rendezvous=None, launcher=(), variables_of=lambda node: {},
                 **variables):
        self.machines = machines
        self.local = local
        rendezvous = rendezvous or f"{machines.nodes[0].address}:{PORT}"
        settings = {"KOLO_SECRET": SECRET, "KOLO_CREATE_TIMEOUT_MS": "20000", "KOLO_TIMEOUT_MS": "30000",
                    "KOLO_WAIT": wait_of(sum(local)), **variables}
        self.running = []
        for node, _ in enumerate(local):
            words = [KOLORUN, "--nnodes", len(local), "--node-rank", node, "--rendezvous", rendezvous, "-n",
                     ",".join(map(str, local)), "--bind", "none", "--on-failure", "continue", "--", *command]
            self.running.append(machines.nodes[node].start(
                [*launcher, *words], environment(**{**settings, **variables_of(node)})))

    def texts(self):
        """Standard output of all nodes, so far."""
        return "".join(running.texts()[0] for running in self.running)

    def lines(self, beginning):
        return [line for line in self.texts().splitlines() if line.startswith(beginning)]

    def wait(self, timeout_s=PATIENCE_S):
        """What each node's kolorun came to, as lab.Done."""
        deadline = time.monotonic() + timeout_s
        return [running.wait(max(0.1, deadline - time.monotonic())) for running in self.running]


TRIES = 3  # what the machine makes late now and then is not late each time


class Late(AssertionError):
    """All is right, but came too late."""


def until_in_time(run, end):
    """Runs it, and ends what it has begun; again where all that was wrong is that something was late."""
    for tries in range(1, TRIES + 1):
        try:
            return run()
        except Late as late:
            if tries == TRIES:
                raise
            print(f"  late, and so once more: {late}", flush=True)
        finally:
            end()
    return None


class NetTest(unittest.TestCase):
    """Each test has the lab of its class: `nodes` machines."""

    nodes = 2
    own_pids = True
    rate_mbit = None

    @classmethod
    def setUpClass(cls):
        try:
            cls.lab = lab.Lab(cls.nodes, cls.rate_mbit, cls.own_pids)
            cls.enterClassContext(cls.lab) if hasattr(cls, "enterClassContext") else cls.lab.__enter__()
        except lab.Missing as error:
            raise unittest.SkipTest(str(error)) from error
        if not hasattr(cls, "enterClassContext"):
            cls.addClassCleanup(cls.lab.close)

    def job(self, local, command, **settings):
        job = Job(self.lab, local, command, **settings)
        self.addCleanup(lambda: [running.close() for running in job.running])
        return job

    def results(self, job, timeout_s=PATIENCE_S):
        """The standard output of a job that must go well."""
        done = job.wait(timeout_s)
        said = "\n".join(f"node {node}: {each}" for node, each in enumerate(done))
        self.assertEqual([0] * len(done), [each.code for each in done], said)
        return "".join(each.out for each in done)

    def place(self, local):
        """A job is to have so many ranks on each node."""
        self.node_of = [node for node, count in enumerate(local) for _ in range(count)]

    def on_nodes(self, *nodes):
        return [rank for rank, node in enumerate(self.node_of) if node in nodes]

    def end_all(self):
        """Whatever has been done to nodes and cables."""
        for node in self.lab.nodes:
            node.plug(True)
            node.kill()
        self.assert_nothing_left()

    def assert_nothing_left(self):
        """No process, no name in /dev/shm, no socket, on any node; but the kernel may keep a relay's for a minute, whose
        other side's end it does not hear of when the relay is gone and redirects nothing any more."""
        def found(node, what):
            return [each for each in getattr(node, what)() if what != "sockets" or not each.split()[3].endswith(":9")]

        for what in ("pids", "shm_names", "sockets"):
            def left():
                return {node.name: found(node, what) for node in self.lab.nodes if found(node, what)}
            self.assertTrue(lab.until(lambda: not left(), 20), f"{what} that are left: {left()}")


class RelayRunning:
    """A relay on a node, for what connects from there to the others."""

    def __init__(self, node, *rules):
        networks = [f"{lab.NETWORK}.0/24", *([f"{lab.NETWORK6}/64"] if node.lab.has_ipv6 else [])]
        self.node = node
        options = [word for network in networks for word in ("--redirect", network)]
        options += [word for rule in rules for word in ("--rule", rule)]
        self.running = node.start([sys.executable, "-B", RELAY, *options], stdin=subprocess.PIPE)
        if not lab.until(lambda: self.lines() or not self.running.is_running()) or not self.lines():
            said = self.running.wait(1).err.strip().splitlines()
            raise unittest.SkipTest(f"no relay: {said[-1] if said else 'it said nothing'}")

    def lines(self):
        return self.running.texts()[0].splitlines()

    def tell(self, rule):
        self.running.process.stdin.write(f"{rule}\n".encode())
        self.running.process.stdin.flush()

    def close(self):
        """Connections are made directly again."""
        self.running.close()
        for family in ("ip", "ip6"):
            subprocess.run(self.node.enter() + ["nft", "delete", "table", family, "relay"], capture_output=True,
                           check=False)


def main():
    """Runs the tests of the calling script; ends with the code for skipped if each of them was."""
    global whole, seed
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("TEST_SEED", "1")))
    options, rest = parser.parse_known_args()
    whole, seed = options.whole, options.seed
    what = "every case" if whole else f"a sample of the cases; the same one: --seed {seed}; every case: --whole"
    print(f"{sys.argv[0]}: {what}", flush=True)
    signal.signal(signal.SIGTERM, lab.interrupt)
    program = unittest.main(argv=[sys.argv[0], *rest], exit=False, verbosity=2)
    result = program.result
    skipped = [reason for _, reason in result.skipped]
    if result.wasSuccessful() and skipped and result.testsRun <= len(skipped):
        print("\n".join(skipped))
        sys.exit(SKIPPED)
    sys.exit(not result.wasSuccessful())
