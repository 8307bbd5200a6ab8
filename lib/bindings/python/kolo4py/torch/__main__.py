"""python -m kolo4py.torch build: compiles the backend, and the operators, for the PyTorch of this Python, once."""

import argparse
import sys

from . import _builder


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m kolo4py.torch", description=sys.modules[__name__].__doc__)
    parser.add_argument("command", choices=["build"], help="compile for this PyTorch, into the user's cache folder")
    parser.parse_args()
    try:
        print(_builder.build())
    except (ImportError, OSError, RuntimeError) as error:
        print(f"kolo4py.torch: {error}", file=sys.stderr)
        return 1
    return 0


sys.exit(main())
