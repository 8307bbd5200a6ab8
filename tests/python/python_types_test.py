"""The package's types are complete and right, as mypy --strict sees them. 77: mypy is not installed."""

import importlib.util
import pathlib
import subprocess
import sys
import tempfile

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "lib/bindings/python/kolo"

if importlib.util.find_spec("mypy") is None:
    print("mypy is not installed")
    sys.exit(77)
with tempfile.TemporaryDirectory(prefix="kolo-mypy-") as cache:
    sys.exit(subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache, PACKAGE], timeout=300,
                            check=False).returncode)
