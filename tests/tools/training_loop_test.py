"""The training loop of tools/train/README.md: it compiles, trains on two ranks, and prints what is shown there."""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

import launching

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/install"))
import readme_blocks  # noqa: E402

LINES_MAX = 60


class TrainingLoop(unittest.TestCase):
    def test_prints_what_is_shown(self):
        text = (ROOT / "tools/train/README.md").read_text(encoding="utf-8")
        section = text[text.index("## Training steps in C\n"):]
        steps, files = readme_blocks.parse(section[:section.index("\n## ", 1)])
        self.assertEqual(["train.c"], list(files))
        self.assertLess(files["train.c"].count("\n"), LINES_MAX)
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        (folder / "train.c").write_text(files["train.c"], encoding="utf-8")
        library = pathlib.Path(os.environ["KOLO_LIBRARY"])
        subprocess.run([*shlex.split(os.environ["C_COMPILER"]), "-O1", "-Wall", "-Werror", folder / "train.c", "-o",
                        folder / "train", f"-I{ROOT / 'include'}", library, f"-Wl,-rpath,{library.parent}"], check=True)
        done = launching.kolorun("-n", "2", str(folder / "train"))
        self.assertEqual(0, done.returncode, done.stderr)
        step, = (step for step in steps if step.shown)
        self.assertIsNone(readme_blocks.difference(step, done.stdout), done.stdout)


if __name__ == "__main__":
    launching.main()
