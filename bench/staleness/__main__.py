"""Measures how workers of a parameter server wait for a slow one; see --help and README.md."""

import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])
sys.dont_write_bytecode = True

from staleness.staleness_command import Staleness  # noqa: E402 (the path has to be set first)

if __name__ == "__main__":
    sys.exit(Staleness().main(sys.argv[1:]))
