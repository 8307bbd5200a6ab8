"""The Debian packages: lintian finds no error in them, they install in a root that has only Debian, their programs and
modules run there, and purging them leaves nothing. Then the wheel works there, which needs none of them. 77: not root,
not Debian 12, no mmdebstrap or lintian, or no network."""

import gzip
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

import abi_description
import debian_root

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ["KOLO_BUILD"])
WHEELS = pathlib.Path(os.environ["WHEEL_CACHE"])  # of python.wheel, if that was not skipped
CACHE = pathlib.Path(os.environ["README_CACHE"])
PACKED_SECONDS_MAX, LINTED_SECONDS_MAX, USED_SECONDS_MAX = 300, 300, 500
MARK = "### PACKAGES ###"
UNCHECKED = (  # by lintian, as they take half of its time
    "documentation/manual", "files/compressed/gz",  # have tests of their own
    "binaries/spelling", "languages/javascript/embedded")  # find no errors, but what may be one
SONAME = abi_description.soname(abi_description.INCLUDE)
LIBRARY = SONAME.replace(".so.", "")  # its package

SCRIPT = rf"""
exec 2>&1
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq || {{ echo "'apt-get update' failed"; exit; }}
say() {{ echo "{MARK} $1"; shift; "$@" || echo "exit status $?"; }}
quietly() {{ "$@" >/root/log 2>&1 || {{ cat /root/log; false; }}; }}
say installed quietly apt-get install -y --no-install-recommends /root/packages/*.deb
find / -xdev -path '*__pycache__*' -path '*/kolo4py/*' | wc -l
cd /root
say info kolo-info --version
say perf kolorun -n 2 kolo-perf allreduce --max 1K --check --no-limits
say train kolorun -n 2 kolo-train --quiet --steps 2 --hidden 32 --no-compare
say simulate kolo-simulate --machine grace --ranks 2 --max 8
say python kolorun -n 2 python3 -c 'import kolo4py as kolo
with kolo.init() as comm:
    print(kolo._library.load()._name, comm.all_gather_object(comm.rank))'
say numpy python3 -c 'import importlib.util; print(importlib.util.find_spec("numpy"))'
say consumer kolorun -n 2 ./consumer
say linked ldd consumer
say header ls -l /usr/include/kolo.h
say purged quietly apt-get purge -y 'libkolo*' kolo-tools kolo-mpi python3-kolo
dpkg-query -f '${{Package}} ${{db:Status-Status}}\n' -W | grep kolo
ldconfig -p | grep kolo
find / -xdev -path '*kolo*' ! -path '/root/*'
say wheel env PYTHONPATH=/root/site python3 -c 'import kolo4py as kolo
print(kolo._library.load()._name, kolo.init().all_gather_object("x"))'
echo "{MARK} end"
"""


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="kolo-packages-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        done = subprocess.run([os.environ["CPACK"], "-G", "DEB", "-B", cls.folder / "packed"], cwd=BUILD,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                              timeout=PACKED_SECONDS_MAX)
        if done.returncode:
            raise AssertionError(done.stdout)
        cls.packages = {path.name.split("_")[0]: path for path in (cls.folder / "packed").glob("*.deb")}

    def field(self, package, name):
        return subprocess.run(["dpkg-deb", "-f", self.packages[package], name], capture_output=True, text=True,
                              check=True).stdout.strip()

    def test_names_and_dependencies(self):
        self.assertEqual({LIBRARY, "libkolo-dev", "kolo-tools", "kolo-mpi", "python3-kolo"}, set(self.packages))
        version = self.field(LIBRARY, "Version")
        self.assertRegex(version, r"^\d+\.\d+\.\d+-1$")
        for package in ("libkolo-dev", "kolo-tools"):
            self.assertIn(f"{LIBRARY} (= {version})", self.field(package, "Depends"))
        self.assertRegex(self.field(LIBRARY, "Depends"), r"^libc6 \(>= 2\.\d+\), .*liburing2")
        self.assertIn("python3:any", self.field("python3-kolo", "Depends"))
        self.assertEqual(("all", "python3-kolo4py"),
                         tuple(self.field("python3-kolo", name) for name in ("Architecture", "Provides")))
        self.assertEqual("libs", self.field(LIBRARY, "Section"))

    def test_no_program_has_a_search_path(self):
        subprocess.run(["dpkg-deb", "-x", self.packages["kolo-tools"], self.folder / "tools"], check=True)
        for program in (self.folder / "tools/usr/bin").iterdir():
            dynamic = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
            self.assertNotRegex(dynamic, "RPATH|RUNPATH", program.name)

    def test_examples_and_guides(self):
        for package, names in (("libkolo-dev", ("README.md", "examples/all_reduce.c")), ("kolo-tools", ("packages/README.md",)),
                               ("python3-kolo", ("examples/parameter_server.py",))):
            listed = subprocess.run(["dpkg-deb", "-c", self.packages[package]], capture_output=True, text=True, check=True)
            for name in names:
                self.assertIn(f" ./usr/share/doc/{package}/{name}\n", listed.stdout)

    @unittest.skipUnless(shutil.which("lintian"), "lintian is not installed")
    def test_lintian_finds_no_error(self):
        done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error", "-X", ",".join(UNCHECKED),
                               *self.packages.values()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False, timeout=LINTED_SECONDS_MAX)
        self.assertEqual(0, done.returncode, done.stdout)

    def test_compressed_files(self):
        """They can be read, and have no time in them."""
        for path in self.packages.values():
            contents = subprocess.run(["dpkg-deb", "--fsys-tarfile", path], capture_output=True, check=True).stdout
            with tarfile.open(fileobj=io.BytesIO(contents)) as archive:
                files = [file for file in archive if file.isfile() and file.name.endswith(".gz")]
                self.assertGreater(len(files), 0)
                for file in files:
                    packed = archive.extractfile(file).read()
                    self.assertGreater(len(gzip.decompress(packed)), 0, file.name)
                    self.assertEqual(bytes(4), packed[4:8], file.name)

    def compile(self, program):
        """By this machine's compiler, with what libkolo-dev has: a compiler takes longer to install than all the rest."""
        files = self.folder / "dev"
        for package in ("libkolo-dev", LIBRARY):
            subprocess.run(["dpkg-deb", "-x", self.packages[package], files], check=True)
        where, = files.rglob("pkgconfig")
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "kolo"], capture_output=True, text=True, check=True,
                               env={**os.environ, "PKG_CONFIG_PATH": str(where)}).stdout.split()
        subprocess.run([os.environ["CC"], "-Wall", "-Werror", HERE / "consumer.c", "-o", program, *flags], check=True)

    def outputs(self, root):
        home = root.path / "root"
        (home / "packages").mkdir()
        for path in self.packages.values():
            shutil.copy(path, home / "packages")
        self.compile(home / "consumer")
        for wheel in WHEELS.glob("*.whl"):
            subprocess.run([sys.executable, "-m", "zipfile", "-e", wheel, home / "site"], check=True)
        printed = root.run(SCRIPT, USED_SECONDS_MAX)
        if "'apt-get update' failed" in printed:
            self.skipTest("Debian's packages cannot be reached from the root")
        parts = re.split(rf"^{MARK} (\w+)\n", printed, flags=re.MULTILINE)
        return dict(zip(parts[1::2], parts[2::2])), printed

    def test_install_use_and_purge(self):
        used = pathlib.Path(tempfile.mkdtemp(prefix="packages-", dir=CACHE))
        self.addCleanup(shutil.rmtree, used)
        try:
            root = debian_root.DebianRoot(CACHE, used)
        except debian_root.Unavailable as reason:
            self.skipTest(str(reason))
        said, printed = self.outputs(root)
        version = self.field(LIBRARY, "Version").split("-")[0]
        self.assertIn("end", said, printed)
        self.assertNotIn("exit status", printed.split(f"{MARK} wheel")[0])
        self.assertRegex(said["installed"], r"^[1-9]\d*\n$")  # files of bytecode
        self.assertEqual(f"kolo-info {version}\n", said["info"])
        self.assertRegex(said["perf"], r"\n +1024 ")
        self.assertIn("test accuracy", said["train"])
        self.assertIn("NVIDIA Grace", said["simulate"])
        self.assertEqual([f"{SONAME} [0, 1]"] * 2, [line.rsplit("/", 1)[-1] for line in said["python"].split("\n")[:2]])
        self.assertEqual("None\n", said["numpy"])
        self.assertEqual(f"consumer: kolo {version}, 2 rank(s)\n" * 2, said["consumer"])
        self.assertRegex(said["linked"], rf"{re.escape(SONAME)} => (?:/usr)?/lib/\w+-linux-gnu/")
        self.assertIn("kolo.h", said["header"])
        self.assertEqual("", said["purged"])
        if any(WHEELS.glob("*.whl")):
            self.assertEqual(f"/root/site/kolo4py/{SONAME} ['x']\n", said["wheel"])


if __name__ == "__main__":
    CACHE.mkdir(parents=True, exist_ok=True)
    result = unittest.main(exit=False, verbosity=2).result
    sys.exit(1 if not result.wasSuccessful() else 77 if result.skipped else 0)
