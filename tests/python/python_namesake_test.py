"""The wheel of python.wheel in an environment that has a distribution "kolo" of another project, too: both are imported and
work, and pip asks no index for anything of ours. The other one is made up here, and is PyPI's where pip reaches that.
77: there is no wheel, or no pip."""

import http.server
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile

WHEELS = list(pathlib.Path(os.environ["WHEEL_CACHE"]).glob("kolo4py-*.whl"))
SECONDS_MAX = 300
OURS = "with kolo4py.init() as comm:\n    print(comm.all_gather_object('ours'))\n"


def other(folder, requirement=""):
    """The wheel of a distribution "kolo" with a package and a command of that name."""
    info = "kolo-3.6.1.dist-info"
    files = {"kolo/__init__.py": "def main():\n    print('another kolo')\n",
             f"{info}/METADATA": f"Metadata-Version: 2.1\nName: kolo\nVersion: 3.6.1\n{requirement}",
             f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
             f"{info}/entry_points.txt": "[console_scripts]\nkolo = kolo:main\n"}
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    made = folder / "kolo-3.6.1-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return made


class Index(http.server.ThreadingHTTPServer):
    """Has nothing, and keeps what it was asked for."""

    def __init__(self):
        self.asked = asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append(self.path)
                self.send_error(404)

            def log_message(self, *_arguments):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def variables(self):
        """With which pip asks here and nowhere else."""
        return {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": f"http://127.0.0.1:{self.server_address[1]}/simple",
                "PIP_RETRIES": "0", "NO_PROXY": "127.0.0.1"}


class Namesake(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="kolo-namesake-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.run_command([sys.executable, "-m", "venv", "--without-pip", self.folder / "venv"])
        self.python = self.folder / "venv/bin/python"

    def run_command(self, command, status=0, **variables):
        kept = {name: value for name, value in os.environ.items() if name not in ("KOLO_LIBRARY", "PYTHONPATH")}
        done = subprocess.run(command, env={**kept, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **variables}, cwd=self.folder,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX, check=False)
        if status is not None:
            self.assertEqual(status, done.returncode, done.stdout)
        return done.stdout

    def pip(self, *arguments, **options):
        return self.run_command([sys.executable, "-m", "pip", "--python", self.python, *arguments], **options)

    def python_says(self, code):
        return self.run_command([self.python, "-B", "-c", code])

    def test_another_kolo(self):
        index = Index()
        self.addCleanup(index.server_close)
        self.addCleanup(index.shutdown)
        self.pip("install", other(self.folder), **index.variables())
        before = sorted((self.folder / "venv").rglob("*"))
        self.pip("install", *WHEELS, **index.variables())
        self.assertEqual([], index.asked)
        self.assertEqual("another kolo\n['ours']\n", self.python_says(f"import kolo, kolo4py\nkolo.main()\n{OURS}"))
        self.assertEqual("another kolo\n", self.run_command([self.folder / "venv/bin/kolo"]))
        self.pip("uninstall", "-y", "kolo4py")
        self.assertEqual(before, sorted((self.folder / "venv").rglob("*")))
        self.assertEqual("another kolo\n", self.python_says("import kolo; kolo.main()"))

    def test_index_is_asked_for_requirements(self):
        """What test_another_kolo would find."""
        index = Index()
        self.addCleanup(index.server_close)
        self.addCleanup(index.shutdown)
        self.pip("install", other(self.folder, "Requires-Dist: kolo4py==0.0.9\n"), status=1, **index.variables())
        self.assertEqual(["/simple/kolo4py/"], index.asked)

    def test_pypi_s_kolo(self):
        try:
            said = self.pip("install", "--no-compile", "--retries", "1", "kolo==3.6.1", status=None)
        except subprocess.TimeoutExpired as error:
            said = str(error)
        if "Successfully installed" not in said:
            print(f"without PyPI's kolo, which pip did not get: {said[-400:]}")
            return
        self.pip("install", "--no-index", *WHEELS)
        self.assertEqual("['ours']\n", self.python_says(f"import kolo, kolo4py\nwith kolo.enabled():\n    pass\n{OURS}"))
        self.assertRegex(self.run_command([self.folder / "venv/bin/kolo", "--version"]), r"kolo, version \d")


if __name__ == "__main__":
    if importlib.util.find_spec("pip") is None or not WHEELS:
        print("pip is not installed" if WHEELS else "there is no wheel: python.wheel was skipped, or failed")
        sys.exit(77)
    unittest.main(verbosity=2)
