"""kolo-perf: its options, what it writes as table, JSON and CSV, and how it ends. What it measures is not looked at."""

import csv
import errno
import importlib.util
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import launching
from launching import KOLO_PERF, KOLORUN, PATIENCE_S, kolorun

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))
from compare import options  # noqa: E402 (the path has to be set first)

COLUMNS_MAX = 80
FAST = ("--no-limits", "--iters", "2", "--warmup", "0")
ONE_RANK = "kolo-perf: one rank exchanges nothing; start several: kolorun -n 2 kolo-perf {}\n"
ROW = re.compile(r"\s*\d+\s")


def perf(*arguments):
    return subprocess.run([KOLO_PERF, *arguments], capture_output=True, text=True, timeout=PATIENCE_S,
                          env=launching.environment(), stdin=subprocess.DEVNULL, check=False)


class PerfTest(launching.LaunchingTest):
    def output(self, *arguments):
        done = perf(*arguments)
        warned = "" if arguments[0] in ("limits", "exact") else ONE_RANK.format(arguments[0])
        self.assertEqual((0, warned), (done.returncode, done.stderr))
        return done.stdout

    def rows(self, *arguments):
        """The objects of --json -."""
        done = perf(*arguments, "--json", "-")
        self.assertEqual(0, done.returncode, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def assert_refused(self, pattern, *arguments):
        done = perf(*arguments)
        self.assertEqual((2, ""), (done.returncode, done.stdout))
        self.assertRegex(done.stderr, rf"^kolo-perf: .*{pattern}.*; see kolo-perf --help\n$")


class Sizes(PerfTest):
    def sizes(self, *arguments):
        return [row["bytes"] for row in self.rows("allreduce", *FAST, *arguments)]

    def test_the_last_size_is_measured(self):
        self.assertEqual([8, 32, 128, 512, 2048, 4096], self.sizes("--max", "4K"))
        self.assertEqual([1000, 3000, 4000], self.sizes("--min", "1000", "--max", "4000", "--factor", "3"))
        self.assertEqual([0, 4, 40, 100], self.sizes("--min", "0", "--max", "100", "--factor", "10"))
        self.assertEqual([4096], self.sizes("--min", "4K", "--max", "4K"))
        self.assertEqual([0], self.sizes("--min", "0", "--max", "0"))
        self.assertEqual([8, 64], self.sizes("--max", "64", "--factor", "1000000"))

    def test_sizes_are_whole_elements_each_once(self):
        self.assertEqual([4, 12, 44, 100], self.sizes("--min", "5", "--max", "100", "--factor", "3"))
        self.assertEqual([4, 8], self.sizes("--min", "1", "--max", "11", "--factor", "2"))

    def test_default(self):
        self.assertEqual(64 << 20, self.sizes()[-1])

    def test_exact_sums(self):
        lines = self.output("exact", "-b", "4K", "-e", "64K", "-f", "16").splitlines()
        self.assertLessEqual(max(map(len, lines)), COLUMNS_MAX)
        rows = [line.split() for line in lines if ROW.match(line)]
        self.assertEqual([[size, dtype] for dtype in ("f32", "f64") for size in ("4096", "65536")],
                         [row[:2] for row in rows])
        for row in rows:
            plain, exact, ratio = map(float, row[2:])
            self.assertTrue(plain > 0 and exact > 0 and ratio > 0, row)

    def test_limits_go_to_the_last_size(self):
        rows = self.rows("limits", "--ranks", "1", "--max", "3000")
        self.assertEqual(3000, [row["bytes"] for row in rows if row["limit"] == "bound"][-1])
        self.assertEqual({"limits"}, {row["collective"] for row in rows})
        self.assertTrue(all(row["host"] == os.uname().nodename for row in rows))


class NcclOptions(PerfTest):
    """The letters of nccl-tests."""

    def shape(self, *arguments):
        keys = ("bytes", "dtype", "op", "iters", "wrong")
        return [[row[key] for key in keys] for row in self.rows("allreduce", "--no-limits", *arguments)]

    def test_letters_mean_what_the_long_names_do(self):
        long = self.shape("--min", "8", "--max", "1K", "--factor", "2", "--iters", "3", "--warmup", "1", "--check",
                          "--dtype", "f64", "--op", "max")
        self.assertEqual([[8 << i, "f64", "max", 3, 0] for i in range(8)], long)
        for letters in ("-b 8 -e 1K -f 2 -n 3 -w 1 -c 1 -d double -o max",
                        "-b8 -e1K -f2 -n3 -w1 -c1 -ddouble -omax",
                        "-c -b 8 -e 1K -f 2 -n 3 -w 1 -d double -o max"):
            with self.subTest(letters):
                self.assertEqual(long, self.shape(*letters.split()))

    def test_check_takes_a_number_or_none(self):
        for arguments, wrong in ((("-c",), 0), (("-c", "1"), 0), (("-c1",), 0), (("--check=1",), 0), (("--check",), 0),
                                 (("-c", "0"), -1), (("-c0",), -1), ((), -1)):
            with self.subTest(arguments):
                done = perf(*arguments, "allreduce", "-e", "8", *FAST, "--json", "-")
                self.assertEqual(0, done.returncode, done.stderr)
                self.assertEqual(wrong, json.loads(done.stdout)["wrong"])
        self.assert_refused("-c 'x': give a whole number from 0 to", "allreduce", "-cx")

    def test_names_of_dtypes(self):
        for name, dtype in (("int8", "i8"), ("uint8", "u8"), ("int32", "i32"), ("uint32", "u32"), ("int64", "i64"),
                            ("uint64", "u64"), ("half", "f16"), ("float", "f32"), ("double", "f64"),
                            ("bfloat16", "bf16"), ("bf16", "bf16")):
            with self.subTest(name):
                self.assertEqual({dtype}, {row[1] for row in self.shape("-d", name, "-e", "8", "-n", "1", "-w", "0")})

    def test_mistakes(self):
        self.assert_refused(r"option '-g' is unknown", "allreduce", "-g", "1")
        self.assert_refused("--offset .12.: give a multiple of 8 from 0 to 4088", "broadcast", "--offset", "12")
        self.assert_refused(r"option '-b' needs a value", "allreduce", "-b")
        self.assert_refused(r"-b 'x': give a size from 0 to 1024G", "allreduce", "-b", "x")
        self.assert_refused(r"--place 'x': give out, in or both", "allreduce", "--place", "x")
        self.assert_refused(r"option '-o, --op NAME' has no meaning for barrier", "barrier", "-o", "sum")
        self.assert_refused(r"option '-r, --root R' has no meaning for allgather", "allgather", "-r", "0")
        self.assert_refused(r"option '--place WHERE' has no meaning for alltoallv", "alltoallv", "--place", "in")
        self.assert_refused(r"option '--algo NAME' has no meaning for gather", "gather", "--algo", "mesh")
        self.assert_refused(r"option '--ranks N' has no meaning for all", "all", "--ranks", "2")


class Records(PerfTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="kolo-perf-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_json_and_csv_say_the_same(self):
        self.output("allreduce", "-e", "1K", *FAST, "--check", "--json", self.folder / "j", "--csv", self.folder / "c")
        objects = [json.loads(line) for line in (self.folder / "j").read_text(encoding="utf-8").splitlines()]
        with open(self.folder / "c", encoding="utf-8", newline="") as file:
            lines = list(csv.DictReader(file))
        self.assertEqual(5, len(objects))
        self.assertEqual(5, len(lines))
        for row, line in zip(objects, lines):
            flat = {**row, **{f"time_us.{name}": us for name, us in row["time_us"].items()}}
            del flat["time_us"]
            self.assertEqual(flat.keys(), line.keys())
            for name, value in flat.items():
                if isinstance(value, str):
                    self.assertEqual(value, line[name])
                elif value is None:
                    self.assertEqual("", line[name])
                else:
                    self.assertEqual(float(value), float(line[name]))

    def test_times_and_origin(self):
        for row in self.rows("allreduce", "-e", "1K", "-n", "20", "--no-limits"):
            times = row["time_us"]
            self.assertEqual(["min", "avg", "median", "p99", "max"], list(times))
            self.assertLessEqual(times["min"], times["avg"])
            self.assertLessEqual(times["avg"], times["max"])
            self.assertEqual(os.uname().nodename, row["host"])
            self.assertTrue(row["cpu"])
            self.assertRegex(row["kolo_version"], r"^\d+\.\d+\.\d+$")
            self.assertRegex(row["date"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")

    def test_standard_output(self):
        done = perf("allreduce", "-e", "64", *FAST, "--csv", "-")
        self.assertEqual([8, 32, 64], [int(row["bytes"]) for row in csv.DictReader(io.StringIO(done.stdout))])
        self.assertIn("# kolo-perf", done.stderr)
        done = perf("allreduce", "-e", "64", *FAST, "--json", "-", "--csv", self.folder / "c")
        self.assertEqual([8, 32, 64], [json.loads(line)["bytes"] for line in done.stdout.splitlines()])
        self.assertIn("# kolo-perf", done.stderr)
        self.assertEqual(4, len((self.folder / "c").read_text(encoding="utf-8").splitlines()))
        for path in ("-", "rows"):
            self.assert_refused(f"cannot both go to '{path}'", "allreduce", "--json", path, "--csv", path)

    def test_unwritable(self):
        for option in ("--json", "--csv"):
            done = perf("allreduce", "-e", "8", *FAST, option, self.folder / "none" / "x")
            self.assertEqual(1, done.returncode)
            self.assertIn(f"cannot write {option}", done.stderr)
            done = perf("allreduce", "-e", "8", *FAST, option, "/dev/full")
            self.assertEqual(1, done.returncode)
            self.assertIn("rows were lost", done.stderr)


class Tables(PerfTest):
    def table(self, *arguments):
        """(the lines of rows, the others) of a job of two ranks."""
        done = kolorun("-n", "2", KOLO_PERF, *arguments)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        lines = done.stdout.splitlines()
        self.assertLessEqual(max(map(len, lines)), COLUMNS_MAX, done.stdout)
        return [line.split() for line in lines if ROW.match(line)], [line for line in lines if not ROW.match(line)]

    def test_one_place(self):
        rows, others = self.table("allreduce", "-e", "1M", "-n", "3", "-c")
        names = next(line for line in others if "median" in line).lstrip("#").split()
        self.assertEqual(["bytes", "algo", "min", "avg", "median", "p99", "max", "algbw", "busbw", "%bound", "#wrong"],
                         names)
        self.assertEqual({len(names)}, {len(row) for row in rows})
        self.assertEqual({"0"}, {row[-1] for row in rows})
        self.assertRegex("\n".join(others), r"(?m)^# host \S+, \d{4}-\d\d-\d\dT")

    def test_both_places(self):
        with tempfile.NamedTemporaryFile(prefix="kolo-perf-", mode="r", encoding="utf-8") as file:
            rows, others = self.table("allreduce", "-e", "1M", "-f", "16", "-n", "3", "-c", "--place", "both", "--json",
                                      file.name)
            objects = [json.loads(line) for line in file.read().splitlines()]
        names = next(line for line in others if "median" in line).lstrip("#").split()
        self.assertEqual(["bytes", "algo", *["median", "algbw", "busbw", "#wrong"] * 2], names)
        self.assertEqual({len(names)}, {len(row) for row in rows})
        self.assertEqual({"0"}, {row[place] for row in rows for place in (5, 9)})
        self.assertEqual([(int(row[0]), place) for row in rows for place in (False, True)],
                         [(row["bytes"], row["in_place"]) for row in objects])

    def test_default_is_out_of_place_alone(self):
        for arguments, in_place in (((), False), (("--in-place",), True), (("--place", "in"), True),
                                    (("--place", "out"), False)):
            rows = self.rows("allreduce", "-e", "64", *FAST, *arguments)
            self.assertEqual([(8, in_place), (32, in_place), (64, in_place)],
                             [(row["bytes"], row["in_place"]) for row in rows])

    def test_large_numbers_stay_in_their_columns(self):
        done = perf("allreduce", "-b", "512M", "-e", "512M", "-n", "9", "--place", "in", "--no-limits")
        row = done.stdout.splitlines()[-2] # of one rank, which has nothing to do
        self.assertLessEqual(len(row), COLUMNS_MAX)
        self.assertRegex(row, r" \d+[kM] 0\.000 ")

    def test_last_line_is_the_average_busbw(self):
        for place in ("out", "both"):
            with tempfile.NamedTemporaryFile(prefix="kolo-perf-", mode="r", encoding="utf-8") as file:
                _, others = self.table("allreduce", "-e", "64K", *FAST, "--check", "--place", place, "--json", file.name)
                busbw = [json.loads(line)["busbw_gbps"] for line in file.read().splitlines()]
            found = re.fullmatch(r"# average busbw: (\S+) GB/s", others[-1])
            self.assertTrue(found, others)
            self.assertAlmostEqual(sum(busbw) / len(busbw), float(found[1]), delta=0.001)

    def test_more_than_the_bound_is_explained(self):
        with tempfile.NamedTemporaryFile(prefix="kolo-perf-", mode="r", encoding="utf-8") as file:
            _, others = self.table("allreduce", "-e", "4M", "-n", "3", "--json", file.name)
            rows = [json.loads(line) for line in file.read().splitlines()]
        self.assertTrue(all((row["bound_sum_us"] or 0) >= (row["bound_us"] or 0) for row in rows), rows)
        above = any((row["bound_percent"] or 0) > 100 for row in rows)
        self.assertEqual(above, any(line.startswith("# %bound above 100:") for line in others), others)

    def test_limits(self):
        """Also where sizes have more digits than their column: nobody has the memory to measure these."""
        lines = self.output("limits", "--ranks", "8", "--max", "1024G", "--quick").splitlines()
        self.assertLessEqual(max(map(len, lines)), COLUMNS_MAX, lines)
        bounds = [line for line in lines if line.startswith(" ")]
        self.assertEqual("1024G", bounds[-1].split()[0])
        self.assertEqual(1, len({line.rindex("  ") for line in bounds}), lines)

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one CPU is no pair")
    def test_pairs_of_cpus(self):
        with tempfile.NamedTemporaryFile(prefix="kolo-perf-", mode="r", encoding="utf-8") as file:
            lines = self.output("limits", "broadcast", "--ranks", "2", "--max", "8", "--quick", "--json", file.name).splitlines()
            rows = [json.loads(line) for line in file.read().splitlines()]
        pairs = [row for row in rows if row["limit"] == "pair"]
        self.assertEqual(1, len(pairs))
        self.assertNotEqual(pairs[0]["one_cpu"], pairs[0]["other_cpu"])
        self.assertGreater(pairs[0]["time_ns"], 0)
        self.assertIn("# Hops between CPUs, in ns", lines)
        self.assertTrue(any(re.match(f"# {pairs[0]['share']} +1 ", line) for line in lines), lines)
        self.assertEqual({"broadcast"}, {row["of"] for row in rows if row["limit"] == "bound"})

    def test_one_rank_moves_nothing(self):
        """Its calls may take no time at all, but that is no bandwidth."""
        done = perf("all", "-b", "1M", "-e", "1M", *FAST, "--json", "-")
        self.assertTrue(done.stderr.startswith(ONE_RANK.format("all")), done.stderr)
        self.assertLessEqual(max(map(len, done.stderr.splitlines())), COLUMNS_MAX)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual({0}, {row["busbw_gbps"] for row in rows})
        for arguments in (("overlap", "-e", "8"), ("optimizer", "-e", "8"), ("allreduce", "-e", "8", "--in-place")):
            self.output(*arguments, "-n", "1", "-w", "0")
        self.table("allreduce", "-e", "8", *FAST)  # has several

    def test_of_other_measurements(self):
        self.table("optimizer", "-e", "64K", "-f", "64", "-n", "2", "-w", "0")

    def test_samples_fit_the_time_without_a_warm_up(self):
        for what in ("sendrecv", "optimizer"):
            done = kolorun("-n", "2", KOLO_PERF, what, "-b", "16M", "-e", "16M", "-w", "0", "--json", "-")
            self.assertLess(json.loads(done.stdout)["iters"], 1000, done.stderr)


class Collectives(PerfTest):
    """Each of them: what a row says, and that --check knows right results from wrong ones."""

    RANKS = 3
    NAMES = [name for name in options.OF_KOLO if name != "allreduce_apply"]
    REDUCES = [name for name in NAMES if "reduce" in name or name.endswith("scan")]
    ROOTED = ("broadcast", "reduce", "gather", "gatherv", "scatter", "scatterv")
    # What a message is divided by to give busbw; and those of which it has a block for each rank.
    BLOCKS = ("allgather", "reduce_scatter", "gather", "scatter", "alltoall")
    FACTORS = {**{name: 1 for name in NAMES if name != "barrier"}, "allreduce": 4 / 3, "allreduce_many": 4 / 3,
               **{name + v: 2 / 3 for name in BLOCKS for v in ("", "v")}}

    def job(self, *arguments):
        """(JSON objects, what was printed) of a job."""
        with tempfile.NamedTemporaryFile(prefix="kolo-perf-", mode="r", encoding="utf-8") as file:
            done = kolorun("-n", str(self.RANKS), KOLO_PERF, *arguments, *FAST[1:], "--json", file.name)
            self.assertEqual((0, ""), (done.returncode, done.stderr), arguments)
            self.assertLessEqual(max(map(len, done.stdout.splitlines())), COLUMNS_MAX)
            return [json.loads(line) for line in file.read().splitlines()], done.stdout

    def test_all(self):
        for arguments in (("--root", "2", "--offset", "8"), ("--buffers", "cold"),
                          ("--alloc", "--buffers", "dirty", "-o", "max", "--offset", "4088")):
            rows, text = self.job("all", "-b", "0", "-e", "100K", "-f", "30", "-c", "1", "--no-limits", "--place", "both",
                                  "-d", "f16", *arguments)
            offset = int(arguments[arguments.index("--offset") + 1]) if "--offset" in arguments else 0
            self.assertEqual({offset}, {row["offset"] for row in rows})
            names = list(dict.fromkeys(row["collective"] for row in rows))
            self.assertEqual(set(self.NAMES), set(names))
            self.assertEqual(names, re.findall(r"(?m)^# kolo-perf \S+: (\w+), ", text))
            self.assertEqual(len(names), text.count("# all results right"))
            self.assertEqual({0}, {row["wrong"] for row in rows})
            for name in names:
                places = {row["in_place"] for row in rows if row["collective"] == name}
                self.assertEqual({"broadcast": {True}, "allreduce_many": {True}, "alltoallv": {False}, "barrier": {False}}.get(name, {False, True}),
                                 places, name)

    def test_size_count_and_bandwidth(self):
        everything, _ = self.job("all", "-b", "8", "-e", "100K", "-f", "30", "-c")
        for name, factor in self.FACTORS.items():
            with self.subTest(name):
                rows = [row for row in everything if row["collective"] == name]
                self.assertTrue(rows)
                for row in rows:
                    self.assertEqual(0, row["wrong"])
                    elements = row["bytes"] // 4
                    if name in self.BLOCKS:
                        self.assertEqual(elements, row["count"] * self.RANKS)
                    elif name.endswith("v"):
                        self.assertEqual(-(-elements // self.RANKS), row["count"])
                    else:
                        self.assertEqual(elements, row["count"])
                    median_us = row["time_us"]["median"]
                    algbw, off = row["bytes"] / median_us / 1e3, 6e-5 / median_us  # as times have four decimals
                    self.assertAlmostEqual(algbw, row["algbw_gbps"], delta=2e-5 + algbw * off)
                    self.assertAlmostEqual(factor * algbw, row["busbw_gbps"], delta=3e-5 + factor * algbw * off)
                    self.assertEqual("sum" if name in self.REDUCES else "none", row["op"])
                    self.assertEqual(0 if name in self.ROOTED else -1, row["root"])
                    self.assertEqual("f32", row["dtype"])
                small = 8 if name not in self.BLOCKS else 4 * self.RANKS
                self.assertEqual(small, rows[0]["bytes"])

    def test_tensors(self):
        for tensors in ("1", "7", "5000"):
            rows, _ = self.job("allreduce_many", "-e", "64K", "-f", "64", "-c", "--no-limits", "--tensors", tensors)
            self.assertEqual({0}, {row["wrong"] for row in rows}, tensors)
        self.assert_refused("option '--tensors N' has no meaning for allreduce", "allreduce", "--tensors", "3")

    def test_root(self):
        for name in self.ROOTED:
            rows, text = self.job(name, "-e", "64K", "-f", "64", "-c", "--root", "1", "--no-limits")
            self.assertEqual([(0, 1)] * len(rows), [(row["wrong"], row["root"]) for row in rows], name)
            self.assertIn("root 1, 3 ranks", text)
        done = kolorun("-n", "2", KOLO_PERF, "reduce", "--root", "2")
        self.assertEqual(2, done.returncode)
        self.assertIn("--root 2: the job has ranks 0 to 1", done.stderr)

    def test_prefixes_of_every_op(self):
        for dtype, op in (("f32", "sum"), ("bf16", "avg"), ("f16", "prod"), ("i8", "avg"), ("u16", "band"),
                          ("i64", "bxor"), ("f64", "min"), ("f32", "sum_exact")):
            for name in (each for each in self.NAMES if each.endswith("scan")):
                rows, _ = self.job(name, "-b", "2K", "-e", "200K", "-f", "100", "-c", "-d", dtype, "-o", op, "--place",
                                   "both")
                self.assertEqual({0}, {row["wrong"] for row in rows}, (name, dtype, op))

    def test_unknown(self):
        self.assert_refused(r"'alreduce' is unknown \(did you mean allreduce\?\); give allreduce, allreduce_many, reduce, ", "alreduce")
        self.assert_refused(r"'reduce_scater' is unknown \(did you mean reduce_scatter\?\)", "reduce_scater")
        self.assert_refused(r"'xyzzy' is unknown; give allreduce, .*, all, sendrecv, waits, optimizer, ps, init, limits, exact or overlap",
                            "xyzzy")
        self.assert_refused("what to measure is missing")
        self.assert_refused(r"'reduce': one collective at a time, and 'scan' came first", "scan", "reduce")


class Messages(PerfTest):
    """kolo-perf sendrecv."""

    def job(self, ranks, *arguments):
        return kolorun("-n", str(ranks), KOLO_PERF, "sendrecv", "-n", "3", "-w", "1", *arguments)

    def test_rows(self):
        for ranks, dtype in ((2, "f64"), (3, "half")):
            done = self.job(ranks, "-b", "0", "-e", "300K", "-f", "100", "-c", "-d", dtype, "--json", "-")
            self.assertEqual(0, done.returncode, done.stderr)
            rows = [json.loads(line) for line in done.stdout.splitlines()]
            unit = {"f64": 8, "half": 2}[dtype]
            self.assertEqual([0, unit, 100 * unit, 10000 * unit], [row["bytes"] for row in rows][:4])
            self.assertEqual(300 << 10, rows[-1]["bytes"])
            self.assertIn("# all results right", done.stderr)
            self.assertLessEqual(max(map(len, done.stderr.splitlines())), COLUMNS_MAX)
            for row in rows:
                self.assertEqual(("sendrecv", ranks, row["bytes"] // unit, 3, 0),
                                 tuple(row[key] for key in ("collective", "ranks", "count", "iters", "wrong")))
                us = row["latency_us"]
                self.assertTrue(0 < us["min"] <= us["median"] <= us["p99"] <= us["max"] and us["min"] <= us["avg"], row)
                for gbps in (row["one_way_gbps"], row["both_ways_gbps"]): # few bytes on a busy machine are rounded to 0
                    self.assertTrue(gbps > 0 if row["bytes"] > 4096 else gbps >= 0 if row["bytes"] else gbps == 0, row)

    def test_pairs(self):
        for ranks, pairs in ((2, 1), (5, 2)):
            done = self.job(ranks, "--pairs", "-b", "64K", "-e", "64K", "-c", "--json", "-")
            self.assertEqual(0, done.returncode, done.stderr)
            row = json.loads(done.stdout)
            self.assertEqual((ranks, pairs, 0), (row["ranks"], row["pairs"], row["wrong"]))
            self.assertAlmostEqual(row["one_way_gbps"], row["one_way_per_s"] * 65536e-9, delta=1e-4)
            self.assertGreater(row["both_ways_gbps"], 0)
            self.assertIn(f"{pairs} pairs of {ranks} ranks", done.stderr)

    def test_csv_has_a_line_for_each_row(self):
        done = self.job(2, "-e", "32", "--csv", "-")
        self.assertEqual(["8", "32"], [row["bytes"] for row in csv.DictReader(io.StringIO(done.stdout))], done.stderr)

    def test_mistakes(self):
        self.assert_refused("option '--alloc' has no meaning for sendrecv", "sendrecv", "--alloc")
        self.assert_refused("option '--pairs' has no meaning for optimizer", "optimizer", "--pairs")
        self.assert_refused("option '-o, --op NAME' has no meaning for sendrecv", "sendrecv", "--op", "max")
        alone = perf("sendrecv")
        self.assertEqual((1, ""), (alone.returncode, alone.stdout))
        self.assertIn("between two ranks, and the job has one", alone.stderr)


class Init(PerfTest):
    """kolo-perf init."""

    def test_parts(self):
        for ranks in (1, 3):
            done = kolorun("-n", str(ranks), KOLO_PERF, "init", "-n", "4", "-w", "0", "--json", "-")
            self.assertEqual(0, done.returncode, done.stderr)
            rows = [json.loads(line) for line in done.stdout.splitlines()]
            self.assertEqual([("init", ranks, part, 4) for part in ("exec", "create", "allreduce", "total")],
                             [tuple(row[key] for key in ("collective", "ranks", "part", "iters")) for row in rows])
            for key in ("min", "avg", "median", "p99", "max"):  # each sample's total is at least each of its parts
                parts = [row["time_us"][key] for row in rows]
                self.assertEqual((True, parts[3]), (parts[0] > 0, max(parts)), (key, parts))
            self.assertEqual(4, len([line for line in done.stderr.splitlines() if re.match(r"\s+(exec|create|allreduce|total)(\s+[\d.k]+){5}$", line)]), done.stderr)
            self.assertLessEqual(max(map(len, done.stderr.splitlines())), COLUMNS_MAX)

    def test_csv(self):
        done = kolorun("-n", "2", KOLO_PERF, "init", "-n", "1", "--csv", "-")
        self.assertEqual(["exec", "create", "allreduce", "total"],
                         [row["part"] for row in csv.DictReader(io.StringIO(done.stdout))], done.stderr)

    def test_mistakes(self):
        self.assert_refused("option '-d, --dtype NAME' has no meaning for init", "init", "-d", "f64")


class ParameterServer(PerfTest):
    """kolo-perf ps."""

    CALLS = ["pull table", "push table", "memcpy table", "pull", "push", "both", "memcpy", "pull, idle", "pull, pushed"]

    def rows_of(self, ranks, *arguments, right="all results right"):
        done = kolorun("-n", str(ranks), KOLO_PERF, "ps", "--table", "64K", "-n", "3", "-w", "1", "-c", "--json", "-",
                       *arguments)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn(f"# {right}\n", done.stderr)
        self.assertLessEqual(max(map(len, done.stderr.splitlines())), COLUMNS_MAX)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_rows(self):
        rows = self.rows_of(2, "-b", "4", "-e", "4K", "-f", "32", "--keys", "zipf", "--batch", "16")
        self.assertEqual([(bytes, call) for bytes in (4, 128, 4096) for call in self.CALLS],
                         [(row["bytes"], row["call"]) for row in rows])
        for row in rows:
            self.assertEqual(("ps", 65536 // row["bytes"], "add", None, 0.99, 0),
                             tuple(row[key] for key in ("collective", "rows", "rule", "staleness", "zipf", "wrong")))
            self.assertEqual(row["rows"] if row["call"].endswith("table") else 16, row["batch"])
            self.assertTrue(row["rows_per_s"] > 0 and row["memcpy_ratio"] > 0)
            self.assertLessEqual(row["latency_us"]["p50"], row["latency_us"]["p99"])
            self.assertAlmostEqual(row["rows_per_s"] * row["bytes"] * 1e-9, row["gbps"], delta=1e-4)

    def test_modes(self):
        for arguments in (("--staleness", "0", "--reads", "0.5"),
                          ("--staleness", "2", "--clock", "2", "--servers", "1", "--placement", "hash"),
                          ("--rule", "adam", "--placement", "greedy"), ("-d", "f64", "--placement", "round_robin")):
            right = "no row is torn" if "adam" in arguments else "all results right"
            rows = self.rows_of(3, "-b", "64", "-e", "64", *arguments, right=right)
            self.assertEqual([self.CALLS, {0}], [[row["call"] for row in rows], {row["wrong"] for row in rows}], arguments)
        self.assertEqual(self.CALLS[:-2], [row["call"] for row in self.rows_of(1, "-b", "64", "-e", "64")])

    def test_mistakes(self):
        self.assert_refused("--zipf goes with --keys zipf", "ps", "--zipf", "1")
        self.assert_refused("--clock goes with --staleness", "ps", "--clock", "5")
        self.assert_refused("--staleness 'x': give a whole number from 0 to 1000000, or inf", "ps", "--staleness", "x")
        self.assert_refused("--max 2048 is above --table 1024", "ps", "--table", "1K", "--max", "2K")
        self.assert_refused("'--keys NAME' has no meaning for allreduce", "allreduce", "--keys", "zipf")
        alone = perf("ps", "--servers", "1")
        self.assertEqual((1, ""), (alone.returncode, alone.stdout))
        self.assertIn("--servers 1: the job has 1 rank", alone.stderr)


class Background(PerfTest):
    """--async, and overlap."""

    def job(self, *arguments):
        """(JSON objects, the lines of the tables) of a job of two ranks."""
        with tempfile.NamedTemporaryFile(prefix="kolo-perf-", mode="r", encoding="utf-8") as file:
            done = kolorun("-n", "2", KOLO_PERF, *arguments, "--json", file.name)
            self.assertEqual((0, ""), (done.returncode, done.stderr), arguments)
            self.assertLessEqual(max(map(len, done.stdout.splitlines())), COLUMNS_MAX)
            return [json.loads(line) for line in file.read().splitlines()], done.stdout

    def test_async(self):
        for place in ("out", "in"):
            rows, text = self.job("allreduce", "--async", "3", "-e", "64K", "-f", "64", "-c", "--place", place, *FAST[1:])
            self.assertEqual([(3, False, 0)] * 4, [(row["in_flight"], row["progress"], row["wrong"]) for row in rows])
            for row, calls in zip(rows, (150, 150, 3, 3)): # fewer where calls take long
                self.assertIn(row["calls_per_iter"], (calls, 15) if calls == 150 else (calls,))
            self.assertIn("# in the background, 3 in flight; no progress thread", text)
        rows, text = self.job("all", "--async", "2", "--progress", "both", "-b", "4K", "-e", "4K", "-c", *FAST[1:])
        self.assertEqual({0}, {row["wrong"] for row in rows})
        names = [row["collective"] for row in rows]
        self.assertEqual(names[::2], names[1::2])
        self.assertEqual([False, True] * (len(rows) // 2), [row["progress"] for row in rows])
        self.assertIn("# in the background, 2 in flight; with a progress thread", text)

    def test_threads(self):
        for lanes in (False, True):
            rows, text = self.job("all", "--threads", "2", *(["--lanes"] if lanes else []), "-b", "2M", "-e", "2M", "-n",
                                  "2", "-w", "0", "-c", "--no-limits")
            self.assertEqual({0}, {row["wrong"] for row in rows if row["collective"] != "barrier"})
            self.assertEqual({(2, lanes)}, {(row["threads"], row["lanes"]) for row in rows})
            self.assertIn("2 ranks of 2 threads" + (" in lanes\n" if lanes else "\n"), text)

    def test_lanes_of_small_calls(self):
        rows, _ = self.job("all", "--threads", "3", "--lanes", "-b", "8", "-e", "4K", "-f", "512", "-n", "2", "-w", "1", "-c",
                           "--no-limits")
        self.assertEqual({0}, {row["wrong"] for row in rows})
        self.assertEqual({1}, {row["threads"] for row in self.rows("allreduce", "--lanes", "-e", "8", *FAST)})

    def test_lanes_are_not_in_the_background(self):
        self.assert_refused("--lanes and --async", "allreduce", "--lanes", "--async", "2")
        self.assert_refused("'--lanes' has no meaning for overlap", "overlap", "--lanes")

    def test_blocking_rows_say_so(self):
        self.assertEqual([0], [row["in_flight"] for row in self.rows("allreduce", "-e", "8", *FAST)])

    def test_overlap(self):
        rows, text = self.job("overlap", "-b", "64", "-e", "64K", "-f", "1024", "-c", "-n", "3", "-w", "0")
        self.assertEqual([("allreduce", progress, bytes) for progress in (False, True) for bytes in (64, 65536)],
                         [(row["collective"], row["progress"], row["bytes"]) for row in rows])
        names = next(line for line in text.splitlines() if "hidden  " in line).lstrip("#").split()
        self.assertEqual(["bytes", "algo", "call", "compute", "in", "turn", "both", "hidden", "slower", "#wrong"], names)
        shown = [line.split() for line in text.splitlines() if ROW.match(line)]
        for row, cells in zip(rows, shown):
            call, compute, both = row["call_us"], row["compute_us"], row["both_us"]
            self.assertGreater(min(call, compute, row["turns_us"], both, row["computing_us"]), 0)
            self.assertEqual(("overlap", 3, 0), (row["measure"], row["iters"], row["wrong"]))
            # Times have four decimals, and quotients of them as many times the error.
            self.assertAlmostEqual(100 * (call + compute - both) / call, row["hidden_percent"],
                                   delta=0.1 + 0.05 / call * (1 + (compute + both) / call))
            self.assertAlmostEqual(100 * (row["computing_us"] / compute - 1), row["slowdown_percent"],
                                   delta=0.1 + 0.05 / compute * (1 + row["computing_us"] / compute))
            if "k" not in cells[-3]:
                self.assertAlmostEqual(row["hidden_percent"], float(cells[-3]), delta=0.1)
        self.assertEqual(len(rows), len(shown))

    def test_overlap_of_all(self):
        rows, _ = self.job("overlap", "all", "--progress", "no", "-b", "1K", "-e", "1K", "-n", "1", "-w", "0", "--csv",
                           os.devnull)
        self.assertEqual([row["collective"] for row in self.rows("all", "-e", "8", *FAST) if row["bytes"] in (0, 8)],
                         [row["collective"] for row in rows])

    def test_mistakes(self):
        self.assert_refused("--async '0': give a whole number from 1 to 64", "allreduce", "--async", "0")
        self.assert_refused("--progress goes with --async or overlap", "allreduce", "--progress", "yes")
        self.assert_refused("--place both has no meaning for overlap", "overlap", "--place", "both")
        self.assert_refused("option '--async N' has no meaning for overlap", "overlap", "--async", "2")
        self.assert_refused("'limits' is unknown", "overlap", "limits")
        self.assert_refused("'scan': one collective at a time, and 'reduce' came first", "overlap", "reduce", "scan")


class Tracing(PerfTest):
    """--trace."""

    def test_calls_without_and_with_one(self):
        with tempfile.TemporaryDirectory(prefix="kolo-perf-") as folder:
            done = kolorun("-n", "2", KOLO_PERF, "allreduce", "--trace", "-e", "32K", "-f", "64", "-c", *FAST, "--json", "-",
                           env=launching.environment(TMPDIR=folder))
            self.assertEqual([], os.listdir(folder))
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertRegex(done.stderr, r"(?m)^# +bytes +algo +untraced +traced +difference +#wrong$")
        shown = [line.split() for line in done.stderr.splitlines() if ROW.match(line)]
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([8, 512, 32768], [row["bytes"] for row in rows])
        for row, cells in zip(rows, shown, strict=True):
            untraced, traced = row["time_us"]["median"], row["traced_us"]
            self.assertGreater(min(untraced, traced), 0)
            self.assertAlmostEqual(1000 * (traced - untraced), row["trace_ns"], delta=0.2)
            self.assertEqual([str(row["bytes"]), row["algo"], 0], [*cells[:2], int(cells[5])])
            if "k" not in cells[4]:
                self.assertAlmostEqual(row["trace_ns"], float(cells[4]), delta=0.1)
        names, *lines = csv.reader(io.StringIO(perf("allreduce", "--trace", "-e", "8", *FAST, "--csv", "-").stdout))
        self.assertEqual([len(names)], [len(line) for line in lines])
        self.assertLess({"traced_us", "trace_ns"}, set(names))
        self.assertNotIn("traced_us", self.rows("allreduce", "-e", "8", *FAST)[0])

    def test_mistakes(self):
        self.assert_refused("--place both has no meaning with --trace", "allreduce", "--trace", "--place", "both")
        self.assert_refused("'--trace' has no meaning for overlap", "overlap", "--trace")
        for pattern, variables in (("a trace of its own", {"KOLO_TRACE": "t"}), ("cannot make", {"TMPDIR": os.devnull})):
            done = subprocess.run([KOLO_PERF, "allreduce", "--trace"], capture_output=True, text=True, check=False,
                                  timeout=PATIENCE_S, env=launching.environment(**variables))
            self.assertEqual((1, ""), (done.returncode, done.stdout))
            self.assertRegex(done.stderr, f"^kolo-perf: .*{pattern}.*\n$")


class Waits(PerfTest):
    def test_rows(self):
        done = kolorun("-n", "2", KOLO_PERF, "waits", "--longest", "2000", "-n", "3", "-w", "0", "--json", "-")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertLessEqual(max(map(len, done.stderr.splitlines())), COLUMNS_MAX)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([(us, way) for us in (1, 10, 100, 1000, 2000) for way in ("auto", "spin", "yield", "sleep")],
                         [(row["wait_us"], row["way"]) for row in rows])
        shown = [line.split() for line in done.stderr.splitlines() if ROW.match(line)]
        self.assertEqual([["1", 9], ["10", 9], ["100", 9], ["1000", 9], ["2000", 9]],
                         [[cells[0], len(cells)] for cells in shown])
        for row in rows:
            self.assertEqual(("waits", 2, 3), (row["measure"], row["ranks"], row["iters"]))
            for name in ("cpu_us", "delay_us"):
                self.assertLess(0, row[name]["median"])
                self.assertLessEqual(row[name]["median"], row[name]["max"])
        done = kolorun("-n", "2", KOLO_PERF, "waits", "--longest", "1", "-n", "201", "--json", "-")
        self.assertEqual([201] * 4, [json.loads(line)["iters"] for line in done.stdout.splitlines()], done.stderr)

    @unittest.skipUnless(importlib.util.find_spec("matplotlib"), "matplotlib is not installed")
    def test_plots(self):
        with tempfile.TemporaryDirectory() as folder:
            rows = pathlib.Path(folder, "waits.json")
            done = kolorun("-n", "2", KOLO_PERF, "waits", "--longest", "1000", "-n", "1", "--json", str(rows))
            self.assertEqual(0, done.returncode, done.stderr)
            done = subprocess.run([sys.executable, "-B", BENCH / "compare/figures.py", "compare.waits_plots", rows, folder],
                                  capture_output=True, text=True, timeout=PATIENCE_S, check=False)
            self.assertEqual((0, ""), (done.returncode, done.stderr))
            self.assertEqual(["delay", "cpu"], [plot["place"] for plot in json.loads(done.stdout)])
            for plot in json.loads(done.stdout):
                self.assertTrue(pathlib.Path(plot["file"]).read_bytes().startswith(b"\x89PNG"))
                drawing = pathlib.Path(plot["file"]).with_suffix(".svg").read_text(encoding="utf-8")
                for name in ("auto", "spin", "yield", "sleep", "1000|1\u2009ms"):
                    self.assertRegex(drawing, f"<!-- ({name}) -->")

    def test_mistakes(self):
        self.assert_refused("--longest '0'", "waits", "--longest", "0")
        self.assert_refused("'--longest US' has no meaning for allreduce", "allreduce", "--longest", "5")
        self.assert_refused("'--quick' has no meaning for allreduce", "allreduce", "--quick")
        done = perf("waits")
        self.assertEqual((1, "kolo-perf: waits needs two ranks or more, all on one machine\n"), (done.returncode, done.stderr))


class Progress(PerfTest):
    """What a terminal shows while a run measures."""

    def on_terminal(self, *command, **streams):
        """All that was written to a terminal, which standard output and error are where they are not given."""
        controller, terminal = os.openpty()
        self.addCleanup(os.close, controller)
        job = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=launching.environment(),
                               **{"stdout": terminal, "stderr": terminal, **streams})
        self.addCleanup(self.end, job)
        os.close(terminal)
        shown = b""
        try:
            while part := os.read(controller, 1 << 16):
                shown += part
        except OSError as error:  # how Linux tells the end
            self.assertEqual(errno.EIO, error.errno)
        self.assertEqual(0, job.wait(PATIENCE_S), shown)
        return shown.decode().replace("\r\n", "\n")

    def test_is_shown_and_goes(self):
        for what in ("allreduce", "sendrecv", "optimizer", "ps", "overlap"):
            once = {"overlap": ("--progress", "no"), "ps": ("--table", "64K")}.get(what, ())
            shown = self.on_terminal(KOLORUN, "-n", "2", KOLO_PERF, what, "-b", "64", "-e", "1K", "-f", "4", "-n", "2", *once)
            drawn = re.findall(r"\r\x1b\[K(kolo-perf: [^\r]*)", shown)
            self.assertLessEqual(max(map(len, drawn)), 79)
            name = "allreduce" if what == "overlap" else what
            rows = [line for line in drawn if ": row " in line]
            self.assertEqual([f"kolo-perf: {name}, {64 * 4 ** i} bytes: row {i + 1} of 3" for i in range(3)],
                             [line.split(", about")[0] for line in rows])
            self.assertRegex(rows[2], r", about \d+ s left$")
            seen = [line.rpartition("\x1b[K")[2] for line in shown.split("\n")]
            self.assertFalse([line for line in seen if "kolo-perf: " in line], "it is erased")
            self.assertIn("64", [line.split()[0] for line in seen if ROW.match(line)])

    def test_of_the_hardware(self):
        shown = self.on_terminal(KOLO_PERF, "limits", "--ranks", "1", "--max", "1K")
        self.assertRegex(shown, r"\r\x1b\[Kkolo-perf: measuring copy, curve \d of \d \.\.\.\r\x1b\[K")
        shown = self.on_terminal(KOLORUN, "-n", "2", KOLO_PERF, "allreduce", "-e", "8")
        self.assertTrue(shown.startswith("\r\x1b[Kkolo-perf: measuring what the hardware allows ...\r\x1b[K#"), shown)

    def test_pipes_and_records_have_none(self):
        command = (KOLORUN, "-n", "2", KOLO_PERF, "allreduce", "-e", "8", *FAST)
        self.assertEqual("", self.on_terminal(*command, stdout=subprocess.PIPE))
        self.assertNotIn("\x1b", self.on_terminal(*command, "--json", "-"))
        self.assertNotIn("\x1b", self.on_terminal(*command, stderr=subprocess.DEVNULL))


class Reader(PerfTest):
    """Whoever reads the table closes it, as head does."""

    def read_first_lines(self, *arguments, size):
        variables = {"KOLO_JOB": f"perf-test-{os.getpid()}", "KOLO_SIZE": str(size), "KOLO_LOG": "warn"}
        ranks = [subprocess.Popen([KOLO_PERF, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env=launching.environment(KOLO_RANK=str(rank), **variables)) for rank in range(size)]
        for rank in ranks:
            self.addCleanup(self.end, rank)
        for line in ranks[0].stdout:
            if ROW.match(line):
                break
        ranks[0].stdout.close()
        return [(rank.wait(PATIENCE_S), rank.stderr.read()) for rank in ranks]

    def test_all_ranks_end_in_silence(self):
        for size in (1, 3):
            with self.subTest(size):
                self.assertEqual([(0, ONE_RANK.format("allreduce") if size == 1 else "")] * size,
                                 self.read_first_lines("allreduce", "-e", "64M", "-f", "2", "-n", "20", "--no-limits",
                                                       size=size))

    def test_a_file_is_written_to_its_end(self):
        with tempfile.NamedTemporaryFile(prefix="kolo-perf-", mode="r", encoding="utf-8") as file:
            self.assertEqual([(0, "")] * 2, self.read_first_lines("allreduce", "-e", "256K", "-f", "2", "-n", "20",
                                                                  "--no-limits", "--json", file.name, size=2))
            self.assertEqual(256 << 10, json.loads(file.read().splitlines()[-1])["bytes"])


if __name__ == "__main__":
    launching.main()
