"""kolo-top's figures for other programs: --prometheus, --once --json, and the file that they go to."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

import launching
import top_test
from launching import PATIENCE_S
from top_test import LAGGARD_PROBE, LATE_MS, LATE_RANK, RANKS, top

if "TABLE_PROBE" in os.environ:
    import top_tables_test

PROMTOOL = shutil.which("promtool")  # of Debian's package prometheus
LAST_CALLS_MAX = 64
SERVERS_LABELS = {"job", "instance"}  # Prometheus' server gives these, and renames a sample's own
SAMPLE = re.compile(r'(\w+)\{((?:\w+="(?:[^"\\\n]|\\["\\n])*",?)*)\} (-?\d+(?:\.\d+)?)')
LABEL = re.compile(r'(\w+)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')


def unescaped(value):
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], value)


def parsed(text):
    """{family: {labels: value}} of the text format, as strictly as its rules are."""
    families, kinds, family = {}, {}, None
    if not text.endswith("\n"):
        raise ValueError("the last line has no end")
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("#"):
            _, name, help_text = re.fullmatch(r"# (HELP) ([a-z][a-z_]*) (\S.*)", line).groups()
            kind = re.fullmatch(rf"# TYPE {name} (counter|gauge)", next(lines))[1]
            if name in families:
                raise ValueError(f"{name} comes twice")
            if name.endswith("_total") != (kind == "counter") or "\\" in help_text:
                raise ValueError(f"{name}: {kind}, {help_text}")
            families[name], kinds[name], family = {}, kind, name
            continue
        name, labels, value = SAMPLE.fullmatch(line).groups()
        pairs = [(key, unescaped(text)) for key, text in LABEL.findall(labels)]
        if name != family or "".join(match[0] for match in LABEL.finditer(labels)) != labels:
            raise ValueError(line)
        if len(dict(pairs)) != len(pairs) or frozenset(pairs) in families[name]:
            raise ValueError(f"twice: {line}")
        if dict(pairs).keys() & SERVERS_LABELS:
            raise ValueError(f"a label of the server: {line}")
        if kinds[name] == "counter" and float(value) < 0:
            raise ValueError(f"a counter below 0: {line}")
        families[name][frozenset(pairs)] = float(value)
    return families


class FiguresTest(top_test.TopTest):
    def output(self, *arguments):
        done = top(*arguments)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        return done.stdout

    def metrics(self, *arguments):
        text = self.output("--prometheus", *arguments)
        if PROMTOOL:
            checked = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True,
                                     timeout=PATIENCE_S, check=False)
            self.assertEqual((0, "", ""), (checked.returncode, checked.stdout, checked.stderr), text)
        return parsed(text)

    @staticmethod
    def values(family, *keys, **labels):
        """{the values of the labels `keys`: value} of the samples that have these labels."""
        found = {}
        for sample, value in family.items():
            pairs = dict(sample)
            if labels.items() <= pairs.items():
                found[tuple(pairs[key] for key in keys)] = value
        return found

    def start_ranks(self):
        job = f"top-figures-test-{os.getpid()}"
        ranks = self.start_without_kolorun(job, RANKS, LAGGARD_PROBE, str(LATE_RANK), str(LATE_MS), stderr=subprocess.DEVNULL)
        for rank in ranks:
            rank.stdout.readline()
        return job, ranks


class Prometheus(FiguresTest):
    def test_counters(self):
        job = f"top-figures-test-{os.getpid()}"
        _, pids = self.start_laggards(KOLO_JOB=job)
        self.wait_until(lambda: max(self.metrics(job)["kolo_calls_total"].values()) > 2, "calls to end")
        first = self.metrics(job)
        begun = self.values(first["kolo_calls_begun_total"], "communicator", rank="0")
        busy, = max(begun, key=begun.get)
        here = {"kolo_job": job, "communicator": busy}
        ranks = {(str(rank),) for rank in range(RANKS)}

        def waited(metrics):
            return self.values(metrics["kolo_waited_seconds_total"], "rank", **here)[str(1 - LATE_RANK),]

        self.wait_until(lambda: waited(self.metrics(pids[0])) > waited(first), "a rank to wait")
        second = self.metrics(pids[0])
        for name, before in first.items():
            if name.endswith("_total"):
                for sample, value in before.items():
                    self.assertGreaterEqual(second[name][sample], value, name)
        for name in ("calls_begun", "sent_bytes", "received_bytes", "waited_seconds", "spun_seconds", "cpu_seconds"):
            self.assertEqual(ranks, set(self.values(second[f"kolo_{name}_total"], "rank", **here)), name)
        calls = self.values(second["kolo_calls_total"], "rank", "collective", **here)
        self.assertEqual({(rank, "allreduce") for rank, in ranks}, set(calls))
        self.assertEqual({key: 20000 * count for key, count in calls.items()},
                         self.values(second["kolo_payload_bytes_total"], "rank", "collective", **here))
        self.assertEqual({(): RANKS}, self.values(second["kolo_ranks"], **here))
        self.assertEqual(RANKS, sum(self.values(second["kolo_ranks_in_state"], "state", **here).values()))
        self.assertEqual({(): 0}, self.values(second["kolo_failures_total"], **here))

    def test_all_jobs(self):
        """Without a job, and also where there is none."""
        _, pids = self.start_laggards()
        name = {job["pid"]: job["job"] for job in json.loads(self.output("--json"))["jobs"]}[pids[0]]
        self.assertIn((name,), self.values(self.metrics()["kolo_ranks"], "kolo_job"))
        self.assertEqual(set(self.metrics()), set(self.metrics(pids[0])))

    def test_failure(self):
        """Two ranks are left, of which one is stopped: the communicator is not over."""
        job, ranks = self.start_ranks()
        ranks[0].send_signal(signal.SIGSTOP)
        self.wait_until(lambda: launching.state(ranks[0].pid) == "T", "the rank to stop")
        ranks[2].kill()
        ranks[2].wait()
        self.assertEqual(1, ranks[1].wait(PATIENCE_S))
        metrics = self.metrics(ranks[0].pid)
        info = self.values(metrics["kolo_failure_info"], "kolo_job", "rank", "reporter")
        self.assertEqual({(job, "2", "1"): 1}, info)
        self.assertEqual([0, 1], sorted(self.values(metrics["kolo_failures_total"], "communicator").values()))
        states = self.values(metrics["kolo_ranks_in_state"], "communicator", "state")
        self.assertEqual({1}, {count for (_, state), count in states.items() if state == "stopped"})
        self.assertEqual({0}, {count for (_, state), count in states.items() if state == "waiting"})

    def test_is_whole(self):
        """The file is replaced: who has it open reads the old one to its end."""
        _, pids = self.start_laggards()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "kolo.prom"
            for arguments, read in ((("--prometheus",), parsed),
                                    (("--once", "--json", "--interval", "0.05"), json.loads)):
                self.assertEqual("", self.output(*arguments, "-o", path, pids[0]))
                with open(path, encoding="utf-8") as old:
                    before = os.fstat(old.fileno()).st_ino
                    self.assertEqual("", self.output(*arguments, "--output", path, pids[0]))
                    read(old.read())
                self.assertNotEqual(before, path.stat().st_ino)
                read(path.read_text(encoding="utf-8"))
                self.assertEqual([path], list(path.parent.iterdir()))
            self.assert_refused(1, "cannot write '.*nowhere", "--prometheus", "-o", f"{folder}/nowhere/a", pids[0])
            self.assert_refused(1, "cannot write '/dev/full'", "--prometheus", "-o", "/dev/full", pids[0])

    def test_options(self):
        for arguments in (("--prometheus", "--json"), ("--prometheus", "--interval", "1")):
            self.assert_refused(2, "--prometheus reads once", *arguments)
        for arguments in (("--json",), ("--once",), ()):
            self.assert_refused(2, "--output is for --prometheus", *arguments, "-o", "a", "1")

    def test_parser_is_strict(self):
        good = '# HELP kolo_a_total A.\n# TYPE kolo_a_total counter\nkolo_a_total{b="c\\"d",e="f"} 1\n'
        self.assertEqual({"kolo_a_total": {frozenset({("b", 'c"d'), ("e", "f")}): 1}}, parsed(good))
        for old, new in (("counter", "gauge"), ("} 1", "} -1"), ("} 1", "}"), ('\\"', '"'), ("1\n", "1"),
                         ('"f"', '"f",b="c"'), ("e=", "job="), ("e=", "instance="), ("kolo_a_total{", "kolo_b_total{")):
            with self.subTest(new), self.assertRaises((ValueError, AttributeError, TypeError, StopIteration)):
                parsed(good.replace(old, new))


class Json(FiguresTest):
    def busy(self, target, *arguments):
        report = self.report(target, *arguments)
        return max(report["communicators"], key=lambda comm: comm["ranks"][0]["calls"])

    def test_last_calls(self):
        _, pids = self.start_laggards()
        soon = ("--interval", "0.05")
        self.wait_until(lambda: min(rank["calls"] for rank in self.busy(pids[0], *soon)["ranks"]) > 3, "calls")
        comm = self.busy(pids[0], *soon)
        for rank in comm["ranks"]:
            ended = rank["collectives"][0]["calls"]
            self.assertGreaterEqual(ended, rank["calls_ended"])  # it is read later
            self.assertEqual([{"collective": "allreduce", "calls": ended, "payload_bytes": 20000 * ended}],
                             rank["collectives"])
            numbers = [call["number"] for call in rank["last_calls"]]
            self.assertEqual(list(range(numbers[0], rank["calls"] + 1)), numbers)
            self.assertEqual(min(LAST_CALLS_MAX, rank["calls"]), len(numbers))
            kinds = {tuple(call[key] for key in ("collective", "count", "dtype", "op")) for call in rank["last_calls"]}
            self.assertEqual({("allreduce", 5000, "f32", "max")}, kinds)
            for call in rank["last_calls"]:
                for key in ("began_s", "ended_s"):
                    self.assertLessEqual(call[key] or 0, comm["read_s"])
        waited = [call for call in comm["ranks"][1 - LATE_RANK]["last_calls"] if call["waited_for"] is not None]
        self.assertTrue(waited)
        self.assertTrue(all(call["waited_s"] > 0 and call["began_s"] > 0 for call in waited))

    def test_not_at_each_reading(self):
        _, pids = self.start_laggards()
        watching = subprocess.Popen([top_test.KOLO_TOP, "--interval", "0.1", "--json", str(pids[0])], text=True,
                                    stdout=subprocess.PIPE)
        self.addCleanup(watching.stdout.close)
        self.addCleanup(watching.wait)
        self.addCleanup(watching.kill)
        self.assertNotIn("last_calls", watching.stdout.readline())

    def test_cpu_time(self):
        """The kernel's own count lies between what it says before and after, but for its ticks."""
        def kernels(pid):
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

        _, pids = self.start_laggards()
        before = {rank: kernels(pid) for rank, pid in pids.items()}
        comm = self.busy(pids[0])
        after = {rank: kernels(pid) for rank, pid in pids.items()}
        for rank in comm["ranks"]:
            least, most = before[rank["rank"]] - 0.05, after[rank["rank"]] + 0.05
            self.assertTrue(least <= rank["cpu_s"] <= most, (least, rank, most))
            self.assertTrue(0 <= rank["cpu_share"] <= 1.5, rank)

    def test_cpu_time_of_a_process_that_ended(self):
        _, ranks = self.start_ranks()
        ranks[0].send_signal(signal.SIGSTOP)
        ranks[2].kill()
        ranks[2].wait()
        for comm in self.report(ranks[0].pid, "--interval", "0.05")["communicators"]:
            self.assertEqual((None, None), (comm["ranks"][2]["cpu_s"], comm["ranks"][2]["cpu_share"]))


@unittest.skipUnless("TABLE_PROBE" in os.environ, "the library has no tables")
class Tables(FiguresTest):
    def test_counters(self):
        job = top_tables_test.TableTest.start_job(self)
        name = top_tables_test.NAME
        ranks = {(str(rank),) for rank in range(RANKS)}
        self.wait_until(lambda: sum(self.metrics(job[0].pid)["kolo_table_clocks_total"].values()) > 0, "clocks to end")
        metrics = self.metrics(job[0].pid)
        for figure in ("pulled_total", "pushed_total", "applied_total", "clocks_total", "waited_seconds_total",
                       "wait_seconds"):
            self.assertEqual(ranks, set(self.values(metrics[f"kolo_table_{figure}"], "rank", table=name)), figure)
        clocks = self.values(metrics["kolo_table_clocks_total"], "rank")
        for rank, pulled in self.values(metrics["kolo_table_pulled_total"], "rank").items():
            self.assertIn(pulled, (10 * clocks[rank], 10 * clocks[rank] + 10))
        for figure, value in (("rows", 10), ("staleness_clocks", top_tables_test.STALENESS)):
            self.assertEqual({(name,): value}, self.values(metrics[f"kolo_table_{figure}"], "table"))


if __name__ == "__main__":
    if not PROMTOOL:
        print("promtool (Debian: prometheus) is not installed: its checks are left out")
    launching.main()
