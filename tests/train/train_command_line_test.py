"""kolo-train's options, what it prints, and how it ends when something is wrong."""

import os
import re
import resource
import shutil
import signal
import subprocess
import time
import unittest

import training
from training import launching


class CommandLine(training.TrainingTest):
    def assert_refused(self, status, pattern, ranks, *options):
        """Said once, whatever the number of ranks. kolorun may add which rank ended first."""
        self.assert_said_once(training.run(ranks, *options), status, pattern)

    def assert_said_once(self, done, status, pattern):
        self.assertEqual((status, ""), (done.returncode, done.stdout))
        own = [line for line in done.stderr.splitlines() if not line.startswith("kolorun:")]
        self.assertEqual(1, len(own), done.stderr)
        self.assertRegex(own[0], pattern)

    def test_help_and_version(self):
        done = training.run(None, "--help")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        for option in ("--data", "--epochs", "--steps", "--batch", "--hidden", "--rate", "--seed", "--no-compare",
                       "--accumulate", "--optimizer", "--fused", "--shared-parameters", "--overlap", "--compress", "--no-feedback", "--exact",
                       "--ways", "--server", "--staleness", "--servers", "--backup-workers", "--hogwild", "--problem",
                       "--features", "--rule", "--slow", "--step-ms", "--until", "--every", "--save", "--resume", "--on-failure", "--elastic", "--join", "--json", "--quiet", "--help",
                       "--version", "examples:"):
            self.assertIn(option, done.stdout)
        self.assertRegex(training.run(None, "--version").stdout, r"^kolo-train \d+\.\d+\.\d+\n$")

    def test_refuses_wrong_options(self):
        for options, pattern in (
                (("--steps", "0"), "--steps '0': give a whole number from 1 to"),
                (("--epochs", "-3"), "--epochs '-3'"),
                (("--batch", "1e3"), "--batch '1e3'"),
                (("--hidden", "99999"), "--hidden '99999': give a whole number from 1 to 16384"),
                (("--seed", "18446744073709551616"), "--seed"),
                (("--rate", "0"), "--rate '0': give a number from"),
                (("--rate", "nan"), "--rate 'nan'"),
                (("--on-failure", "ignore"), "--on-failure 'ignore': give stop or shrink"),
                (("--data",), "'--data' needs a value"),
                (("--quiet=1",), "option '--quiet' takes no value"),
                (("--nonsense",), "option '--nonsense' is unknown"),
                (("--epoch-s=3",), r"option '--epoch-s' is unknown \(did you mean --epochs\?\)"),
                (("-z",), "option '-z' is unknown"),
                (("spare",), "argument 'spare': is not expected")):
            with self.subTest(options=options):
                self.assert_refused(2, pattern, None, *options)
        self.assert_refused(2, "--steps '0'", 3, "--steps", "0")
        late = ("sh", "-c", 'test "$KOLO_RANK" != 0 || sleep 1; exec "$0" "$@"')  # longer than kolorun's --grace
        done = training.run(None, "--steps", "0", started_by=(launching.KOLORUN, "-n", "2", *late))
        self.assert_said_once(done, 2, "--steps '0'")
        self.assertEqual(1, training.run(3, "--help").stdout.count("usage:"))

    def test_refuses_wrong_data(self):
        self.assert_refused(1, "cannot open '/nonexistent.csv': No such file", 3, "--data", "/nonexistent.csv")
        bad = self.folder / "bad.csv"
        bad.write_text("1,2,0\n1,2,3,0\n", encoding="ascii")
        self.assert_refused(1, re.escape(f"{bad}, line 2: "), 2, "--data", bad)
        bad.write_text("1,2,0\n3,4,1\n", encoding="ascii")
        self.assert_refused(1, "has 2 rows", 2, "--data", bad)

    def test_says_where_the_digits_belong(self):
        program = self.folder / "bin" / "kolo-train"
        program.parent.mkdir()
        shutil.copy(training.KOLO_TRAIN, program)
        done = subprocess.run([program], env=training.ENVIRONMENT, capture_output=True, text=True, timeout=200,
                              check=False)
        self.assertEqual(1, done.returncode)
        self.assertIn(f"'{self.folder}/share/kolo/digits.csv' is missing", done.stderr)
        (self.folder / "share" / "kolo").mkdir(parents=True)
        shutil.copy(self.data, self.folder / "share" / "kolo" / "digits.csv")
        done = subprocess.run([program, "--steps", "1"], env=training.ENVIRONMENT, capture_output=True, text=True,
                              timeout=200, check=False)
        self.assertEqual((0, ""), (done.returncode, done.stderr))

    def test_refuses_wrong_sizes(self):
        self.assert_refused(1, "--batch 2 has not a row for each of 3 ranks", 3, "--data", self.data, "--batch", 2)
        self.assert_refused(1, "--accumulate: 9 batches of 60 rows are more than the 480 rows", 2, "--data", self.data,
                            "--batch", 60, "--accumulate", 9)
        self.assert_refused(1, "--batch 481 is more than the 480 rows", 2, "--data", self.data, "--batch", 481)

    def test_refuses_files_it_cannot_write(self):
        self.assert_refused(1, "cannot write '/nonexistent/a.json'", 2, "--data", self.data, "--json",
                            "/nonexistent/a.json")
        done = training.run(2, "--data", self.data, "--steps", 1, "--json", "/dev/full")
        self.assertEqual(1, done.returncode)
        self.assertIn("cannot write '/dev/full': No space left", done.stderr)
        with open("/dev/full", "w", encoding="ascii") as full:
            done = training.run(2, "--data", self.data, "--steps", 1, stdout=full)
        self.assertEqual(1, done.returncode)
        self.assertIn("cannot write to standard output", done.stderr)

    def test_tells_that_training_diverged(self):
        done = training.run(2, "--data", self.data, "--rate", 100, "--no-compare", "--quiet")
        self.assertEqual((1, ""), (done.returncode, done.stdout))
        self.assertEqual(1, done.stderr.count("training diverged; try a smaller --rate than 100"), done.stderr)

    def test_prints_progress_and_summary(self):
        done = training.run(2, "--data", self.data, "--epochs", 3, "--hidden", 32)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertEqual(3, len(re.findall(r"^ +\d+/3 +\d+\.\d+ +[\d.]+ % +\d+ +[\d.]+ %$", done.stdout, re.M)),
                         done.stdout)
        self.assertLessEqual(max(len(line) for line in done.stdout.splitlines() if not line.startswith("data ")), 80)
        for pattern in (r"loss +\d", r"test accuracy +[\d.]+ % \(\d+ of 120 rows", r"throughput +\d+ samples/s",
                        r"replicas +identical to the last bit: \d+ parameters on 2 ranks",
                        r"one process +same loss curve", r"speedup +[\d.]+ with 2 ranks"):
            self.assertRegex(done.stdout, pattern)

    def test_says_why_there_is_no_speedup(self):
        """Of two ranks on one CPU there is none; and where there is one nothing is to be said."""
        cpu = min(os.sched_getaffinity(0))
        done = training.run(2, "--data", self.data, "--epochs", 2, "--hidden", 8, "--batch", 4,
                            preexec_fn=lambda: os.sched_setaffinity(0, {cpu}))
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        reason = r"\n  why slower     2 ranks share 1 CPU: start as many ranks as CPUs\n"
        speedup = float(re.search(r"speedup +([\d.]+) with 2 ranks", done.stdout)[1])
        if speedup < 1:
            self.assertRegex(done.stdout, reason)
        if speedup > 1:
            self.assertNotIn("why slower", done.stdout)

    def test_quiet(self):
        done = training.run(2, "--data", self.data, "--epochs", 3, "--hidden", 32, "--quiet", "--no-compare")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertTrue(done.stdout.strip().startswith("training summary"), done.stdout)
        self.assertNotIn("one process", done.stdout)

    def test_without_a_launcher(self):
        self.assertEqual(1, self.report(None, "--steps", 5, "--no-compare")["ranks"])

    def test_one_thread_a_rank(self):
        """Two threads at work would take nearly twice the time of the clock."""
        start_s = time.monotonic()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.report(None, "--epochs", 12, "--hidden", 1024, "--no-compare")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        self.assertLess(cpu_s, 1.2 * (time.monotonic() - start_s) + 0.3)

    def test_killed_rank_ends_the_job(self):
        job = self.start_training(3, "--data", self.data, "--epochs", 100000, "--hidden", 64, launcher=("--grace", "30"))
        for _ in range(6):  # until it trains
            job.stdout.readline()
        ranks = launching.children(job.pid)
        self.assertEqual(3, len(ranks))
        os.kill(ranks[1], signal.SIGKILL)
        _, errors = job.communicate(timeout=25)  # or kolorun would end them
        self.assertNotEqual(0, job.returncode)
        self.assertRegex(errors, r"kolo-train: cannot sum the (gradients|test results): .*rank 1 \(pid \d+\) "
                         r"(was killed by signal 9|has ended)")


if __name__ == "__main__":
    unittest.main(verbosity=2)
