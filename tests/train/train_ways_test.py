"""Ways to take a step, compared in one run: what each takes, sends and comes to, beside the plain way; and the plot."""

import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import unittest

import training

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAME_BITS = ("overlap", "fused", "fused+overlap", "fused+shared", "fused+shared+overlap")
OTHER_BITS = ("exact", "bf16", "f16", "topk", "topk-no-feedback", "onebit", "onebit-no-feedback")
ALL = ("plain", "overlap", "exact", *SAME_BITS[1:], *OTHER_BITS[1:])


class Ways(training.TrainingTest):
    def compare(self, ranks, names, *options):
        """{way: what the JSON says of it}, and all of that."""
        report = self.report(ranks, "--hidden", 40, "--batch", 31, "--ways", ",".join(names), *options)
        return {each["way"]: each for each in report["ways"]}, report

    def test_each_way_beside_the_plain_one(self):
        for ranks in 1, 2, 3:
            ways, report = self.compare(ranks, ALL[1:], "--steps", 40, "--optimizer", "adamw")
            whole = 4 * report["parameters"]
            self.assertEqual(list(ALL), list(ways))
            self.assertEqual((ranks, "adamw", 40), (report["ranks"], report["optimizer"], report["steps"]))
            alone = self.report(ranks, "--hidden", 40, "--batch", 31, "--steps", 40, "--optimizer", "adamw",
                                "--no-compare")
            self.assertEqual(alone["losses"], ways["plain"]["losses"])
            self.assertEqual(alone["test_accuracy"], ways["plain"]["test_accuracy"])
            for name, each in ways.items():
                with self.subTest(ranks=ranks, way=name):
                    self.assertTrue(each["replicas_identical"])
                    self.assertEqual(40, len(each["losses"]))
                    if name in SAME_BITS:
                        self.assertEqual(ways["plain"]["losses"], each["losses"])
                    self.assertEqual(each["losses"] != ways["plain"]["losses"], each["difference_max"] > 0)
                    self.assertAlmostEqual(each["step_seconds"], each["compute_seconds"] + each["wait_seconds"]
                                           + each["update_seconds"], places=7)
                    self.assertAlmostEqual(each["gain"], ways["plain"]["step_seconds"] / each["step_seconds"], places=5)
                    self.assertEqual("overlap" in name, "hidden_seconds" in each)
                    self.assertEqual(name.startswith("fused"), each["update_seconds"] == 0)
                    parts = ranks if name.startswith("fused") else 1
                    self.assertAlmostEqual(2 * whole / parts, each["state_bytes"], delta=3 * 2 * 4 * 32)  # of each layer's part
                    copies = ranks if "shared" in name else 1
                    self.assertAlmostEqual(whole / copies, each["parameter_bytes"], delta=1)
                    self.assertEqual(name in OTHER_BITS[1:], each["compression_bytes"] > 0)

    def test_counts_what_is_sent(self):
        """Of two ranks each sends half of its gradients to be summed, and half of the sums; or what stands for its own."""
        ways, report = self.compare(2, ("bf16", "topk", "onebit"), "--epochs", 3)
        whole = 4 * report["parameters"]
        for name, share in ("plain", 1), ("bf16", 1 / 2), ("topk", 2 / 100), ("onebit", 1 / 32):
            with self.subTest(way=name):
                self.assertAlmostEqual(share, ways[name]["sent_bytes"] / whole, delta=0.06)
                self.assertEqual(0, ways[name]["net_sent_bytes"])

    def test_hidden_is_waited_less(self):
        """And the same way without overlap is trained for it, asked for or not."""
        ways, _ = self.compare(2, ("fused+overlap",), "--epochs", 3)
        self.assertEqual(["plain", "fused", "fused+overlap"], list(ways))
        less = max(0, ways["fused"]["wait_seconds"] - ways["fused+overlap"]["wait_seconds"])
        self.assertAlmostEqual(less, ways["fused+overlap"]["hidden_seconds"], places=8)

    def test_error_feedback_matters(self):
        """With it the loss comes near that of the uncompressed run, without it stays far above; also where a way is not
        one of several but the training's own."""
        options = ("--rate", 0.02, "--steps", 160)
        ways, _ = self.compare(2, OTHER_BITS[3:], *options)
        for kind, times in ("topk", 2), ("onebit", 1.3):
            with self.subTest(kind=kind):
                kept, lost = ways[kind], ways[f"{kind}-no-feedback"]
                self.assertLess(kept["loss"], 1.3 * ways["plain"]["loss"])
                self.assertGreater(lost["loss"], times * kept["loss"])
                for way, more in (kept, ()), (lost, ("--no-feedback",)):
                    own = self.report(2, "--hidden", 40, "--batch", 31, *options, "--compress", kind, *more)
                    self.assertEqual(way["losses"], own["losses"])

    def test_prints_tables(self):
        done = training.run(2, "--data", self.data, "--hidden", 16, "--epochs", 5, "--ways", "overlap,fused,bf16")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        for pattern in (r"ways    plain, overlap, fused, bf16, in turn", r"(?m)^ +5/5 ",
                        r"\nplain +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +- +1\.00x\n",
                        r"\noverlap +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+x\n",
                        r"\nfused +[\d.]+ +[\d.]+ +[\d.]+ +in wait +- +[\d.]+x\n",
                        r"\nloss in epoch +1 +2 +3 +5 +test +from plain\n",
                        r"\nfused( +\d\.\d{6}){4} +[\d.]+ % +same bits\n",
                        r"\nbf16( +\d\.\d{6}){4} +[\d.]+ % +\d\.\de-\d\d\n"):
            self.assertRegex(done.stdout, pattern)
        self.assertLessEqual(max(len(line) for line in done.stdout.splitlines() if not line.startswith("data ")), 80)
        done = training.run(2, "--data", self.data, "--hidden", 16, "--steps", 1, "--ways", "exact", "--quiet")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertTrue(done.stdout.startswith("\nms of a step"), done.stdout)

    def test_refuses_what_does_not_go_together(self):
        for options, pattern in ((("fused", "--fused"), "--ways: each has steps of its own"),
                                 (("fused", "--save", "x"), "from the first to the last; leave out --save"),
                                 (("fused", "--elastic"), "leave out --elastic"),
                                 (("fast",), "--ways 'fast': give plain, overlap, exact, fused")):
            done = training.run(2, "--ways", *options)
            self.assertEqual((2, ""), (done.returncode, done.stdout))
            self.assertIn(pattern, done.stderr)

    @unittest.skipUnless(importlib.util.find_spec("matplotlib"), "matplotlib is not installed")
    def test_plots(self):
        """Also of losses that hardly change: the axis's label is within the figure, left of short numbers."""
        for rate in 0.1, 1e-4:
            self.draw(rate)

    def draw(self, rate):
        self.compare(2, ("fused", "topk"), "--epochs", 3, "--rate", rate)
        done = subprocess.run([sys.executable, "-B", ROOT / "bench" / "compare" / "figures.py",
                               "compare.training_plots", self.json, self.folder / "plots"],
                              capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        drawn = [pathlib.Path(plot["file"]) for plot in json.loads(done.stdout)]
        self.assertEqual(["training-losses.png", "training-steps.png"], [path.name for path in drawn])
        for path in drawn:
            self.assertTrue(path.read_bytes().startswith(b"\x89PNG"))
            drawing = path.with_suffix(".svg").read_text(encoding="utf-8")
            for name in "plain", "fused", "topk":
                self.assertRegex(drawing, f"<!-- .*{name}.* -->")
            if "losses" in path.name:
                label = r"<!-- loss \(lower is better\) -->\s*<g [^>]*transform=\"translate\(([-\d.]+) "
                self.assertGreater(float(re.search(label, drawing)[1]), 16, drawing)


if __name__ == "__main__":
    unittest.main(verbosity=2)
