"""kolo-top: what it shows of a running job, whom it refuses, and that nothing it reads can make it fail badly."""

import fcntl
import json
import mmap
import os
import pathlib
import pty
import random
import re
import select
import signal
import stat
import subprocess
import termios
import time
import unittest

import launching
from launching import PATIENCE_S

KOLO_TOP = os.environ["KOLO_TOP"]
LAGGARD_PROBE = os.environ["LAGGARD_PROBE"]
SEED = int(os.environ.get("TEST_SEED", "1"))
RANKS, LATE_RANK, LATE_MS = 3, 1, 40
NOBODY = 65534
COLUMNS_MAX, ESCAPE = 80, "\033"
MAGIC = int.to_bytes(0x6B6F6C6F2D736567, 8, "little")
LAYOUT_AT = 12  # of the segment's header, in all versions
GARBAGE_RUNS = int(os.environ.get("KOLO_TEST_RUNS", 40))


def top(*arguments, **options):
    options = {"capture_output": True, "text": True, "timeout": PATIENCE_S, "env": launching.environment(),
               "check": False, **options}
    return subprocess.run([KOLO_TOP, *map(str, arguments)], **options)


def segment_files(pid):
    """{(inode, offset): descriptor} of the shared mappings of a process whose file begins there with a segment."""
    files = {}
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            found = entry.stat()
        except FileNotFoundError:  # the process has closed it meanwhile
            continue
        if stat.S_ISREG(found.st_mode):
            files[found.st_ino] = entry
    segments = {}
    for line in pathlib.Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines():
        _, rights, offset, _, inode = line.split()[:5]
        if rights.endswith("s") and int(inode) in files:
            with open(files[int(inode)], "rb") as file:
                file.seek(int(offset, 16))
                if file.read(8) == MAGIC:
                    segments[int(inode), int(offset, 16)] = files[int(inode)]
    return segments


class TopTest(launching.LaunchingTest):
    def start_laggards(self, **variables):
        """A job that runs; its kolorun, and its ranks' pids by rank."""
        process = self.start("-n", str(RANKS), "--bind", "none", LAGGARD_PROBE, str(LATE_RANK), str(LATE_MS),
                             env=launching.environment(**variables))
        lines = [re.fullmatch(r"rank (\d) is process (\d+)", line) for line in self.read_lines(process, RANKS)]
        return process, {int(line[1]): int(line[2]) for line in lines}

    def report(self, *arguments):
        done = top("--json", "--once", *arguments)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        return json.loads(done.stdout)

    def assert_refused(self, status, pattern, *arguments, **options):
        done = top(*arguments, **options)
        self.assertEqual((status, ""), (done.returncode, done.stdout))
        self.assertRegex(done.stderr, pattern)


class Spinning(TopTest):
    def test_is_what_was_not_slept(self):
        """A rank that only spins waits 3 ms and more before it sleeps, one that sleeps early does not."""
        shares = {}
        for way in ("spin", "sleep"):
            process, pids = self.start_laggards(KOLO_WAIT=way)
            rank = {"waited_s": 0}
            while rank["waited_s"] < 0.1:
                comms = self.report(pids[0])["communicators"]
                rank = max(comms, key=lambda comm: comm["ranks"][0]["calls"])["ranks"][1 - LATE_RANK]
            shares[way] = rank["spun_s"] / rank["waited_s"]
            os.kill(pids[0], signal.SIGUSR1)
            self.assertEqual(0, process.wait(PATIENCE_S))
        self.assertGreater(shares["spin"], shares["sleep"])


class Running(TopTest):
    @staticmethod
    def busy_first(report):
        """The communicator on which the ranks all-reduce, then the one on which they only had a barrier."""
        return sorted(report["communicators"],
                      key=lambda comm: (comm["ranks"][0]["call"] or {}).get("collective") != "allreduce")

    def check_report_of(self, target, pids):
        """Another rank may be the late one for a moment, where the machine is busy."""
        for tries in range(1, 11):
            report = self.report(target)
            try:
                self.check_report(report, pids)
                return report
            except AssertionError:
                if tries == 10 or self.lateness_is_clear(report):
                    raise
        return None

    def lateness_is_clear(self, report):
        busy = self.busy_first(report)[0]
        if any(rank["calls_per_s"] == 0 or rank["payload_bytes"] != 20000 * rank["calls_ended"] for rank in busy["ranks"]):
            return False  # one was held up all the time, or ends a call just now
        return busy["straggler"] == LATE_RANK and {rank["waited_most_for"] for rank in busy["ranks"]
                                                   if rank["rank"] != LATE_RANK} == {LATE_RANK}

    def check_report(self, report, pids):
        self.assertEqual([RANKS, RANKS], [len(comm["ranks"]) for comm in report["communicators"]])
        busy, idle = self.busy_first(report)
        for comm in (busy, idle):
            self.assertEqual(("running", None), (comm["state"], comm["failure"]))
            self.assertEqual(pids, {rank["rank"]: rank["pid"] for rank in comm["ranks"]})
        self.assertEqual(LATE_RANK, busy["straggler"], report)
        self.assertIsNone(idle["straggler"])
        for rank in busy["ranks"]:
            call = rank["call"]
            self.assertEqual(("allreduce", 5000, "f32", "max"),
                             (call["collective"], call["count"], call["dtype"], call["op"]))
            self.assertEqual(rank["calls"], call["number"])
            self.assertGreater(rank["calls_per_s"], 0)
            self.assertAlmostEqual(rank["bytes_per_s"], 20000 * rank["calls_per_s"], delta=20)  # as printed
            self.assertEqual(20000 * rank["calls_ended"], rank["payload_bytes"])
            self.assertIn(rank["calls"] - rank["calls_ended"], (0, 1))
            if rank["rank"] != LATE_RANK:
                self.assertGreater(rank["waiting_share"], 0.1)
                self.assertEqual(LATE_RANK, rank["waited_most_for"])
            self.assertLessEqual(rank["spinning_share"], min(1, rank["cpu_share"]) + 1e-4)  # as printed
        for rank in idle["ranks"]:
            self.assertEqual(("between calls", 1, 1, "barrier", 0.0),
                             (rank["state"], rank["calls"], rank["calls_ended"], rank["call"]["collective"],
                              rank["bytes_per_s"]))

    def test_by_pid_of_rank_and_of_kolorun(self):
        process, pids = self.start_laggards()
        for pid in (pids[0], pids[LATE_RANK], process.pid):
            self.check_report_of(pid, pids)
        late = rf"(?m)^\* +{LATE_RANK} +{pids[LATE_RANK]} .* #\d+ allreduce 5000 f32 m?a?x?$"
        for _ in range(10):
            done = top("--once", process.pid)
            if re.search(late, done.stdout):
                break
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertRegex(done.stdout, late)
        self.assertRegex(done.stdout, rf"(?m)^  +0 +{pids[0]} +between .* #1 barrier$")
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), COLUMNS_MAX, done.stdout)
        self.assertNotIn(ESCAPE, done.stdout)

    def test_by_name(self):
        job = f"top-test-{os.getpid()}"
        ranks = self.start_without_kolorun(job, RANKS, LAGGARD_PROBE, str(LATE_RANK), str(LATE_MS))
        for rank in ranks:
            rank.stdout.readline()
        report = self.check_report_of(job, {rank: process.pid for rank, process in enumerate(ranks)})
        self.assertEqual([job, job], [comm["job"] for comm in report["communicators"]])
        self.assert_refused(1, "no such process.*; kolo-top alone lists your jobs", job + "x")

    def test_by_name_of_kolorun(self):
        """Its ranks meet by a descriptor, without a name; the job has one all the same."""
        job = f"top-test-{os.getpid()}-kolorun"
        _, pids = self.start_laggards(KOLO_JOB=job)
        report = self.check_report_of(job, pids)
        self.assertEqual([job, job], [comm["job"] for comm in report["communicators"]])

    def listed(self):
        """The list of jobs: {pid: job}."""
        done = top("--json")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        return {job["pid"]: job for job in json.loads(done.stdout)["jobs"]}

    def test_list(self):
        job = f"top-test-{os.getpid()}-list"
        _, named = self.start_laggards(KOLO_JOB=job)
        other, unnamed = self.start_laggards()
        jobs = self.listed()
        self.assertEqual((job, RANKS, 2, "running"), tuple(jobs[named[0]][key] for key in
                                                           ("job", "ranks", "communicators", "state")))
        self.assertTrue(0 <= jobs[named[0]]["age_s"] < PATIENCE_S)
        name = jobs[unnamed[0]]["job"]
        self.assertRegex(name, r"^kolorun-[0-9a-f]+$")
        self.check_report_of(name, unnamed)
        os.kill(named[1], signal.SIGSTOP)
        self.addCleanup(os.kill, named[1], signal.SIGCONT)
        self.wait_until(lambda: launching.state(named[1]) == "T", "the rank to stop")
        self.assertEqual("stopped", self.listed()[named[0]]["state"])
        table = top()
        self.assertEqual((0, ""), (table.returncode, table.stderr))
        self.assertRegex(table.stdout, rf"(?m)^{job} +{named[0]} +{RANKS} +stopped +\d+ s$")
        self.assertLessEqual(max(map(len, table.stdout.splitlines())), COLUMNS_MAX, table.stdout)
        self.end(other)
        self.wait_until(lambda: unnamed[0] not in self.listed(), "the job to go from the list")

    def test_columns(self):
        """Tables of the widest values, and of a job with a long name."""
        job = "j" * 100
        process, _ = self.start_laggards(KOLO_JOB=job)
        widest = subprocess.run([os.environ["WIDEST_PROBE"]], capture_output=True, text=True, check=True).stdout
        for text in (widest, top("--once", "--interval", "0.05", process.pid).stdout, top().stdout):
            self.assertRegex(text, "jjj")
            self.assertEqual([], [line for line in text.splitlines() if len(line) > COLUMNS_MAX])

    def test_help_explains_each_member(self):
        process, pids = self.start_laggards()
        self.wait_until(lambda: self.report(process.pid)["communicators"][0]["ranks"][0]["last_calls"], "calls")
        self.assertIsNone(launching.unexplained(KOLO_TOP, "JSON", self.report(process.pid)))
        listed = json.loads(top("--json").stdout)
        self.assertIn(pids[0], [job["pid"] for job in listed["jobs"]])
        self.assertIsNone(launching.unexplained(KOLO_TOP, "  The list: jobs", listed))

    def test_job_of_several_nodes(self):
        """Two jobs of kolorun on one machine, which take each other for other machines: a rank each."""
        rendezvous = f"127.0.0.1:{launching.free_port()}"
        nodes = [self.start("--nnodes", "2", "--node-rank", str(node), "--rendezvous", rendezvous, "-n", "1",
                            LAGGARD_PROBE, "1", str(LATE_MS), env=launching.environment(**launching.SECRET))
                 for node in range(2)]
        for rank, node in enumerate(nodes):
            self.assertRegex(node.stdout.readline(), rf"rank {rank} is process")
            report = self.report(node.pid)
            self.assertEqual([1, 1], [len(comm["ranks"]) for comm in report["communicators"]])
            self.assertEqual({"running"}, {comm["state"] for comm in report["communicators"]})

    def test_stopped_rank(self):
        _, pids = self.start_laggards()
        os.kill(pids[2], signal.SIGSTOP)
        self.addCleanup(os.kill, pids[2], signal.SIGCONT)
        self.wait_until(lambda: launching.state(pids[2]) == "T", "the rank to stop")
        time.sleep(2 * LATE_MS / 1000)  # what the others had begun before is over
        self.wait_until(lambda: self.busy_first(self.report(pids[0], "--interval", "0.2"))[0]["straggler"] == 2,
                        "the stopped rank to be the straggler")
        rank = self.busy_first(self.report(pids[0], "--interval", "0.2"))[0]["ranks"][2]
        self.assertEqual(("stopped", "T"), (rank["state"], rank["process"]))

    def test_job_ends_meanwhile(self):
        process, pids = self.start_laggards()
        watching = subprocess.Popen([KOLO_TOP, "--interval", "0.1", "--json", str(pids[0])], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True)
        self.addCleanup(watching.kill)
        watching.stdout.readline()
        os.kill(pids[0], signal.SIGUSR1)
        output, errors = watching.communicate(timeout=PATIENCE_S)
        self.assertEqual((0, "kolo-top: the job has ended\n"), (watching.returncode, errors))
        last = json.loads(output.splitlines()[-1])
        self.assertEqual({"ended"}, {comm["state"] for comm in last["communicators"]})
        self.assert_ends(process, 0)

    def test_job_is_killed_meanwhile(self):
        process, pids = self.start_laggards()
        watching = subprocess.Popen([KOLO_TOP, "--interval", "0.1", "--json", str(pids[0])], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True)
        self.addCleanup(watching.kill)
        first = json.loads(watching.stdout.readline())
        self.assertEqual("running", first["communicators"][0]["state"])
        os.kill(pids[2], signal.SIGKILL)
        output, errors = watching.communicate(timeout=PATIENCE_S)
        self.assertEqual((0, "kolo-top: the job has ended\n"), (watching.returncode, errors), output)
        process.communicate(timeout=PATIENCE_S)


class Terminal(TopTest):
    """kolo-top in a terminal of its own."""

    def start_top(self, *arguments, **variables):
        """kolo-top and the other end of its terminal, once something is on the screen."""
        ours, its = pty.openpty()
        self.addCleanup(os.close, ours)
        self.before = termios.tcgetattr(its)
        watching = subprocess.Popen([KOLO_TOP, "--interval", "0.1", *map(str, arguments)], stdin=its, stdout=its,
                                    stderr=its, env=launching.environment(**{"TERM": "xterm", **variables}),
                                    preexec_fn=lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)))
        self.addCleanup(os.close, its)
        self.addCleanup(watching.wait)
        self.addCleanup(watching.kill)
        self.terminal = its
        return watching, ours

    def read_until(self, terminal, pattern):
        text = ""
        while not re.search(pattern, text):
            self.assertTrue(select.select([terminal], [], [], PATIENCE_S)[0], f"{pattern} is not in: {text}")
            text += os.read(terminal, 4096).decode()
        return text

    def assert_restored(self):
        self.assertEqual(self.before, termios.tcgetattr(self.terminal))

    def test_q_quits(self):
        process, _ = self.start_laggards()
        watching, terminal = self.start_top(process.pid)
        self.read_until(terminal, "q quits")
        self.assertNotEqual(self.before, termios.tcgetattr(self.terminal))
        os.write(terminal, b"xq")
        self.assertEqual(0, watching.wait(PATIENCE_S))
        self.assert_restored()
        self.assertIsNone(process.poll())

    def test_signals_restore_the_terminal(self):
        process, _ = self.start_laggards()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            with self.subTest(number):
                watching, terminal = self.start_top(process.pid)
                self.read_until(terminal, "q quits")
                watching.send_signal(number)
                self.assertEqual(-number, watching.wait(PATIENCE_S))
                self.assert_restored()

    def test_ctrl_c(self):
        process, _ = self.start_laggards()
        watching, terminal = self.start_top(process.pid)
        self.read_until(terminal, "q quits")
        os.write(terminal, b"\x03")
        self.assertEqual(-signal.SIGINT, watching.wait(PATIENCE_S))
        self.assert_restored()

    def test_colours(self):
        process, _ = self.start_laggards()
        for variables, colour in (({}, True), ({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False),
                                  ({"TERM": "dumb"}, False)):
            with self.subTest(variables):
                watching, terminal = self.start_top("--once", process.pid, **variables)
                text = self.read_until(terminal, r"(?s)algbw.*algbw.*\n.*\n")
                self.assertEqual(0, watching.wait(PATIENCE_S))
                self.assertEqual(colour, ESCAPE in text, text)


class Refused(TopTest):
    def test_processes_without_jobs(self):
        self.assert_refused(1, rf"process {os.getpid()} is in no kolo job", os.getpid())
        self.assert_refused(1, "999999999: there is no such process", "999999999")
        self.assert_refused(1, "neither a process nor the name of a job", "a/b")
        self.assert_refused(1, "neither a process nor the name of a job", "a" * 300)

    def test_options(self):
        self.assert_refused(2, "--once and --interval are for one job", "--once")
        self.assert_refused(2, "--once and --interval are for one job", "--interval", "2")
        self.assert_refused(2, "--interval '0': give a number from 0.01 to 3600", "--interval", "0", "1")
        self.assert_refused(2, "'2' *: is not expected", "1", "2")
        self.assert_refused(2, "--help", "--nonsense")
        self.assertIn("example:", top("--help").stdout)
        self.assertRegex(top("--version").stdout, r"^kolo-top \d+\.\d+\.\d+\n$")

    @unittest.skipIf(os.geteuid(), "only root can become another user")
    def test_other_user(self):
        if not all(folder.stat().st_mode & stat.S_IXOTH for folder in pathlib.Path(KOLO_TOP).resolve().parents):
            self.skipTest("another user cannot run what is built here")
        _, pids = self.start_laggards()

        def become_nobody():
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)

        self.assert_refused(1, rf"process {pids[0]} is user 0's, and this is user {NOBODY}", "--once", pids[0],
                            preexec_fn=become_nobody)


class Garbage(TopTest):
    """A segment of this process's, which no rank writes: a copy of a real one, then damaged."""

    def setUp(self):
        process, pids = self.start_laggards()
        (_, offset), entry = sorted(segment_files(pids[0]).items())[0]
        with open(entry, "rb") as file:
            file.seek(offset)
            self.segment = file.read(int.from_bytes(self.header(file, offset)[32:40], "little"))
        self.end(process)
        self.wait_until(lambda: not any(map(launching.is_running, pids.values())), "the job's ranks to end")
        self.fd = os.memfd_create("kolo-top-garbage")
        self.addCleanup(os.close, self.fd)
        os.truncate(self.fd, len(self.segment))
        self.mapping = mmap.mmap(self.fd, len(self.segment))
        self.addCleanup(self.mapping.close)

    @staticmethod
    def header(file, offset):
        header = os.pread(file.fileno(), 64, offset)
        assert header[:8] == MAGIC, header
        return header

    def write(self, data):
        os.pwrite(self.fd, data, 0)

    def look(self, *options):
        return top("--once", "--interval", "0.01", *options, os.getpid())

    def test_copy_is_seen_as_ended(self):
        self.write(self.segment)
        report = json.loads(self.look("--json").stdout)
        self.assertEqual(["ended"], [comm["state"] for comm in report["communicators"]])

    def test_other_version(self):
        self.write(self.segment[:LAYOUT_AT] + b"\x4d\0\0\0" + self.segment[LAYOUT_AT + 4:])
        self.assert_refused(1, r"runs kolo \d+\.\d+\.\d+ \(layout 77\), this is kolo \d+\.\d+\.\d+ \(layout \d+\)",
                            os.getpid())

    def test_strangers_damage_is_not_told(self):
        job = f"top-test-{os.getpid()}-none"
        self.write(self.segment[:16] + b"\xff" * 4 + self.segment[20:])
        self.assert_refused(1, "segment is damaged", os.getpid())
        done = top(job)
        self.assertEqual(1, done.returncode)
        self.assertNotIn("damaged", done.stderr)

    def test_damage(self):
        print(f"TEST_SEED={SEED}")
        chance = random.Random(SEED)
        # The slots, which kolo-top does not read, begin behind the first 32 KiB or so of so small a job.
        for run in range(GARBAGE_RUNS):
            data = bytearray(self.segment)
            first = chance.choice((0, 16, 16, 512))
            for _ in range(chance.choice((1, 8, 100, 5000))):
                at = chance.randrange(first, 32768) // 8 * 8
                data[at:at + 8] = chance.choice((bytes(8), b"\xff" * 8, chance.randbytes(8)))
            self.write(data)
            for options in ((), ("--json",)):
                with self.subTest(seed=SEED, run=run, options=options):
                    done = self.look(*options)
                    self.assertIn(done.returncode, (0, 1), done.stderr)
                    if done.returncode:
                        self.assertRegex(done.stderr, r"^kolo-top: process \d+")
                    elif options:
                        json.loads(done.stdout)

    def test_cut_short(self):
        self.write(self.segment)
        watching = subprocess.Popen([KOLO_TOP, "--interval", "0.3", str(os.getpid())], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True)
        self.addCleanup(watching.kill)
        watching.stdout.readline()
        os.truncate(self.fd, 5000)
        output = watching.stdout.read()
        self.assertEqual(0, watching.wait(PATIENCE_S), watching.stderr.read())
        self.assertIn("ended", output)
        watching.stdout.close()
        watching.stderr.close()
        os.truncate(self.fd, 0)
        self.assert_refused(1, "is in no kolo job", os.getpid())


if __name__ == "__main__":
    launching.main()
