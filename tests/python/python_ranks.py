"""What the Python tests that run as ranks share: one communicator for the whole process.

    kolorun -n 2 python3 python_ranks.py MODULE...    the tests of several files, one after another"""

import os
import sys
import unittest

import kolo4py as kolo

comm = None


def values_of(x):
    """All items in their order, as Python numbers."""
    found = x.tolist() if hasattr(x, "tolist") else list(x)
    while found and isinstance(found[0], list):
        found = [value for row in found for value in row]
    return found


class Raised(Exception):
    """By a handler of a signal."""


def is_raised_at(line, call, *arguments):
    """Whether the call has come to so many lines of the package: there it is ended, as a handler of a signal may."""
    left = line

    def trace(frame, event, _):
        nonlocal left
        left -= event == "line" and os.path.dirname(frame.f_code.co_filename) == os.path.dirname(kolo.__file__)
        if left < 0:
            raise Raised
        return trace

    sys.settrace(trace)
    try:
        call(*arguments)
    except Raised:
        return True
    finally:
        sys.settrace(None)
    return False


class RankTest(unittest.TestCase):
    """Every rank runs the same tests in the same order."""

    kind = None  # what to say with a wrong result

    @property
    def comm(self):
        return comm

    def assert_values(self, expected, x):
        self.assertEqual(list(expected), values_of(x), self.kind)


def main(modules=(), **options):
    """Runs the tests of these modules, or else of the calling script, as one rank. A failure breaks the communicator, so
    that the others end, too."""
    global comm
    sys.modules.setdefault("python_ranks", sys.modules[__name__])
    with kolo.init(timeout=60, **options) as made:
        comm = made
        result = unittest.main(module=None if modules else "__main__", argv=[sys.argv[0], *modules] if modules else None,
                               exit=False, failfast=True).result
        if not result.wasSuccessful() and comm.failure is None:
            comm.abort(1)
        comm = None
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    main(sys.argv[1:])
