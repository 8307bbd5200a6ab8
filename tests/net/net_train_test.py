"""kolo-train on two nodes is the same program as on one, and its losses are the same."""

import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "train"))

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


if __name__ == "__main__":
    net_testing.main()
