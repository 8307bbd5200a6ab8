"""Whole jobs: ranks that all-reduce, side by side, and when one of them is killed."""

import os
import random
import re
import signal
import subprocess
import time
import unittest

import launching
from launching import KOLO_PERF, LAGGARD_PROBE, RANK_PROBE, kolorun

SEED = int(os.environ.get("TEST_SEED", "1"))


def expected_lines(size):
    return sorted(f"rank {rank} of {size}, sum {size * (size - 1) // 2}" for rank in range(size))


class Job(launching.LaunchingTest):
    def test_sums(self):
        before = launching.shm_names()
        for size in (1, 2, 3, 5, 8):
            done = kolorun("-n", str(size), RANK_PROBE)
            self.assertEqual((0, ""), (done.returncode, done.stderr))
            self.assertEqual(expected_lines(size), sorted(done.stdout.splitlines()))
        self.assert_nothing_named(before)

    def test_without_launcher(self):
        done = subprocess.run([RANK_PROBE], env=launching.environment(), capture_output=True, text=True, timeout=200,
                              check=False)
        self.assertEqual((0, "rank 0 of 1, sum 0\n", ""), (done.returncode, done.stdout, done.stderr))

    def test_side_by_side(self):
        jobs = {size: self.start("-n", str(size), "--bind", "none", RANK_PROBE, "1") for size in (2, 3)}
        for size, process in jobs.items():
            output, errors = self.assert_ends(process, 0)
            self.assertEqual((expected_lines(size), ""), (sorted(output.splitlines()), errors))

    def test_job_within_a_job(self):
        # The inner job's variables and segment take the place of the outer one's.
        done = kolorun("-n", "2", launching.KOLORUN, "-n", "3", "--bind", "none", RANK_PROBE)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertEqual(sorted(expected_lines(3) * 2), sorted(done.stdout.splitlines()))


class Death(launching.LaunchingTest):
    def setUp(self):
        self.random = random.Random(f"{SEED} {self.id()}")
        self.shm_names = launching.shm_names()

    def kill_a_rank(self, process, size):
        """Returns the rank and its process id."""
        rank = self.random.randrange(size)
        pid = self.wait_for_ranks(process, size)[rank]
        time.sleep(self.random.random() * 0.2)
        os.kill(pid, signal.SIGKILL)
        return rank, pid

    def assert_named(self, rank, pid, errors):
        note = f"TEST_SEED={SEED}\n{errors}"
        self.assertEqual(1, errors.count("kolorun: "), note)
        self.assertIn(f"kolorun: rank {rank} (pid {pid}) was killed by signal 9 (SIGKILL)\n", errors, note)

    def test_survivors_name_the_dead(self):
        for size in (2, 3, 5):
            # The grace period is for a busy machine: what the ranks say must not be cut off here.
            process = self.start("-n", str(size), "--grace", "30", "--tag-output", RANK_PROBE, "50")
            self.read_lines(process, size)
            rank, pid = self.kill_a_rank(process, size)
            _, errors = self.assert_ends(process, 137)
            self.assert_named(rank, pid, errors)
            for survivor in set(range(size)) - {rank}:
                self.assertRegex(errors, rf"(?m)^\[{survivor}\] rank_probe: .*\brank {rank}\b")
        self.assert_nothing_named(self.shm_names)

    def assert_ends_within_a_second(self, start):
        """Of three jobs one must keep to it, because this machine may be busy; all must end well."""
        seconds = []
        for _ in range(3):
            process, size = start()
            rank, pid = self.kill_a_rank(process, size)
            begin = time.monotonic()
            _, errors = self.assert_ends(process, 137)
            seconds.append(time.monotonic() - begin)
            self.assert_named(rank, pid, errors)
            self.assert_nothing_named(self.shm_names)
            if seconds[-1] < 1:
                return
        self.fail(f"TEST_SEED={SEED}: took {seconds} s")

    def test_job_ends_within_a_second(self):
        def start():
            process = self.start("-n", "3", RANK_PROBE, "50")
            self.read_lines(process, 3)
            return process, 3

        self.assert_ends_within_a_second(start)

    @unittest.skipUnless(KOLO_PERF, "kolo-perf is not built")
    def test_perf_ends_within_a_second(self):
        def start():
            process = self.start("-n", "2", KOLO_PERF, "allreduce", "--no-limits", "--min", "1M", "--max", "64M",
                                 "--factor", "2", "--iters", "1000")
            for line in process.stdout:
                if re.match(r"\s*1048576\s", line):
                    return process, 2
            self.fail(f"no row came: {process.communicate()}")

        self.assert_ends_within_a_second(start)


class Culprits(launching.LaunchingTest):
    """What is said of a job that does not go on: by its ranks, and by kolorun when the time is over."""

    def test_stopped_rank(self):
        def attempt(seconds):
            process = self.start("-n", "3", "--timeout", str(seconds), RANK_PROBE, "1000")
            self.read_lines(process, 3)
            ranks = launching.children(process.pid)
            self.assertEqual(3, len(ranks))
            os.kill(ranks[1], signal.SIGSTOP)
            _, errors = self.assert_ends(process, 124)
            self.assertIn(f"kolorun: timeout after {seconds} s: ending ranks 0-2\n", errors)
            self.assertIn("kolorun: rank 1 is stopped, by a signal such as SIGSTOP or by a debugger\n", errors)
            self.assertRegex(errors, rf"(?m)^kolorun: 2 others wait for rank 1 \(pid {ranks[1]}\), which is stopped, "
                                     r"(in|after) its call \d+ \((allreduce|broadcast)\)$")

        self.assert_in_time(attempt)

    def test_late_rank(self):
        def attempt(seconds):
            process = self.start("-n", "2", "--timeout", str(seconds), LAGGARD_PROBE, "1", "100000")
            _, errors = self.assert_ends(process, 124)
            self.assertRegex(errors, r"(?m)^kolorun: 1 other waits for rank 1 \(pid \d+\), which is sleeping, ")

        self.assert_in_time(attempt)

    def test_absent_rank(self):
        def attempt(seconds):
            jobs = {absent: self.start("-n", "3", "--timeout", str(seconds), "sh", "-c",
                                       f'[ $KOLO_RANK = {absent} ] && exec sleep 1000; exec {RANK_PROBE}')
                    for absent in (0, 2)}
            for absent, process in jobs.items():
                self.assertEqual(f"kolorun: timeout after {seconds} s: ending ranks 0-2\n"
                                 f"kolorun: rank {absent} never came to kolo_comm_create, where the others wait\n",
                                 self.assert_ends(process, 124)[1])

        self.assert_in_time(attempt)

    def test_ended_rank(self):
        # Nobody's time is over before this test's.
        ends = (("exit 0", "has ended with status 0"), ("exit 3", "has ended with status 3"),
                ("kill -9 $$", "was killed by signal 9"))
        jobs = [(ended, words, self.start("-n", "3", "--grace", "1000", "sh", "-c",
                                          f"[ $KOLO_RANK = {ended} ] && {{ {end}; }}; exec {RANK_PROBE}",
                                          env=launching.environment(KOLO_CREATE_TIMEOUT_MS="1000000")))
                for end, words in ends for ended in range(3)]
        for ended, words, process in jobs:
            _, errors = process.communicate(timeout=launching.PATIENCE_S)
            self.assertNotEqual(0, process.returncode)
            self.assertNotRegex(errors, r"\brank (\d+): rank \1:")
            for rank in {0, 1, 2} - {ended}:
                self.assertRegex(errors, rf"rank_probe: create: .*\brank {rank}: rank \d (has ended|was killed)")
            self.assertIn(f": rank {ended} {words} before it joined: each of the 3 ranks ", errors)

    def test_ended_where_nobody_waits(self):
        self.assertEqual("", kolorun("-n", "3", "sh", "-c", "exit 0").stderr)
        for end in ("exit 0", f"(sleep 1; exec {RANK_PROBE}) & exit 0"):  # one that leaves another process in its place
            size = 2 if end == "exit 0" else 3
            done = kolorun("-n", "3", "sh", "-c",
                           f"[ $KOLO_RANK = 2 ] && {{ {end}; }}; sleep 1; "
                           f"KOLO_SIZE={size} KOLO_LOCAL_SIZE={size} exec {RANK_PROBE}")
            self.assertEqual((0, ""), (done.returncode, done.stderr))
            self.assertEqual(expected_lines(size), sorted(done.stdout.splitlines()))

    def test_nobody_to_blame(self):
        done = kolorun("-n", "2", "--timeout", "0.5", "sleep", "1000")
        self.assertEqual((124, "kolorun: timeout after 0.5 s: ending ranks 0-1\n"), (done.returncode, done.stderr))

    def test_ranks_say_whom_they_wait_for(self):
        for log, told in ((None, True), ("off", False), ("", False), ("stall:9000", True)):
            variables = {} if log is None else {"KOLO_LOG": log}
            process = self.start("-n", "2", "sh", "-c", f"KOLO_LOG=${{KOLO_LOG:-off}},stall:200 exec {RANK_PROBE} 1000",
                                 env=launching.environment(**variables))
            ranks = self.wait_for_ranks(process, 2)
            self.read_lines(process, 2)
            os.kill(ranks[0], signal.SIGSTOP)
            if told:
                line = rf"kolo: rank 1: has waited .* for rank 0 \(pid {ranks[0]}\), which is stopped"
                self.assertTrue(any(re.match(line, said) for said in process.stderr))  # others may come before it
            else:
                time.sleep(0.5)
            process.terminate()
            _, errors = self.assert_ends(process, 143)
            self.assertTrue(told or errors == "kolorun: terminated\n", errors)


@unittest.skipUnless(KOLO_PERF, "kolo-perf is not built")
class Perf(launching.LaunchingTest):
    def test_checks_its_sums(self):
        for size in ("1", "2", "3"):
            done = kolorun("-n", size, KOLO_PERF, "allreduce", "--min", "8", "--max", "64K", "--factor", "8",
                           "--iters", "5", "--warmup", "1", "--no-limits", "--check")
            self.assertEqual((0, size == "1"), (done.returncode, "one rank exchanges nothing" in done.stderr), done.stderr)
            rows = [line.split() for line in done.stdout.splitlines() if re.match(r"\s*\d+\s", line)]
            self.assertEqual(["8", "64", "512", "4096", "32768", "65536"], [row[0] for row in rows], done.stdout)
            self.assertEqual({"0"}, {row[-1] for row in rows}, done.stdout)


if __name__ == "__main__":
    launching.main()
