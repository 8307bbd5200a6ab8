"""kolorun on one of several machines: what its ranks are told, what it says of them, and whole jobs, with a kolorun for
each machine on this one: their ranks share no memory, so they are on different nodes."""

import os
import re
import signal
import tempfile
import time

import launching
from launching import RANK_PROBE, kolorun

PLACE = "echo $KOLO_RANK/$KOLO_SIZE $KOLO_LOCAL_RANK/$KOLO_LOCAL_SIZE $KOLO_RENDEZVOUS"


def machine(node, counts="2,3,1", nodes=3):
    return ("--nnodes", str(nodes), "--node-rank", str(node), "--rendezvous", "head:29500", "-n", counts)


class Machines(launching.LaunchingTest):
    def assert_places(self, arguments, expected, **variables):
        done = kolorun(*arguments, "sh", "-c", PLACE, env=launching.environment(**variables))
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertEqual(expected, sorted(done.stdout.splitlines()))

    def test_places(self):
        self.assert_places(machine(0), ["0/6 0/2 head:29500", "1/6 1/2 head:29500"])
        self.assert_places(machine(1), ["2/6 0/3 head:29500", "3/6 1/3 head:29500", "4/6 2/3 head:29500"])
        self.assert_places(machine(2), ["5/6 0/1 head:29500"])
        self.assert_places(machine(2, counts="2"), ["4/6 0/2 head:29500", "5/6 1/2 head:29500"])

    def test_rendezvous_by_variable(self):
        arguments = ("--nnodes", "2", "--node-rank", "1", "-n", "1")
        self.assert_places(arguments, ["1/2 0/1 [fd00::1]:9"], KOLO_RENDEZVOUS="[fd00::1]:9")

    def test_exported_on_each_machine(self):
        for node in range(3):  # the same options on each
            done = kolorun(*machine(node), "-x", "A=1", "-x", "B", "sh", "-c", "echo $A$B", env=launching.environment(B=str(node)))
            self.assertEqual({f"1{node}"}, set(done.stdout.split()), done.stderr)
        self.assertIn("-x 'B': give VAR=VALUE", kolorun(*machine(1), "-x", "B", "true").stderr)

    def test_one_machine_meets_nowhere(self):
        self.assert_places(machine(0, counts="1", nodes=1), ["0/1 0/1"])

    def test_job_has_the_users_name_or_none(self):
        for given, wanted in (("", "\n"), ("kolorun-outer", "\n"), ("mine", "mine\n")):
            done = kolorun(*machine(2), "sh", "-c", "echo $KOLO_JOB", env=launching.environment(KOLO_JOB=given))
            self.assertEqual(wanted, done.stdout, done.stderr)

    def test_tags(self):
        done = kolorun("--tag-output", *machine(1), "sh", "-c", "echo $KOLO_RANK; echo $KOLO_LOCAL_RANK >&2")
        self.assertEqual(["[2] 2", "[3] 3", "[4] 4"], sorted(done.stdout.splitlines()))
        self.assertEqual(["[2] 0", "[3] 1", "[4] 2"], sorted(done.stderr.splitlines()))

    def test_names_the_rank_that_fails(self):
        done = kolorun(*machine(1), "sh", "-c", "test $KOLO_RANK != 3 || exit 7; exec sleep 60")
        self.assertEqual(7, done.returncode)
        self.assertTrue(re.fullmatch(r"kolorun: rank 3 \(pid \d+\) exited with code 7\n", done.stderr), done.stderr)

    def test_names_the_rank_that_cannot_start_again(self):
        with tempfile.TemporaryDirectory(prefix="kolorun-test-") as folder:
            script = ('if [ $KOLO_RANK = 4 ]; then rm -rf logs; exit 7; fi; '
                      'until grep -q "start rank 4" errors; do sleep 0.01; done')
            with open(os.path.join(folder, "errors"), "w+", encoding="utf-8") as errors:
                done = kolorun(*machine(1), "--on-failure", "restart", "--output", "logs", "sh", "-c", script,
                               cwd=folder, capture_output=False, stderr=errors)
                errors.seek(0)
                told = errors.read()
        self.assertEqual(0, done.returncode, told)
        self.assertIn("kolorun: cannot start rank 4 again: No such file or directory; the others go on\n", told)

    def test_names_the_ranks_that_take_too_long(self):
        done = kolorun("--timeout", "0.5", *machine(1), "sleep", "60")
        self.assertEqual(124, done.returncode)
        self.assertIn("ending ranks 2-4\n", done.stderr)

    def test_only_rank_0_reads(self):
        for node, expected in ((0, "0 heard\n1\n"), (1, "2\n3\n4\n")):
            with open(__file__, "rb") as text:
                done = kolorun(*machine(node), "sh", "-c", "read line && heard=' heard'; echo $KOLO_RANK$heard", stdin=text)
            self.assertEqual(expected, "".join(sorted(done.stdout.splitlines(keepends=True))))


class Jobs(launching.LaunchingTest):
    def begin(self, counts, *arguments, absent=None, **variables):
        """A kolorun for each machine but the absent one."""
        rendezvous = f"127.0.0.1:{launching.free_port()}"
        return [self.start("--nnodes", str(len(counts)), "--node-rank", str(node), "--rendezvous", rendezvous, "--bind",
                           "none", "-n", ",".join(map(str, counts)), *arguments,
                           env=launching.environment(**{**launching.SECRET, **variables}))
                for node in range(len(counts)) if node != absent]

    def test_sums(self):
        before = launching.shm_names()
        for counts in ((1, 1), (2, 2), (3, 1, 2)):
            size = sum(counts)
            lines = []
            for process in self.begin(counts, RANK_PROBE):
                output, errors = self.assert_ends(process, 0)
                self.assertEqual("", errors)
                lines += output.splitlines()
            self.assertEqual(sorted(f"rank {rank} of {size}, sum {size * (size - 1) // 2}" for rank in range(size)),
                             sorted(lines))
        self.assert_nothing_named(before)

    def test_death_elsewhere(self):
        jobs = self.begin((2, 2), "--grace", "30", "--tag-output", RANK_PROBE, "50")
        for process in jobs:
            self.read_lines(process, 2)
        victim = self.wait_for_ranks(jobs[1], 2)[1]
        begin = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        _, errors = self.assert_ends(jobs[1], 137)
        self.assertIn(f"kolorun: rank 3 (pid {victim}) was killed by signal 9", errors)
        self.assertRegex(errors, r"(?m)^\[2\] rank_probe: .*\brank 3\b")
        _, errors = self.assert_ends(jobs[0], 1)
        self.assertLess(time.monotonic() - begin, 25)  # long before kolorun would end them
        for rank in (0, 1):
            self.assertRegex(errors, rf"(?m)^\[{rank}\] rank_probe: .*\b(rank [23]|node 1)\b")

    def test_rank_that_ends_before_it_joins(self):
        for ended in (1, 2):
            program = ("sh", "-c", f"[ $KOLO_RANK = {ended} ] && exit 0; exec {RANK_PROBE}")
            for process in self.begin((2, 2), "--grace", "1000", *program, KOLO_CREATE_TIMEOUT_MS="1000000"):
                _, errors = self.assert_ends(process, 1)
                self.assertRegex(errors, rf"rank \d: rank {ended} has ended with status 0 before it joined: each of the 4 ")

    def test_machine_that_never_comes(self):
        for process in self.begin((1, 2, 1), RANK_PROBE, absent=1, KOLO_CREATE_TIMEOUT_MS="3000"):
            _, errors = self.assert_ends(process, 1)
            self.assertIn("rank 1-2 never came to 127.0.0.1:", errors)

    def test_different_secrets(self):
        rendezvous = ("--nnodes", "2", "--rendezvous", f"127.0.0.1:{launching.free_port()}", "-n", "1")
        jobs = [self.start(*rendezvous, "--node-rank", str(node), RANK_PROBE,
                           env=launching.environment(KOLO_SECRET=f"{node} is a secret as well", KOLO_CREATE_TIMEOUT_MS="4000"))
                for node in range(2)]
        self.assertIn("another secret", self.assert_ends(jobs[1], 1)[1])
        self.assertIn("wrong secret", self.assert_ends(jobs[0], 1)[1])


if __name__ == "__main__":
    launching.main()
