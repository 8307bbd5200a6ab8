"""Traces of real jobs: KOLO_TRACE and kolorun --trace, as kolo-trace shows them."""

import json
import os
import pathlib
import random
import re
import signal
import stat
import subprocess
import tempfile
import time
import unittest

import launching
import timeline_rules

KOLO_TRACE = os.environ["KOLO_TRACE_TOOL"]
PROBE = os.environ["TRACE_PROBE"]
SEED = int(os.environ.get("TEST_SEED", "1"))
SMALLEST = 131072
KILLS = int(os.environ.get("TRACE_KILLS", "12"))


class Job(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="kolo-trace-job-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name) / "t"

    def run_job(self, ranks, *command, status=0, **variables):
        done = launching.kolorun("-n", str(ranks), "--trace", str(self.folder), *command,
                                 env=launching.environment(**variables))
        self.assertEqual(status, done.returncode, done.stderr)
        return done

    def show(self, *options):
        done = subprocess.run([KOLO_TRACE, str(self.folder), *options], capture_output=True, text=True, check=False,
                              timeout=launching.PATIENCE_S)
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout

    def summary(self):
        return json.loads(self.show("--json"))

    def slices(self):
        """{rank: [(begin, end, name, arguments)]}, of all its threads."""
        _, slices = timeline_rules.check(self.show("-o", "-"))
        found = {}
        for (process, _), these in slices.items():
            found.setdefault(process - 1, []).extend(these)
        return found


class Contents(Job):
    def test_has_everything(self):
        for progress in "01":
            with self.subTest(progress=progress):
                self.folder = self.folder.with_name(f"t{progress}")
                self.run_job(3, PROBE, "all", KOLO_PROGRESS=progress)
                for path in self.folder.iterdir():
                    self.assertEqual(0o600, stat.S_IMODE(path.stat().st_mode))
                    self.assertEqual(4 << 20, path.stat().st_size)
                for rank, slices in self.slices().items():
                    names = {name for _, _, name, _ in slices}
                    for name in ("create communicator", "destroy communicator", "allreduce", "broadcast", "barrier",
                                 "split", "send", "a range with a name of more than sixteen bytes", "copy in", "copy out"):
                        self.assertIn(name, names, rank)
                    calls = [arguments for _, _, name, arguments in slices if name == "allreduce"]
                    self.assertEqual([8, 1 << 20, 1 << 20], sorted(call["bytes"] for call in calls))
                    self.assertEqual({"f32"}, {call["dtype"] for call in calls})
                self.assertIn('"function in the background"', self.show("-o", "-"))
                self.assertEqual([], [process for process in self.summary()["processes"] if process.get("damage")])

    def test_calls_count_as_in_the_statistics(self):
        """In whatever way they are made: by one thread, in the background, with kolo's helpers, by lanes."""
        for way, threads, progress in (("one", 1, 0), ("one", 1, 1), ("one", 2, 0), ("lanes", 2, 0), ("lanes", 3, 0)):
            with self.subTest(way=way, threads=threads, progress=progress):
                self.folder = self.folder.with_name(f"{way}{threads}{progress}")
                done = self.run_job(2, PROBE, way, KOLO_THREADS=str(threads), KOLO_PROGRESS=str(progress))
                found = self.summary()
                counted = [[row[key] for row in found["collectives"]] for key in ("collective", "calls", "bytes")]
                for process, line in zip(found["processes"], sorted(done.stdout.splitlines())):
                    calls, payload = map(int, line.split()[1:])
                    self.assertEqual((calls, payload), (process["calls"], process["bytes"]))
                    self.assertEqual(calls, sum(counted[1]), counted)
                    self.assertEqual(payload, sum(counted[2]), counted)

    def test_folders_are_made(self):
        self.folder = self.folder / "a" / "b"
        self.assertEqual("", self.run_job(2, PROBE, "all").stderr)
        self.assertEqual(2, len(list(self.folder.iterdir())))

    def test_keeps_the_newest(self):
        self.run_job(2, PROBE, "level", KOLO_TRACE_BYTES=str(SMALLEST))
        for path in self.folder.iterdir():
            self.assertEqual(SMALLEST, path.stat().st_size)
        for slices in self.slices().values():
            numbers = [arguments["number"] for _, _, name, arguments in slices if name == "allreduce"]
            self.assertEqual(11000, max(numbers))
            self.assertEqual(list(range(min(numbers), 11001)), sorted(numbers))

    def test_is_level(self):
        for pages in self.run_job(2, PROBE, "level").stdout.split():
            self.assertLess(int(pages), (4 << 20) / 4096 + 64)  # no more than the trace itself

    def test_threads(self):
        """Threads that have ended give their blocks back, and more threads than blocks lose events, which are counted."""
        self.run_job(1, PROBE, "threads", KOLO_TRACE_BYTES=str(SMALLEST))
        text = self.show()
        self.assertRegex(text, r"[1-9]\d* events? lost")
        self.assertLess(int(re.search(r"(\d+) older blocks? overwritten", text)[1]), 1000)  # the lost ones took none
        self.folder = self.folder.with_name("whole")
        self.run_job(1, PROBE, "threads")
        names = [name for slices in self.slices().values() for _, _, name, _ in slices]
        self.assertEqual(2 * 40 * 100, names.count("thread"))

    def test_pauses(self):
        self.run_job(2, PROBE, "pause")
        for slices in self.slices().values():
            names = [name for _, _, name, _ in slices]
            self.assertEqual((0, 1, 0), tuple(map(names.count, ("in the pause", "behind it", "destroy communicator"))))
            calls = [arguments for _, _, name, arguments in slices if name == "allreduce"]
            self.assertEqual([4, 12], sorted(call["bytes"] for call in calls))
            self.assertEqual(2, len({call["communicator"] for call in calls}))
        for process in self.summary()["processes"]:
            self.assertEqual((True, ""), (process["ended"], process["missing"]))

    def test_forked_child_has_a_trace_of_its_own(self):
        self.run_job(2, PROBE, "fork")
        traces = sorted(self.folder.iterdir())
        self.assertEqual(4, len(traces))
        names = []
        for trace in traces:
            text = subprocess.run([KOLO_TRACE, str(trace), "-o", "-"], capture_output=True, text=True, check=True).stdout
            names.append({each[2] for slices in timeline_rules.check(text)[1].values() for each in slices})
        self.assertEqual([False, False, True, True], sorted("child" in each for each in names))
        self.assertEqual([False, False, True, True], sorted("parent" in each for each in names))
        self.assertFalse(any("child before" in each or {"child", "parent"} <= each for each in names))

    def test_unset_writes_nothing(self):
        done = launching.kolorun("-n", "2", PROBE, "all")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertFalse(self.folder.exists())


class Late(Job):
    def test_names_who_is_late(self):
        """By 20 ms, which it sleeps; how long a busy machine keeps a rank waiting counts, too."""
        self.run_job(4, PROBE, "slow")
        found = self.summary()
        self.assertEqual(2, found["straggler"])
        late = found["processes"][2]
        self.assertGreater(late["late_calls"], 0.7 * late["matched_calls"])
        self.assertGreater(late["late_median_s"], 0.018)

    def test_waits_for_the_background_and_helpers(self):
        """A program that waits for a request, whoever carries it out, waits; a wait for a helper is for no rank."""
        self.run_job(2, PROBE, "queued", KOLO_PROGRESS="1")
        waiting = self.summary()["processes"][0]
        self.assertGreater(waiting["waiting_s"], 0.3)
        self.assertLess(waiting["hidden_share"], 0.6)
        self.folder = self.folder.with_name("helped")
        self.run_job(3, PROBE, "helped", KOLO_THREADS="2")
        waiting = self.summary()["processes"][1]
        self.assertGreater(waiting["waiting_s"], 0.15)
        self.assertLess(sum(waiting["waited_for_s"]), waiting["waiting_s"] / 2)

    def test_waits_for_another_machine(self):
        """Rank 2 leads the second machine, and is late; rank 0 leads the first."""
        rendezvous = f"127.0.0.1:{launching.free_port()}"
        jobs = [subprocess.Popen([launching.KOLORUN, "--trace", str(self.folder), "--nnodes", "2", "--node-rank", str(node),
                                  "--rendezvous", rendezvous, "--bind", "none", "-n", "2,2", PROBE, "slow"],
                                 env=launching.environment(**launching.SECRET)) for node in range(2)]
        for job in jobs:
            self.assertEqual(0, job.wait(timeout=launching.PATIENCE_S))
        found = self.summary()
        self.assertEqual(2, found["straggler"])
        for rank in (0, 1, 3):
            self.assertGreater(found["processes"][rank]["waiting_s"], 0.7)

    def test_names_who_starts_late(self):
        self.run_job(3, PROBE, "skew")
        found = self.summary()
        self.assertEqual(1, found["straggler"])
        for process in found["processes"]:
            self.assertLess(process["communicating_s"], 0.2)
            if process["rank"] != 1:
                self.assertGreater(process["waiting_s"], 0.9)
                self.assertGreater(process["waited_for_s"][1], 0.9)

    @unittest.skipUnless("TABLE_PROBE" in os.environ, "the library has no tables")
    def test_names_for_whose_clocks_others_wait(self):
        for staleness in "02":
            with self.subTest(staleness=staleness):
                self.folder = self.folder.with_name(f"t{staleness}")
                self.run_job(3, os.environ["TABLE_PROBE"], "1", "20", staleness, "40")
                found = self.summary()
                self.assertEqual(1, found["straggler"])
                self.assertIn("keeps the others waiting for its clocks of a table", found["verdict"])
                self.assertGreater(found["processes"][1]["kept_waiting_s"], 0.5)


class Killed(Job):
    def test_trace_survives(self):
        """A rank is killed anywhere. Its trace ends in the last call that it began, as the others have recorded it, or
        before that, if the call had not waited yet."""
        chance = random.Random(SEED)
        for i in range(KILLS):
            victim = chance.randrange(3)
            with self.subTest(seed=SEED, i=i):
                self.folder = self.folder.with_name(f"t{i}")
                job = subprocess.Popen([launching.KOLORUN, "-n", "3", "--trace", str(self.folder), PROBE, "random"],
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                       env=launching.environment(KOLO_TRACE_BYTES=str(SMALLEST),
                                                                 KOLO_DUMP=str(self.folder)))
                for _ in range(3):
                    self.assertEqual("begun\n", job.stdout.readline())
                time.sleep(chance.uniform(0, 0.1))
                pid = launching.children(job.pid)[victim]
                os.kill(pid, signal.SIGKILL)
                job.communicate(timeout=launching.PATIENCE_S)
                processes = self.summary()["processes"]
                self.assertEqual([0, 1, 2], [process["rank"] for process in processes])
                records = [json.loads(path.read_text()) for path in self.folder.glob("*.kolodump")]
                begun = {seen["calls"] for record in records for seen in record["ranks_here"] if seen["pid"] == pid}
                rank = next(process["rank"] for process in processes if process["pid"] == pid)
                last = max((arguments["number"] for _, _, _, arguments in self.slices()[rank]
                            if "number" in arguments), default=0)
                self.assertEqual(1, len(begun), records)
                self.assertIn(begun.pop() - last, (0, 1))


class Impossible(Job):
    """A trace that cannot be written is one warning, and no failure of the job."""

    def check_warns(self, words, **options):
        done = launching.kolorun("-n", "3", "--trace", str(self.folder), PROBE, "all", **options)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertRegex(done.stderr, rf"^kolo: rank \d: no trace is written: {self.folder}/\S+, \d+ bytes: {words}\n$")

    def test_no_directory(self):
        self.folder = pathlib.Path("/proc/nowhere")
        self.check_warns("No such file or directory")

    def test_file_size_limit(self):
        def limit():
            import resource
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
        done = launching.kolorun("-n", "2", "--trace", str(self.folder), PROBE, "all", preexec_fn=limit,
                                 env=launching.environment(KOLO_TRACE_BYTES=str(1 << 31)))
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(2, done.stderr.count("no trace is written"), done.stderr)
        self.assertIn("File too large", done.stderr)

    def test_full_disk(self):
        self.folder.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(self.folder)], capture_output=True,
                                 check=False)
        if mounted.returncode != 0:
            self.skipTest("no right to mount a small tmpfs")
        self.addCleanup(subprocess.run, ["umount", str(self.folder)], check=True)
        done = launching.kolorun("-n", "2", "--trace", str(self.folder), PROBE, "all")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(2, done.stderr.count("No space left on device"), done.stderr)
        self.assertEqual([], list(self.folder.iterdir()))

    def test_wrong_size(self):
        for size in ("12", str(2**32 + 1)):
            done = launching.kolorun("-n", "1", PROBE, env=launching.environment(KOLO_TRACE="t", KOLO_TRACE_BYTES=size))
            self.assertEqual(1, done.returncode)
            self.assertIn(f"KOLO_TRACE_BYTES={size}: must be a whole number from 131072 to 4294967296", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
