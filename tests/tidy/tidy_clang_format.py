"""C code has the layout that .clang-format describes."""

import re
import shutil
import subprocess
import unittest

import source_tree

VERSION = "14"  # each version lays out a little differently: this is the one the tree is kept in
DIAGNOSIS = re.compile(r"^(.*?):(\d+):\d+: (?:error|warning): ", re.MULTILINE)


def find_clang_format():
    for name in (f"clang-format-{VERSION}", "clang-format"):
        program = shutil.which(name)
        if program:
            banner = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10).stdout
            if re.search(rf"\bversion {VERSION}\.", banner):
                return program
    return None


CLANG_FORMAT = find_clang_format()


def problems(tree):
    paths = tree.paths(suffixes=source_tree.C_SUFFIXES)
    if not paths:
        return []
    check = subprocess.run([CLANG_FORMAT, "--dry-run", "--Werror", "--style=file", *paths], cwd=tree.root,
                           capture_output=True, text=True, timeout=300)
    if check.returncode == 0:
        return []
    first_lines = {}
    for path, line in DIAGNOSIS.findall(check.stderr):
        first_lines.setdefault(path, line)
    return [f"{path}:{line}: clang-format -i {path}" for path, line in first_lines.items()] or [check.stderr]


@unittest.skipUnless(CLANG_FORMAT, f"clang-format {VERSION} is not installed")
class ClangFormat(source_tree.Rule):
    def test_project(self):
        tree = source_tree.project()
        self.assertTrue(tree.paths(suffixes=source_tree.C_SUFFIXES))
        self.assert_clean(problems(tree))

    def test_rejects_other_layout(self):
        style = source_tree.project().text(".clang-format")
        with source_tree.example({".clang-format": style, "lib/core/base/a.c": "int a;\n",
                                  "lib/core/base/b.c": "\nint  b;\nint\tc;\n"}) as tree:
            self.assert_one(problems(tree), r"^lib/core/base/b\.c:2: clang-format -i")


if __name__ == "__main__":
    source_tree.main()
