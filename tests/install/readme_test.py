"""The commands of the README, typed in their order in a root with only Debian 12, and what they print compared with
what the README shows. Then come those by which the guide to installing does without root.

One command is another one here: tools/check builds and tests all of kolo and would start this test again. In its place
comes `tools/check --quick --no-install`, which finds out what is missing, and what it asks for must be packages that
apt knows. The commands with PyTorch take minutes and hundreds of MB: they are typed where README_WHEELS names a folder
with what `pip download torch==2.13.0+cpu numpy` gives, and left out elsewhere. Git, with which a reader gets the clone,
is not in the root: the tree is copied there. Compilers do not optimise, through cmake's CMAKE_C_COMPILER_LAUNCHER. The
launcher takes objects from the build that is tested: those of the library, of libkolo-mpi.so, of kolo-train and of
bench/, as what trains and measures takes long where it is not optimised. The root's compiler makes the other programs,
and what the README has readers compile; it links all. Training takes as many of the digits as make one batch.

77: not root, not Debian 12, no mmdebstrap, or no network."""

import os
import pathlib
import re
import shlex
import shutil
import sys
import tempfile
import unittest

import debian_root
import readme_blocks

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ["README_CACHE"])
WHEELS = os.environ.get("README_WHEELS")
SECONDS_MAX = 1000
MARK = "### README ###"
BUILD = pathlib.Path(os.environ["KOLO_BUILD"])
OBJECTS = ("lib/CMakeFiles/kolo_objects.dir", "lib/bindings/mpi/CMakeFiles/kolo_mpi.dir",
           "tools/train/CMakeFiles/kolo_train_objects.dir", "bench/CMakeFiles", "bench/simulate/CMakeFiles")
ROWS = 320  # one in five is for testing; the others are kolo-train's batch
NOT_COPIED = shutil.ignore_patterns("build", ".git", "__pycache__", "results")


def parsed():
    guide = (ROOT / "tools/packages/README.md").read_text(encoding="utf-8")
    without_root = guide[guide.index("## Without root\n"):]
    steps, files = readme_blocks.parse((ROOT / "README.md").read_text(encoding="utf-8")
                                       + without_root[:without_root.index("\n## ")])
    with_pytorch = [step for step in steps if step.commands[0] == "tools/quickstart --python"]
    assert with_pytorch, "README has no commands with PyTorch"
    return [step for step in steps if WHEELS or step not in with_pytorch], files


def script_of(steps):
    """Types all commands into one shell, as the variables that one sets hold for the next, until one fails."""
    lines = ["cd /root/clone", "export OBJECTS=/root/objects CMAKE_C_COMPILER_LAUNCHER=$PWD/tests/install/object_launcher"]
    lines.append("! grep -qw avx2 /proc/cpuinfo || export OPENBLAS_CORETYPE=Haswell")  # or it may not know the processor
    if WHEELS:
        lines.append("export PIP_NO_INDEX=1 PIP_FIND_LINKS=/root/wheels")
    for number, step in enumerate(steps):
        for command in step.commands:
            lines += [f"echo; echo '{MARK} {number}:' {shlex.quote(command)}", f"{{ {typed(command)}", "} </dev/null",
                      f"status=$?; echo; echo '{MARK} status' $status; [ $status -eq 0 ] || exit"]
    return "\n".join([*lines, *AFTERWARDS, ""])


def typed(command):
    if not command.startswith("tools/check"):
        return command
    return ("said=$(tools/check --quick --no-install 2>&1); [ $? -eq 3 ] && "
            "apt-get install --simulate --no-install-recommends "
            "$(printf '%s\\n' \"$said\" | sed -n 's/^ *apt-get install --no-install-recommends //p')")


# The last block is about an installation elsewhere: it must be the one that is found then.
AFTERWARDS = [f"echo '{MARK} elsewhere'", "pkg-config --variable=prefix kolo | xargs realpath", "command -v kolorun",
              "cc /root/clone/example.c -o /tmp/example $(pkg-config --cflags --libs kolo) && ldd /tmp/example",
              "python3 -c 'import kolo4py as kolo; kolo.init(); print(kolo.__file__, kolo._library.load()._name)'",
              "kolorun -n 2 kolo-train --quiet --epochs 2"]


class Readme(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.steps, files = parsed()
        CACHE.mkdir(parents=True, exist_ok=True)
        folder = pathlib.Path(tempfile.mkdtemp(prefix="used-", dir=CACHE))
        cls.addClassCleanup(shutil.rmtree, folder)
        try:
            root = debian_root.DebianRoot(CACHE, folder)
        except debian_root.Unavailable as reason:
            raise unittest.SkipTest(reason) from reason
        home = root.path / "root/clone"
        shutil.copytree(ROOT, home, ignore=NOT_COPIED, symlinks=True)
        digits = home / "tools/train/digits.csv"
        rows = digits.read_text(encoding="ascii").splitlines(keepends=True)
        digits.write_text("".join(rows[:ROWS]), encoding="ascii")
        for name, text in files.items():
            (home / name).write_text(text, encoding="utf-8")
        if WHEELS:
            shutil.copytree(WHEELS, root.path / "root/wheels")
        for folder in OBJECTS:
            shutil.copytree(BUILD / folder, root.path / "root/objects" / folder)
        cls.printed = root.run(script_of(cls.steps), SECONDS_MAX)
        (CACHE / "readme.log").write_text(cls.printed, encoding="utf-8")
        if "'apt-get update' failed" in cls.printed:
            raise unittest.SkipTest("Debian's packages cannot be reached from the root")

    def outputs(self):
        """(number of the step, command, what it printed, its status), as far as the commands came."""
        pattern = rf"{MARK} (\d+): ([^\n]*)\n(.*?)\n{MARK} status (\d+)\n"
        for found in re.finditer(pattern, self.printed, re.DOTALL):
            yield int(found.group(1)), found.group(2), found.group(3).strip("\n"), int(found.group(4))

    def test_each_command_works(self):
        typed_in = [command for step in self.steps for command in step.commands]
        done = list(self.outputs())
        for number, command, printed, status in done:
            self.assertEqual(0, status, f"step {number}, {command}:\n{printed[-4000:]}")
        self.assertEqual(typed_in, [command for _, command, _, _ in done], self.printed[-4000:])

    def test_prints_what_readme_shows(self):
        last = {number: printed for number, command, printed, _ in self.outputs()
                if not command.startswith("tools/check")}
        shown = [(number, step) for number, step in enumerate(self.steps) if step.shown]
        self.assertGreaterEqual(len(shown), 2)
        for number, step in shown:
            with self.subTest(step.commands):
                self.assertIsNone(readme_blocks.difference(step, last.get(number, "")), last.get(number, "")[-4000:])

    def test_other_prefix_is_used(self):
        end = self.printed.split(f"{MARK} elsewhere\n")[-1]
        self.assertTrue(end.startswith("/root/kolo\n"), end)
        self.assertIn("\n/root/kolo/bin/kolorun\n", end)
        self.assertRegex(end, r"libkolo\S+ => /root/kolo/lib/")
        self.assertRegex(end, r"\n/root/kolo/lib/\S+/kolo4py/__init__.py /root/kolo/lib/")
        self.assertIn("identical to the last bit", end)


class Commands(unittest.TestCase):
    def test_packages_are_known_before_they_are_installed(self):
        """The root above knows them from an earlier block, a reader's may not."""
        for step in parsed()[0]:
            installs = [i for i, command in enumerate(step.commands) if command.startswith("apt-get install")]
            if installs:
                self.assertIn("apt-get update", step.commands[:installs[0]])


class Blocks(unittest.TestCase):
    """What the comparison would find."""

    def difference(self, words, shown, printed):
        steps, _ = readme_blocks.parse(f"```sh\nx\n```\n{words}\n```text\n{shown}\n```\n")
        return readme_blocks.difference(steps[0], printed)

    def test_exact(self):
        self.assertIsNone(self.difference("", "a 1\nb", "a 1\nb\n"))
        self.assertIsNotNone(self.difference("", "a 1\nb", "a 2\nb"))
        self.assertIsNotNone(self.difference("", "a\nb", "b\na"))
        self.assertIsNone(self.difference("In any order", "a\nb", "b\na"))

    def test_other_numbers(self):
        words = "With other numbers"
        self.assertIsNone(self.difference(words, "sum  1.5 s\n...\nend 7", "noise\nsum 22.75 s\nmore\nend 8\nafter"))
        self.assertIsNotNone(self.difference(words, "sum 1\nend 7", "sum 22\nmore\nend 8"))
        self.assertIsNotNone(self.difference(words, "sum 1\n...\nend 7", "sum x\nend 8"))
        self.assertIsNotNone(self.difference(words, "sum 1\n...\nend 7", "end 8\nsum 1"))

    def test_joins_lines_and_takes_files(self):
        steps, files = readme_blocks.parse("```sh\na \\\n    b\nc\n```\nSave this as `x.c`:\n\n```c\nint x;\n```\n")
        self.assertEqual(["a      b", "c"], steps[0].commands)
        self.assertEqual({"x.c": "int x;\n"}, files)


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=2).result
    sys.exit(1 if not result.wasSuccessful() else 77 if result.skipped else 0)
