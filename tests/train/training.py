"""Starting kolo-train, and data made for it."""

import fcntl
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import launching  # pylint: disable=wrong-import-position

KOLO_TRAIN = os.environ["KOLO_TRAIN"]
SECONDS_MAX = 300  # of a machine with other work, too
if " avx2 " in pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace"):
    os.environ.setdefault("OPENBLAS_CORETYPE", "Haswell")  # or an OpenBLAS older than the processor takes its slowest kernels
ENVIRONMENT = launching.environment(KOLO_LOG="warn,stall:0")  # a busy machine stalls ranks


def command(ranks, *options):
    """ranks None: without a launcher."""
    launcher = [] if ranks is None else [launching.KOLORUN, "-n", str(ranks)]
    return [*launcher, KOLO_TRAIN, *map(str, options)]


def run(ranks, *options, started_by=(), **settings):
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": ENVIRONMENT, **settings}
    return subprocess.run([*started_by, *command(ranks, *options)], text=True, timeout=SECONDS_MAX, check=False, **settings)


def write_clusters(path, rows, seed=7):
    """Rows of five classes that overlap a little: points around one centre each, in 12 dimensions."""
    stream = random.Random(seed)
    centres = [[stream.uniform(-4, 4) for _ in range(12)] for _ in range(5)]
    with open(path, "w", encoding="ascii") as file:
        for _ in range(rows):
            label = stream.randrange(5)
            features = [f"{stream.gauss(centre, 2.5):.4f}" for centre in centres[label]]
            file.write(",".join([*features, str(label)]) + "\n")


class Pace:
    """What a job prints, in a file. The job goes on while a test looks at it, but slowly: rank 0 waits in its write until
    the line before has been taken, and a thread takes one epoch's line each `seconds`. So few epochs last long enough."""

    def __init__(self, path, seconds):
        self.path, self.seconds = path, seconds
        self.release = threading.Event()  # from then on at full speed
        reader, self.writer = os.pipe2(os.O_DIRECT | os.O_CLOEXEC)  # each write is a packet
        fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)  # of which there is room for one
        self.path.write_bytes(b"")  # without what an earlier job printed
        self.thread = threading.Thread(target=self.take, args=(reader,), daemon=True)

    def begin(self):
        """Once the job has the writer."""
        os.close(self.writer)
        self.thread.start()

    def take(self, reader):
        with open(reader, "rb", buffering=0) as packets, open(self.path, "wb", buffering=0) as file:
            while packet := packets.read(4096):
                file.write(packet)
                if re.match(rb" *\d+/", packet):
                    self.release.wait(self.seconds)

    def await_line(self, job, begin):
        """Until a line begins so."""
        while not re.search(rf"^ *{begin}", self.path.read_text(encoding="utf-8"), re.MULTILINE):
            assert job.poll() is None, "the job has ended early"
            time.sleep(0.001)

    def await_end(self, job):
        """(What it has printed, what it has said on standard error.)"""
        self.release.set()
        _, errors = job.communicate(timeout=SECONDS_MAX)
        self.thread.join(SECONDS_MAX)
        return self.path.read_text(encoding="utf-8"), errors


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
