"""kolo-train on two nodes is the same program as on one, and its losses are the same; and goes on without ranks that are
lost, on whichever node."""

import json
import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "train"))

import lab  # noqa: E402 (the path has to be set first)
import net_testing  # noqa: E402 (the path has to be set first)
from training import KOLO_TRAIN, write_clusters  # noqa: E402

OPTIONS = ["--hidden", "48", "--no-compare", "--batch", "31", "--steps", "40"]
TOLERANCE = 1e-4


class Train(net_testing.NetTest):
    def setUp(self):
        self.data = self.lab.folder / "clusters.csv"
        write_clusters(self.data, 600)

    def losses(self, path):
        return json.loads(path.read_text(encoding="utf-8"))["losses"]

    def test_same_curve(self):
        command = [KOLO_TRAIN, "--data", str(self.data), *OPTIONS]
        one = self.lab.folder / "one.json"
        subprocess.run([net_testing.KOLORUN, "-n", "4", *command, "--json", str(one)], check=True, timeout=100,
                       capture_output=True, env=net_testing.environment())
        expected = self.losses(one)
        self.assertEqual(40, len(expected))
        self.assertLess(expected[-1], 0.7 * expected[0])
        for local in ([2, 2], [3, 1]):
            for transport in ("uring", "poll"):
                with self.subTest(local=local, transport=transport):
                    report = self.lab.folder / f"{transport}-{len(local)}.json"
                    self.results(self.job(local, [*command, "--json", report], KOLO_NET=transport))
                    found = self.losses(report)
                    self.assertEqual(len(expected), len(found))
                    for ours, theirs in zip(found, expected):
                        self.assertLess(abs(ours - theirs) / max(1, abs(theirs)), TOLERANCE)

    def serve(self, local, *options):
        """What training with a parameter server reports."""
        report = self.lab.folder / "server.json"
        self.results(self.job(local, [KOLO_TRAIN, "--problem", "factorization", "--json", report, "--server", *options]))
        return json.loads(report.read_text(encoding="utf-8"))

    def test_server(self):
        """The workers of both nodes leave, in every mode, and are counted."""
        for options in ("bsp",), ("ssp",), ("asp",), ("bsp", "--backup-workers", "1"), ("ssp", "--servers", "1"):
            with self.subTest(options=options):
                told = self.serve([2, 2], *options, "--steps", "300")
                self.assertEqual(4 - told["servers"], len(told["times"]))
                last = told["evaluations"][-1]
                if told["backup_workers"] == 0:
                    self.assertEqual(sum(times["steps"] for times in told["times"]), last["iterations"])
                self.assertLess(last["loss"], 0.9 * told["evaluations"][0]["loss"])

    def test_server_until(self):
        """The worker that evaluates tells those of the other node when to stop: with bsp they stop in the same step."""
        for server in "bsp", "ssp", "asp":
            with self.subTest(server=server):
                told = self.serve([1, 1], server, "--epochs", "40", "--every", "5", "--until", "0.5", "--step-ms", "1")
                clocks = [times["clocks"] for times in told["times"]]
                self.assertLess(max(clocks), 40 * (told["examples"] // told["batch"]))
                self.assertIsNotNone(told["reached"])
                self.assertEqual(sum(clocks), told["evaluations"][-1]["iterations"])
                if server == "bsp":
                    self.assertEqual(clocks[0], clocks[1])

    def pid_of(self, rank):
        for node in self.lab.nodes:
            for pid in node.pids():
                with open(f"/proc/{pid}/environ", "rb") as environ, open(f"/proc/{pid}/comm", encoding="ascii") as comm:
                    if f"KOLO_RANK={rank}".encode() in environ.read().split(b"\0") and comm.read() == "kolo-train\n":
                        return pid
        raise AssertionError(f"rank {rank} is not there")

    def test_goes_on(self):
        """Rank 0, which leads the first node, is lost, and then the leader of the second node."""
        report = self.lab.folder / "shrunk.json"
        job = self.job([2, 2], [KOLO_TRAIN, "--data", str(self.data), "--json", report, "--hidden", "256", "--batch",
                                "32", "--epochs", "150", "--no-compare", "--on-failure", "shrink"])
        self.assertTrue(lab.until(lambda: "\n  1/" in job.texts() or " 1/150" in job.texts(), 30), job.texts())
        for victim, left in ((0, 3), (2, 2)):
            os.kill(self.pid_of(victim), signal.SIGKILL)
            words = f"going on with {left} ranks"
            self.assertTrue(lab.until(lambda words=words: any(words in running.texts()[1] for running in job.running),
                                      20), [running.texts() for running in job.running])
        output = self.results(job)
        self.assertIn("2 of 4 ranks; the others went on", output)
        told = json.loads(report.read_text(encoding="utf-8"))
        self.assertEqual((2, 2, True), (told["ranks"], told["ranks_lost"], told["replicas_identical"]))


if __name__ == "__main__":
    net_testing.main()
