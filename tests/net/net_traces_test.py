"""Traces of a job on two machines whose clocks show different times: kolo-trace brings them to one clock, within the error
that it states."""

import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import net_testing
from net_testing import NET_RANK

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))

import made_trace  # noqa: E402 (the path has to be set first)
import timeline_rules  # noqa: E402

KOLO_TRACE = os.environ["KOLO_TRACE_TOOL"]
AHEAD_S = 5000  # of one node's CLOCK_MONOTONIC
BARRIERS, PAUSE_MS = 300, 8  # long enough for three rows of questions
LOCAL = [2, 2]

# Puts the ranks of one node into a time namespace, and hides from them that the processor's counter can be used.
AHEAD = ["unshare", "--time", "--monotonic", str(AHEAD_S)]
WITHOUT_TICKS = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /sys/devices/system/clocksource && exec "$@"', "sh"]


def on_node(node, words):
    """A launcher that does it on that node only."""
    return ["sh", "-c", f'[ "$(hostname)" = node{node} ] || exec "$@"; exec {" ".join(map(quoted, words))} "$@"', "sh"]


def quoted(word):
    return "'" + word.replace("'", "'\\''") + "'"


def signed(number):
    return number - (1 << 64) if number >> 63 else number


class Trace:
    """A process's file, as far as it matters here."""

    def __init__(self, path):
        data = path.read_bytes()
        header = made_trace.HEADER.unpack_from(data)
        self.rank, self.node, self.has_ticks = header[8], header[10], header[12]
        self.last_offset = signed(header[24]), header[25]
        self.offsets = []  # of each: what has to be added, and the largest error
        for block in range(header[6]):
            at = made_trace.HEADER.size + made_trace.COMMS * made_trace.COMM.size + block * header[5]
            number, used = made_trace.BLOCK.unpack_from(data, at)[:2]
            events = data[at + made_trace.BLOCK.size:][:used * made_trace.EVENT.size] if number else b""
            self.offsets += [(signed(event[7]), event[8]) for event in made_trace.EVENT.iter_unpack(events)
                             if event[1] == made_trace.KIND["OFFSET"]]


class Traces(net_testing.NetTest):
    def setUp(self):
        done = self.lab.nodes[0].run([*AHEAD, "true"])
        if done.code != 0:
            self.skipTest(f"no time namespaces: {done.err.strip()}")
        folder = tempfile.TemporaryDirectory(prefix="kolo-net-traces-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def trace(self, node, words=AHEAD, **variables):
        """Runs the job with that node's clock ahead, and returns the traces by rank."""
        for path in self.folder.iterdir():
            path.unlink()
        self.results(self.job(LOCAL, [NET_RANK, "barriers", BARRIERS, PAUSE_MS], launcher=on_node(node, words), **variables))
        return {trace.rank: trace for trace in map(Trace, self.folder.glob("*.kolotrace"))}

    def kolo_trace(self, *arguments):
        done = subprocess.run([KOLO_TRACE, self.folder, *arguments], capture_output=True, text=True, timeout=100,
                              check=False, env=net_testing.environment())
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout

    def assert_offsets(self, trace, expected_ns):
        self.assertGreaterEqual(len(trace.offsets), 2)  # about one a second
        for found_ns, error_ns in trace.offsets:
            self.assertLessEqual(abs(found_ns - expected_ns), error_ns)
            self.assertLess(error_ns, 10**8)
        self.assertIn(trace.last_offset, trace.offsets)

    def assert_aligned(self):
        """Each barrier has a moment in which all ranks are in it."""
        error_s = json.loads(self.kolo_trace("--json"))["clock_error_s"]
        self.assertLess(error_s, 0.1)
        events, slices = timeline_rules.check(self.kolo_trace("-o", "-"))
        barriers = collections.defaultdict(list)
        for of_thread in slices.values():
            for begin_ns, end_ns, name, arguments in of_thread:
                if name == "barrier" and arguments["communicator"] == 0:
                    barriers[arguments["number"]].append((begin_ns, end_ns))
        complete = [each for each in barriers.values() if len(each) == sum(LOCAL)]
        self.assertGreaterEqual(len(complete), BARRIERS)
        for each in complete:
            self.assertLessEqual(max(begin for begin, _ in each), min(end for _, end in each) + error_s * 1e9)
        return events

    def assert_exchanges(self, events):
        """Each barrier has had one, of the leaders."""
        exchanges = [event for event in events if event.get("name") == "exchange with other machines" and event["ph"] == "b"]
        leaders = {1, 1 + LOCAL[0]}  # processes are counted from 1
        self.assertEqual(leaders, {event["pid"] for event in exchanges})
        for leader in leaders:
            of_leader = [event for event in exchanges if event["pid"] == leader]
            self.assertGreaterEqual(len(of_leader), BARRIERS)
            self.assertTrue(all(event["args"]["bytes"] > 0 for event in of_leader))

    def test_clock_of_either_node_ahead(self):
        for node, expected_s in ((1, -AHEAD_S), (0, AHEAD_S)):
            with self.subTest(node=node):
                traces = self.trace(node, KOLO_TRACE=str(self.folder), KOLO_JOB=f"ahead-{node}")
                self.assertEqual(list(range(sum(LOCAL))), sorted(traces))
                self.assert_offsets(traces[LOCAL[0]], expected_s * 10**9)
                self.assertEqual([], [trace.rank for trace in traces.values() if trace.offsets and trace.rank != LOCAL[0]])
                self.assert_exchanges(self.assert_aligned())

    def test_without_ticks(self):
        traces = self.trace(1, [*WITHOUT_TICKS, *AHEAD], KOLO_TRACE=str(self.folder), KOLO_NET="threads:2")
        self.assertEqual([0, 0], [traces[rank].has_ticks for rank in (2, 3)])
        self.assert_offsets(traces[2], -AHEAD_S * 10**9)
        self.assert_aligned()

    def test_one_node_with_a_trace(self):
        for node in range(2):
            with self.subTest(node=node):
                traces = self.trace(1, variables_of=lambda own, node=node: (
                    {"KOLO_TRACE": str(self.folder)} if own == node else {}))
                self.assertEqual({node}, {trace.node for trace in traces.values()})
                if node == 1:
                    self.assert_offsets(traces[2], -AHEAD_S * 10**9)
                self.kolo_trace()


if __name__ == "__main__":
    net_testing.main()
