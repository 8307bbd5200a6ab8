"""torchrun and kolorun on two machines, which are network namespaces of this one: the example trains over both. 77:
PyTorch is not installed, or namespaces are not allowed."""

import importlib.util
import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "net"))

import net_testing  # noqa: E402 (the path has to be set first)

SCRIPT = pathlib.Path(os.environ["KOLO_TORCH_EXAMPLES"], "digits_train.py")
OPTIONS = ("--backend", "gloo", "kolo", "--steps", "15", "--hidden", "64")


@unittest.skipIf(importlib.util.find_spec("torch") is None, "PyTorch is not installed")
class Nodes(net_testing.NetTest):
    own_pids = False

    def setUp(self):
        self.report = self.lab.folder / "report.json"
        self.command = [SCRIPT, *OPTIONS, "--json", self.report]
        self.kept = {name: os.environ[name] for name in ("KOLO_LIBRARY", "PYTHONPATH")}

    def check_report(self):
        gloo, kolo = json.loads(self.report.read_text())
        self.assertEqual(("kolo", 2, 15), (kolo["backend"], kolo["ranks"], len(kolo["losses"])))
        self.assertLess(max(abs(a - b) for a, b in zip(gloo["losses"], kolo["losses"])), 1e-4)
        self.assert_nothing_left()

    def test_torchrun(self):
        environment = net_testing.environment(**self.kept, KOLO_SECRET=net_testing.SECRET)
        jobs = [node.start([sys.executable, "-B", "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", node.index,
                            "--master-addr", self.lab.nodes[0].address, "--master-port", net_testing.PORT,
                            "--nproc-per-node", "1", *self.command], environment) for node in self.lab.nodes]
        for job in jobs:
            done = job.wait()
            self.assertEqual(0, done.code, f"{done.out}{done.err}")
        self.check_report()

    def test_kolorun(self):
        self.results(self.job([1, 1], [sys.executable, "-B", *self.command], **self.kept))
        self.check_report()


if __name__ == "__main__":
    net_testing.main()
