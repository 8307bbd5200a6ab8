"""bench/net: each part measures, counts and writes what it should, in small."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import net_testing

ROOT = pathlib.Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
sys.path.insert(0, str(BENCH))

from net import net_architectures, net_libraries  # noqa: E402 (the path has to be set first)

KOLO_BUILD = os.environ["KOLO_BUILD"]
SKIPPED = 77


def bench(*arguments):
    return subprocess.run([sys.executable, "-B", BENCH / "net", *map(str, arguments)], capture_output=True, text=True,
                          timeout=net_testing.PATIENCE_S * 3, stdin=subprocess.DEVNULL, check=False)


class Measuring(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="kolo-net-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def measure(self, part, *arguments):
        """What a part has written, and the output."""
        path = self.folder / "net.json"
        done = bench("--parts", part, "--quick", "--peers", "none", "--kolo-build", KOLO_BUILD, "--cache", self.folder,
                     "--json", path, *arguments)
        if done.returncode == SKIPPED:
            self.skipTest(done.stderr.strip().splitlines()[-1])
        self.assertEqual(0, done.returncode, done.stderr + done.stdout)
        return json.loads(path.read_text(encoding="utf-8"))["parts"][part], done.stdout

    def test_architectures(self):
        rows, output = self.measure("architectures", "--workers", "2,4", "--worker-rate", "400", "--worker-bytes",
                                    2 << 20, "--calls", 3)
        self.assertEqual([(2, "1 server"), (2, "mesh"), (2, "ring"), (4, "1 server"), (4, "3 servers"), (4, "mesh"),
                          (4, "ring")], [(row["workers"], row["architecture"]) for row in rows])
        for row in rows:
            moved = row["factor"] * row["bytes"]
            self.assertLess(abs(max(row["sent"]) - moved), 0.05 * moved, row)
            self.assertLess(abs(max(row["received"]) - moved), 0.05 * moved, row)
            self.assertGreater(row["seconds"], 0.9 * row["predicted_s"], row)
        self.assertIn("measured / predicted", output)

    def test_transports(self):
        rows, _ = self.measure("transports", "--sizes", "64K", "--rate", "500", "--threads", "2")
        self.assertEqual([(500, "uring"), (500, "poll"), (None, "uring"), (None, "poll")],
                         [(row["rate_mbit"], row["transport"]) for row in rows])
        for row in rows:
            self.assertGreater(sum(row["sent"]), 2 * 65536 * 0.95, row)

    def test_libraries(self):
        part, output = self.measure("libraries", "--sizes", "8,64K", "--budget-ms", "10", "--ranks", "2", "--results",
                                    self.folder / "report.md")
        times = net_libraries.times(part)["kolo"]
        self.assertEqual({8, 65536}, set(times))
        self.assertEqual([], [row for series in part["series"] for rows in series["rounds"] for row in rows
                              if row["wrong"]])
        self.assertIn("| 64 KiB |", (self.folder / "report.md").read_text(encoding="utf-8"))
        self.assertIn("2 nodes, ranks on each: 2", output)

    def test_compression(self):
        rows, output = self.measure("compression", "--rate", "1000")
        kinds = ["none", "bf16", "f16", "topk", "onebit"]
        self.assertEqual([(rate, kind) for rate in (1000, None) for kind in kinds],
                         [(row["rate_mbit"], row["compression"]) for row in rows])
        # Of two nodes each sends inputs for one half, in 16 bits, and sums of the other half, not rounded yet.
        for none, *others in (rows[:5], rows[5:]):
            self.assertLess(abs(none["net_sent_bytes"] - none["bytes"]), 0.05 * none["bytes"], none)
            for row, share in zip(others, (3 / 4, 3 / 4, 0.02, 1 / 32 + 1 / 512)):
                sent = row["net_sent_bytes"] / none["net_sent_bytes"]
                self.assertLess(abs(sent - share), 0.1 * share, row)
        self.assertRegex(output, r"Compression of buckets\n.*times.*share")


class Formulas(unittest.TestCase):
    def test_example(self):
        """300 million parameters on ten workers with links of 1 GB/s."""
        def seconds(name, workers=10):
            return net_architectures.predicted_s(name, workers, 1.2e9, 1e9)
        self.assertAlmostEqual(10.8, seconds("1 server"))
        self.assertAlmostEqual(2.16, seconds("ring"))
        self.assertAlmostEqual(2.16, seconds("mesh"))
        self.assertAlmostEqual(4.4, seconds("3 servers"))
        self.assertAlmostEqual(1.2, seconds("1 server", 2))

    def test_all_are_servers(self):
        self.assertAlmostEqual(net_architectures.busiest("mesh", 3), net_architectures.busiest("3 servers", 3))


if __name__ == "__main__":
    net_testing.main()
