"""The package's types are complete and right, as mypy --strict sees them: of what needs no PyTorch, or with "torch" as argument
of what does (kolo4py.torch, kolo4py.hvd). MYPY_CACHE: a folder for what mypy has found, which makes the next run faster.
77: mypy, or PyTorch, is not installed."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

PYTHON = pathlib.Path(__file__).resolve().parents[2] / "lib/bindings/python"
PARTS = [PYTHON / "kolo4py" / part for part in ("torch", "hvd")]
OF = {"kolo": ["--strict", "--exclude", "/kolo4py/(torch|hvd)/", PYTHON / "kolo4py"],
      "torch": ["--config-file", PYTHON.parents[2] / "pyproject.toml", *PARTS]}

asked = sys.argv[1] if len(sys.argv) > 1 else "kolo"
for needed in ("mypy", *(["torch"] if asked == "torch" else [])):
    if importlib.util.find_spec(needed) is None:
        print(f"{needed} is not installed")
        sys.exit(77)
with tempfile.TemporaryDirectory(prefix="kolo-mypy-") as own:
    cache = os.environ.get("MYPY_CACHE", own)
    sys.exit(subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", cache, *OF[asked]], timeout=550,
                            check=False).returncode)
