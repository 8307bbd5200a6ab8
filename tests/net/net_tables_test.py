"""Tables on several nodes: what the tests of one machine check, the bytes on the wire, and nodes, ranks and cables that
end: those who can go on have every push of theirs once, the others get an error."""

import os
import signal

import lab
import net_testing

NET_TABLE = os.environ.get("NET_TABLE")
NODES_TABLE_TEST = os.environ.get("NODES_TABLE_TEST")
CLOCKS = 150  # as in net_table.c
UNBOUNDED = -1
SILENCE_S, TIMEOUT_S = 1, 3
SETTINGS = {"KOLO_NET_SILENCE_MS": str(SILENCE_S * 1000), "KOLO_TIMEOUT_MS": str(TIMEOUT_S * 1000)}
HEADERS = 1.1  # of Ethernet, IP and TCP, beside what they carry
CLOCK_HEADERS_BYTES = 8192  # of the exchanges' frames, and what TCP acknowledges, in each clock


class Tables(net_testing.NetTest):
    nodes = 3

    def setUp(self):
        self.addCleanup(self.assert_nothing_left)

    def test_parts(self):
        """Modes, placements, the bound, torn rows, the bits, files."""
        cases = [(local, transport) for local in ([1, 1], [1, 2], [2, 1, 1]) for transport in ("uring", "poll")]
        for local, transport in net_testing.sample(cases, 3):
            with self.subTest(local=local, transport=transport, seed=net_testing.seed):
                command = [NET_TABLE, "parts", "--quick", "--seed", net_testing.seed]
                output = self.results(self.job(local, command, KOLO_NET=transport))
                self.assertEqual(sum(local), output.count("passed, 0 failures"), output)

    def count(self, local, clocks):
        """({node: bytes of a clock by the formula}, [bytes that each node's interface has sent])"""
        before = [traffic.sent for traffic in self.lab.traffic()]
        output = self.results(self.job(local, [NET_TABLE, "bytes", "--calls", clocks]))
        lines = [line.split("|") for line in output.splitlines() if line.startswith("bytes|")]
        after = [traffic.sent for traffic in self.lab.traffic()]
        return {int(node): int(nbytes) for _, _, node, nbytes in lines}, [b - a for a, b in zip(before, after)]

    def test_bytes_on_the_wire(self):
        """As the kernel counts them, each clock sends what lib/table/nodes/rounds.h says, and headers."""
        few, many = 20, 120
        for local in ([1, 1], [1, 2, 1]):
            formula, begin = self.count(local, few)
            _, end = self.count(local, many)
            for node, expected in formula.items():
                with self.subTest(local=local, node=node):
                    found = (end[node] - begin[node]) / (many - few)
                    print(f"  {local}, node {node}: {found:.0f} bytes a clock, {expected} by the formula", flush=True)
                    self.assertGreaterEqual(found, expected)
                    self.assertLess(found, expected * HEADERS + CLOCK_HEADERS_BYTES)


class Ends(net_testing.NetTest):
    """Jobs that train, to which something happens."""

    nodes = 3

    def begin(self, local, staleness, marked):
        """A job of which the ranks `marked` are not to be there in the end."""
        self.place(local)
        self.left = [rank for rank in range(len(self.node_of)) if rank not in marked]
        self.marked = marked
        bits = sum(1 << rank for rank in marked)
        self.addCleanup(self.end_all)
        job = self.job(local, [NET_TABLE, "train", staleness, len(self.left) * CLOCKS, bits], **SETTINGS)
        self.assertTrue(lab.until(lambda: len(job.lines("training|")) == len(self.node_of), 20),
                        [running.texts() for running in job.running])
        return job

    def trained(self, job):
        """{rank: (status, pushes, message)}"""
        lines = [line.split("|", 4) for line in job.lines("trained|")]
        return {int(rank): (status, int(pushes), message) for _, rank, status, pushes, message in lines}

    def assert_trained(self, job, failing, limit_s=20):
        """Those that are left have all of their pushes, once; the others that live have an error."""
        ranks = {*failing} if failing == self.left else {*self.left, *failing}
        lab.until(lambda: ranks <= set(self.trained(job)), limit_s)
        found = self.trained(job)
        self.assertEqual(ranks, ranks & set(found), [running.texts() for running in job.running])
        for rank in ranks - set(failing):
            self.assertEqual(("success", len(self.left) * CLOCKS), found[rank][:2], found)
        for rank in failing:
            self.assertEqual("peer dead", found[rank][0], found)
            self.assertIn("rank", found[rank][2])

    def test_node_killed(self):
        cases = [(local, staleness, victim) for local in ([1, 1, 1], [1, 2, 1]) for staleness in (1, 3, UNBOUNDED)
                 for victim in range(3)]
        for local, staleness, victim in net_testing.sample(cases, 2):
            with self.subTest(local=local, staleness=staleness, victim=victim, seed=net_testing.seed):
                first = sum(local[:victim])
                job = self.begin(local, staleness, list(range(first, first + local[victim])))
                self.lab.nodes[victim].kill()
                self.assert_trained(job, [])
                self.end_all()

    def test_node_killed_synchronous(self):
        job = self.begin([1, 2, 1], 0, [1, 2])
        self.lab.nodes[1].kill()
        self.assert_trained(job, self.left)

    def rank_pids(self, node):
        found = {}
        for pid in self.lab.nodes[node].pids():
            with open(f"/proc/{pid}/environ", "rb") as file:
                variables = dict(each.split(b"=", 1) for each in file.read().split(b"\0") if b"=" in each)
            with open(f"/proc/{pid}/comm", encoding="ascii") as file:
                if file.read().strip() == "net_table":
                    found[int(variables[b"KOLO_RANK"])] = pid
        return found

    def test_worker_killed(self):
        """One that connects nobody: all others go on."""
        staleness = net_testing.sample((1, 3, UNBOUNDED), 1)[0]
        job = self.begin([1, 2], staleness, [2])
        os.kill(self.rank_pids(1)[2], signal.SIGKILL)
        self.assert_trained(job, [])

    def test_cable_cut(self):
        """The larger part goes on; who is cut off learns it."""
        cut = net_testing.sample(range(3), 1)[0]
        job = self.begin([1, 1, 1], 2, [cut])
        self.lab.nodes[cut].plug(False)
        self.assert_trained(job, [cut], 30)


class FewPorts(net_testing.NetTest):
    """Nodes of one address, where ports are soon given again: a leader's, to one that goes on without it."""

    nodes = 1

    def test_losses(self):
        script = ("echo 40000 40079 >/proc/sys/net/ipv4/ip_local_port_range; "
                  "echo 0 >/proc/sys/net/ipv4/tcp_max_tw_buckets; "
                  f"exec {NODES_TABLE_TEST} --calls 2 --seed {net_testing.seed}")
        done = self.lab.nodes[0].run(["sh", "-c", script], net_testing.environment())
        self.assertEqual(0, done.code, done)


if __name__ == "__main__":
    net_testing.main()
