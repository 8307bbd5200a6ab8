"""Times kolo's collectives beside other libraries'; see --help and README.md."""

import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])
sys.dont_write_bytecode = True

from compare.command_line import Compare  # noqa: E402 (the path has to be set first)

if __name__ == "__main__":
    sys.exit(Compare().main(sys.argv[1:]))
