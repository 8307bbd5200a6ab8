"""The packages' types are complete and right, as mypy --strict sees them: that of kolo, or with "torch" as argument what is
for PyTorch (kolo.torch, kolo.hvd). MYPY_CACHE: a folder for what mypy has found, which makes the next run faster.
77: mypy, or PyTorch, is not installed."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

BINDINGS = pathlib.Path(__file__).resolve().parents[2] / "lib/bindings"
OF = {"kolo": ["--strict", BINDINGS / "python/kolo"],
      "torch": ["--config-file", BINDINGS / "torch/pyproject.toml", "--explicit-package-bases", BINDINGS / "torch/kolo"]}

asked = sys.argv[1] if len(sys.argv) > 1 else "kolo"
for needed in ("mypy", *(["torch"] if asked == "torch" else [])):
    if importlib.util.find_spec(needed) is None:
        print(f"{needed} is not installed")
        sys.exit(77)
with tempfile.TemporaryDirectory(prefix="kolo-mypy-") as own:
    cache = os.environ.get("MYPY_CACHE", own)
    paths = os.pathsep.join(str(BINDINGS / name) for name in ("python", "torch"))
    sys.exit(subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", cache, *OF[asked]], timeout=550,
                            env=dict(os.environ, MYPYPATH=paths if asked == "torch" else ""), check=False).returncode)
