"""Measures kolo's all-reduce between nodes, which are network namespaces; see --help and README.md."""

import pathlib
import sys

BENCH = pathlib.Path(__file__).resolve().parents[1]
sys.path[:1] = [str(BENCH), str(BENCH.parent / "tests" / "net")]
sys.dont_write_bytecode = True

from net.net_command import Net  # noqa: E402 (the path has to be set first)

if __name__ == "__main__":
    sys.exit(Net().main(sys.argv[1:]))
