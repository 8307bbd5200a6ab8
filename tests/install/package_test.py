"""An installed kolo is found by pkg-config and CMake, works shared and static, and may be moved."""

import importlib.util
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

import abi_description
import readme_blocks

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CC = os.environ.get("CC", "cc")
CMAKE = os.environ.get("CMAKE", "cmake")
SONAME = abi_description.soname(ROOT / "include")
VERSION = abi_description.version_places.owned(ROOT / "include")


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="kolo-install-")
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.work = pathlib.Path(cls.temporary.name)
        cls.prefix = cls.work / "prefix"
        cls.environment = {name: value for name, value in os.environ.items()
                           if not name.startswith(("KOLO_", "LD_LIBRARY_PATH", "OMPI_", "PMI_", "PYTHON", "SLURM_"))}
        cls.run_command([CMAKE, "--install", os.environ["KOLO_BUILD"], "--prefix", cls.prefix])
        cls.library_dir = next(cls.prefix.rglob("libkolo.so")).parent
        cls.environment["PKG_CONFIG_PATH"] = str(cls.library_dir / "pkgconfig")

    @classmethod
    def run_command(cls, command, **changes):
        """Runs a command that must succeed; returns what it printed."""
        done = subprocess.run([str(word) for word in command], env={**cls.environment, **changes}, cwd=cls.work,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100, check=False)
        if done.returncode:
            raise AssertionError(f"{shlex.join(map(str, command))}: exit status {done.returncode}\n{done.stdout}")
        return done.stdout

    def pkg_config(self, *arguments):
        return shlex.split(self.run_command(["pkg-config", *arguments, "kolo"]))

    def assert_one_rank(self, program, **changes):
        self.assertEqual(f"consumer: kolo {VERSION}, 1 rank(s)\n", self.run_command([program], **changes))

    def dynamic_libraries(self, program):
        return set(re.findall(r"NEEDED.*\[(.*?)\]", self.run_command(["readelf", "-d", program])))

    def test_pkg_config_version(self):
        self.assertEqual([VERSION], self.pkg_config("--modversion"))

    def test_pkg_config_shared(self):
        program = self.work / "pc_shared"
        self.run_command([CC, "-Wall", "-Werror", "-o", program, HERE / "consumer.c",
                          *self.pkg_config("--cflags", "--libs")])
        self.assertIn(SONAME, self.dynamic_libraries(program))
        self.assert_one_rank(program, LD_LIBRARY_PATH=str(self.library_dir))

    def test_pkg_config_static(self):
        program = self.work / "pc_static"
        self.run_command([CC, "-static", "-o", program, HERE / "consumer.c",
                          *self.pkg_config("--static", "--cflags", "--libs")])
        self.assertFalse(self.dynamic_libraries(program))
        self.assert_one_rank(program)

    def configure(self, build, wanted):
        return [CMAKE, "-S", HERE / "project", "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}",
                f"-DCMAKE_C_COMPILER={CC}", f"-DKOLO_VERSION_WANTED={wanted}"]

    def test_cmake_project(self):
        build = self.work / "project"
        self.run_command(self.configure(build, VERSION))
        self.run_command([CMAKE, "--build", build])
        self.assertIn(SONAME, self.dynamic_libraries(build / "with_kolo"))
        self.assertNotIn(SONAME, self.dynamic_libraries(build / "with_kolo_static"))
        self.assert_one_rank(build / "with_kolo")
        self.assert_one_rank(build / "with_kolo_static")

    def test_cmake_refuses_another_version(self):
        with self.assertRaisesRegex(AssertionError, "(?s)Could not find.*kolo.*99"):
            self.run_command(self.configure(self.work / "other_version", "99.0"))

    def test_missing_libraries(self):
        """Where pkg-config finds neither liburing nor libsodium, the build and its users do without. Configures only."""
        build = self.work / "bare"
        left_out = [f"-DKOLO_{part}=OFF" for part in ("TOOLS", "BENCH", "MPI", "TORCH")]
        self.run_command([CMAKE, "-S", ROOT, "-B", build, f"-DCMAKE_C_COMPILER={CC}", "-DKOLO_URING=AUTO", *left_out],
                         PKG_CONFIG_LIBDIR=str(build))
        commands = (build / "compile_commands.json").read_text(encoding="utf-8")
        self.assertEqual({("URING", "0"), ("SODIUM", "0")}, set(re.findall(r"KOLO_HAVE_(URING|SODIUM)=(\d)", commands)))
        targets = "".join(f"add_library(kolo::{name} INTERFACE IMPORTED)\n" for name in ("kolo", "kolo_static"))
        (build / "lib/cmake/kolo-targets.cmake").write_text(targets, encoding="utf-8")
        self.run_command([*self.configure(self.work / "bare_project", VERSION), f"-Dkolo_DIR={build / 'lib/cmake'}"])

    def test_readme_example(self):
        steps, files = readme_blocks.parse((ROOT / "README.md").read_text(encoding="utf-8"))
        (self.work / "example.c").write_text(files["example.c"], encoding="utf-8")
        step = next(step for step in steps if step.commands[0].startswith("cc example.c "))
        compile_line, start_line = step.commands
        self.run_command(["sh", "-c", f"{compile_line} -Wall -Wextra -Werror"])
        printed = self.run_command(["sh", "-c", start_line], LD_LIBRARY_PATH=str(self.library_dir),
                                   PATH=f"{self.prefix / 'bin'}:{os.environ['PATH']}")
        self.assertIsNone(readme_blocks.difference(step, printed))

    def test_examples(self):
        """Each is installed, and does what its opening comment says."""
        folder = self.prefix / "share/doc/kolo/examples"
        names = sorted(path.name for path in (ROOT / "tools/examples").iterdir() if path.suffix in (".c", ".py"))
        self.assertEqual(names, sorted(path.name for path in folder.iterdir()))
        package, = self.prefix.rglob("kolo4py/__init__.py")
        changes = {"PYTHONPATH": str(package.parents[1]), "PATH": f"{self.prefix / 'bin'}:{os.environ['PATH']}",
                   "LD_LIBRARY_PATH": str(self.library_dir)}
        for name in names:
            if name.endswith(".py") and importlib.util.find_spec("numpy") is None:
                continue
            with self.subTest(name):
                shutil.copy(folder / name, self.work)
                step = readme_blocks.example((folder / name).read_text(encoding="utf-8"))
                if name.endswith(".c"):
                    self.run_command(["sh", "-c", f"{step.commands[0]} -Wall -Wextra -Werror"])
                start_line = step.commands[-1].replace("python3", f"{sys.executable} -B")
                printed = self.run_command(["sh", "-c", start_line], **changes)
                self.assertIsNone(readme_blocks.difference(step, printed), printed)

    def test_guides_show_parts_of_the_examples(self):
        _, files = readme_blocks.parse((ROOT / "README.md").read_text(encoding="utf-8"))
        parts = [part for guide in ("tools/train", "lib/bindings/python")
                 for part in readme_blocks.excerpts((ROOT / guide / "README.md").read_text(encoding="utf-8"))]
        shown = [("all_reduce.c", files["example.c"]), ("all_reduce.py", files["example.py"]), *parts]
        self.assertEqual(7, len(shown), shown)
        for name, part in shown:
            with self.subTest(name, part=part):
                program = (ROOT / "tools/examples" / name).read_text(encoding="utf-8")
                self.assertTrue(any(textwrap.indent(part, " " * depth) in program for depth in (0, 4, 8)))

    def test_python_package(self):
        """The installed package, which finds the library of its prefix, without NumPy."""
        package, = self.prefix.rglob("kolo4py/__init__.py")
        self.assertTrue((package.parent / "py.typed").is_file())
        changes = {"PYTHONPATH": str(package.parents[1]), "PATH": f"{self.prefix / 'bin'}:{os.environ['PATH']}"}
        code = "import kolo4py as kolo; comm = kolo.init(); print(kolo._library.load()._name, comm.all_reduce(b'x')[0])"
        printed = self.run_command([sys.executable, "-B", "-c", code], **changes)
        self.assertTrue(printed.startswith(str(self.library_dir)), printed)
        self.assertTrue(printed.endswith(" 120\n"), printed)

    @unittest.skipUnless("KOLO_TORCH_PYTHON" in os.environ, "the backend for PyTorch is not built")
    def test_torch_package(self):
        """PyTorch finds the backend by itself; sources to build another one are there."""
        package, = self.prefix.rglob("kolo4py/torch/__init__.py")
        for name in ("source/backend.cpp", "source/include/kolo.h"):
            self.assertTrue((package.parent / name).is_file(), name)
        _, files = readme_blocks.parse((ROOT / "README.md").read_text(encoding="utf-8"))
        (self.work / "example_torch.py").write_text(
            files["example_torch.py"] + "import kolo4py as kolo, kolo4py.torch as k\n"
            "print(f\"{k.stats()['calls']} {dist.get_backend()} {kolo._library.load()._name} {k.__file__}\\n\", end='')\n",
            encoding="utf-8")
        printed = self.run_command([self.prefix / "bin/kolorun", "-n", "2", os.environ["KOLO_TORCH_PYTHON"], "-B",
                                    "example_torch.py"], PYTHONPATH=str(package.parents[2]))
        lines = sorted(printed.splitlines())
        self.assertEqual(["rank 0: [2.0, 1.0]", "rank 1: [2.0, 1.0]"], lines[2:])
        for line in lines[:2]:
            self.assertRegex(line, rf"^\d+ kolo {re.escape(str(self.library_dir))}\S+ {re.escape(str(package))}$")

    def test_kolo_train_has_its_data(self):
        """Right after installing, without options and without a network."""
        printed = self.run_command([self.prefix / "bin/kolorun", "-n", "2", self.prefix / "bin/kolo-train",
                                    "--steps", "2", "--hidden", "32", "--no-compare"])
        self.assertIn(f"{self.prefix}/share/kolo/digits.csv", printed)
        self.assertTrue((self.prefix / "share/kolo/digits.txt").is_file(), "where they come from, and their licence")

    def test_kolo_simulate_has_its_machines(self):
        printed = self.run_command([self.prefix / "bin/kolo-simulate", "--machine", "grace", "--ranks", "2", "--max", "8"])
        self.assertIn("NVIDIA Grace", printed)

    def test_licence_and_guides(self):
        for name in ("LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md", "tools/README.md", "tools/MACHINES.md",
                     "tools/packages/README.md", "tools/train/README.md"):
            with self.subTest(name):
                self.assertEqual((ROOT / name).read_bytes(), (self.prefix / "share/doc/kolo" / name).read_bytes())

    def assert_headers_compile(self, compiler, *flags):
        """Each public header before any other, so that it stands alone."""
        flags = [*flags, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", *self.pkg_config("--cflags")]
        for name in sorted(path.name for path in (ROOT / "include").iterdir()):
            with self.subTest(name):
                source = self.work / "header.c"
                source.write_text(f"#include <{name}>\n#include <kolo.h>\n"
                                  "int main(void) { kolo_options o = KOLO_OPTIONS_INIT; return o.rank + 1; }\n")
                self.run_command([*compiler, *flags, source])

    def test_headers_are_c11(self):
        self.assert_headers_compile([CC], "-std=c11")

    def test_headers_are_cxx(self):
        compiler = shutil.which("c++") or self.skipTest("no C++ compiler")
        self.assert_headers_compile([compiler, "-x", "c++"], "-std=c++11", "-pedantic")

    def test_moved_installation(self):
        """Programs find the library beside them, and kolo.pc names where it lies now."""
        moved = self.work / "moved"
        shutil.copytree(self.prefix, moved, symlinks=True)
        self.assertEqual(f"kolo-info {VERSION}\n", self.run_command([moved / "bin/kolo-info", "--version"]))
        resolved = self.run_command(["ldd", moved / "bin/kolo-info"])
        self.assertIn(str(moved), os.path.realpath(re.search(rf"{re.escape(SONAME)} => (\S+)", resolved).group(1)))
        where = self.run_command(["pkg-config", "--variable=libdir", "kolo"],
                                 PKG_CONFIG_PATH=str(moved / self.library_dir.relative_to(self.prefix) / "pkgconfig"))
        self.assertEqual((moved / self.library_dir.relative_to(self.prefix)).resolve(),
                         pathlib.Path(where.strip()).resolve())


if __name__ == "__main__":
    unittest.main(verbosity=2)
