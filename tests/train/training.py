"""Starting kolo-train, and data made for it."""

import json
import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import unittest

KOLORUN = os.environ["KOLORUN"]
KOLO_TRAIN = os.environ["KOLO_TRAIN"]
SECONDS_MAX = 300  # of a machine with other work, too

ENVIRONMENT = {name: value for name, value in os.environ.items()
               if not name.startswith(("KOLO_", "OMPI_", "PMI", "SLURM_"))}


def command(ranks, *options):
    """ranks None: without a launcher."""
    launcher = [] if ranks is None else [KOLORUN, "-n", str(ranks)]
    return [*launcher, KOLO_TRAIN, *map(str, options)]


def run(ranks, *options, **settings):
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": ENVIRONMENT, **settings}
    return subprocess.run(command(ranks, *options), text=True, timeout=SECONDS_MAX, check=False, **settings)


def children(job):
    """The processes of a launcher; none once it has ended."""
    try:
        path = pathlib.Path(f"/proc/{job.pid}/task/{job.pid}/children")
        return [int(pid) for pid in path.read_text(encoding="ascii").split()]
    except FileNotFoundError:
        return []


def write_clusters(path, rows, seed=7):
    """Rows of five classes that overlap a little: points around one centre each, in 12 dimensions."""
    stream = random.Random(seed)
    centres = [[stream.uniform(-4, 4) for _ in range(12)] for _ in range(5)]
    with open(path, "w", encoding="ascii") as file:
        for _ in range(rows):
            label = stream.randrange(5)
            features = [f"{stream.gauss(centre, 2.5):.4f}" for centre in centres[label]]
            file.write(",".join([*features, str(label)]) + "\n")


class TrainingTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kolo-train-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.data, self.json = self.folder / "clusters.csv", self.folder / "report.json"
        write_clusters(self.data, 600)

    def report(self, ranks, *options):
        """The JSON of a run that must go well."""
        done = run(ranks, "--data", self.data, "--json", self.json, *options)
        self.assertEqual((0, ""), (done.returncode, done.stderr), done.stdout)
        return json.loads(self.json.read_text(encoding="utf-8"))

    def assert_same_curve(self, report, undisturbed):
        """The batches are the same, whoever works on them, so that the curve only differs by rounding."""
        losses = report["losses"]
        self.assertEqual(len(undisturbed["losses"]), len(losses))
        self.assertEqual([epoch["samples"] for epoch in undisturbed["epochs"]],
                         [epoch["samples"] for epoch in report["epochs"]])
        self.assertLess(sum(losses[-15:]), 0.5 * sum(losses[:15]))
        early = [abs(a - b) for a, b in zip(losses[:30], undisturbed["losses"][:30])]
        self.assertLess(max(early), 1e-3)
        self.assertLess(abs(report["test_accuracy"] - undisturbed["test_accuracy"]), 0.05)
