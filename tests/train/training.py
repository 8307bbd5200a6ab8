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
SECONDS_MAX = 100

ENVIRONMENT = {name: value for name, value in os.environ.items()
               if not name.startswith(("KOLO_", "OMPI_", "PMI", "SLURM_"))}


def command(ranks, *options):
    """ranks None: without a launcher."""
    launcher = [] if ranks is None else [KOLORUN, "-n", str(ranks)]
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


class TrainingTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kolo-train-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.data = self.folder / "clusters.csv"
        write_clusters(self.data, 600)

    def report(self, ranks, *options):
        """The JSON of a run that must go well."""
        path = self.folder / "report.json"
        done = run(ranks, "--data", self.data, "--json", path, *options)
        self.assertEqual((0, ""), (done.returncode, done.stderr), done.stdout)
        return json.loads(path.read_text(encoding="utf-8"))
