"""Shell scripts pass shellcheck."""

import shutil
import subprocess
import unittest

import source_tree

SHELLCHECK = shutil.which("shellcheck")


def problems(tree):
    scripts = sorted({*tree.scripts("bash"), *tree.scripts("/sh")})
    if not scripts:
        return []
    check = subprocess.run([SHELLCHECK, "--external-sources", "--format=gcc", *scripts], cwd=tree.root,
                           capture_output=True, text=True, timeout=50)
    return (check.stdout + check.stderr).splitlines()


@unittest.skipUnless(SHELLCHECK, "shellcheck is not installed")
class Shellcheck(source_tree.Rule):
    def test_project(self):
        tree = source_tree.project()
        self.assertTrue(list(tree.scripts("bash")))
        self.assert_clean(problems(tree))

    def test_rejects_unquoted(self):
        with source_tree.example({"tools/a": "#!/usr/bin/env bash\nrm $1\n"}) as tree:
            self.assert_one(problems(tree), r"^tools/a:2:.*quote")


if __name__ == "__main__":
    source_tree.main()
