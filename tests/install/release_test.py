"""What tools/packages/release does in a clone: the version in all places, its date, one commit, and packages with the same
bytes in another clone. RELEASE_PARTS=all: all packages, which takes two builds; otherwise the sources and the ABI alone. 77:
this is no clone of git, or abidw (package abigail-tools) is not installed."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import abi_description

ROOT = pathlib.Path(__file__).resolve().parents[2]
ALL = os.environ.get("RELEASE_PARTS") == "all"
PARTS = [] if ALL else [word for part in ("debian", "wheel", "site") for word in ("--without", part)]
VERSION = "7.0.1"
SECONDS_MAX = 3000


def git(folder, *arguments):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=folder, env=kept, text=True,
                          capture_output=True, check=True)
    return done.stdout.strip()


class Release(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """A clone of what is in the tree now, committed or not."""
        folder = tempfile.TemporaryDirectory(prefix="kolo-release-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.work = pathlib.Path(folder.name)
        cls.original = cls.work / "original"
        git(ROOT, "clone", "--quiet", "--depth", "1", f"file://{ROOT}", cls.original)
        git(cls.original, "config", "user.name", "a")
        git(cls.original, "config", "user.email", "a@b")
        for name in git(ROOT, "ls-files", "--modified", "--others", "--exclude-standard").split("\n"):
            if name and (ROOT / name).is_file():
                (cls.original / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, cls.original / name)
        cls.edit(cls.original, "CHANGELOG.md", r"\n## ", f"\n## {VERSION}\n\nMore.\n\n## ")

    @staticmethod
    def edit(clone, name, old, new):
        path = clone / name
        path.write_text(re.sub(old, new, path.read_text(encoding="utf-8"), count=1), encoding="utf-8")
        git(clone, "add", "--all")
        git(clone, "commit", "--quiet", "--message", "Edited")

    def setUp(self):
        self.clone = self.work / self.id().rpartition(".")[2]
        shutil.copytree(self.original, self.clone, symlinks=True)

    def release(self, *arguments, clone=None, env=None):
        clone = clone or self.clone
        return subprocess.run([clone / "tools/packages/release", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=SECONDS_MAX, check=False, stdin=subprocess.DEVNULL, env=env)

    def assert_refused(self, pattern, *arguments, code=1):
        before = git(self.clone, "rev-parse", "HEAD"), git(self.clone, "status", "--porcelain")
        done = self.release(*arguments)
        self.assertEqual(code, done.returncode, done.stdout)
        self.assertRegex(done.stdout, f"release: {pattern}")
        self.assertEqual(before, (git(self.clone, "rev-parse", "HEAD"), git(self.clone, "status", "--porcelain")))

    def test_help(self):
        done = self.release("--help")
        self.assertEqual(0, done.returncode)
        for word in ("--tag", "--without PART", "--to FOLDER", "example:"):
            self.assertIn(word, done.stdout)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80)

    def test_mistakes(self):
        for pattern, *arguments in (("'' is no version",), ("'1.2' is no version", "1.2"), ("'1.2.3x' is no", "1.2.3x"),
                                    ("'2.0.0': there is a version", VERSION, "2.0.0"), ("--to needs", VERSION, "--to"),
                                    ("there is no option '--tags'", VERSION, "--tags"), ("--without 'deb': give one of source d",
                                                                                         VERSION, "--without", "deb")):
            self.assert_refused(pattern, *arguments, code=2)

    def test_refuses(self):
        self.assert_refused("CHANGELOG.md begins with '## 7.0.1': put '## 8.0.0'", "8.0.0")
        self.assert_refused("the tree has version .*, which is newer than 0.0.1", "0.0.1")
        self.assert_refused(f"{self.clone} is there already", VERSION, "--to", str(self.clone))
        (self.clone / "new").touch()
        self.assert_refused("there are changes that are not committed", VERSION)
        (self.clone / "new").unlink()
        self.edit(self.clone, "lib/bindings/python/kolo4py/_library.py", 'VERSION = "[^"]*"', 'VERSION = "9.9.9"')
        self.assert_refused("lib/bindings/python/kolo4py/_library.py: names 9.9.9; include/kolo.h has", VERSION)

    def test_refuses_another_abi(self):
        """A new patch version has that of the one before, or nothing is left of it."""
        major, minor, patch = abi_description.version_places.owned(self.clone / "include").split(".")
        version = f"{major}.{minor}.{int(patch) + 1}"
        self.edit(self.clone, "CHANGELOG.md", re.escape(VERSION), version)
        self.edit(self.clone, "include/kolo_comm.h", "    int rank; ", "    int more, rank; ")
        self.assert_refused(f"there is no version {re.escape(version)}", version)

    def test_release(self):
        first, second = self.work / "first", self.work / "second"
        head = git(self.clone, "rev-parse", "HEAD")
        done = self.release(VERSION, *PARTS, "--to", str(first))
        self.assertEqual(0, done.returncode, done.stdout)
        self.assertEqual(head, git(self.clone, "rev-parse", "HEAD^"))
        self.assertEqual(f"kolo {VERSION}", git(self.clone, "log", "-1", "--format=%s"))
        self.assertEqual("", git(self.clone, "status", "--porcelain"))
        self.assertEqual("", git(self.clone, "tag"))
        self.assertRegex((self.clone / "CHANGELOG.md").read_text(), rf"(?m)^## {VERSION}, \d{{4}}-\d\d-\d\d$")
        self.assertIn("soname='libkolo.so.7'", (self.clone / "tests/install/kolo.abi").read_text(encoding="utf-8"))
        self.assert_complete(first)
        other = self.work / "another-clone"
        git(self.work, "clone", "--quiet", f"file://{self.clone}", other)
        done = self.release(VERSION, *PARTS, "--tag", "--to", str(second), clone=other)
        self.assertEqual(0, done.returncode, done.stdout)
        self.assertEqual(git(self.clone, "rev-parse", "HEAD"), git(other, "rev-parse", f"v{VERSION}^{{commit}}"))
        self.assertEqual(sorted(path.name for path in first.iterdir()), sorted(path.name for path in second.iterdir()))
        for path in sorted(first.iterdir()):
            with self.subTest(path.name):
                self.assertTrue(path.read_bytes() == (second / path.name).read_bytes(), "differs in another clone")

    def test_clone_that_changes_meanwhile(self):
        """By a commit before the tag, and by an edit before the wheel, which are made as the script calls a program."""
        self.edit(self.clone, "tools/packages/make_wheels", r"(?s).*", '#!/bin/sh\ntouch "$1/made.whl"\n')
        for program, change in (("sha256sum", "git commit --quiet --all --message more"), ("tar", "true")):
            with self.subTest(program):
                clone, stubs, made = (self.work / f"{program}-{part}" for part in ("clone", "stubs", "made"))
                shutil.copytree(self.clone, clone, symlinks=True)
                stubs.mkdir()
                (stubs / program).write_text(f"#!/bin/sh\n(cd {clone} && echo more >>README.md && {change}) || exit 1\n"
                                             f'exec {shutil.which(program)} "$@"\n', encoding="utf-8")
                (stubs / program).chmod(0o700)
                done = self.release(VERSION, "--tag", "--without", "debian", "--without", "site", "--to", str(made),
                                    clone=clone, env={**os.environ, "PATH": f"{stubs}:{os.environ['PATH']}"})
                self.assertRegex(done.stdout, f"release: {clone} has changed meanwhile")
                self.assertEqual((1, "", False), (done.returncode, git(clone, "tag"), made.exists()))
                self.assertEqual(program == "sha256sum", "wheel" in done.stdout)

    def assert_complete(self, folder):
        subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=folder, check=True)
        names = {path.name for path in folder.iterdir()}
        self.assertLessEqual({f"kolo-{VERSION}.tar.gz", f"kolo-{VERSION}.abi", "SHA256SUMS"}, names)
        if ALL:
            self.assertTrue(any(re.fullmatch(rf"libkolo7_{VERSION}-1_\w+\.deb", name) for name in names), names)
            self.assertTrue(any(re.fullmatch(rf"kolo4py-{VERSION}-py3-none-\w+\.whl", name) for name in names), names)
        listed = subprocess.run(["tar", "-tvzf", f"kolo-{VERSION}.tar.gz"], cwd=folder, capture_output=True, text=True, check=True)
        modes = dict(reversed(line.split(None, 5)[::5]) for line in listed.stdout.splitlines())
        self.assertEqual("-rwxr-xr-x", modes[f"kolo-{VERSION}/tools/packages/release"])
        self.assertEqual("-rw-r--r--", modes[f"kolo-{VERSION}/include/kolo.h"])


if __name__ == "__main__":
    if not (ROOT / ".git").exists() or not shutil.which("git") or not shutil.which("abidw"):
        print("this is no clone of git, or abidw is not installed")
        sys.exit(77)
    unittest.main(verbosity=2)
