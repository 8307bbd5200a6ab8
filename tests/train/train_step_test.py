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

    def test_same_curve_with_overlap(self):
        for options, ranks in itertools.product(((), ("--optimizer", "adamw", "--fused"), ("--exact",)), (1, 2, 3)):
            with self.subTest(options=options, ranks=ranks):
                plain, overlapped = (self.train(ranks, *options, *overlap) for overlap in ((), ("--overlap",)))
                self.assertEqual(plain["losses"], overlapped["losses"])

    def test_same_curve_with_one_copy(self):
        state = self.folder / "training.state"
        for ranks in 1, 2, 3:
            with self.subTest(ranks=ranks):
                options = ("--optimizer", "adamw", "--fused", "--shared-parameters")
                plain = self.train(ranks, "--optimizer", "adamw")
                for more in (), ("--overlap",):
                    one = self.train(ranks, *options, *more)
                    self.assertEqual(plain["losses"], one["losses"])
                    self.assertEqual(plain["test_accuracy"], one["test_accuracy"])
                    self.assertTrue(one["replicas_identical"])
                self.train(ranks, "--steps", 24, *options, "--save", state)
                self.assertEqual(plain["losses"], self.train(ranks, *options, "--resume", state)["losses"])

    def test_left_over_row_with_overlap(self):
        """Ranks without a row take part, too."""
        plain, overlapped = (self.report(4, "--hidden", 24, "--batch", 479, "--epochs", 3, "--no-compare",
                                         *overlap)["losses"] for overlap in ((), ("--overlap",)))
        self.assertEqual(plain, overlapped)

    def test_exact_sums(self):
        """A sum of two is rounded once anyway."""
        for ranks in 1, 2, 4:
            plain, exact = (self.train(ranks, *options)["losses"] for options in ((), ("--exact",)))
            if ranks <= 2:
                self.assertEqual(plain, exact)
            self.assertLess(max(abs(a - b) for a, b in zip(plain, exact, strict=True)), 1e-4)

    def test_compression(self):
        """It changes the curve, by little where little is left out, and is the same from run to run."""
        plain = self.train(2)["losses"]
        for kind, tolerance in ("none", 0), ("bf16", 0.02), ("f16", 0.01), ("topk", 2), ("onebit", 2):
            with self.subTest(kind=kind):
                options = ("--compress", kind, "--rate", 0.1)
                first, again = self.train(2, *options), self.train(2, *options, "--overlap")
                self.assertTrue(first["replicas_identical"] and again["replicas_identical"])
                self.assertEqual(first["losses"], again["losses"])
                self.assertEqual(kind == "none", plain == first["losses"])
                self.assertLessEqual(max(abs(a - b) for a, b in zip(plain, first["losses"])), tolerance)
                self.assertLess(first["losses"][-1], plain[0])

    def test_adamw_learns(self):
        report = self.report(2, "--hidden", 40, "--batch", 31, "--epochs", 12, "--optimizer", "adamw", "--fused")
        self.assertGreater(report["test_accuracy"], 0.8)
        self.assertTrue(report["one_process"]["same"])
        self.assertEqual(0.001, report["rate"])

    def test_tells_what_a_step_takes(self):
        """Only where it is asked for."""
        for options, pattern in (
                (("--optimizer", "adamw"), r"[\d.]+ all-reduce, [\d.]+ update\n  optimizer +adamw, \d+ bytes"),
                (("--fused",), r"[\d.]+ all-reduce and update\n  optimizer +sgd in the all-reduce, \d+ bytes"),
                (("--fused", "--shared-parameters"), r"(?s:.*)\n  parameters +\d+ bytes, stored once"),
                (("--overlap",), r"[\d.]+ all-reduce, [\d.]+ update\n")):
            done = training.run(2, "--data", self.data, "--steps", 3, "--hidden", 8, "--no-compare", *options)
            self.assertEqual((0, ""), (done.returncode, done.stderr))
            self.assertRegex(done.stdout, r"  step +[\d.]+ ms: [\d.]+ gradients, " + pattern)
        done = training.run(2, "--data", self.data, "--steps", 3, "--hidden", 8, "--no-compare")
        self.assertIsNone(re.search(r"^  (step|optimizer) ", done.stdout, re.M), done.stdout)

    def test_refuses_what_does_not_go_together(self):
        for options, pattern in ((("--fused", "--elastic"), "--fused: what a lost process knew"),
                                 (("--fused", "--on-failure", "shrink"), "--fused: what a lost process knew"),
                                 (("--compress", "bf16", "--fused"), "--compress: --fused sends gradients as they are"),
                                 (("--compress", "f16", "--exact"), "--compress: what is left out"),
                                 (("--compress", "topk", "--save", "x"), "--compress: what it has left out"),
                                 (("--no-feedback",), "--no-feedback: nothing is left out; give --compress"),
                                 (("--compress", "zip"), "--compress 'zip': give none, bf16, f16, topk or onebit"),
                                 (("--shared-parameters",), "--shared-parameters: one copy needs one update"),
                                 (("--exact", "--fused"), "--exact: --fused sums in its own order"),
                                 (("--optimizer", "lion"), "--optimizer 'lion': give sgd or adamw")):
            done = training.run(2, *options)
            self.assertEqual((2, ""), (done.returncode, done.stdout))
            self.assertIn(pattern, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
