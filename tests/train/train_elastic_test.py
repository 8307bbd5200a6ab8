"""kolo-train --elastic: who is started again, or by hand, becomes a rank at the end of an epoch.

Whatever is to happen in the midst of training happens while one of its ranks is stopped: then no epoch ends."""

import contextlib
import glob
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import time
import unittest

import training
from training import launching

SEED = int(os.environ.get("TEST_SEED", "1"))
EPOCHS = 20
PACE_S = 0.05  # at least so long is an epoch until the test has done what it does
OPTIONS = ("--epochs", EPOCHS, "--hidden", 256, "--batch", 32)
LONG = ("--epochs", 3 * EPOCHS, "--hidden", 256, "--batch", 32)
WAITS = r"process \d+ waits for the end of an epoch, to join"
NOBODY = 65534


@contextlib.contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    yield
    os.kill(pid, signal.SIGCONT)


class Elastic(training.TrainingTest):
    def setUp(self):
        super().setUp()
        self.job = f"elastic-test-{self.folder.name}"
        self.said, self.output = {}, {}

    def popen(self, command, pace_s=0, **variables):
        """Its output goes to a file: in a pipe that nobody reads it would come to a stop."""
        output = training.Pace(self.folder / f"output-{len(self.said)}", pace_s)
        process = subprocess.Popen(list(map(str, command)), stdout=output.writer, stderr=subprocess.PIPE, text=True,
                                   env={**training.ENVIRONMENT, **variables})
        output.begin()
        self.addCleanup(self.end, process)
        self.said[process], self.output[process] = "", output
        return process

    def first_epoch(self, ranks, *options, on_failure="restart", until="1/", pace_s=PACE_S):
        """A job that trains: its processes, once the first epoch is through."""
        launcher, *launched = training.command(ranks, "--elastic", "--data", self.data, "--json", self.json,
                                               "--no-compare", *options)
        job = self.popen([launcher, "--on-failure", on_failure, *launched], pace_s, KOLO_JOB=self.job)
        self.output[job].await_line(job, until)
        pids = launching.children(job.pid)
        self.assertEqual(ranks, len(pids))
        return job, pids

    def join(self, *options):
        """A process that waits to be taken in."""
        process = self.popen([training.KOLO_TRAIN, "--join", self.job, *options])
        self.await_words(process, WAITS)
        return process

    def await_words(self, process, pattern):
        """Reads what the process says until a line has the pattern."""
        while True:
            line = process.stderr.readline()
            self.assertTrue(line, f"{pattern!r} was never said: {self.said[process]}")
            self.said[process] += line
            if re.search(pattern, line):
                return line

    def await_end(self, process, code):
        """What a process has said, when it has ended as it should."""
        output, errors = self.output[process].await_end(process)
        self.said[process] += errors
        self.assertEqual(code, process.returncode, self.said[process])
        return output, self.said[process]

    def finish(self, job, ranks, lost, joined):
        """What the job reports and says, which must have gone well with so many ranks in the end."""
        output, errors = self.await_end(job, 0)
        report = json.loads(self.json.read_text(encoding="utf-8"))
        self.assertEqual((ranks, lost, joined, True), (report["ranks"], report["ranks_lost"], report["ranks_joined"],
                                                       report["replicas_identical"]), errors)
        self.assertIn(f"parameters on {ranks} rank", output)
        self.assertEqual([], glob.glob(f"/dev/shm/*{self.job}*"))
        self.assertNotIn(f"kolo-join/{os.geteuid()}/{self.job}",
                         pathlib.Path("/proc/net/unix").read_text(encoding="utf-8"))
        return report, errors

    def test_restarted_ranks_join(self):
        undisturbed = self.report(3, *OPTIONS, "--no-compare")
        for ranks, victims in ((3, (0,)), (3, (1,)), (3, (2,)), (2, (0,)), (4, (0, 3))):
            with self.subTest(ranks=ranks, victims=victims):
                job, pids = self.first_epoch(ranks, *OPTIONS)
                with stopped(pids[int(victims[0] != 1)]):
                    for victim in victims:
                        os.kill(pids[victim], signal.SIGKILL)
                    for _ in victims:
                        self.await_words(job, WAITS)
                report, errors = self.finish(job, ranks, len(victims), len(victims))
                self.assertIn(f"{len(victims)} joined: going on with {ranks} ranks after step", errors)
                self.assert_same_curve(report, undisturbed)

    def test_rank_0_is_lost_again_and_again(self):
        """Each time the meeting place passes on, in the end to ranks that have come later."""
        job, pids = self.first_epoch(2, *LONG, on_failure="restart:4")
        for _ in range(3):
            with stopped(pids[1]):
                os.kill(pids[0], signal.SIGKILL)
                newcomer = int(re.search(r"process (\d+)", self.await_words(job, WAITS)).group(1))
            self.await_words(job, "1 joined: going on with 2 ranks")
            pids = [pids[1], newcomer]
        self.finish(job, 2, 3, 3)

    def test_random_kills(self):
        """Members, those who wait and those who are just joining; but one is left, so that there is whom to join."""
        stream = random.Random(SEED)
        job, pids = self.first_epoch(3, *LONG, on_failure="restart:100", pace_s=PACE_S / 5)  # or they would meet waits alone
        spared = stream.choice(pids)
        for _ in range(10):
            time.sleep(stream.uniform(0, 0.1))
            victims = [pid for pid in launching.children(job.pid) if pid != spared]
            with contextlib.suppress(ProcessLookupError, IndexError):
                os.kill(stream.choice(victims), signal.SIGKILL)
        _, errors = self.await_end(job, 0)
        report = json.loads(self.json.read_text(encoding="utf-8"))  # of whoever was rank 0 in the end
        self.assertTrue(report["replicas_identical"], errors)
        self.assertEqual(3 + report["ranks_joined"], report["ranks"] + report["ranks_lost"], errors)
        self.assertEqual(LONG[1] * 15, report["steps"])
        self.assertLess(report["loss"], 0.01)

    def test_joins_by_hand(self):
        for way in (), ("--overlap",):
            with self.subTest(way=way):
                job, pids = self.first_epoch(2, *OPTIONS, *way, on_failure="continue")
                with stopped(pids[1]):
                    newcomers = [self.join(), self.join("--hidden", 256, "--data", self.data, "--rate", 0.1, "--optimizer",
                                                        "sgd", "--elastic", "--no-compare", *way)]
                report, errors = self.finish(job, 4, 0, 2)
                self.assertEqual(["2 joined: going on with 4 ranks"], re.findall("[^: ]* *[^: ]+: going on with .* ranks", errors))
                for newcomer in newcomers:
                    self.assertEqual("", self.await_end(newcomer, 0)[0])
                self.assert_same_curve(report, self.report(4, *OPTIONS, *way, "--no-compare"))

    def test_newcomers_carry_on_alone(self):
        """Both first ranks are killed; who came later has all that is needed, compares and reports."""
        job, pids = self.first_epoch(2, *LONG, on_failure="continue")
        with stopped(pids[1]):
            own = self.folder / "own.json"
            newcomer = self.join("--json", own, "--quiet", "--no-compare")
        self.await_words(job, "1 joined")
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        output, errors = self.await_end(newcomer, 0)
        self.assertRegex(errors, r"going on with 1 rank after step \d+\n$")
        self.assertIn("lost           2 of 3 ranks; the others went on", output)
        report = json.loads(own.read_text(encoding="utf-8"))
        self.assertEqual((1, 2, 1, 3 * EPOCHS * 15), (report["ranks"], report["ranks_lost"], report["ranks_joined"],
                                                report["steps"]))
        self.await_end(job, 128 + signal.SIGKILL)

    def test_refuses_other_settings(self):
        other = self.folder / "other.csv"
        training.write_clusters(other, 600, seed=8)
        job, pids = self.first_epoch(2, *OPTIONS, on_failure="continue")
        with stopped(pids[1]):
            cases = [(("--hidden", 99), "--hidden 99: the training has 256"),
                     (("--optimizer", "adamw", "--exact"), "--optimizer: the training has sgd"),
                     (("--exact",), "--exact: the training is without it"),
                     (("--accumulate", 4), "--accumulate 4: the training has 1"),
                     (("--save", self.folder / "state"), "--save: the training is without it"),
                     (("--rate", "0.2"), "--rate 0.2: the training has 0.1"),
                     (("--steps", "3"), "--steps 3: the training has no such limit"),
                     (("--seed", 1, "--data", other), "--data: the rows are not those of the training")]
            newcomers = [(self.join(*options), words) for options, words in cases]
        _, errors = self.finish(job, 2, 0, 0)
        for newcomer, words in newcomers:
            self.assertEqual(f"kolo-train: cannot join '{self.job}': {words}\n",
                             self.await_end(newcomer, 1)[1].partition("\n")[2])
            self.assertIn(f"kolo-train: refused process {newcomer.pid}, which asked to join: {words}\n", errors)

    def test_refuses_more_ranks_than_rows(self):
        job, pids = self.first_epoch(2, "--epochs", 3, "--hidden", 256, "--batch", 2, on_failure="continue")
        with stopped(pids[1]):
            newcomer = self.join()
        self.finish(job, 2, 0, 0)
        self.assertIn("a batch of 2 rows has none for one more than 2 ranks", self.await_end(newcomer, 1)[1])

    def test_after_the_end(self):
        job, pids = self.first_epoch(2, "--epochs", 1, "--hidden", 1024, "--batch", 4, on_failure="continue", until="epoch")
        with stopped(pids[1]):
            in_time = self.join()
        self.finish(job, 2, 0, 0)
        self.assertIn(f"cannot join '{self.job}': the training is over\n", self.await_end(in_time, 1)[1])
        late = self.popen([training.KOLO_TRAIN, "--join", self.job])
        self.assertEqual(f"kolo-train: cannot join '{self.job}': no training of that name and user is running\n",
                         self.await_end(late, 1)[1])

    def test_training_ends_while_somebody_waits(self):
        job, pids = self.first_epoch(2, *LONG, on_failure="end")
        os.kill(pids[1], signal.SIGSTOP)
        newcomer = self.join()
        os.kill(pids[0], signal.SIGKILL)
        self.await_end(job, 128 + signal.SIGKILL)
        self.assertIn(f"cannot join '{self.job}': the training is over\n", self.await_end(newcomer, 1)[1])

    def test_newcomer_that_is_killed_while_it_waits(self):
        job, pids = self.first_epoch(2, *OPTIONS, on_failure="continue")
        with stopped(pids[1]):
            victim, other = self.join(), self.join()
            victim.kill()
            victim.wait()
        _, errors = self.finish(job, 3, 0, 1)
        self.await_end(other, 0)
        self.assertNotIn("could not", errors)

    def test_newcomer_that_does_not_come(self):
        """It is stopped between asking and joining: the others wait for it a little, and go on."""
        job, pids = self.first_epoch(2, *OPTIONS, on_failure="continue")
        with stopped(pids[1]):
            newcomer = self.join()
            newcomer.send_signal(signal.SIGSTOP)
        self.await_words(job, r"could not take in 1 more: .*rank 2 never came .*: going on with 2 ranks")
        newcomer.kill()
        self.finish(job, 2, 0, 0)

    def test_member_that_is_killed_while_others_join(self):
        """While all wait for a newcomer that is stopped, a member dies, rank 0 or another."""
        for victim in (0, 2):
            with self.subTest(victim=victim):
                job, pids = self.first_epoch(3, *LONG, on_failure="continue")
                with stopped(pids[1]):
                    newcomer = self.join()
                    newcomer.send_signal(signal.SIGSTOP)
                while not all(self.holds_file_to_meet_in(pid) for pid in pids):
                    self.assertIsNone(job.poll())
                    time.sleep(0.001)
                os.kill(pids[victim], signal.SIGKILL)
                self.await_words(job, r"was killed by signal 9.*: going on with 2 ranks")
                with stopped(pids[1]):  # or all could be over when the newcomer asks
                    newcomer.send_signal(signal.SIGCONT)
                    self.await_words(newcomer, "could not join .*, and asks again")
                self.await_words(job, "1 joined: going on with 3 ranks")
                newcomer.kill()
                self.finish(job, 2, 2, 1)

    @staticmethod
    def holds_file_to_meet_in(pid):
        try:
            return any(os.readlink(path).startswith("/memfd:kolo-join") for path in glob.glob(f"/proc/{pid}/fd/*"))
        except FileNotFoundError:
            return False

    def address(self):
        return f"\0kolo-join/{os.geteuid()}/{self.job}"

    def test_nonsense_is_ignored(self):
        job, pids = self.first_epoch(2, *OPTIONS, on_failure="continue")
        os.kill(pids[1], signal.SIGSTOP)
        for message in (b"", b"\0", b"kolo" * 100, None):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as visitor:
                visitor.connect(self.address())
                if message is not None:
                    visitor.send(message)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
            silent.connect(self.address())
            os.kill(pids[1], signal.SIGCONT)
            self.assertEqual(b"", silent.recv(1))
        self.finish(job, 2, 0, 0)

    @unittest.skipUnless(os.geteuid() == 0, "only root can act as another user")
    def test_refuses_another_user(self):
        job, pids = self.first_epoch(2, *OPTIONS, on_failure="continue")
        with stopped(pids[1]):
            code = ("import os, socket, sys; os.setgroups([]); "
                    f"os.setresuid({NOBODY}, {NOBODY}, {NOBODY}); visitor = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); "
                    f"visitor.connect({self.address()!r}); visitor.send(b'let me in'); "
                    "print('asked', file=sys.stderr, flush=True); print(visitor.recv(4096))")
            visitor = self.popen([sys.executable, "-I", "-S", "-c", code])
            self.await_words(visitor, "asked")
        _, errors = self.finish(job, 2, 0, 0)
        words = f"user {NOBODY} started it, and the others are user 0's"
        self.assertIn(words, self.await_end(visitor, 0)[0])
        self.assertIn(f"refused process {visitor.pid}, which asked to join: {words}\n", errors)

    def test_says_what_is_missing(self):
        for command, variables, code, pattern in (
                ([training.KOLO_TRAIN, "--elastic", "--data", self.data], {}, 1, "set KOLO_JOB, or start the ranks"),
                ([training.KOLO_TRAIN, "--elastic", "--data", self.data], {"KOLO_JOB": "x" * 110}, 1, "File name too long"),
                ([training.KOLO_TRAIN, "--join", ""], {}, 2, "--join '': give JOB"),
                ([training.KOLO_TRAIN], {"KOLO_RESTARTS": "1", "KOLO_JOB": "a"}, 2, "it needs --elastic"),
                ([training.KOLO_TRAIN, "--join", self.job, "--data", "/nonexistent"], {}, 1, "cannot open")):
            with self.subTest(command=command):
                _, errors = self.await_end(self.popen(command, **variables), code)
                self.assertRegex(errors, pattern)
                self.assertEqual(1, errors.count("\n"), errors)

    def test_one_training_of_a_name(self):
        job, pids = self.first_epoch(2, *OPTIONS, on_failure="continue")
        with stopped(pids[1]):
            second = self.popen([training.KOLO_TRAIN, "--elastic", "--data", self.data], KOLO_JOB=self.job)
            self.assertIn(f"a training named '{self.job}' is running; choose another KOLO_JOB", self.await_end(second, 1)[1])
        self.finish(job, 2, 0, 0)


if __name__ == "__main__":
    print(f"repeat: TEST_SEED={SEED} {sys.argv[0]}", flush=True)
    unittest.main(verbosity=2)
