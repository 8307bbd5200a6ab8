"""--save and --resume: a training that is interrupted and resumed has the curve of an undisturbed one."""

import os
import re
import signal
import subprocess
import time
import unittest

import training
from training import launching

HEADER_WORDS = ("version", "file_bytes", "fingerprint", "data", "optimizer", "hidden", "batch", "seed", "parameters",
                "steps", "epochs")  # of 8 bytes each, behind the 8 of the magic
HEADER_BYTES = 8 + 8 * len(HEADER_WORDS)


class Resume(training.TrainingTest):
    def setUp(self):
        super().setUp()
        self.state = self.folder / "training.state"
        self.model = ("--hidden", 40, "--batch", 31, "--no-compare")

    def assert_no_leftovers(self):
        self.assertEqual([], [path.name for path in self.folder.iterdir() if ".new-" in path.name])

    def test_same_curve(self):
        """To the last bit with the same number of ranks, fused or not, and wherever it was interrupted."""
        for kind, steps, saving, resuming in (("sgd", 32, (), ()), ("adamw", 32, ("--fused",), ("--fused",)),
                                              ("adamw", 21, ("--fused",), ()), ("adamw", 21, (), ("--fused",))):
            with self.subTest(kind=kind, steps=steps, saving=saving, resuming=resuming):
                options = (*self.model, "--optimizer", kind)
                whole = self.report(2, *options, "--epochs", 4)
                self.report(2, *options, *saving, "--epochs", 4, "--steps", steps, "--save", self.state)
                rest = self.report(2, *options, *resuming, "--epochs", 4, "--resume", self.state)
                self.assertEqual(whole["losses"], rest["losses"])
                self.assertEqual([epoch["samples"] for epoch in whole["epochs"]],
                                 [epoch["samples"] for epoch in rest["epochs"]])
                for field in "loss", "test_accuracy":
                    for epoch, other in zip(whole["epochs"], rest["epochs"], strict=True):
                        self.assertAlmostEqual(epoch[field], other[field], places=6)
                self.assert_no_leftovers()

    def test_other_number_of_ranks(self):
        options = (*self.model, "--optimizer", "adamw", "--fused", "--rate", 0.01)
        whole = self.report(1, *options, "--epochs", 4)
        for saving, resuming in (3, 2), (1, 4), (2, 1):
            first = self.report(saving, *options, "--epochs", 2, "--save", self.state)
            rest = self.report(resuming, *options, "--epochs", 4, "--resume", self.state, "--save", self.state)
            self.assertEqual(first["losses"], rest["losses"][:32])
            self.assert_same_curve(rest, whole)
            self.assertEqual(resuming, rest["ranks"])

    def test_killed_rank(self):
        """A rank dies in the middle of a fused step; the file is of an epoch before, and whole."""
        options = (*self.model, "--optimizer", "adamw", "--fused")
        job = self.start_training(3, "--data", self.data, *options, "--epochs", 100000, "--save", self.state,
                                  stdout=subprocess.DEVNULL)
        self.wait_until(self.state.exists, "a file")
        os.kill(launching.children(job.pid)[2], signal.SIGKILL)
        job.communicate(timeout=30)
        self.assertNotEqual(0, job.returncode)
        epochs = int.from_bytes(self.header()[-8:], "little") + 2
        rest = self.report(2, *options, "--epochs", epochs, "--resume", self.state)
        whole = self.report(2, *options, "--epochs", epochs)
        self.assertEqual(epochs, len(rest["epochs"]))
        early = [abs(a - b) for a, b in zip(rest["losses"][:30], whole["losses"][:30])]
        self.assertLess(max(early), 1e-3)

    def test_ended_while_it_saves(self):
        job = subprocess.Popen(training.command(None, "--data", self.data, "--hidden", 2048, "--epochs", 100000, "--save",
                                                self.state), stdout=subprocess.DEVNULL, env=training.ENVIRONMENT)
        self.addCleanup(job.kill)
        self.wait_until(self.state.exists, "a file")
        deadline = time.monotonic() + training.SECONDS_MAX
        while not list(self.folder.glob("*.new-*")):
            self.assertIsNone(job.poll())
            self.assertLess(time.monotonic(), deadline)
        job.terminate()
        self.assertEqual(-signal.SIGTERM, job.wait(training.SECONDS_MAX))
        self.assert_no_leftovers()

    def header(self):
        return self.state.read_bytes()[:HEADER_BYTES]

    def assert_refused(self, pattern, *options):
        done = training.run(2, "--data", self.data, *self.model, "--epochs", 3, *options)
        own = [line for line in done.stderr.splitlines() if not line.startswith("kolorun:")]
        self.assertEqual((1, ""), (done.returncode, done.stdout))
        self.assertEqual(1, len(own), done.stderr)
        self.assertRegex(own[0], pattern)

    def test_refuses_bad_files(self):
        self.report(2, *self.model, "--epochs", 1, "--save", self.state)
        good = self.state.read_bytes()
        self.assertEqual(HEADER_BYTES + 7 * 8 + 4 * (16 + 2 * int.from_bytes(good[72:80], "little")), len(good))

        def change(word, value):
            at = 8 + 8 * HEADER_WORDS.index(word)
            return good[:at] + value.to_bytes(8, "little") + good[at + 8:]

        huge = (1 << 64) - 1
        for content, pattern in ((b"", "is no file of kolo-train --save"), (b"x" * 500, "is no file of kolo-train"),
                                 (good[:60], "is no file of kolo-train --save"),
                                 (change("version", 2), "has version 2; this kolo-train reads version 1"),
                                 (change("data", 5), "--data: the rows are not those"),
                                 (change("hidden", 8), "saved with --hidden 8, not 40"),
                                 (change("batch", 32), "saved with --batch 32, not 31"),
                                 (change("seed", 9), "saved with --seed 9, not 1"),
                                 (change("optimizer", 1), "another --optimizer"),
                                 (change("steps", huge), "is of step 18446744073709551615"),
                                 (change("steps", 15), f"is damaged: it has {len(good)} bytes"),
                                 (change("epochs", huge), "is damaged"), (change("parameters", huge), "is damaged"),
                                 (change("file_bytes", huge), "is damaged"),
                                 (good[:-4], "is damaged"), (good + b"1234", "is damaged"),
                                 (good[:-2] + bytes([good[-2] ^ 1]) + good[-1:], "is damaged: what it holds")):
            with self.subTest(pattern=pattern):
                self.state.write_bytes(content)
                self.assert_refused(pattern, "--resume", self.state)
        self.state.write_bytes(good)
        self.assert_refused("is of step 16, and the training ends at step 10: give more --steps", "--steps", 10,
                            "--resume", self.state)
        self.assert_refused("cannot open '/nonexistent': No such file", "--resume", "/nonexistent")

    @unittest.skipUnless("LATE_EXIT" in os.environ, "nothing can be preloaded")
    def test_the_rank_that_tells_exits_first(self):
        """Rank 0 alone reads the file. kolorun names the rank that exits first, and no innocent one, whose file is empty."""
        self.state.write_bytes(b"cut")
        done = training.run(4, "--data", self.data, *self.model, "--resume", self.state, env={
            **training.ENVIRONMENT, "LD_PRELOAD": os.environ["LATE_EXIT"], "LATE_EXIT_NOTES": str(self.folder)})
        self.assertEqual((1, ""), (done.returncode, done.stdout))
        self.assertRegex(done.stderr, r"^kolo-train: rank 0: cannot resume: .*\nkolorun: rank 0 \(pid \d+\) exited with code 1"
                         r"\n$")

    def test_refuses_places_it_cannot_write(self):
        pipe, dangling = self.folder / "pipe", self.folder / "dangling"
        os.mkfifo(pipe)
        dangling.symlink_to("no/such/folder/state")
        for path, reason in (("/nonexistent/a", "No such file"), (self.folder, "Is a directory"),
                             ("/dev/null", "it is not a regular file: give the name of a file"),
                             (pipe, "it is not a regular file"), (dangling, "No such file")):
            self.assert_refused(re.escape(f"cannot write '{path}': {reason}"), "--save", path)

    def test_follows_links(self):
        """What a link points to is replaced, in its own folder and with its own mode; the link stays."""
        store, link, chain = self.folder / "store", self.folder / "link", self.folder / "chain"
        store.mkdir()
        target = store / "target.state"
        link.symlink_to("store/target.state")
        chain.symlink_to(link)
        for path, mode in ((link, None), (chain, 0o600)):
            if mode:
                target.chmod(mode)
            self.report(2, *self.model, "--epochs", 1, "--save", path)
            self.assertTrue(path.is_symlink())
            self.assertEqual((False, b"koloTRN\0"), (target.is_symlink(), target.read_bytes()[:8]))
            self.assertIn(mode, (None, target.stat().st_mode & 0o777))
        self.assertEqual(["target.state"], [path.name for path in store.iterdir()])
        self.assert_no_leftovers()

    def test_saves_again(self):
        """Into the file that it has resumed, and where ranks may be lost."""
        shrink = ("--on-failure", "shrink")
        self.report(2, *self.model, "--epochs", 2, "--save", self.state, *shrink)
        before = self.header()
        self.report(2, *self.model, "--epochs", 3, "--resume", self.state, "--save", self.state, *shrink)
        self.assertNotEqual(before, self.header())
        self.assertEqual((48).to_bytes(8, "little"), self.header()[-16:-8])


if __name__ == "__main__":
    unittest.main(verbosity=2)
