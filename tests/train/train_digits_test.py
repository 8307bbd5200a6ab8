"""Training on the real handwritten digits, which come with kolo-train."""

import os
import pathlib
import unittest

import training

DIGITS = pathlib.Path(os.environ["DIGITS"])
BUILT_DIGITS = pathlib.Path(training.KOLO_TRAIN).parents[1] / "share/kolo/digits.csv"


class Digits(training.TrainingTest):
    def test_lie_where_kolo_train_looks(self):
        self.assertEqual(DIGITS.read_bytes(), BUILT_DIGITS.read_bytes())

    def test_learns_to_read(self):
        self.data = DIGITS
        report = self.report(2, "--epochs", 7, "--hidden", 512, "--batch", 64)
        self.assertEqual((1438, 359), (report["train_rows"], report["test_rows"]))
        self.assertGreater(report["allreduce_bytes"], 1 << 20)
        self.assertLess(report["epochs"][0]["test_accuracy"], 0.95)
        self.assertGreater(report["test_accuracy"], 0.97)
        self.assertTrue(report["replicas_identical"])
        self.assertTrue(report["one_process"]["same"])
        self.assertLess(report["one_process"]["difference_max"], 1e-3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
