"""kolo-train --on-failure shrink: training goes on without a rank that is lost, whichever and whenever."""

import json
import os
import random
import signal
import sys
import time
import unittest

import training
from training import launching

SEED = int(os.environ.get("TEST_SEED", "1"))
EPOCHS = 30
PACE_S = 0.01  # at least so long is an epoch: all last until ranks are killed
OPTIONS = ("--epochs", EPOCHS, "--hidden", 256, "--batch", 32, "--on-failure", "shrink")


class Shrink(training.TrainingTest):
    def first_epoch(self, ranks, *options, **variables):
        """A job that trains: its processes, once the first epoch is through."""
        self.output = training.Pace(self.folder / "output", PACE_S)
        job = self.start_training(ranks, "--data", self.data, "--json", self.json, *options, stdout=self.output.writer,
                                  launcher=("--on-failure", "continue"), env={**training.ENVIRONMENT, **variables})
        self.output.begin()
        self.output.await_line(job, "1/")
        pids = launching.children(job.pid)
        self.assertEqual(ranks, len(pids))
        return job, pids

    def finish(self, job, ranks, lost):
        """What the job reports, which must have gone well with the ranks that are left."""
        output, errors = self.output.await_end(job)
        self.assertEqual(0, job.returncode, errors)
        told = [line for line in errors.splitlines() if line.startswith("kolo-train:")]
        self.assertIn(len(told), range(1, lost + 1), errors)  # two that are lost at once are told of as one
        for line in told:
            self.assertRegex(line, r"rank \d+ \(pid \d+\) .*: going on with \d+ ranks? after step \d+$")
        self.assertIn(f"{lost} of {ranks} ranks; the others went on", output)
        report = json.loads(self.json.read_text(encoding="utf-8"))
        self.assertEqual((ranks - lost, lost, True), (report["ranks"], report["ranks_lost"],
                                                      report["replicas_identical"]))
        return report

    def test_any_rank_at_any_step(self):
        stream = random.Random(SEED)
        undisturbed = self.report(3, *OPTIONS, "--no-compare")
        for ranks, victims in ((3, (0,)), (3, (1,)), (3, (2,)), (2, (0,)), (4, (0, 2)), (4, (3, 0, 1))):
            with self.subTest(ranks=ranks, victims=victims, seed=SEED):
                job, pids = self.first_epoch(ranks, *OPTIONS, "--no-compare")
                for victim in victims:
                    time.sleep(stream.uniform(0, 0.05))
                    os.kill(pids[victim], signal.SIGKILL)
                self.assert_same_curve(self.finish(job, ranks, len(victims)), undisturbed)

    def test_optimizer_goes_on(self):
        """Its state and its number of steps are the same as if no rank had been lost: the whole curve shows it."""
        options = (*OPTIONS, "--no-compare", "--optimizer", "adamw")
        undisturbed = self.report(3, *options)
        job, pids = self.first_epoch(3, *options)
        os.kill(pids[0], signal.SIGKILL)
        losses = self.finish(job, 3, 1)["losses"]
        self.assertLess(max(abs(a - b) for a, b in zip(losses, undisturbed["losses"], strict=True)), 1e-4)

    def test_compares_with_one_process(self):
        job, pids = self.first_epoch(3, *OPTIONS)
        os.kill(pids[0], signal.SIGKILL)
        self.assertTrue(self.finish(job, 3, 1)["one_process"]["same"])

    def test_stopped_rank_is_left_out(self):
        job, pids = self.first_epoch(3, *OPTIONS, "--no-compare", KOLO_TIMEOUT_MS="1000")
        os.kill(pids[1], signal.SIGSTOP)
        self.output.await_line(job, "lost .* 1 of 3 ranks; the others went on$")
        os.kill(pids[1], signal.SIGCONT)
        _, errors = self.output.await_end(job)
        self.assertEqual(0, job.returncode, errors)
        self.assertIn("kolo-train: cannot go on: rank 1: kolo_comm_shrink: the others went on without", errors)


if __name__ == "__main__":
    print(f"repeat: TEST_SEED={SEED} {sys.argv[0]}", flush=True)
    unittest.main(verbosity=2)
