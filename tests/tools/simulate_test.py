"""kolo-simulate: predictions on every machine file, the protocol of every algorithm, and what it says to bad input."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

SIMULATE = os.environ["KOLO_SIMULATE"]
MACHINES = pathlib.Path(os.environ["KOLO_SIMULATE_MACHINES"])
PATIENCE_S = 600

SMALL = MACHINES / "desktop-8"


# What the address sanitizer says to every program that has coroutines.
SANITIZER_NOTE = re.compile(r"^==\d+==WARNING: ASan doesn't fully support makecontext/swapcontext .*\n", re.MULTILINE)


def simulate(*arguments, **options):
    done = subprocess.run([SIMULATE, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE_S,
                          stdin=subprocess.DEVNULL, check=False, **options)
    done.stderr = SANITIZER_NOTE.sub("", done.stderr)
    return done


def limit_rows(cpus=2):
    """What kolo-perf limits --json writes, with figures that are easy to follow."""
    rows = [{"collective": "limits", "limit": "exchange", "cpus": cpus, "time_ns": 40.0, "min_ns": 39.0}]
    for limit, gbps in (("exchanges", 30), ("fetch", 60), ("copy", 10), ("update", 16), ("read", 20)):
        rows += [{"collective": "limits", "limit": limit, "cpus": cpus, "bytes_per_cpu": size, "time_us": 1.0,
                  "gbps_per_cpu": gbps, "way": "plain"} for size in (4096, 65536, 1 << 26)]
    return rows


def measured_row(**changes):
    return {"collective": "allreduce", "ranks": 2, "bytes": 4096, "dtype": "f32", "op": "sum", "in_place": False,
            "algo": "oneshot", "buffers": "warm", "time_us": {"min": 1.0, "median": 2.0, "p99": 3.0, "max": 4.0},
            **changes}


class SimulateTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="kolo-simulate-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def write_rows(self, name, rows):
        return self.write(name, "".join(json.dumps(row) + "\n" for row in rows))

    def predict(self, *arguments):
        """The rows of a run that must succeed."""
        path = self.folder / "rows.json"
        done = simulate(*arguments, "--json", path)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertIn("predicted, not measured", done.stdout)
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def assert_refused(self, pattern, *arguments):
        done = simulate(*arguments)
        self.assertEqual(2, done.returncode, done.stderr)
        self.assertRegex(done.stderr, pattern)
        self.assertRegex(done.stderr, r"^kolo-simulate: ")


class Predictions(SimulateTest):
    def test_every_machine(self):
        machines = sorted(MACHINES.iterdir())
        self.assertGreaterEqual(len(machines), 6)
        for machine in machines:
            rows = self.predict("--machine", machine, "--ranks", "2,8" if machine.name != "vm-2" else "2", "--max",
                                "1M", "--factor", "64")
            with self.subTest(machine.name):
                self.assertTrue(rows)
                for row in rows:
                    self.assertTrue(row["predicted"])
                    self.assertGreater(row["time_us"], 0, row)

    def test_auto_is_one_of_the_others(self):
        rows = self.predict("--machine", SMALL, "--ranks", "4", "--max", "64K", "--factor", "32")
        times = {(row["bytes"], row["asked"]): row["time_us"] for row in rows}
        for row in rows:
            if row["asked"] == "auto":
                self.assertEqual(row["time_us"], times[row["bytes"], row["algo"]])

    def test_larger_and_farther_take_longer(self):
        milan = MACHINES / "epyc-milan-2x64"
        sizes = self.predict("--machine", milan, "--ranks", "8", "--min", "64K", "--max", "16M", "--algorithm", "mesh")
        times = [row["time_us"] for row in sizes]
        self.assertEqual(sorted(times), times)
        ranks = self.predict("--machine", milan, "--ranks", "8,9,64,65", "--max", "8", "--algorithm", "auto")
        near, across, socket, machine = (row["time_us"] for row in ranks)
        self.assertGreater(across, near * 1.3)
        self.assertGreater(machine, socket)

    def test_two_ranks_take_one_hop(self):
        text = SMALL.read_text(encoding="utf-8")
        times = []
        for hop_ns in (20, 220):
            machine = self.write("machine", text.replace("hop_domain_ns       18", f"hop_domain_ns {hop_ns}"))
            times.append(self.predict("--machine", machine, "--ranks", "2", "--max", "8", "--algorithm", "auto")[0])
        self.assertAlmostEqual(0.2, times[1]["time_us"] - times[0]["time_us"], delta=0.02)

    def test_any_name_makes_json(self):
        machine = self.write("machine", SMALL.read_text(encoding="utf-8").replace("desktop,", 'a "\\ \t b'))
        rows = self.predict("--machine", machine, "--ranks", "2", "--max", "8", "--algorithm", "auto")
        self.assertEqual('a "\\ \t b 8 cores', rows[0]["machine"])

    def test_same_input_same_output(self):
        arguments = ("--machine", SMALL, "--max", "256K", "--factor", "32", "--jitter", "7", "--check")
        self.assertEqual(simulate(*arguments).stdout, simulate(*arguments).stdout)

    def test_long_messages_are_cut_alike(self):
        whole, cut = (self.predict("--machine", SMALL, "--ranks", "2", "--min", size, "--max", size, "--algorithm",
                                   "mesh", "--slot-bytes", "64K")[0] for size in ("4M", "32M"))
        self.assertEqual((False, True), (whole["extrapolated"], cut["extrapolated"]))
        self.assertGreater(cut["time_us"], 7 * whole["time_us"])
        self.assertLess(cut["time_us"], 40 * whole["time_us"])


class Lanes(SimulateTest):
    """Ranks of several threads, each in a lane and on a core."""

    def times(self, machine, ranks, lanes, size, *arguments):
        """By number of lanes."""
        rows = self.predict("--machine", machine, "--ranks", ranks, "--lanes", lanes, "--min", size, "--max", size,
                            *arguments)
        self.assertEqual({ranks}, {row["ranks"] for row in rows})
        self.assertTrue(all(row["lanes"] for row in rows))
        return {row["threads"]: row["time_us"] for row in rows}

    def milan(self, **changes):
        text = (MACHINES / "epyc-milan-2x64").read_text(encoding="utf-8")
        for key, value in changes.items():
            text, changed = re.subn(rf"(?m)^{key} +\S+", f"{key} {value}", text)
            self.assertEqual(1, changed, key)
        return self.write("milan", text)

    def test_one_lane_is_a_rank_of_one_thread(self):
        timed = lambda rows: sorted((row["ranks"], row["asked"], row["bytes"], row["time_us"]) for row in rows)
        for algorithm, largest in (("auto", "64M"), ("direct", "2M")):  # of which all chunks are simulated
            asked = ("--machine", SMALL, "--ranks", "2,8", "--factor", "64", "--algorithm", algorithm, "--max", largest)
            lanes, none = (self.predict(*asked, *more) for more in (("--lanes", "1"), ()))
            self.assertEqual(timed(none), timed(lanes))
            self.assertEqual({(1, False)}, {(row["threads"], row["lanes"]) for row in none})

    def test_more_lanes_are_faster_with_much_data(self):
        for ranks, size in ((2, "1M"), (2, "16M"), (4, "1M"), (4, "16M")):
            with self.subTest(ranks=ranks, size=size):
                times = self.times("epyc-milan-2x64", ranks, "1,4,16", size)
                self.assertGreater(times[1], 3 * times[4])
                self.assertGreater(times[4], times[16])

    def test_small_messages_are_divided_among_few_lanes(self):
        times = self.times("epyc-milan-2x64", 2, "1,64", "8")
        self.assertAlmostEqual(times[1], times[64], delta=0.05 * times[1])
        times = self.times("epyc-milan-2x64", 2, "1,16,64", "64K")
        self.assertLess(times[64], times[1] / 2)

    def test_what_lanes_share_is_a_limit(self):
        size = 64 << 20
        whole, half = (self.times(self.milan(link_gbps=gbps), 2, "1,16,64", size) for gbps in (60, 30))
        for times, gbps in ((whole, 60), (half, 30)):
            self.assertGreater(min(times.values()), size / gbps * 1e-3)  # each socket gets so much from the other
            self.assertLess(times[16], 1.1 * times[64])
        self.assertGreater(half[64], 1.9 * whole[64])
        self.assertLess(half[1], 1.05 * whole[1])
        node_gbps = 40
        slow = self.times(self.milan(node_gbps=node_gbps, l3_bytes="2M"), 2, "16,64", size)
        self.assertGreater(min(slow.values()), 2 * size / node_gbps * 1e-3)  # send is read, recv is written

    def test_protocol(self):
        checked = ("--check", "--slot-bytes", "4K", "--jitter", "1")
        for ranks, lanes in (("2", "3,64"), ("5", "2,7")):
            self.predict("--machine", "epyc-milan-2x64", "--ranks", ranks, "--lanes", lanes, "--min", "3K", "--max",
                         "300K", "--factor", "100", "--algorithm", "oneshot,mesh,ring,tree,direct", *checked)
        done = simulate("--machine", SMALL, "--ranks", "2", "--lanes", "3", "--min", "40K", "--max", "40K", "--algorithm",
                        "mesh", "--skip-wait", "5", *checked)
        self.assertEqual(1, done.returncode)
        self.assertRegex(done.stderr, r"mesh, 2 ranks of 3 lanes, 40960 bytes: protocol: lane \d of rank \d .*"
                                      r"cannot know that lane \d of rank \d")

    def test_measured(self):
        rows = self.write_rows("measured.json", [
            measured_row(threads=4, lanes=True, bytes=1 << 20), measured_row(threads=1, lanes=False),
            measured_row(threads=4, lanes=False), measured_row(threads=5, lanes=True)])
        done = simulate("--machine", SMALL, "--validate", rows)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertRegex(done.stdout, r"(?m)^ +1048576 +2x4 +f32")
        self.assertRegex(done.stdout, r"(?m)^ +4096 +2 +f32")
        self.assertIn("# 2 rows left out", done.stdout)

    def test_refused(self):
        for value in ("0", "65", "2,,3", "x", ""):
            self.assert_refused(f"--lanes '{value}': ", "--machine", SMALL, "--ranks", "2", "--lanes", value)
        self.assert_refused("--lanes 5: with 2 ranks each has 4 of the 8 cores", "--machine", SMALL, "--ranks", "2",
                            "--lanes", "1,5")
        self.assert_refused("--lanes 2: with 8 ranks each has 1", "--machine", SMALL, "--lanes", "2")


class Names(SimulateTest):
    """The machines that come with kolo."""

    def predict_few(self, machine, **options):
        return subprocess.run([SIMULATE, "--machine", machine, "--ranks", "2", "--max", "8"], capture_output=True,
                              text=True, timeout=PATIENCE_S, check=False, **options)

    def test_every_machine_has_its_name(self):
        for machine in MACHINES.iterdir():
            named, by_path = self.predict_few(machine.name), self.predict_few(machine)
            self.assertEqual((0, by_path.stdout), (named.returncode, named.stdout))

    def test_a_file_goes_first(self):
        (self.folder / "grace").write_text(SMALL.read_text(encoding="utf-8"), encoding="utf-8")
        (self.folder / "graviton3").mkdir()
        self.assertIn("desktop", self.predict_few("grace", cwd=self.folder).stdout)
        self.assertIn("Graviton3", self.predict_few("graviton3", cwd=self.folder).stdout)

    def test_unknown_names_are_answered_with_those_that_are_known(self):
        self.assert_refused("--machine '': give NAME", "--machine", "")
        for name in ("gracee", ".", ".."):
            done = simulate("--machine", name)
            self.assertEqual((2, ""), (done.returncode, done.stdout))
            self.assertIn(f"--machine '{name}': neither a file nor a machine that comes with kolo", done.stderr)
            self.assertEqual(sorted(machine.name for machine in MACHINES.iterdir()),
                             sorted(re.findall(r"(?m)^  (\S+)$", done.stderr)))

    def test_tables_fit_80_columns(self):
        done = simulate("--machine", "vm-2", "--factor", "64")
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^ +67108864 ")
        done = simulate("--machine", "epyc-milan-2x64", "--ranks", "2", "--lanes", "1,2,4,8,16,32,64", "--max", "8")
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80, done.stdout)


class Protocol(SimulateTest):
    def check(self, *arguments):
        done = simulate("--check", *arguments)
        self.assertEqual((0, ""), (done.returncode, done.stderr))

    def test_odd_numbers_of_ranks(self):
        for seed, smallest, largest in ((1, "1", "100K"), (2, "3", "8K")):  # other sizes, between those
            self.check("--machine", MACHINES / "epyc-milan-2x64", "--jitter", seed, "--ranks", "2,3,5,7,8,13,17",
                       "--min", smallest, "--max", largest, "--factor", "9")

    def test_small_slots(self):
        self.check("--machine", MACHINES / "epyc-milan-2x64", "--jitter", "3", "--slot-bytes", "4K", "--ranks",
                   "2,3,6,9", "--min", "100", "--max", "100K", "--factor", "11", "--dtype", "bf16", "--in-place")

    def test_many_ranks(self):
        self.check("--machine", MACHINES / "epyc-milan-2x64", "--jitter", "4", "--ranks", "64,128", "--max", "4K",
                   "--factor", "512", "--algorithm", "auto,mesh,direct")

    def test_broken_protocols_are_noticed(self):
        problems = ""
        for wait in range(1, 60, 4):
            done = simulate("--check", "--machine", SMALL, "--ranks", "5", "--min", "40K", "--max", "40K",
                            "--slot-bytes", "4K", "--algorithm", "oneshot,mesh,ring,central", "--jitter", "1",
                            "--skip-wait", wait)
            problems += done.stderr
            self.assertEqual(1 if done.stderr else 0, done.returncode)
        for algorithm in ("oneshot", "mesh", "ring", "central"):
            self.assertRegex(problems, rf"{algorithm}, 5 ranks, 40960 bytes: protocol: rank \d .* cannot know that rank")


class Measurements(SimulateTest):
    def test_calibrate_then_validate(self):
        limits = self.write_rows("limits.json", limit_rows())
        done = simulate("--calibrate", limits, preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}))
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertRegex(done.stdout, r"(?m)^hop_domain_ns +40\.00$")
        self.assertRegex(done.stdout, r"(?m)^read_gbps +20\.00$")
        self.assertRegex(done.stdout, r"(?m)^write_back_gbps +80\.00$")
        self.assertRegex(done.stdout, r"(?m)^share_domain_gbps +60\.00$")
        machine = self.write("machine", done.stdout)
        rows = self.write_rows("measured.json", [measured_row(), measured_row(buffers="cold"),
                                                 measured_row(ranks=1000), measured_row(bytes=8, in_place=True),
                                                 measured_row(in_flight=2), measured_row(alloc=True),
                                                 measured_row(nodes=2), measured_row(alloc=True, algo="direct")])
        done = simulate("--machine", machine, "--validate", rows)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertRegex(done.stdout, r"(?m)^ +4096 +2 +f32 out of +oneshot +\d+\.\d+ +2\.000 +[-+]\d+%$")
        self.assertIn("# 3 rows: off by a factor", done.stdout)
        self.assertIn("# 5 rows left out", done.stdout)

    def test_bad_measurements(self):
        refused = lambda option, path, pattern: self.assert_refused(pattern, "--machine", SMALL, option, path)
        refused("--calibrate", self.folder / "none", "cannot be opened")
        refused("--validate", self.folder / "none", "cannot be opened")
        refused("--calibrate", self.write("a", "{\n"), r"a:1: not a row")
        refused("--validate", self.write("b", '{"collective": "barrier"}\nx\n'), r"b:2: not a row")
        refused("--validate", self.write("c", ""), "no row can be compared")
        refused("--calibrate", self.write_rows("d", limit_rows()[:4]), "are needed")
        refused("--calibrate", self.write_rows("f", limit_rows(cpus=2.5)), "2.5 CPUs are not as many in each")
        refused("--validate", self.write_rows("e", [measured_row(algo="none"), measured_row(bytes=-1)]), "no row can")


class BadInput(SimulateTest):
    def test_help_and_version(self):
        done = simulate("--help")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        for word in ("Usage", "Example", "--machine", "--ranks", "--lanes", "--algorithm", "--json", "--validate", "--calibrate",
                     "--check", "--jitter", "not measured"):
            self.assertIn(word, done.stdout)
        self.assertRegex(simulate("--version").stdout, r"^kolo-simulate \d+\.\d+\.\d+\n$")

    def test_options(self):
        self.assert_refused(r"(?s)--machine NAME is missing.*\n  grace\n")
        self.assert_refused("argument 'x': is not expected", "--machine", SMALL, "x")
        for option, values in {"ranks": ("1", "1025", "2,,3", "x", ""), "algorithm": ("fast", "auto,", ""),
                               "min": ("0", "5G", "1T", "-1", "", "1 K"), "factor": ("1", "x"), "jitter": ("0", "-1"), "skip-wait": ("0",),
                               "dtype": ("f128", ""), "slot-bytes": ("1", "64K2", "2G")}.items():
            for value in values:
                with self.subTest(f"{option} {value}"):
                    self.assert_refused(f"--{option} '{value}': ", "--machine", SMALL, f"--{option}", value)
        self.assert_refused("give whole pages", "--machine", SMALL, "--slot-bytes", "5000")
        self.assert_refused("above --max", "--machine", SMALL, "--min", "1M", "--max", "1K")
        self.assert_refused("give one of them", "--machine", SMALL, "--calibrate", "a", "--validate", "b")
        for option in (("--lanes", "2"), ("--ranks", "2"), ("--in-place",), ("--json", "x"), ("--check",)):
            for rows in ("--validate", "--calibrate"):
                self.assert_refused(f"'{option[0]}.*' has no meaning with {rows}", "--machine", SMALL, *option, rows, "x")
        for option in ("--jitter", "--skip-wait"):
            self.assert_refused("go with --check", "--machine", SMALL, option, "1")
        self.assert_refused("has 8 cores", "--machine", SMALL, "--ranks", "9")
        self.assert_refused("cannot write --json", "--machine", SMALL, "--json", self.folder / "no" / "rows")

    def test_machine_files(self):
        text = SMALL.read_text(encoding="utf-8")
        refused = lambda broken, pattern: self.assert_refused(pattern, "--machine", self.write("m", broken))
        self.assert_refused("cannot be opened", "--machine", self.folder / "none")
        self.assert_refused("cannot be read", "--machine", self.folder)
        refused("", "'sockets' is missing")
        refused(text.replace("turn_ns", "turns_ns"), r"m:\d+: 'turns_ns' is not a key")
        refused(text + "turn_ns 4\n", r"m:\d+: 'turn_ns' is there twice")
        refused(text.replace("turn_ns             4", ""), "'turn_ns' is missing")
        for value in ("-4", "0", "x", "4x", "nan", "inf", "1e99", ""):
            refused(text.replace("turn_ns             4", f"turn_ns {value}"), r"m:\d+: turn_ns '.*': must be")
        for value in ("7.5", "0", "2000"):
            refused(text.replace("cores_per_domain    8", f"cores_per_domain {value}"), "must be a whole number")
        refused(text.replace("cores_per_domain    8", "cores_per_domain 600")
                .replace("sockets             1", "sockets 2"), "at most 64 domains and 2 to 1024 cores")
        refused(text.replace("cores_per_domain    8", "cores_per_domain 1"), "1 L3 domains of 1 cores")
        refused("x" * 5000, "not a machine file")
        refused("\n" * 2000, "not a machine file")
        refused("\0\1\2\n" * 10, "m")


if __name__ == "__main__":
    unittest.main(verbosity=2)
