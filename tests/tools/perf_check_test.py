"""kolo-perf --check finds calls that a preloaded library spoils, and what cannot be written is an error."""

import errno
import os
import re
import subprocess

import launching
from launching import KOLO_PERF, kolorun

RIGHT = "# all results right"
NOT_TORN = "# no row is torn"
SPOILER = os.environ["PERF_SPOILER"]


class Check(launching.LaunchingTest):
    def assert_ends_with(self, verdict, what, *arguments, spoiled=""):
        done = kolorun("-n", "2", "-x", f"LD_PRELOAD={SPOILER}", "-x", f"SPOILED={spoiled}", KOLO_PERF, what, "--iters", "3",
                       "--warmup", "1", *arguments)
        told = [line for line in done.stdout.splitlines() if re.match("# (FAILED|all results|both ways|no row)", line)]
        self.assertEqual((int("FAILED" in verdict), 1), (done.returncode, len(told)), done.stdout + done.stderr)
        self.assertRegex(told[0], f"^{verdict}")
        return done.stdout

    def test_sums_that_would_hide_themselves(self):
        for what, *arguments in (("allreduce", "--no-limits", "--check"), ("sendrecv", "--check"), ("optimizer",),
                                 ("overlap", "--progress", "no", "--check")):
            with self.subTest(what):
                size = (*arguments, "--min", "1K", "--max", "1K")
                self.assert_ends_with("# FAILED", what, *size, spoiled="sums")
                self.assert_ends_with("# (all|both)", what, *size)

    def table(self, verdict, *arguments, spoiled=""):
        return self.assert_ends_with(verdict, "ps", "--table", "64K", "--min", "64", "--max", "64", "--check", *arguments,
                                     spoiled=spoiled)

    def test_pushes_that_are_lost(self):
        for dtype in ("i32", "u64", "f32", "f64"):
            with self.subTest(dtype):
                self.table("# FAILED", "--staleness", "3", "-d", dtype, spoiled="pushes")
        for arguments in (("-d", "f16"), ("-d", "bf16"), ("--rule", "sgd"), ("--rule", "assign"), ("--rule", "adam")):
            with self.subTest(arguments):
                self.table(NOT_TORN, "--staleness", "3", *arguments, spoiled="pushes")

    def test_pulls_of_other_rows(self):
        for arguments in ((), ("-d", "f16"), ("--rule", "adam")):
            with self.subTest(arguments):
                self.table("# FAILED", *arguments, spoiled="pulls")

    def test_right_tables_of_each_dtype(self):
        for dtype in ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f32", "f64"):
            with self.subTest(dtype):
                self.table(RIGHT, "-d", dtype, "--batch", "7")

    def test_rows_that_another_machine_pushes(self):
        rendezvous = ("--nnodes", "2", "--rendezvous", f"127.0.0.1:{launching.free_port()}", "-n", "1")
        job = (KOLO_PERF, "ps", "--table", "4M", "--min", "1K", "--max", "1K", "--batch", "64", "--iters", "10", "--staleness",
               "3", "--check")
        nodes = [self.start(*rendezvous, "--node-rank", str(node), *job, env=launching.environment(**launching.SECRET))
                 for node in range(2)]
        self.assertIn(RIGHT, [self.assert_ends(node, 0) for node in nodes][0][0])

    def test_an_f32_that_is_full(self):
        shown = self.assert_ends_with(NOT_TORN, "ps", "--table", "1K", "--max", "4", "--keys", "zipf", "--zipf", "10",
                                      "--batch", "65536", "--iters", "40", "--check")
        self.assertRegex(shown, r"(?m)^# no sum is compared: .* 2\^24")


class Unwritable(launching.LaunchingTest):
    REASON = os.strerror(errno.ENOSPC)

    def assert_told(self, message, *command, path="/dev/null"):
        """Of a job whose standard output goes to path."""
        with open(path, "wb") as output:
            done = kolorun("-n", "2", *command, capture_output=False, stdout=output, stderr=subprocess.PIPE)
        self.assertEqual(1, done.returncode)
        self.assertIn(f"{message}: {self.REASON}\n", done.stderr)

    def test_rows(self):
        command = (KOLO_PERF, "allreduce", "--max", "8", "--iters", "1")
        for option in ("--json", "--csv"):
            self.assert_told(f"kolo-perf: rows were lost: cannot write {option} '/dev/full'", *command, option, "/dev/full")
        self.assert_told("kolo-perf: output was lost: cannot write to standard output", *command, path="/dev/full")

    def test_compressions(self):
        command = (os.environ["KOLO_PERF_COMPRESSION"], "--bytes", "64K", "--steps", "1")
        self.assert_told("kolo-perf-compression: cannot write --json '/dev/full'", *command, "--json", "/dev/full")
        self.assert_told("kolo-perf-compression: cannot write to standard output", *command, path="/dev/full")


if __name__ == "__main__":
    launching.main()
