"""The shared library exports exactly the functions that the public headers declare; and their structs can grow."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import source_tree

DECLARATION = re.compile(r"^KOLO_API\b[^;]*?\b(\w+)\s*\(", re.MULTILINE)
STRUCT = re.compile(r"^typedef struct (\w+) \{\s*(.*?)^\} \1;", re.MULTILINE | re.DOTALL)
SIZE = re.compile(r"size_t \w+_bytes;")


def size_problems(header_text):
    """Structs that do not begin with their size, as those must that callers pass; parts of others need none, nor does
    what callers pass arrays of, as with iovec."""
    structs = dict(STRUCT.findall(source_tree.without_comments(header_text)))
    return [f"include: {name} does not begin with its size" for name, body in structs.items()
            if not SIZE.match(body) and not any(re.search(rf"\b{name} \w+\[", other) for other in structs.values())
            and not re.search(rf"\bconst {name} \*{name.removeprefix('kolo_')}s\b", header_text)]


def exported(library):
    """Names of the defined dynamic symbols; the version's own name (type A) is none."""
    listing = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True)
    fields = [line.split() for line in listing.stdout.splitlines()]
    return {field[-1].split("@")[0] for field in fields if field[-2] != "A"}


def declared(header_text):
    return set(DECLARATION.findall(source_tree.without_comments(header_text)))


def problems(library, header_text):
    symbols, functions = exported(library), declared(header_text)
    found = [f"{library}: exports {name}, which is not named kolo_*"
             for name in sorted(symbols) if not name.startswith("kolo_")]
    found += [f"{library}: exports {name}, which no public header declares"
              for name in sorted(symbols - functions) if name.startswith("kolo_")]
    found += [f"include: declares {name}, which {library} does not export"
              for name in sorted(functions - symbols)]
    return found


@unittest.skipUnless(shutil.which("nm"), "nm (package binutils) is not installed")
class Exports(source_tree.Rule):
    HEADER = "#define KOLO_API\nKOLO_API const char *kolo_a(int a,\n  int b); /* kolo_c( */\n"

    @unittest.skipUnless("KOLO_LIBRARY" in os.environ, "KOLO_LIBRARY does not name the built library")
    def test_project(self):
        tree = source_tree.project()
        header_text = "".join(tree.text(path) for path in tree.paths("include", suffixes=(".h",)))
        self.assertIn("kolo_allreduce", declared(header_text))
        self.assert_clean(problems(os.environ["KOLO_LIBRARY"], header_text))
        self.assert_clean(size_problems(header_text))
        self.assertIn("typedef struct kolo_stats {", header_text)

    def library_problems(self, code):
        with tempfile.TemporaryDirectory(prefix="kolo-tidy-") as folder:
            source, library = pathlib.Path(folder) / "a.c", pathlib.Path(folder) / "a.so"
            source.write_text(code, encoding="utf-8")
            compiler = os.environ.get("CC", "cc")
            subprocess.run([compiler, "-shared", "-fPIC", "-nostdlib", "-o", library, source], check=True)
            return problems(library, self.HEADER)

    def test_accepts_what_is_declared(self):
        self.assert_clean(self.library_problems("int kolo_a; static int helper; int *kolo_p(void);"))

    def test_rejects_foreign_name(self):
        self.assert_one(self.library_problems("int kolo_a, helper;"), "exports helper, which is not named")

    def test_rejects_undeclared(self):
        self.assert_one(self.library_problems("int kolo_a, kolo_b;"), "exports kolo_b, which no")

    def test_rejects_struct_without_size(self):
        part, whole = "typedef struct a {\n    int x;\n} a;\n", "typedef struct b {\n    size_t b_bytes; /* */\n    a as[2];\n} b;\n"
        self.assert_clean(size_problems(part + whole))
        self.assert_one(size_problems(part), "a does not begin with its size")

    def test_rejects_missing(self):
        self.assert_one(self.library_problems("static int a;"), "declares kolo_a, which")


if __name__ == "__main__":
    source_tree.main()
