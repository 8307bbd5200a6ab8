"""All-reduces over nodes: right results for any nodes, ranks, transport and algorithm, and always the same bits."""

import itertools
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import lab
import net_testing
from net_testing import KOLO_PERF, NET_RANK

TRANSPORTS = ("uring", "poll")
ALGORITHMS = ("mesh", "ring", "tree", "central")
ROUNDING = 2  # place in a line of net_rank's of what ring may round otherwise
PLACES = ([2, 2], [1, 2], [3, 1], [1, 1, 1], [2, 1, 3], [1, 1, 1, 1], [2, 1, 1, 2], [1] * 10, [2, 1] * 5)
CALLS = 60


def perf(largest, *options):
    return [KOLO_PERF, "allreduce", "--check", "--no-limits", "--iters", "3", "--warmup", "1", "--max", largest,
            *options]


class Sums(net_testing.NetTest):
    nodes = 10

    def setUp(self):
        self.addCleanup(self.assert_nothing_left)

    def assert_right(self, output, largest):
        rows = [line.split() for line in output.splitlines() if re.match(r"\s*\d+\s", line)]
        self.assertEqual(str(largest), rows[-1][0], output)
        self.assertEqual({"0"}, {row[-1] for row in rows}, output)

    def test_two_nodes_to_64_mib(self):
        for transport in TRANSPORTS:
            with self.subTest(transport):
                self.assert_right(self.results(self.job([2, 2], perf("64M", "--min", "4", "--factor", "16"),
                                                            KOLO_NET=transport)), 64 << 20)

    def test_nodes_transports_algorithms(self):
        cases = [(local, transport, algorithm) for local in PLACES for transport in TRANSPORTS
                 for algorithm in ALGORITHMS]
        for local, transport, algorithm in net_testing.sample(cases, 6):
            with self.subTest(local=local, transport=transport, algorithm=algorithm):
                job = self.job(local, perf("1M", "--factor", "16"), KOLO_NET=transport, KOLO_NET_ALGO=algorithm)
                self.assert_right(self.results(job), 1 << 20)

    def test_servers_streams_and_threads(self):
        cases = [{"KOLO_NET_ALGO": "central", "KOLO_NET": "servers:3"}, {"KOLO_NET": "streams:1"},
                 {"KOLO_NET": "streams:16"}, {"KOLO_SLOT_BYTES": "4096"},
                 {"KOLO_NET": "threads:2"}, {"KOLO_NET": "threads:3,poll,streams:2"}]
        for variables in cases:
            with self.subTest(variables):
                self.assert_right(self.results(self.job([1, 2, 1, 1], perf("1M", "--factor", "16"), **variables)),
                                  1 << 20)

    def hashes(self, local, **variables):
        """What all ranks have in common: the hash of exact results and that of rounded ones."""
        output = self.results(self.job(local, [NET_RANK, "bits", net_testing.seed, CALLS], **variables))
        lines = [line.split("|") for line in output.splitlines()]
        self.assertEqual(sorted(map(str, range(sum(local)))), sorted(line[1] for line in lines), output)
        self.assertEqual(1, len({tuple(line[2:]) for line in lines}), output)
        return lines[0][2:]

    def test_same_bits(self):
        for local in net_testing.sample([place for place in PLACES if len(place) < 10], 2):
            exact, rounded = self.hashes(local, KOLO_NET="poll,streams:1", KOLO_NET_ALGO="mesh")
            cases = [(transport, algorithm) for transport in TRANSPORTS for algorithm in (*ALGORITHMS, "auto")]
            for index, (transport, algorithm) in enumerate(net_testing.sample(cases, 4)):
                with self.subTest(local=local, transport=transport, algorithm=algorithm, seed=net_testing.seed):
                    found = self.hashes(local, KOLO_NET=f"{transport},threads:{1 + index % 3}", KOLO_NET_ALGO=algorithm)
                    self.assertEqual(exact, found[0])
                    if algorithm != "ring":
                        self.assertEqual(rounded, found[1])

    def test_same_bits_as_on_one_node(self):
        """Where the ranks of a node are a subtree of the tree over all ranks."""
        whole = subprocess.run([net_testing.KOLORUN, "-n", "8", NET_RANK, "bits", str(net_testing.seed), str(CALLS)],
                               env=net_testing.environment(), capture_output=True, text=True, timeout=200, check=True)
        for local in ([4, 4], [2, 2, 2, 2], [1] * 8):
            with self.subTest(local):
                self.assertEqual(whole.stdout.splitlines()[0].split("|")[2:], self.hashes(local, KOLO_NET_ALGO="mesh"))

    def test_order_of_ranks(self):
        """KOLO_NET_ORDER=rank, which is rank 0's to say: the bits of one machine, however the ranks are spread."""
        ranks = 6
        command = [net_testing.KOLORUN, "-n", str(ranks), NET_RANK, "bits", str(net_testing.seed), str(CALLS)]
        whole = subprocess.run(command, env=net_testing.environment(), capture_output=True, text=True, timeout=200,
                               check=True).stdout.splitlines()[0].split("|")[2:]
        spreads = [list(local) for nodes in (2, 3) for local in itertools.product(range(1, ranks), repeat=nodes)
                   if sum(local) == ranks]
        cases = [(local, transport, algorithm) for local in spreads for transport in TRANSPORTS
                 for algorithm in ("auto", "mesh", "tree", "central")]
        for local, transport, algorithm in [([2, 4], "uring", "auto"), *net_testing.sample(cases, 4)]:
            with self.subTest(local=local, transport=transport, algorithm=algorithm, seed=net_testing.seed):
                self.assertEqual(whole, self.hashes(local, KOLO_NET=transport, KOLO_NET_ALGO=algorithm, variables_of=(
                    lambda node: {"KOLO_NET_ORDER": "node" if node else "rank"})))

    def test_bf16_on_the_wire(self):
        """All ranks agree, and what fits into bf16 is as it would be without."""
        self.hashes([2, 1, 1], KOLO_NET="wire:bf16")
        self.assert_right(self.results(self.job([1, 1], perf("64K", "--op", "max"), KOLO_NET="wire:bf16")), 64 << 10)

    def test_addresses(self):
        first = self.lab.nodes[0]
        cases = [("node0:29511", {}), (f"{first.address}:29512", {"KOLO_NET_ADDR": "eth0"})]
        if self.lab.has_ipv6:
            cases += [(f"[{first.address6}]:29513", {}), ("node0-6:29514", {"KOLO_NET_ADDR": "eth0"})]
        for rendezvous, variables in cases:
            with self.subTest(rendezvous):
                self.assert_right(self.results(self.job([1, 2, 1], perf("64K"), rendezvous=rendezvous, **variables)),
                                  64 << 10)


class Refused(net_testing.NetTest):
    """io_uring is not to be had: poll does the same, and it is said once on each node."""

    def assert_said_once(self, job):
        self.results(job)
        for running in job.running:
            said = [line for line in running.texts()[1].splitlines() if "io_uring" in line]
            self.assertEqual(1, len(said), running.texts()[1])
            self.assertIn("poll", said[0])

    def test_by_seccomp(self):
        launcher = [sys.executable, "-B", net_testing.RELAY.with_name("without_uring.py")]
        self.assert_said_once(self.job([2, 1], perf("64K"), launcher=launcher, KOLO_LOG="info"))
        job = self.job([2, 1], perf("64K"), launcher=launcher, KOLO_NET="uring")
        self.assertTrue(all(done.code == 1 for done in job.wait()))
        self.assertIn("io_uring", "".join(running.texts()[1] for running in job.running))

    @unittest.skipUnless("--whole" in sys.argv, "it changes a setting of the whole machine: --whole")
    def test_by_setting(self):
        try:
            with lab.io_uring_disabled():
                self.assert_said_once(self.job([2, 1], perf("64K"), KOLO_LOG="info"))
        except lab.Missing as error:
            self.skipTest(str(error))


class OneNode(unittest.TestCase):
    @unittest.skipUnless(shutil.which("strace"), "strace is not installed")
    def test_opens_no_socket(self):
        with tempfile.NamedTemporaryFile() as trace:
            command = ["strace", "-f", "-e", "trace=socket,socketpair,io_uring_setup", "-o", trace.name,
                       net_testing.KOLORUN, "-n", "2", NET_RANK, "bits", "1", "20"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False,
                                  env=net_testing.environment())
            calls = [line for line in trace.read().decode().splitlines() if "(" in line and "---" not in line]
        if "ptrace" in done.stderr:
            self.skipTest(f"strace: {done.stderr.splitlines()[0]}")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual([], calls)


if __name__ == "__main__":
    net_testing.main()
