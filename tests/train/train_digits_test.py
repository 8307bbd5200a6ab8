"""Training on the real handwritten digits. They come from the machine's packages; without a network, and with no
scikit-learn installed, there are none, and this is skipped."""

import os
import pathlib
import subprocess
import sys
import unittest

import training

FETCH_DIGITS = os.environ["FETCH_DIGITS"]
DIGITS = pathlib.Path(os.environ["DIGITS"])


def fetch(*arguments):
    return subprocess.run([FETCH_DIGITS, *map(str, arguments)], capture_output=True, text=True, timeout=100,
                          check=False)


class FetchDigits(unittest.TestCase):
    def test_leaves_what_is_there(self):
        before = DIGITS.stat()
        done = fetch(DIGITS)
        self.assertEqual((0, "", ""), (done.returncode, done.stdout, done.stderr))
        self.assertEqual(before.st_mtime_ns, DIGITS.stat().st_mtime_ns)

    def test_options(self):
        self.assertIn("example:", fetch("--help").stdout)
        for arguments in ((), ("a", "b"), ("--nonsense",), ("",)):
            done = fetch(*arguments)
            self.assertEqual((1, ""), (done.returncode, done.stdout))
            self.assertIn("needs one argument", done.stderr)


class Digits(training.TrainingTest):
    def test_learns_to_read(self):
        self.data = DIGITS
        report = self.report(2, "--epochs", 15)
        self.assertEqual((1438, 359), (report["train_rows"], report["test_rows"]))
        self.assertGreater(report["allreduce_bytes"], 1 << 20)
        self.assertLess(report["epochs"][0]["test_accuracy"], 0.95)
        self.assertGreater(report["test_accuracy"], 0.97)
        self.assertTrue(report["replicas_identical"])
        self.assertTrue(report["one_process"]["same"])
        self.assertLess(report["one_process"]["difference_max"], 1e-3)


if __name__ == "__main__":
    fetched = fetch(DIGITS)
    if fetched.returncode != 0:
        print(f"skipped, for there are no digits: {fetched.stderr.strip()}")
        sys.exit(77)
    unittest.main(verbosity=2)
