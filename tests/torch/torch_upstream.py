"""Runs the tests of torch.distributed that PyTorch's wheel ships (torch.testing._internal.distributed.distributed_test)
over a backend, and says how many pass and why the others are skipped:

    torch_upstream.py --backend kolo --ranks 3 [--list FILE] [TEST...]

Their conditions name the backends that are known to PyTorch. For kolo a condition that asks for gloo or for MPI holds,
and what a table allows to gloo it allows to kolo, too. Needs the package expecttest."""

import argparse
import collections
import importlib.util
import multiprocessing
import os
import sys
import tempfile
import unittest

EXCEPTED = {  # what kolo cannot change
    "test_ddp_logging_data_cpu": "DDP's log has the name custom for every backend that PyTorch does not know",
}
NAME = "torch.testing._internal.distributed.distributed_test"


class Opened(str):
    """The name of a backend, which is equal to that of gloo and of MPI."""
    __hash__ = str.__hash__

    def __eq__(self, other):
        return other in ("gloo", "mpi") or str.__eq__(self, other)

    def __ne__(self, other):
        return not self == other


def load(backend):
    """PyTorch's module, with the conditions opened unless the backend is one of those that it knows."""
    import torch
    from torch.testing._internal import common_distributed
    spec = importlib.util.find_spec(NAME)
    text = open(spec.origin, encoding="utf-8").read()
    if backend == "kolo":
        for allowed in common_distributed.DistTestCases.backend_feature.values():
            if "gloo" in allowed or not allowed:  # the set of plugins is empty
                allowed.add("kolo")
        c10d, get_backend = torch.distributed.distributed_c10d, torch.distributed.get_backend
        c10d.get_backend = lambda group=None: Opened(get_backend(group))  # monitored_barrier asks whether it is gloo
        line = 'BACKEND = os.environ["BACKEND"]\n'
        assert line in text, f"{NAME} has changed"
        text = text.replace(line, "BACKEND = _opened\n")
        text = text.replace("if BACKEND not in backends:", "if not any(BACKEND == backend for backend in backends):")
        text = text.replace("_BACKENDS = [\n", '_BACKENDS = [\n    "kolo",\n')  # whose events a profiler has to show
    module = importlib.util.module_from_spec(spec)
    module._opened = Opened(backend)
    sys.modules[NAME] = module
    exec(compile(text, spec.origin, "exec"), module.__dict__)
    return module


def tests_of(module):
    class Ranks(module.TestDistBackend, module.DistributedTest._DistTestBase):
        def setUp(self):
            if isinstance(module.BACKEND, Opened) and self._testMethodName in EXCEPTED:
                self.skipTest(EXCEPTED[self._testMethodName])
            super().setUp()
            self._start_processes(multiprocessing.get_context("fork").Process)  # to import PyTorch only once

    Ranks.__module__ = __name__
    return Ranks


class Result(unittest.TextTestResult):
    """Notes what became of each test."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.passed = []

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed.append(test.id().split(".")[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="kolo", choices=["kolo", "gloo"])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--list", help="write the names of the tests that pass into this file")
    parser.add_argument("tests", nargs="*", metavar="TEST", help="names; none: all")
    options = parser.parse_args()
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("expecttest") is None:
        print("PyTorch or expecttest is not installed")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "barrier"))
        # What a test asks when it runs: only MPI's run with fewer than 8 ranks where they divide them into groups.
        asked = "mpi" if options.backend == "kolo" and options.ranks > 2 else options.backend
        os.environ.update(BACKEND=asked, WORLD_SIZE=str(options.ranks), TEMP_DIR=folder,
                          INIT_METHOD=f"file://{folder}/shared", DISTRIBUTED_TESTS_DEFAULT_TIMEOUT="120")
        suite_class = tests_of(load(options.backend))
        names = options.tests or unittest.defaultTestLoader.getTestCaseNames(suite_class)
        suite = unittest.TestSuite(map(suite_class, names))
        result = unittest.TextTestRunner(verbosity=2, resultclass=Result).run(suite)
    reasons = collections.Counter(reason for _, reason in result.skipped)
    print(f"{options.backend}, {options.ranks} ranks: {len(result.passed)} passed, {len(result.skipped)} skipped, "
          f"{len(result.failures) + len(result.errors)} failed")
    for reason, count in reasons.most_common():
        print(f"{count:4} {reason}")
    if options.list:
        with open(options.list, "w", encoding="utf-8") as file:
            file.writelines(f"{name}\n" for name in sorted(result.passed))
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
