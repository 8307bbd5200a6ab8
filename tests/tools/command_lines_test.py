"""What the command lines of all programs have in common."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

import launching

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = [*((str(ROOT / "tools" / name),) for name in ("check", "quickstart")),
           *((sys.executable, str(ROOT / "bench" / name)) for name in ("compare", "net", "staleness"))]
COLUMNS_MAX = 80
GROUP_MAX = 20  # options that one reads through without a heading
TOOLS = {pathlib.Path(path).name: path for path in os.environ["TOOLS"].split(":")}
PROGRAMS = [(str(path),) for path in sorted(pathlib.Path(launching.KOLORUN).parent.glob("kolo*"))]  # all that are built


def run(tool, *arguments, **variables):
    return subprocess.run([TOOLS[tool], *arguments], capture_output=True, text=True, timeout=launching.PATIENCE_S,
                          env=launching.environment(**variables), stdin=subprocess.DEVNULL, check=False)


def options_of(tool):
    """The long options that --help names where it explains them, two or more spaces from the margin."""
    return sorted(set(re.findall(r"(?m)^ {2,}(?:-\w, +)?--([a-z][a-z-]+)", run(tool, "--help").stdout)))


class Help(unittest.TestCase):
    """--help of all programs, scripts included, as a terminal of 80 columns shows it."""

    def text(self, command):
        done = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=launching.PATIENCE_S,
                              env=launching.environment(COLUMNS=str(COLUMNS_MAX)), stdin=subprocess.DEVNULL, check=False)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        return done.stdout

    def test_lines_fit_the_terminal(self):
        for command in (*PROGRAMS, *SCRIPTS):
            with self.subTest(command):
                for line in self.text(command).splitlines():
                    self.assertLessEqual(len(line), COLUMNS_MAX, line)

    def test_many_options_are_in_groups(self):
        for command in (*PROGRAMS, *SCRIPTS):
            with self.subTest(command):
                for group in re.split(r"(?m)^\S.*\n", self.text(command)):
                    self.assertLessEqual(len(re.findall(r"(?m)^ {2,6}-", group)), GROUP_MAX, group)

    def test_there_is_an_example(self):
        for command in (*PROGRAMS, *SCRIPTS):
            with self.subTest(command):
                self.assertRegex(self.text(command), r"(?mi)^examples?\b")

    def test_lost_output_is_told(self):
        for command in PROGRAMS:
            for option in ("--help", "--version"):
                with self.subTest(command), open("/dev/full", "wb") as full:
                    done = subprocess.run([*command, option], stdout=full, stderr=subprocess.PIPE, text=True, check=False,
                                          timeout=launching.PATIENCE_S)
                    self.assertEqual(1, done.returncode)
                    self.assertIn(": cannot write to standard output", done.stderr)


class Mistakes(unittest.TestCase):
    def assert_refused(self, tool, pattern, *arguments, **variables):
        done = run(tool, *arguments, **variables)
        self.assertEqual((2, ""), (done.returncode, done.stdout))
        self.assertRegex(done.stderr, pattern)
        self.assertRegex(done.stderr, rf"^{tool}: .*{tool} --help.*\n$")

    def test_nearest_option_is_named(self):
        for tool in TOOLS:
            options = options_of(tool)
            self.assertGreater(len(options), 3, tool)
            for name in options:
                typed = name[:-1] + "q" + name[-1:]
                with self.subTest(tool=tool, typed=typed):
                    wanted = rf"option '--{typed}' is unknown \(did you mean --{name}\?\)"
                    self.assert_refused(tool, wanted, f"--{typed}")
                    self.assert_refused(tool, wanted, f"--{typed}=3")

    def test_nothing_is_guessed_of_other_words(self):
        for tool in TOOLS:
            with self.subTest(tool):
                self.assert_refused(tool, r"option '--xyzzy' is unknown[^?]*$", "--xyzzy")
                self.assert_refused(tool, r"option '-Z' is unknown[^?]*$", "-Z")

    def test_variables_of_a_pod(self):
        """They may be a launcher's; there is no rank 0 that speaks."""
        for variables in ({"RANK": "1", "WORLD_SIZE": "2", "MASTER_PORT": "1"}, {"PMI_RANK": "1", "PMI_SIZE": "2"}):
            for tool in TOOLS:
                with self.subTest(tool=tool, variables=variables):
                    self.assert_refused(tool, r"option '--xyzzy' is unknown", "--xyzzy", **variables)
                    for option in ("--help", "--version", "--completion=bash"):
                        self.assertIn(tool, run(tool, option, **variables).stdout)

    def test_values(self):
        for tool in TOOLS:
            with self.subTest(tool):
                self.assert_refused(tool, r"option '--version' takes no value", "--version=1")

    def test_single_dash(self):
        for tool in TOOLS:
            with self.subTest(tool):
                self.assert_refused(tool, r"option '-verson' is unknown \(did you mean --version\?\)", "-verson")


if __name__ == "__main__":
    launching.main()
