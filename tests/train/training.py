"""Starting kolo-train, and data made for it."""

import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import launching  # pylint: disable=wrong-import-position

KOLO_TRAIN = os.environ["KOLO_TRAIN"]
SECONDS_MAX = 300  # of a machine with other work, too
ENVIRONMENT = launching.environment()


def command(ranks, *options):
    """ranks None: without a launcher."""
    launcher = [] if ranks is None else [launching.KOLORUN, "-n", str(ranks)]
    return [*launcher, KOLO_TRAIN, *map(str, options)]


def run(ranks, *options, **settings):
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": ENVIRONMENT, **settings}
    return subprocess.run(command(ranks, *options), text=True, timeout=SECONDS_MAX, check=False, **settings)


def write_clusters(path, rows, seed=7):
    """Rows of five classes that overlap a little: points around one centre each, in 12 dimensions."""
    stream = random.Random(seed)
    centres = [[stream.uniform(-4, 4) for _ in range(12)] for _ in range(5)]
    with open(path, "w", encoding="ascii") as file:
        for _ in range(rows):
            label = stream.randrange(5)
            features = [f"{stream.gauss(centre, 2.5):.4f}" for centre in centres[label]]
            file.write(",".join([*features, str(label)]) + "\n")


class TrainingTest(launching.LaunchingTest):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kolo-train-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.data, self.json = self.folder / "clusters.csv", self.folder / "report.json"
        write_clusters(self.data, 600)

    def start_training(self, ranks, *options, launcher=(), **settings):
        """Under kolorun, which takes the options `launcher`."""
        return self.start(*launcher, *command(ranks, *options)[1:], **settings)

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
