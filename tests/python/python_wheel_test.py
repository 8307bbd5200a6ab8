"""The wheel builds, is one for every Python 3, has the library inside, and works away from the tree, as does the editable
one, which leaves nothing behind. Those of tools/packages/make_wheels run with the libc that they name, if they are there.
Objects come from the build that is tested, the folder OBJECTS, if it has what is in a wheel.
77: scikit-build-core, or pip, or an archive that is linked into the library, is not installed."""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

PROJECT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ["WHEEL_CACHE"])
LAUNCHER = PROJECT / "tests/install/object_launcher"
SKIPPED = 77
MADE = PROJECT / "build/wheels"  # by make_wheels
TAGS = {  # a compiler, what starts its programs, what they are linked with
    "manylinux_2_27_x86_64": ("x86_64-linux-gnu-gcc", [], {"libc.so.6", "libpthread.so.0", "libm.so.6", "ld-linux-x86-64.so.2"}),
    "manylinux_2_27_aarch64": ("aarch64-linux-gnu-gcc", ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"],
                               {"libc.so.6", "libpthread.so.0", "libm.so.6", "ld-linux-aarch64.so.1"}),
    "musllinux_1_2_x86_64": ("musl-gcc", [], {"libc.so"}),
    "musllinux_1_2_aarch64": (None, [], {"libc.so"})}
GLIBC_MAX = (2, 27)

BUILD = """
import sys, scikit_build_core.build as b
getattr(b, "build_" + sys.argv[4])(sys.argv[1], {
    "build-dir": sys.argv[2], "cmake.build-type": "Debug", "cmake.define.CMAKE_C_FLAGS_DEBUG": "-O0",
    "cmake.define.KOLO_TORCH": "OFF", "cmake.define.KOLO_TORCH_BACKENDS": sys.argv[3]})
"""
RANKS = r"""import kolo4py as kolo, kolo4py.torch
with kolo.init() as comm:
    print(f"{comm.all_reduce(b'x')[0]} {kolo.__file__} {kolo._library.load()._name}\n", end="")"""


class Wheel(unittest.TestCase):
    def build(self, work, backends="", kind="wheel"):
        """A wheel of that folder, and what is in it, which lies in `site` then."""
        for old in work.glob("*.whl"):
            old.unlink()
        launched = {"CMAKE_C_COMPILER_LAUNCHER": str(LAUNCHER)} if "OBJECTS" in os.environ else {}
        done = subprocess.run([sys.executable, "-c", BUILD, work, work / "build", backends, kind], cwd=PROJECT,
                              capture_output=True, text=True, timeout=500, check=False, env={**os.environ, **launched})
        if "is not installed: it is to be linked into the library" in done.stderr + done.stdout:
            self.skipTest("an archive that is linked into the library is not installed")
        self.assertEqual(0, done.returncode, done.stdout[-3000:] + done.stderr[-3000:])
        wheel, = work.glob("*.whl")
        self.assertRegex(wheel.name, r"^kolo4py-\d+\.\d+\.\d+-py3-none-linux_\w+\.whl$")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(work / "site")
            return wheel, archive.namelist()

    def test_wheel(self):
        with tempfile.TemporaryDirectory(prefix="kolo-wheel-") as folder:
            work = pathlib.Path(folder)
            wheel, names = self.build(work)
            library, = (name for name in names if ".so" in name)
            self.assertRegex(library, r"^kolo4py/libkolo\.so\.[\d.]+$")
            self.assertIn("kolo4py/py.typed", names)
            self.assertFalse([name for name in names if not name.startswith(("kolo4py/", "kolo4py-"))])
            needed = subprocess.run(["readelf", "-d", work / "site" / library], capture_output=True, text=True, check=True)
            self.assertEqual({"libc.so.6"}, set(re.findall(r"NEEDED.*\[(.*?)\]", needed.stdout)) - {"libm.so.6"} -
                             {name for name in re.findall(r"\[(ld-linux\S*)\]", needed.stdout)})
            self.assert_works(work / "site")
            for old in CACHE.glob("*.whl"):
                old.unlink()
            shutil.copy(wheel, CACHE)
            if "KOLO_TORCH_BACKEND" in os.environ:
                self.build(work, os.environ["KOLO_TORCH_BACKEND"])
                self.assert_has_backend(work / "site")
            self.assert_editable(work)

    def assert_editable(self, work):
        """The objects are those of the wheel before."""
        wheel, _ = self.build(work, kind="editable")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", work / "venv"], check=True)
        python = work / "venv/bin/python"

        def files():
            return sorted(path for path in (work / "venv").rglob("*") if not path.is_dir())

        before = files()
        for command in (["install", "--no-index", wheel], ["uninstall", "-y", "kolo4py"]):
            subprocess.run([sys.executable, "-m", "pip", "--python", python, *command], check=True, capture_output=True)
            if command[0] == "install":
                library, = (work / "venv").rglob("libkolo.so.*")
                file = PROJECT / "lib/bindings/python/kolo4py/__init__.py"
                said = f"{ord('x') * 2} {file} {library}"
                self.assert_says(f"{said}\n{said}", RANKS, work, python, os.environ["KOLORUN"], "-n", "2")
        self.assertEqual(before, files())

    def test_made_wheels(self):
        wheels = {tag: wheel for tag in TAGS for wheel in MADE.glob(f"*-{tag}.whl")}
        if not wheels:
            self.skipTest(f"tools/packages/make_wheels has made no wheels in {MADE}")
        for tag, wheel in wheels.items():
            with self.subTest(tag), tempfile.TemporaryDirectory(prefix="kolo-wheel-") as folder:
                with zipfile.ZipFile(wheel) as archive:
                    library = archive.extract(next(name for name in archive.namelist() if "/libkolo.so" in name), folder)
                self.assert_runs(pathlib.Path(library), *TAGS[tag])

    def test_make_wheels_with_a_relative_python(self):
        """The script itself works in the tree's root. What it calls is replaced here."""
        with tempfile.TemporaryDirectory(prefix="kolo-wheel-") as folder:
            work = pathlib.Path(folder).resolve()
            packages, venv = work / "tree/tools/packages", work / "tree/build/wheels.venv"
            for path in (packages, venv / "bin", venv / "sources"):
                path.mkdir(parents=True)
            shutil.copy(PROJECT / "tools/packages/make_wheels", packages)
            for path in (work / "python", *(venv / "bin" / name for name in ("auditwheel", "cmake", "pip", "python3"))):
                path.write_text('#!/bin/sh\necho "$0"\n', encoding="utf-8")
                path.chmod(0o755)
            done = subprocess.run([packages / "make_wheels", "--torch", "./python"], cwd=work, capture_output=True, text=True,
                                  timeout=100, check=False)
            self.assertEqual(0, done.returncode, done.stdout + done.stderr)
            self.assertIn(f"\n{work}/python\n", done.stdout)

    def assert_runs(self, library, compiler, starter, needed):
        """With a glibc that is not newer than the tag says, or with musl; as far as this machine can start programs."""
        shown = subprocess.run(["readelf", "-dV", library], capture_output=True, text=True, check=True).stdout
        self.assertLessEqual(set(re.findall(r"NEEDED.*\[(.*?)\]", shown)), needed)
        versions = [tuple(map(int, version)) for version in re.findall(r"GLIBC_(\d+)\.(\d+)", shown)]
        self.assertLessEqual(max(versions, default=(0, 0)), GLIBC_MAX)
        if compiler is None or not all(map(shutil.which, [compiler, *starter[:1]])):
            return
        program = library.parent / "consumer"
        subprocess.run([compiler, "-o", program, f"-I{PROJECT}/include", PROJECT / "tests/install/consumer.c", library,
                        f"-Wl,-rpath,{library.parent}"], check=True)
        done = subprocess.run([*starter, program], capture_output=True, text=True, timeout=100, check=False)
        self.assertRegex(done.stdout, r"^consumer: kolo [\d.]+, 1 rank\(s\)\n$", done.stderr)

    def assert_says(self, pattern, code, site, python=sys.executable, *launcher):
        kept = {name: value for name, value in os.environ.items() if name not in ("KOLO_LIBRARY", "PYTHONPATH")}
        path = {} if launcher else {"PYTHONPATH": str(site)}
        done = subprocess.run([*launcher, python, "-B", "-c", code], env={**kept, **path}, cwd=site,
                              capture_output=True, text=True, timeout=100, check=False)
        self.assertRegex(done.stdout, f"^{pattern}\n$", done.stderr)

    def assert_works(self, site):
        self.assert_says(rf"\['x'\] {re.escape(str(site.resolve()))}/kolo4py/libkolo\.so\S+", "import kolo4py as kolo\n"
                         "print(kolo.init().all_gather_object('x'), kolo._library.load()._name)", site)

    def assert_has_backend(self, site):
        self.assert_says(rf"1 {re.escape(str(site.resolve()))}/kolo4py/torch/_backend\S+", "import kolo4py.torch\n"
                         "import torch.distributed as dist\n"
                         f"dist.init_process_group('kolo', init_method='file://{site}/store', rank=0, world_size=1)\n"
                         "dist.barrier()\n"
                         "print(kolo4py.torch.stats()['calls'], kolo4py.torch.load().__file__)", site,
                         os.environ["KOLO_TORCH_PYTHON"])


if __name__ == "__main__":
    for needed in ("scikit_build_core", "pip"):
        if importlib.util.find_spec(needed) is None:
            print(f"{needed} is not installed")
            sys.exit(SKIPPED)
    if not shutil.which("readelf"):
        print("readelf is not installed")
        sys.exit(SKIPPED)
    CACHE.mkdir(parents=True, exist_ok=True)
    result = unittest.main(exit=False, verbosity=2).result
    sys.exit(1 if not result.wasSuccessful() else SKIPPED if len(result.skipped) == result.testsRun else 0)
