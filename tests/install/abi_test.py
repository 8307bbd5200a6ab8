"""Programs of this minor version need not be compiled again: the public headers and the library agree with kolo.abi, which
describes them, but for additions. 77: abidw or abidiff (package abigail-tools) is not installed."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import abi_description

WRITE = "raise the minor version (tools/packages/version_places.py), and then: python3 tests/install/abi_description.py"


class Abi(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="kolo-abi-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def changed(self, name, old, new):
        """What is different once `old` has become `new` in that header."""
        include = self.folder / "include"
        shutil.copytree(abi_description.INCLUDE, include)
        text = (include / name).read_text(encoding="utf-8")
        self.assertEqual(1, text.count(old), f"{old} in {name}")
        (include / name).write_text(text.replace(old, new), encoding="utf-8")
        found = abi_description.difference(self.base(), include, self.folder)
        shutil.rmtree(include)
        return found

    def base(self):
        """Of the headers as they are: what is added to them later is not changed then."""
        path = self.folder / "base.abi"
        if not path.exists():
            abi_description.describe(abi_description.INCLUDE, path)
        return path

    def test_headers(self):
        found = abi_description.difference(abi_description.DESCRIPTION, abi_description.INCLUDE, self.folder)
        self.assertEqual("", found, f"\n{found}\nThis breaks programs of this minor version: {WRITE}")

    def test_library(self):
        """What is built has the name and the functions that are described."""
        library = os.environ["KOLO_LIBRARY"]
        described = abi_description.DESCRIPTION.read_text(encoding="utf-8")
        dynamic = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
        self.assertEqual(re.search(r"SONAME.*\[(.*)\]", dynamic).group(1), re.search("soname='(.*?)'", described).group(1), WRITE)
        symbols = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
        exported = {line.split()[-1].split("@")[0] for line in symbols.splitlines()}
        functions = set(re.findall("<elf-symbol name='(.*?)'", described))
        self.assertIn("kolo_allreduce", functions)
        self.assertEqual(set(), functions - exported)

    def test_accepts_additions(self):
        for change in (("kolo_memory.h", "KOLO_API int kolo_alloc(", "KOLO_API int kolo_more(int more);\nKOLO_API int kolo_alloc("),
                       ("kolo_comm.h", "} kolo_options;", "    double more;\n    int most;\n} kolo_options;"),
                       ("kolo_types.h", "    KOLO_DTYPES, ", "    KOLO_MORE,\n    KOLO_DTYPES, ")):
            with self.subTest(change):
                self.assertEqual("", self.changed(*change))

    def test_finds_changes(self):
        rank = "    int rank;                 /* 0 .. size-1. -1: KOLO_RANK,"
        alloc = "KOLO_API int kolo_alloc(kolo_comm *comm, size_t bytes,"
        for name, old, new, wanted in (
                ("kolo_comm.h", rank, rank.replace("int", "int64_t"), "'int64_t|'long|type of 'int rank"),
                ("kolo_comm.h", rank, rank.replace("int", "int more,"), "int more"),
                ("kolo_comm.h", rank, rank.replace("int rank", "float rank"), "float"),
                ("kolo_memory.h", alloc, alloc.replace("size_t", "int"), "parameter 2"),
                ("kolo_memory.h", alloc, alloc.replace("int kolo_alloc", "long kolo_alloc"), "return type changed"),
                ("kolo_memory.h", alloc, alloc.replace("KOLO_API ", "", 1), r"1 Removed function:\s+.*kolo_alloc"),
                ("kolo_types.h", "    KOLO_I8,\n", "    KOLO_MORE,\n    KOLO_I8,\n", "KOLO_I8"),
                ("kolo_types.h", "} kolo_tensor;", "    int more;\n} kolo_tensor;", "int more"),
                # An old program counts the padding at the end to the size that it passes, but writes nothing there.
                ("kolo_comm.h", "} kolo_failure;", "    int more;\n} kolo_failure;", "int more"),
                ("kolo.h", "KOLO_VERSION_MINOR ", "KOLO_VERSION_MINOR 9", "SONAME changed")):
            with self.subTest(new):
                self.assertRegex(self.changed(name, old, new), wanted)


if __name__ == "__main__":
    missing = [program for program in ("abidw", "abidiff", "readelf", "nm") if not shutil.which(program)]
    if missing:
        print(f"{', '.join(missing)}: not installed")
        sys.exit(77)
    unittest.main(verbosity=2)
