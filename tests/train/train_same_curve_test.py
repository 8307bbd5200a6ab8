"""The losses depend on the data, the batch and the seed, not on how many ranks share the work."""

import unittest

import training

# 480 training rows make 16 batches of 31, of which 4 ranks get unequal shares, and a last one of 15. Of the batch of
# 479, a single row is left over: most ranks have none of it.
TOLERANCE = 1e-4


def difference(curve, other):
    """The largest relative difference of two curves' losses."""
    return max(abs(a - b) / max(1, abs(b)) for a, b in zip(curve, other, strict=True))


class SameCurve(training.TrainingTest):
    def curves(self, *options):
        return {ranks: self.report(ranks, "--hidden", 48, "--no-compare", *options)["losses"]
                for ranks in (1, 2, 3, 4)}

    def assert_same(self, curves, steps):
        for ranks, curve in curves.items():
            self.assertEqual(steps, len(curve))
            self.assertLess(difference(curve, curves[1]), TOLERANCE, f"{ranks} ranks")

    def test_any_rank_count(self):
        curves = self.curves("--batch", 31, "--steps", 40)
        self.assert_same(curves, 40)
        self.assertLess(curves[1][-1], 0.7 * curves[1][0])

    def test_left_over_row(self):
        self.assert_same(self.curves("--batch", 479, "--epochs", 4), 8)

    def test_added_batches(self):
        """They are a batch as large as all of them, also the left-over ones, and in every way to take a step."""
        for options in ((), ("--optimizer", "adamw", "--fused", "--overlap"), ("--overlap", "--exact")):
            for ranks in (1, 2, 3):
                with self.subTest(options=options, ranks=ranks):
                    large, small = (self.report(ranks, "--hidden", 48, "--no-compare", "--steps", 40, "--batch", batch,
                                                "--accumulate", count, *options)
                                    for batch, count in ((92, 1), (23, 4)))
                    self.assertEqual(40, len(small["losses"]))
                    self.assertLess(difference(small["losses"], large["losses"]), TOLERANCE)
                    self.assertEqual([480] * 6, [epoch["samples"] for epoch in small["epochs"]][:6])
                    self.assertEqual((23, 4), (small["batch"], small["accumulate"]))
        self.assertLess(large["losses"][-1], 0.7 * large["losses"][0])

    def test_another_seed_gives_another_curve(self):
        first, again, other = (self.report(2, "--hidden", 48, "--steps", 40, "--batch", 31, "--no-compare",
                                           "--seed", seed)["losses"] for seed in (1, 1, 2))
        self.assertEqual(first, again)
        self.assertGreater(difference(first, other), 100 * TOLERANCE)

    def test_another_batch_gives_another_curve(self):
        first, other = (self.report(2, "--hidden", 48, "--steps", 40, "--no-compare", "--batch", batch)["losses"]
                        for batch in (31, 32))
        self.assertGreater(difference(first, other), 100 * TOLERANCE)

    def test_report(self):
        report = self.report(3, "--hidden", 48, "--epochs", 5, "--batch", 60)
        self.assertTrue(report["replicas_identical"])
        self.assertTrue(report["one_process"]["same"])
        self.assertLess(report["one_process"]["difference_max"], TOLERANCE)
        self.assertGreater(report["one_process"]["speedup"], 0)
        self.assertEqual((480, 120, 3, 60, 40, 5),
                         (report["train_rows"], report["test_rows"], report["ranks"], report["batch"],
                          report["steps"], len(report["epochs"])))
        self.assertEqual(12 * 48 + 48 + 48 * 48 + 48 + 48 * 5 + 5, report["parameters"])
        self.assertEqual([480] * 5, [epoch["samples"] for epoch in report["epochs"]])
        for epoch in report["epochs"]:
            self.assertLess(0, epoch["allreduce_seconds"])
            self.assertLess(epoch["allreduce_seconds"], epoch["seconds"])
        self.assertGreater(report["test_accuracy"], 0.8)

    def test_same_test_accuracy(self):
        accuracies = {self.report(ranks, "--hidden", 48, "--epochs", 5, "--no-compare")["test_accuracy"]
                      for ranks in (1, 4)}
        self.assertLessEqual(max(accuracies) - min(accuracies), 1.01 / 120, "more than one row of 120")


if __name__ == "__main__":
    unittest.main(verbosity=2)
