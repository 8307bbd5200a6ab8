"""Ways to take a step: the optimizers, and updates in the all-reduce. What must not change the curve does not."""

import itertools
import re
import unittest

import training

STATES = {"sgd": 1, "adamw": 2}  # numbers of state for each parameter
LINE_FLOATS = 32  # parts are whole lines of 128 bytes


class Step(training.TrainingTest):
    def train(self, ranks, *options):
        return self.report(ranks, "--hidden", 40, "--batch", 31, "--steps", 40, "--no-compare", *options)

    def test_same_curve_in_the_allreduce(self):
        """To the last bit, with the state divided among the ranks."""
        curves = {}
        for kind, ranks in itertools.product(STATES, (1, 2, 3)):
            plain, fused = (self.train(ranks, "--optimizer", kind, *fused) for fused in ((), ("--fused",)))
            with self.subTest(kind=kind, ranks=ranks):
                self.assertEqual(plain["losses"], fused["losses"])
                self.assertEqual(plain["test_accuracy"], fused["test_accuracy"])
                self.assertTrue(fused["replicas_identical"])
                self.assertEqual((kind, kind, False, True),
                                 (plain["optimizer"], fused["optimizer"], plain["fused"], fused["fused"]))
                whole = 4 * STATES[kind] * plain["parameters"]
                self.assertEqual(whole, plain["state_bytes"])
                self.assertLessEqual(fused["state_bytes"], whole / ranks + 4 * STATES[kind] * LINE_FLOATS)
                self.assertEqual(0, fused["update_seconds"])
            curves[kind, ranks] = plain["losses"]
        self.assertEqual(self.train(2)["losses"], curves["sgd", 2])
        self.assertNotEqual(curves["sgd", 2][1:], curves["adamw", 2][1:])
        self.assertLess(curves["sgd", 2][-1], 0.7 * curves["sgd", 2][0])

    def test_adamw_learns(self):
        report = self.report(2, "--hidden", 40, "--batch", 31, "--epochs", 12, "--optimizer", "adamw", "--fused")
        self.assertGreater(report["test_accuracy"], 0.8)
        self.assertTrue(report["one_process"]["same"])
        self.assertEqual(0.001, report["rate"])

    def test_tells_what_a_step_takes(self):
        """Only where it is asked for."""
        for options, pattern in (
                (("--optimizer", "adamw"), r"[\d.]+ all-reduce, [\d.]+ update\n  optimizer +adamw, \d+ bytes"),
                (("--fused",), r"[\d.]+ all-reduce and update\n  optimizer +sgd in the all-reduce, \d+ bytes")):
            done = training.run(2, "--data", self.data, "--steps", 3, "--hidden", 8, "--no-compare", *options)
            self.assertEqual((0, ""), (done.returncode, done.stderr))
            self.assertRegex(done.stdout, r"  step +[\d.]+ ms: [\d.]+ gradients, " + pattern)
        done = training.run(2, "--data", self.data, "--steps", 3, "--hidden", 8, "--no-compare")
        self.assertIsNone(re.search(r"^  (step|optimizer) ", done.stdout, re.M), done.stdout)

    def test_refuses_what_does_not_go_together(self):
        for options, pattern in ((("--fused", "--elastic"), "--fused: what a lost process knew"),
                                 (("--fused", "--on-failure", "shrink"), "--fused: what a lost process knew"),
                                 (("--optimizer", "lion"), "--optimizer 'lion': give sgd or adamw")):
            done = training.run(2, *options)
            self.assertEqual((2, ""), (done.returncode, done.stdout))
            self.assertIn(pattern, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
