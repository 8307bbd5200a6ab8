"""kolo-perf --check finds calls that a preloaded library spoils."""

import os
import re

import launching
from launching import KOLO_PERF, kolorun

SPOILER = os.environ["PERF_SPOILER"]


class Check(launching.LaunchingTest):
    def assert_ends_with(self, verdict, what, *arguments, spoiled=""):
        done = kolorun("-n", "2", "-x", f"LD_PRELOAD={SPOILER}", "-x", f"SPOILED={spoiled}", KOLO_PERF, what, "--iters", "3",
                       "--warmup", "1", *arguments)
        told = [line for line in done.stdout.splitlines() if re.match("# (FAILED|all results|both ways)", line)]
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


if __name__ == "__main__":
    launching.main()
