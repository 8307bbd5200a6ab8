"""What bash and zsh offer where a user presses the tab key, with what --completion prints."""

import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import tempfile
import time
import unittest

import launching

TOOLS = {pathlib.Path(path).name: path for path in os.environ["TOOLS"].split(":")}
TOOLS["kolorun"] = os.environ["KOLORUN"]

# Asks as readline does, which takes "--option=value" and "host:port" for three words.
ASK = r"""
eval "$(cat)"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
"$(complete -p "$1" | sed 's/.*-F \([^ ]*\) .*/\1/')"
[ ${#COMPREPLY[@]} -eq 0 ] || printf '%s\n' "${COMPREPLY[@]}"
"""


def printed(tool, shell):
    return subprocess.run([TOOLS[tool], "--completion", shell], capture_output=True, text=True, check=True,
                          timeout=launching.PATIENCE_S).stdout


class Bash(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scripts = {tool: printed(tool, "bash") for tool in TOOLS}

    def offered(self, *words, folder=None):
        done = subprocess.run(["bash", "-c", ASK, "bash", *words], input=self.scripts[words[0]], capture_output=True,
                              text=True, check=True, timeout=launching.PATIENCE_S, cwd=folder)
        self.assertEqual("", done.stderr)
        return done.stdout.split()

    def test_all_options_of_all_programs(self):
        for tool, path in TOOLS.items():
            helped = subprocess.run([path, "--help"], capture_output=True, text=True, check=True, timeout=10).stdout
            options = set(re.findall(r"(?m)^ {2,}(?:-\w+, +)*(--[a-z][a-z-]+)", helped))
            self.assertGreater(len(options), 3)
            with self.subTest(tool), tempfile.TemporaryDirectory(prefix="kolo-completion-") as folder:
                self.assertEqual(options, set(self.offered(tool, "--")))
                choices = {choice for option in options for choice in self.offered(tool, option, "=", "", folder=folder)}
                self.assertEqual(set(), choices - set(re.findall(r"[\w.+-]+", helped)))

    @unittest.skipUnless("kolo-perf" in TOOLS, "kolo-perf is not built")
    def test_values(self):
        self.assertEqual(["bor", "bxor", "band"], sorted(self.offered("kolo-perf", "--op", "b"), key="bor bxor band".find))
        self.assertEqual(["bf16"], self.offered("kolo-perf", "allreduce", "-d", "b"))
        self.assertEqual(["in"], self.offered("kolo-perf", "--place", "=", "i"))
        self.assertEqual({"out", "in", "both"}, set(self.offered("kolo-perf", "--place", "=")))
        self.assertEqual(["allgather", "allgatherv"], self.offered("kolo-perf", "allg"))
        self.assertEqual([], self.offered("kolo-perf", "--min", ""))

    def test_lists(self):
        self.assertEqual(["allreduce,reduce"], self.offered("kolo-tune", "--collective", "allreduce,r"))

    def test_files(self):
        with tempfile.TemporaryDirectory(prefix="kolo-completion-") as folder:
            pathlib.Path(folder, "a folder").mkdir()
            pathlib.Path(folder, "a.json").touch()
            self.assertEqual(["a.json"], self.offered("kolo-tune", "--check", "a.", folder=folder))
            self.assertEqual(["a", "folder"], self.offered("kolorun", "--output", "a", folder=folder))

    def test_program_of_kolorun(self):
        self.assertIn("sort", self.offered("kolorun", "-n", "2", "--ranks", "=", "2", "sor"))
        self.assertIn("sort", self.offered("kolorun", "-x", "A", "=", "1", "-x", "A", "-n", "2", "sor"))
        for words in (("-n", "2"), ("--rendezvous", "10.0.0.1", ":", "1"), ("--rendezvous", "[fd00", "::", "1]", ":", "1")):
            self.assertEqual(["--bind"], self.offered("kolorun", *words, "--b"))
        self.assertEqual([], self.offered("kolorun", "-n", "2", "sort", "--b"))  # is no option of kolorun


@unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
class Zsh(unittest.TestCase):
    """Types into a real one, which needs a terminal to complete."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="kolo-completion-")
        self.addCleanup(folder.cleanup)
        for tool in TOOLS:
            pathlib.Path(folder.name, f"_{tool}").write_text(printed(tool, "zsh"), encoding="utf-8")
        pid, self.terminal = pty.fork()
        if pid == 0:
            os.environ.update(TERM="dumb", LC_ALL="C", ZDOTDIR=folder.name)
            os.execvp("zsh", ["zsh", "-f", "-i"])
        self.addCleanup(os.waitpid, pid, 0)
        self.addCleanup(os.close, self.terminal)
        self.type(f"PS1=; unsetopt prompt_cr zle_bracketed_paste; fpath=({folder.name} $fpath); autoload -Uz compinit; "
                  f"compinit -u -D; zstyle ':completion:*' verbose no; echo rea''dy\n")
        self.read_until("ready")

    def type(self, text):
        os.write(self.terminal, text.encode())

    def read_until(self, wanted):
        seen, end = "", time.monotonic() + launching.PATIENCE_S
        while wanted not in seen:
            if not select.select([self.terminal], [], [], max(0, end - time.monotonic()))[0]:
                self.fail(f"'{wanted}' did not come, but: {seen}")
            seen += os.read(self.terminal, 4096).decode(errors="replace").replace("\r\n", "\n").replace("\r", "")
        return seen

    def test_completes(self):
        for typed, wanted in (("kolorun --outp", "--output="), ("kolorun --bind=c", "core"),
                              ("kolo-tune --collective allreduce,r", "allreduce,reduce"), ("kolo-top --onc", "--once"),
                              ("kolorun -n 2 kolo-tune --qui", "--quick")):
            with self.subTest(typed):
                self.type(typed + "\t")
                self.read_until(wanted)
                self.type("\x15")  # empties the line


if __name__ == "__main__":
    launching.main()
