"""kolo-trace: what it says of made-up traces, what it writes, and that no bytes can make it fail badly."""

import html.parser
import json
import os
import pathlib
import random
import re
import subprocess
import tempfile
import time
import unittest

import launching
import made_trace
import timeline_rules

KOLO_TRACE = os.environ["KOLO_TRACE_TOOL"]
US, MS = 1000, 1000_000
VOID = {"meta", "br", "path"}


def kolo_trace(*arguments, **options):
    options = {"capture_output": True, "text": True, "timeout": launching.PATIENCE_S, "env": launching.environment(),
               "stdin": subprocess.DEVNULL, "check": False, **options}
    return subprocess.run([KOLO_TRACE, *map(str, arguments)], **options)


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="kolo-trace-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, processes):
        for process in processes:
            process.write(self.folder)

    def run_well(self, *arguments):
        done = kolo_trace(self.folder, *arguments)
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout

    def summary(self, *arguments):
        return json.loads(self.run_well("--json", *arguments))

    def timeline(self):
        return timeline_rules.check(self.run_well("-o", "-"))


class Straggler(Folder):
    def test_is_named(self):
        self.write(made_trace.job_with_a_late_rank())
        text = self.run_well()
        self.assertRegex(text, r"Rank 2 comes last to 100 % of the calls, 3\.00 ms after the others in\s+the\s+median")
        for line in text.splitlines():
            self.assertLessEqual(len(line), 80, line)
        found = self.summary()
        self.assertEqual(2, found["straggler"])
        late = found["processes"][2]
        self.assertAlmostEqual(0.003, late["late_median_s"], delta=1e-5)
        self.assertEqual((50, 50), (late["late_calls"], late["matched_calls"]))
        for rank in (0, 1, 3):
            waited = found["processes"][rank]["waited_for_s"]
            self.assertAlmostEqual(0.15, waited[2], delta=0.001)
            self.assertEqual((waited[2], 0), (sum(waited), found["processes"][rank]["waited_for_absent_s"]))
            self.assertAlmostEqual(waited[2], found["processes"][rank]["waiting_s"], delta=1e-6)

    def test_is_named_among_many_small_calls(self):
        self.write(made_trace.job_with_a_late_rank(small_calls=9, ticks_per_ns=2.5))
        found = self.summary()
        self.assertEqual(2, found["straggler"])
        self.assertAlmostEqual(0.003, found["processes"][2]["late_median_s"], delta=1e-5)

    def test_one_late_start_hides_none(self):
        self.write(made_trace.job_with_a_late_rank(start_ns=500 * MS))
        self.assertRegex(self.run_well(), r"Rank 2 comes last to 98 % of the calls, 3\.00 ms after the others in\s+the\s+median")
        self.write(made_trace.job_with_a_late_rank(late_ns=3000, start_ns=500 * MS))
        self.assertRegex(self.run_well(), r"Rank 0 comes last to 2 % of the calls, 500 ms after the others")

    def test_is_not_named_without_one(self):
        self.write(made_trace.job_with_a_late_rank(late_ns=3000))
        self.assertIsNone(self.summary()["straggler"])
        self.assertIn("No rank is late in a way that matters.", self.run_well())

    def test_needs_all_ranks(self):
        self.write(made_trace.job_with_a_late_rank()[:1])
        self.assertIn("With one rank's trace", self.run_well())

    def assert_names_nobody(self, waited_s):
        """Each other rank has waited so long for rank 2, whose trace is not here."""
        found = self.summary()
        self.assertEqual((None, 0), (found["straggler"], found["matched_calls"]))
        self.assertIn("No call is in the traces of all its ranks: nothing can be said of who is late.", found["verdict"])
        self.assertLessEqual({(call["last_rank"], call["late_s"]) for call in found["slowest"]}, {(None, None)})
        for process in found["processes"]:
            if process["rank"] != 2:
                self.assertEqual(0, sum(process["waited_for_s"]))
                self.assertAlmostEqual(waited_s, process["waited_for_absent_s"], delta=0.001)

    def test_without_the_trace_of_the_late_rank(self):
        """The others begin at slightly different times."""
        made = made_trace.job_with_a_late_rank(late_ns=20 * MS, step_ns=30 * MS)
        self.write(made)
        made[2].comms.clear()  # it is cut there
        made[2].write(self.folder)
        self.assert_names_nobody(1)
        next(self.folder.glob("*.2.*")).unlink()
        self.assert_names_nobody(1)
        self.assertRegex(self.run_well(), r"\n\(\?: for ranks without a trace\)\nrank +0 +1 +3 +\?\n0 +\. +\. +6\d\n")
        self.assertIn("without a trace", self.run_well("--html", "-"))
        self.assertNotIn('"ph":"s"', self.run_well("-o", "-"))  # an arrow

    def test_without_the_trace_of_the_late_rank_of_a_table(self):
        self.write(made_trace.job_with_a_table(lambda clock: 2))
        next(self.folder.glob("*.2.*")).unlink()
        self.assert_names_nobody(0)

    def test_is_named_in_a_table(self):
        for staleness in (0, 3):
            with self.subTest(staleness=staleness):
                self.write(made_trace.job_with_a_table(lambda clock: 2, staleness))
                self.assertRegex(self.run_well(), r"Rank 2 keeps the others waiting for its clocks of a table, 2\d\d ms in\s+all")
                found = self.summary()
                self.assertEqual((2, 0), (found["straggler"], found["matched_calls"]))
                kept = [process["kept_waiting_s"] for process in found["processes"]]
                self.assertAlmostEqual(0.006 * (40 - 4 / 3 * staleness), kept[2], delta=0.01)
                self.assertLess(max(kept[:2] + kept[3:]), 0.001)

    def test_is_not_named_in_a_table_without_one(self):
        self.write(made_trace.job_with_a_table(lambda clock: clock % 4))
        self.assertIsNone(self.summary()["straggler"])
        self.assertIn("No rank is late in a way that matters.", self.run_well())
        self.write(made_trace.job_with_a_table(lambda clock: 2, staleness=1000))  # nobody waits
        self.assertIsNone(self.summary()["straggler"])

    def test_communicator_is_found_by_identity(self):
        """Its number is of one rank only."""
        made = []
        for rank, order in enumerate(((7, 8, 9), (9, 7, 8))):
            process = made_trace.Rank(rank, 2)
            comms = {identity: process.comm(identity=identity) for identity in order}
            track = process.track()
            for step, identity in enumerate(sorted(comms)):
                track.call(step * 10 * MS + 2 * MS * rank, step * 10 * MS + 3 * MS, 1, comm=comms[identity])
            made.append(process)
        self.write(made)
        found = self.summary()
        self.assertEqual((3, 1), (found["matched_calls"], found["straggler"]))

    def test_bandwidth(self):
        self.write(made_trace.job_with_a_late_rank())
        row, = self.summary()["collectives"]
        self.assertEqual(("allreduce", 4096, 50, 50 * 4096), tuple(row[key] for key in ("collective", "bytes_min", "calls",
                                                                                       "bytes")))
        self.assertAlmostEqual(50 * 50e-6, row["time_s"], delta=1e-7)
        self.assertAlmostEqual(1.5 * 4096 / 50e-6 / 1e9, row["busbw_gbps"], delta=1e-4)

    def machines(self, *offsets, last=None, nodes=2):
        """Machines whose clocks are an hour apart; what is known of that: (ns, how wrong it is, largest error), and
        what the header has."""
        made = []
        for node in range(nodes):
            skew = node * 3600 * 10**9
            for local in range(2):
                process = made_trace.Rank(node * 2 + local, 2 * nodes, node=node, nodes=nodes, host=f"host{node}", skew_ns=skew)
                process.comm(identity=1234, local=local, size=2)
                track = process.track()
                for step in range(20):
                    begin = step * 10 * MS + (2 * MS if process.rank == 3 else 0)
                    track.call(begin, step * 10 * MS + 3 * MS, step + 1)
                if node and not local:
                    proxy = process.track("PROXY")
                    for ns, wrong_ns, error_ns in offsets:
                        proxy.add(ns, "OFFSET", a=2**64 - skew + wrong_ns, b=error_ns)
                    if last:
                        process.offset = process.time(last[0]), 2**64 - skew + last[1], last[2]
                if process.rank == 3:
                    process.track("PROXY").add(30 * MS, "EXCHANGE", rank=-1, a=29 * MS, b=4096)
                made.append(process)
        self.write(made)
        found = self.summary()
        self.assertEqual((3, 20), (found["straggler"], found["matched_calls"]))
        self.assertAlmostEqual(0.002, found["processes"][3]["late_median_s"], delta=2e-6)
        self.assertEqual([0, 0, 0, 4096, 0, 0][:2 * nodes], [each["exchanged_bytes"] for each in found["processes"]])
        return found["clock_error_s"]

    def test_machines(self):
        """Clocks may drift by 50 ppm where nothing is known."""
        self.assertAlmostEqual(10.7e-6, self.machines((200 * MS, 0, 700)), delta=5e-7)
        self.assertAlmostEqual(10.7e-6, self.machines(last=(200 * MS, 0, 700)), delta=5e-7)
        self.assertAlmostEqual(5.7e-6, self.machines((100 * MS, 0, 700)), delta=5e-7)
        poor = (50 * MS, 400 * MS, 500 * MS)
        self.assertAlmostEqual(3.2e-6, self.machines((0, 0, 700), poor, (100 * MS, 0, 700), last=(200 * MS, 0, 700)), delta=5e-7)

    def test_two_machines_beside_node_0(self):
        self.assertAlmostEqual(2 * 5.7e-6, self.machines((100 * MS, 0, 700), nodes=3), delta=1e-6)

    def test_clocks_that_were_not_compared(self):
        self.assertIsNone(self.machines())
        self.assertIn("were not compared", self.run_well())

    def test_exchanges(self):
        self.machines((200 * MS, 0, 700))
        events, _ = self.timeline()
        begin, end = [event for event in events if event.get("cat") == "exchange"]
        self.assertEqual(("b", "e", 4, "exchange with other machines"), (begin["ph"], end["ph"], begin["pid"], begin["name"]))
        self.assertEqual((1000, 4096), (end["ts"] - begin["ts"], begin["args"]["bytes"]))
        self.assertRegex(self.run_well(), "(?m)^rank 3: exchanged 4.*K.* with other machines$")


class WithoutWaiting(Folder):
    def times(self, share, *parts):
        """(rank, first step, end) of each process, which waits in the last `share` of each of its steps of 10 ms: how long
        the job took, and would take without waiting."""
        for path in self.folder.iterdir():
            path.unlink()
        for number, (rank, first, end) in enumerate(parts):
            process = made_trace.Rank(rank, 2, pid=100 + number)
            process.comm()
            track = process.track()
            for step in range(first, end):
                end_ns = (step + 1) * 10 * MS
                begin_ns = end_ns - int(share * 10 * MS)
                track.add(step * 10 * MS, "RANGE_BEGIN")
                track.add(begin_ns - 2, "RANGE_END")
                track.call(begin_ns - 1, end_ns, step + 1, waits=[(begin_ns, end_ns, 1 - rank)] if share else [])
            process.write(self.folder)
        found = self.summary()
        return found["duration_s"], found["without_waiting_s"]

    def test_needs_no_whole_traces(self):
        """One that kept its newest events only, and a rank that was started again, count for the time that they have."""
        for share in (0, 0.25):
            for parts in (((0, 0, 100), (1, 0, 100)), ((0, 0, 100), (1, 90, 100)), ((0, 0, 100), (1, 0, 50), (1, 50, 100)),
                          ((0, 0, 30), (1, 20, 60), (0, 50, 100)), ((0, 0, 100),)):
                with self.subTest(share=share, parts=parts):
                    duration, without = self.times(share, *parts)
                    self.assertAlmostEqual(1, duration, delta=1e-6)
                    self.assertAlmostEqual(1 - share, without, delta=1e-6)


class Creation(Folder):
    """Each rank waits in it until the last one begins."""

    def late_start(self, *, lanes=1, hours_apart=0, calls=5):
        """Rank 1 begins 2 s late. Then rank 0 is late by 1 s for a second communicator."""
        made = []
        for rank in range(3):
            skew = rank // 2 * hours_apart * 3600 * 10**9
            process = made_trace.Rank(rank, 3, skew_ns=skew, node=rank // 2 if hours_apart else 0,
                                      nodes=2 if hours_apart else 1, host=f"host{rank // 2 if hours_apart else 0}")
            place = {"identity": 77, "local": rank % 2, "size": 2 - rank // 2} if hours_apart else {}
            track = process.track()
            if skew:
                process.track("PROXY").add(0, "OFFSET", a=2**64 - skew, b=100)
            first = track.create((2000 if rank == 1 else rank) * MS, 2010 * MS, lanes, **place)
            for number in range(calls):
                track.call((2020 + number) * MS, (2021 + number) * MS, number + 1, comm=first)
            track.create((4000 if rank == 0 else 3000) * MS, 4010 * MS, **{**place, "identity": 78})
            made.append(process)
        self.write(made)
        return self.summary()

    def test_is_a_wait_for_the_last_rank(self):
        for options in ({}, {"lanes": 3}, {"hours_apart": 5}, {"calls": 0}):
            with self.subTest(options):
                found = self.late_start(**options)
                self.assertEqual(1, found["straggler"])
                for rank, (first_s, second_s) in enumerate(((2, 0), (0, 1), (1.998, 1))):
                    process = found["processes"][rank]
                    self.assertAlmostEqual(first_s + second_s, process["waiting_s"], delta=1e-4)
                    self.assertAlmostEqual(first_s, process["waited_for_s"][1], delta=1e-4)
                    self.assertAlmostEqual(second_s, process["waited_for_s"][0], delta=1e-4)
                    self.assertAlmostEqual(0.02 + 0.001 * options.get("calls", 5), process["communicating_s"], delta=1e-4)
                    self.assertEqual(options.get("calls", 5), process["calls"])
                self.assertAlmostEqual(1.999, found["processes"][1]["late_total_s"], delta=1e-4)
                self.assertIn("Rank 1 comes last", self.run_well())
                self.assertEqual(options.get("calls", 5), sum(row["calls"] for row in found["collectives"]))
                self.assertNotIn("unknown call", self.run_well("--html", "-"))

    def test_has_arrows(self):
        self.late_start()
        events, _ = self.timeline()
        arrows = [(event["ph"], event["pid"]) for event in events if event["ph"] in "sf"]
        self.assertEqual([("s", 2), ("f", 1), ("s", 2), ("f", 3), ("s", 1), ("f", 2), ("s", 1), ("f", 3)], arrows)

    def test_without_an_end(self):
        """A rank that was killed in it, or whose creation failed, waited for nobody who is known."""
        made = made_trace.job_with_a_late_rank(ranks=2, late=1, late_ns=1000)
        made[1].tracks[0].add(600 * MS, "SPAN_BEGIN", detail=made_trace.SPAN["CREATE"], a=2)
        made[1].tracks[0].add(900 * MS, "CLOCK", a=made_trace.BEGAN_NS + 900 * MS)
        made[0].tracks[0].add(600 * MS, "SPAN_BEGIN", detail=made_trace.SPAN["CREATE"], a=2)
        made[0].tracks[0].add(900 * MS, "SPAN_END", detail=made_trace.SPAN["CREATE"], op=5)
        self.write(made)
        for process in self.summary()["processes"]:
            self.assertAlmostEqual(0.3025, process["communicating_s"], delta=5e-4)


class Threads(Folder):
    def test_the_thread_with_most_calls_counts(self):
        """Calls that are one event each are calls, too."""
        rank = made_trace.Rank(0, 1)
        rank.comm()
        rank.track().call(MS, 901 * MS, 1, waits=[(2 * MS, 900 * MS, 0)])
        track = rank.track()
        for number in range(50):
            track.add((1 + 18 * number) * MS, "CALL", detail=made_trace.ALLREDUCE, dtype=made_trace.F32, rank=-1, a=2, b=number + 2)
        rank.write(self.folder)
        process, = self.summary()["processes"]
        self.assertEqual(51, process["calls"])
        self.assertLess(process["waiting_s"], 0.1)


    def test_shares_are_of_all_that_wait(self):
        """However many threads a rank has, of whatever kind, and also where it calls within a wait (kolo_hooks): each waits
        for 290 of 300 ms, for rank 2 half of the time, spinning throughout."""
        for kinds in (["PROGRAM"], ["PROGRAM"] * 4, ["PROGRAM", "PROGRESS"], ["PROGRAM"] * 2 + ["HELPER"] * 3 + ["PROXY"]):
            for nested in (False, True):
                with self.subTest(kinds=kinds, nested=nested):
                    for number in range(3):
                        rank = made_trace.Rank(number, 3)
                        rank.comm()
                        rank.comm(identity=100)
                        for kind in kinds:
                            self.wait_for_all(rank.track(kind), 1 - number % 2, nested)
                        rank.write(self.folder)
                    text = self.run_well()
                    rows = re.search(r"Who waited for whom.*\nrank.*\n((?:\d.*\n)+)", text)[1].splitlines()
                    self.assertEqual([["48", "48"]] * 2, [row.split()[1:] for row in rows[:2]])
                    waited = sorted(call["waited_s"] for call in self.summary()["slowest"])
                    self.assertAlmostEqual(0.145, waited[-1], delta=1e-6)
                    spin = [line.split()[10] for line in re.findall(r"(?m)^\d .*% .*", text)]
                    self.assertEqual(["97%"] * 3, spin)

    def wait_for_all(self, track, other, nested):
        for begin, peer in ((0, other), (150, 2)):
            number = begin // 150 + 1
            track.add(begin * MS, "CALL_BEGIN", detail=made_trace.ALLREDUCE, rank=-1, a=1, b=number)
            track.add((begin + 3) * MS, "WAIT_BEGIN", rank=peer, a=(begin + 2) * MS)
            if nested:
                track.call((begin + 10) * MS, (begin + 140) * MS, number, comm=1,
                           waits=[((begin + 11) * MS, (begin + 139) * MS, peer)])
            track.add((begin + 147) * MS, "WAIT_END", b=144 * MS)
            track.add((begin + 150) * MS, "CALL_END", b=number)


class Spinning(Folder):
    def test_is_what_was_not_slept(self):
        """10 us of spinning; 20 more before a wait goes beyond that, and what its end says, but not more than it took."""
        for rest_us, spun_us in ((0, 30), (40, 70), (10**9, 10 + 500)):
            with self.subTest(rest_us=rest_us):
                for number in (0, 1):
                    rank = made_trace.Rank(number, 2, ticks_per_ns=2)
                    rank.comm()
                    track = rank.track()
                    track.call(100 * US, 120 * US, 1, waits=[(101 * US, 111 * US, 1 - number)])
                    track.add(200 * US, "CALL_BEGIN", detail=made_trace.ALLREDUCE, rank=-1, a=1, b=2)
                    track.add(230 * US, "WAIT_BEGIN", rank=1 - number, a=210 * US)
                    track.add(710 * US, "WAIT_END", b=rest_us * US)
                    track.add(720 * US, "CALL_END", b=2)
                    rank.write(self.folder)
                for process in self.summary()["processes"]:
                    self.assertAlmostEqual(spun_us * 1e-6, process["spinning_s"], delta=1e-8)
                    self.assertAlmostEqual(510e-6, process["waiting_s"], delta=1e-8)
                self.assertRegex(self.run_well(), rf"(?m)^0 .* {spun_us / 620 * 100:.0f}% ")
                self.assertIn("<th>spinning</th>", self.run_well("--html", "-"))


class Clock(Folder):
    def test_ticks(self):
        """A trace too short to tell the rate takes it from another one."""
        made = made_trace.job_with_a_late_rank(ticks_per_ns=3.2, room=120)
        short = made_trace.Rank(1, 4, ticks_per_ns=3.2)
        short.comm()
        short.track().call(1 * MS, 400 * MS, 1)
        made[1] = short
        self.write(made)
        found = self.summary()
        self.assertAlmostEqual(0.495, found["duration_s"], delta=0.001)
        self.assertAlmostEqual(0.399, max(call["took_s"] for call in found["slowest"]), delta=1e-4)


class Timeline(Folder):
    def test_late_rank(self):
        self.write(made_trace.job_with_a_late_rank(small_calls=3, ticks_per_ns=2.4))
        events, slices = self.timeline()
        self.assertEqual(4, len(slices))
        for (process, _), of_thread in slices.items():
            names = [name for _, _, name, _ in of_thread]
            self.assertEqual((50, 150, 50), tuple(names.count(name) for name in (
                "allreduce", "barrier", "forward and backward, a long name")))
            self.assertEqual(0 if process == 3 else 50, names.count("wait for rank 2"))
            self.assertEqual(names.count("wait for rank 2"), names.count("rank 2 has begun"))
        arrows = [event for event in events if event["ph"] == "s"]
        self.assertEqual((150, {3}), (len(arrows), {event["pid"] for event in arrows}))
        begin, end, _, arguments = next(each for each in slices[1, 4096] if each[2] == "allreduce")
        self.assertAlmostEqual(3.049 * MS, end - begin, delta=2 * US)
        self.assertEqual(("mesh", "f32", "sum", 4096, 1),
                         tuple(arguments[key] for key in ("algorithm", "dtype", "op", "bytes", "number")))

    def full_process(self):
        """Everything that there is, in one process."""
        process = made_trace.Rank(0, 1, job='a "job" <b>&\x1b[31m\xe9', room=16)
        process.comm()
        track, progress = process.track(), process.track("PROGRESS")
        track.range(1 * US, b"outer \xff\xfe\x07<script>\"'&" + "é".encode() + b"x" * 40)
        track.add(2 * US, "SPAN_BEGIN", detail=made_trace.SPAN["BUCKETS"], a=4096, b=3, rank=-1)
        track.add(3 * US, "ISSUE", detail=2, a=1024, b=1)
        track.add(3 * US, "ISSUE", detail=2, a=1024, b=2)
        progress.add(4 * US, "CARRY", b=1)
        progress.call(5 * US, 50 * US, 1)
        progress.add(51 * US, "DONE", b=1)
        track.add(60 * US, "SPAN_END", detail=made_trace.SPAN["BUCKETS"])
        track.add(70 * US, "CALL_BEGIN", detail=2, dtype=10, a=1 << 20, b=2)
        for detail, at in ((1, 71), (2, 80), (3, 90), (0, 95)):
            track.add(at * US, "STAGE", detail=detail)
            track.add((at + 2) * US, "WAIT", rank=0, a=(at + 1) * US)
        track.add(99 * US, "CALL_END", detail=2, op=5, b=2)
        track.add(100 * US, "FAILURE", op=5, rank=0)
        track.add(101 * US, "RANGE_END")
        for detail in range(made_trace.SPAN["SPANS"]):
            track.add((110 + 2 * detail) * US, "SPAN_BEGIN", detail=detail, a=1, b=2)
            track.add((111 + 2 * detail) * US, "SPAN_END", detail=detail)
        return process

    def test_everything(self):
        self.write([self.full_process()])
        events, slices = self.timeline()
        names = [each[2] for each in slices[1, 4096]]
        for name in ("wait for buckets", "copy in", "fold", "copy out", "allreduce", "push", "optimizer step", "wait"):
            self.assertIn(name, names)
        self.assertNotIn("wait for rank 0", names)  # it is rank 0 itself
        outer = next(name for name in names if name.startswith("outer"))
        self.assertEqual("outer ???<script>\"'&é" + "x" * 40, outer)
        self.assertEqual(["allreduce in the background"] * 4, [event["name"] for event in events if event["ph"] in "be"])
        self.assertEqual({"program", "progress"},
                         {event["args"]["name"] for event in events if event.get("name") == "thread_name"})
        self.assertIn("failure: peer dead", next(event["name"] for event in events if event["ph"] == "i"))
        found, = self.summary()["processes"]
        self.assertEqual((1, "", [0]), (found["hidden_share"], found["missing"], found["waited_for_s"]))
        for phase in "BEMbeiC":
            self.assertIn(phase, {event["ph"] for event in events})

    def test_operations(self):
        """They have the names that other programs give them."""
        process = made_trace.Rank(0, 1)
        process.comm()
        track = process.track()
        for number, op in enumerate((made_trace.SUM, made_trace.OPS, 77), start=1):
            track.add(number * US, "CALL", detail=made_trace.ALLREDUCE, dtype=made_trace.F32, op=op, rank=-1, a=2, b=number)
        self.write([process])
        _, slices = self.timeline()
        self.assertEqual(["sum", "own operation", "?"], [each[3]["op"] for each in slices[1, 4096]])

    def test_calls_hidden_behind_a_table(self):
        """The program waits for other workers, and not for the call in the background."""
        process = made_trace.Rank(0, 2)
        process.comm()
        track, progress = process.track(), process.track("PROGRESS")
        track.add(10 * US, "SPAN_BEGIN", detail=made_trace.SPAN["TABLE_WAIT"])
        track.add(40 * US, "WAIT", rank=1, a=20 * US)
        track.add(45 * US, "SPAN_END", detail=made_trace.SPAN["TABLE_WAIT"])
        progress.add(4 * US, "CARRY", b=1)
        progress.call(5 * US, 50 * US, 1)
        self.write([process])
        self.assertEqual(1, self.summary()["processes"][0]["hidden_share"])

    def test_begins_that_were_overwritten(self):
        made = made_trace.job_with_a_late_rank(room=9, small_calls=2)
        for process in made:
            process.blocks_max = 15
        self.write(made)
        self.timeline()
        text = self.run_well()
        self.assertRegex(text, r"rank 0: \d+ older blocks overwritten")
        self.assertIn("Rank 2 comes last", text)

    def test_killed_rank(self):
        made = made_trace.job_with_a_late_rank(ranks=2, late=1, steps=3)
        made[1].ended = 0
        made[1].tracks[0].call(90 * MS, 0, 4, end=False)
        made[1].tracks[0].add(91 * MS, "WAIT_BEGIN", rank=0, a=90 * MS + 10)
        made[1].track("PROGRESS").add(95 * MS, "CARRY")
        self.write(made)
        _, slices = self.timeline()
        call = max(each for each in slices[2, 2 * 4096] if each[2] == "allreduce")
        self.assertTrue(call[3]["unfinished"])
        self.assertEqual(5 * MS, call[1] - call[0])
        self.assertIn("rank 1: ended abruptly, or still runs", self.run_well())
        found = self.summary()
        self.assertFalse(found["slowest"][0]["finished"])
        self.assertEqual([(4, 3)], [(row["calls"], row["ended"]) for row in found["collectives"]])
        self.assertRegex(self.run_well(), r"(?m)^allreduce .* 50\.0 us ")  # a call


class Letters(Folder):
    def test_are_whole(self):
        """Of ranges' names, and of a job's, in any letters; a name is cut within a letter where it has too many bytes."""
        chance = random.Random(int(os.environ.get("TEST_SEED", "1")))
        for letters in ("é", "€", "\U0001f600", "aé€\U0001f600", "a\x85\xa0\x7fé"):
            names = ["".join(chance.choices(letters, k=length)) for length in (*range(1, 70, 3), 33, 34, 35)]
            process = made_trace.Rank(0, 1, job=names[20][:16], room=400)
            process.comm()
            track = process.track()
            for number, name in enumerate(names):
                track.range(number * MS, name.encode())
                track.add((number + 1) * MS - number, "RANGE_END")
            track.call(100 * MS, 101 * MS, 1)
            process.write(self.folder).rename(self.folder / "a.kolotrace")
            for arguments in ((), ("--json",), ("--html", "-"), ("-o", "-")):
                text = kolo_trace(self.folder, *arguments, text=False).stdout.decode()  # UTF-8, or it raises
                self.assertNotRegex(text, "[\x7f-\x9f]")
            rows = self.run_well().split("ranges, all ranks")[1].splitlines()[1:13]
            rows = [row for row in rows if not row.startswith("and ")]
            self.assertEqual({77}, {len(row) for row in rows}, rows)
            self.assertLessEqual({row[:34] for row in rows}, {self.cleaned(name)[:34].ljust(34) for name in names})

    @staticmethod
    def cleaned(name):
        """63 bytes of it. A byte that is of no whole letter, and each of a control character, is a question mark."""
        letters = name.encode()[:63].decode(errors="surrogateescape")
        letters = re.sub("[\x80-\x9f]", "??", letters)
        return re.sub("[\x00-\x1f\x7f\udc80-\udcff]", "?", letters)


class Page(html.parser.HTMLParser):
    """What is open, and all text."""

    def __init__(self):
        super().__init__()
        self.open, self.wrong, self.text, self.tags = [], [], "", set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID and (not self.open or self.open.pop() != tag):
            self.wrong.append(tag)

    def handle_data(self, data):
        self.text += data


class Html(Folder):
    def page(self):
        self.run_well("--html", self.folder / "page.html")
        text = (self.folder / "page.html").read_text(encoding="utf-8")
        page = Page()
        page.feed(text)
        page.close()
        self.assertEqual(([], []), (page.open, page.wrong))
        for word in ("http:", "https:", "src=", "href=", "@import", "url(", "<script"):
            self.assertNotIn(word, text)
        return page

    def test_is_whole(self):
        self.write(made_trace.job_with_a_late_rank(small_calls=2))
        page = self.page()
        self.assertIn("Rank 2 comes last to", page.text)
        for heading in ("Overview", "Who waited for whom", "Collectives", "Sizes", "Slowest calls", "Ranges"):
            self.assertIn(heading, page.text)
        self.assertTrue({"svg", "path", "table"} <= page.tags)

    def test_says_what_the_text_says(self):
        made = made_trace.job_with_a_late_rank(room=13)
        made[0].node, made[0].nodes, made[0].host = 1, 2, "there"
        made[0].ended = 0
        made[1].tracks[0].blocks[3] = (7, made[1].tracks[0].blocks[3][1])
        made[2].tracks[0].add(900 * MS, "FAILURE", op=5, rank=0)
        made[3].blocks_max = 15
        self.write(made)
        text, page = " ".join(self.run_well().split()), self.page().text
        for words in ("comes last to", "Spread evenly, so that nobody waits, the work would take",
                      "Communicators failed: ranks noted it 1 time.", "clocks of the machines were not compared",
                      "rank 0: ended abruptly, or still runs", "older blocks overwritten", "events do not fit together"):
            self.assertIn(words, text)
            self.assertIn(words, page)

    def test_names_are_text(self):
        process = Timeline.full_process(self)
        self.write([process])
        page = self.page()
        self.assertIn("<script>\"'&é", page.text)
        self.assertIn('a "job" <b>&?[31mé', page.text)
        self.assertNotIn("b", page.tags)
        self.assertNotIn("\x1b", self.run_well())
        self.assertEqual('a "job" <b>&?[31mé', self.summary()["job"])


class Files(Folder):
    def test_last_job_is_shown(self):
        self.write(made_trace.job_with_a_late_rank(job="old"))
        self.write(made_trace.job_with_a_late_rank(ranks=2, job="new", began_s=100))
        done = kolo_trace(self.folder)
        self.assertIn("job new", done.stdout)
        self.assertEqual(4, len(re.findall(r"(?m)old\.\d\.\d+\.kolotrace is left out: it is of job old", done.stderr)))
        done = kolo_trace(*self.folder.glob("old*"))
        self.assertIn("job old", done.stdout)
        self.assertEqual("", done.stderr)

    def test_a_name_that_was_used_again(self):
        self.write(made_trace.job_with_a_late_rank())
        again = made_trace.job_with_a_late_rank(ranks=2, began_s=30)
        for process in again:
            process.pid += 500
            process.comms.clear()
            process.comm(identity=100)
        self.write(again)
        self.assertEqual(2, len(self.summary()["processes"]))

    def test_rank_that_was_started_again(self):
        processes = made_trace.job_with_a_late_rank(ranks=3)
        processes[2].rank, processes[2].pid = 1, 1234567
        self.write(processes)
        said = kolo_trace(self.folder).stdout
        self.assertRegex(said, r"\nrank +0 +1:1001 +1:1234567\n0 +\. +\d+\n")
        self.assertRegex(said, r"\nallredu +[01:]+ .* 1:1234567 \d")
        self.assertLessEqual(max(map(len, said.splitlines())), 83, said)

    def test_rank_is_that_in_the_largest_communicator(self):
        """The first one is the process's own, or has a part of the ranks."""
        for size in (1, 2):
            with self.subTest(size=size):
                self.write(made_trace.job_with_a_late_rank(first_size=size, node=1, nodes=3))
                found = self.summary()
                self.assertEqual((4, 3, 2), (found["ranks"], found["nodes"], found["straggler"]))
                self.assertEqual([0, 1, 2, 3], [process["rank"] for process in found["processes"]])
                self.assertIn("made_up on 4 ranks, 3 machines", self.run_well())

    def test_named_twice(self):
        self.write(made_trace.job_with_a_late_rank())
        self.assertEqual(4, len(self.summary(*self.folder.glob("*.0.*"), self.folder)["processes"]))

    def test_refused(self):
        for content, words in ((b"", "was cut"), (bytes(512), "is empty"), (b"x" * 600, "is no trace of kolo"),
                               (b"kolotrc\0" + b"\0\0\0\1" + bytes(600), "another byte order"),
                               (b"kolotrc\0" + b"\2\0\0\0" + bytes(600), "has format 2"),
                               (b"kolotrc\0" + b"\1\0\0\0" + bytes(600), "damaged header")):
            with self.subTest(words):
                path = self.folder / "a.kolotrace"
                path.write_bytes(content)
                done = kolo_trace(path)
                self.assertEqual((1, ""), (done.returncode, done.stdout))
                self.assertRegex(done.stderr, rf"^kolo-trace: \S*a\.kolotrace .*{words}.*\n$")

    def test_mistakes(self):
        for status, words, arguments in (
                (1, "cannot read .*: No such file", ["/none"]), (1, r"no file \*\.kolotrace", [self.folder]),
                (2, "give the folder", []), (2, "one standard output", [self.folder, "-o", "-", "--summary"]),
                (2, "is a trace", [self.folder, "-o", "a.kolotrace"]),
                (2, "-o and --html cannot both go to 'a'", [self.folder, "-o", "a", "--html", "a"]),
                (1, "cannot read", ["/dev/zero"])):
            with self.subTest(words):
                done = kolo_trace(*arguments)
                self.assertEqual((status, ""), (done.returncode, done.stdout))
                self.assertRegex(done.stderr, words)
        self.write(made_trace.job_with_a_late_rank(steps=2))
        self.assertEqual(1, kolo_trace(self.folder, "-o", "/none/a.json").returncode)
        if os.path.exists("/dev/full"):
            self.assertEqual(1, kolo_trace(self.folder, "-o", "/dev/full").returncode)


class Help(Folder):
    def test_explains_each_member(self):
        self.write(made_trace.job_with_a_late_rank())
        self.assertIsNone(launching.unexplained(KOLO_TRACE, "JSON", self.summary()))


class Damaged(Folder):
    """A file that was cut or changed is read as far as it goes, or refused in words."""

    def check(self, what):
        done = kolo_trace(self.folder, "-o", self.folder / "t.json", "--html", self.folder / "t.html", "--summary",
                          text=False)
        errors = done.stderr.decode()
        self.assertIn(done.returncode, (0, 1), what)
        if done.returncode:
            self.assertRegex(errors, r"^kolo-trace: ", what)
        else:
            timeline_rules.check((self.folder / "t.json").read_text(encoding="utf-8"))
            done.stdout.decode()

    def test_many(self):
        """With the second seed, file 52, a wait began before the block that it is in, and then came an end without begin."""
        made = made_trace.job_with_a_late_rank(ranks=2, late=1, steps=8, room=12, ticks_per_ns=2.1)
        self.write(made)
        path = made[0].write(self.folder)
        whole = path.read_bytes()
        for seed, files in ((int(os.environ.get("TEST_SEED", "1")), 100), (642168388, 53)):
            chance = random.Random(seed)
            for i in range(files):
                with self.subTest(seed=seed, i=i):
                    content = bytearray(whole[:chance.randrange(len(whole))] if i % 3 == 0 else whole)
                    first = chance.choice([0, 512, 10752])
                    for _ in range(0 if i % 3 == 0 else chance.randint(1, 12)):
                        value = chance.choice([0, 1, 0x7f, 0x80, 0xff, chance.randrange(256)])
                        content[chance.randrange(first, len(content))] = value
                    path.write_bytes(content)
                    self.check((seed, i))

    def test_a_gap_says_so(self):
        made = made_trace.job_with_a_late_rank(ranks=2, late=1, room=13)
        made[0].tracks[0].blocks[3] = (7, made[0].tracks[0].blocks[3][1])
        self.write(made)
        self.assertRegex(self.run_well(), r"[1-9]\d* events do not fit together")

    def test_cut_file_says_so(self):
        made = made_trace.job_with_a_late_rank(ranks=2, late=1)
        self.write(made)
        path = made[0].write(self.folder)
        path.write_bytes(path.read_bytes()[:-9000])
        self.assertRegex(self.run_well(), r"rank 0: .*(events|blocks) cut off")


class Many(Folder):
    def test_a_million_events(self):
        """The time is printed, not asserted: it is a few seconds."""
        steps, calls = 250, 500
        self.write(made_trace.job_with_a_late_rank(room=4000, steps=steps, small_calls=calls, ticks_per_ns=2.4,
                                                   step_ns=20 * MS))
        size = sum(path.stat().st_size for path in self.folder.iterdir())
        begin_s = time.monotonic()
        self.run_well("-o", self.folder / "t.json", "--html", self.folder / "t.html")
        print(f"{size / 32:.0f} events in {time.monotonic() - begin_s:.2f} s, "
              f"{(self.folder / 't.json').stat().st_size / 1e6:.0f} MB of JSON")


if __name__ == "__main__":
    launching.main()
