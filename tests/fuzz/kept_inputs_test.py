"""What tests/fuzz/fuzz --add keeps, in a copy of an archive."""

import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent


class KeptInputs(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="kolo-fuzz-"))
        self.addCleanup(shutil.rmtree, self.root)
        (self.root / "tests/fuzz/corpus").mkdir(parents=True)
        self.script = shutil.copy(FOLDER / "fuzz", self.root / "tests/fuzz")
        self.archive = pathlib.Path(shutil.copy(FOLDER / "corpus/job.tar", self.root / "tests/fuzz/corpus"))

    def fuzz(self, *arguments):
        return subprocess.run(["bash", self.script, "job", *arguments], cwd=self.root, capture_output=True, text=True,
                              timeout=60)

    def add(self, *contents):
        names = [f"-input {number}" for number in range(len(contents))]
        for name, content in zip(names, contents):
            (self.root / name).write_bytes(content)
        result = self.fuzz("--add", *(f"./{name}" for name in names))
        self.assertEqual(0, result.returncode, result.stderr)

    def kept(self):
        with tarfile.open(self.archive) as archive:
            return {member.name: archive.extractfile(member).read() for member in archive}

    def test_adds_what_is_new(self):
        before = self.kept()
        self.add(b"one\0\n", next(iter(before.values())), b"two", b"one\0\n")
        after = self.kept()
        self.assertEqual(before, {name: after[name] for name in before})
        self.assertEqual([b"one\0\n", b"two"], sorted(after[name] for name in after.keys() - before.keys()))
        self.assertEqual(sorted(after), list(after))

    def test_same_inputs_give_the_same_archive(self):
        as_it_is = self.archive.read_bytes()
        self.add(next(iter(self.kept().values())))
        self.assertEqual(as_it_is, self.archive.read_bytes())

    def test_refuses(self):
        as_it_is = self.archive.read_bytes()
        for arguments in ((), ("--add",), ("--keep",), ("1", "--add"), ("1", "--keep", "x"), ("--add", "missing")):
            with self.subTest(arguments):
                self.assertNotEqual(0, self.fuzz(*arguments).returncode)
        self.assertEqual(as_it_is, self.archive.read_bytes())


if __name__ == "__main__":
    unittest.main(verbosity=2)
