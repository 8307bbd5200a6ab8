"""kolo-info --stale: names of jobs in /dev/shm, living and left behind, and what it removes. In a /dev/shm of its own, or
what it removes could be another test's."""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
import unittest

KOLO_INFO = os.environ["KOLO_INFO"]
RANK_PROBE = os.environ["RANK_PROBE"]
SHM = "/dev/shm"
OWN_SHM = "STALE_TEST_HAS_OWN_SHM"


def path_of(job):
    return f"{SHM}/kolo-{os.geteuid()}-{job}"


def start_rank_0(job):
    """Rank 0 of two, of which the other never comes: its name stays until it ends."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KOLO_")}
    process = subprocess.Popen([RANK_PROBE], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env={**environment, "KOLO_RANK": "0", "KOLO_SIZE": "2", "KOLO_JOB": job})
    deadline = time.monotonic() + 30
    while not os.path.exists(path_of(job)) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    return process


def run(*arguments):
    return subprocess.run([KOLO_INFO, *arguments], capture_output=True, text=True, timeout=200, check=False,
                          stdin=subprocess.DEVNULL)


def names(*arguments):
    done = run("--stale", "--json", *arguments)
    assert (done.returncode, done.stderr) == (0, ""), done
    return {name["path"]: name for name in json.loads(done.stdout)["names"]}


class Stale(unittest.TestCase):
    def setUp(self):
        self.living, self.killed = (f"stale-{os.getpid()}-{part}" for part in ("living", "killed"))
        self.processes = [start_rank_0(job) for job in (self.living, self.killed)]
        self.processes[1].kill()
        self.processes[1].wait()
        self.garbage = path_of(f"stale-{os.getpid()}-garbage")
        with open(self.garbage, "wb") as file:
            file.write(b"nothing of kolo's")

    def tearDown(self):
        self.processes[0].send_signal(signal.SIGKILL)
        self.processes[0].wait()
        for path in (path_of(self.living), path_of(self.killed), self.garbage):
            if os.path.lexists(path):
                os.unlink(path)

    def test_lists(self):
        found = names()
        living, killed = found[path_of(self.living)], found[path_of(self.killed)]
        self.assertEqual((self.processes[0].pid, False, False), (living["pid"], living["stale"], living["removed"]))
        self.assertEqual((self.processes[1].pid, True, False), (killed["pid"], killed["stale"], killed["removed"]))
        self.assertTrue(0 <= killed["age_s"] < 60)
        self.assertEqual((0, True), (found[self.garbage]["pid"], found[self.garbage]["stale"]))
        table = run("--stale").stdout
        self.assertRegex(table, rf"{path_of(self.killed)}: made by pid {self.processes[1].pid}, which is gone, \d+ s ago")
        self.assertRegex(table, rf"{path_of(self.living)}: made by pid {self.processes[0].pid}, which lives")

    def test_removes_only_what_is_stale(self):
        foreign = f"{SHM}/stale-{os.getpid()}-not-kolo"
        with open(foreign, "wb"):
            pass
        link = path_of(f"stale-{os.getpid()}-link")
        os.symlink(foreign, link)
        try:
            removed = {path for path, name in names("--remove", "--all").items() if name["removed"]}
            self.assertIn(path_of(self.killed), removed)
            self.assertIn(self.garbage, removed)
            self.assertNotIn(path_of(self.living), removed)
            self.assertFalse(os.path.exists(path_of(self.killed)))
            self.assertTrue(os.path.exists(path_of(self.living)))
            self.assertTrue(os.path.exists(foreign) and os.path.islink(link))
        finally:
            os.unlink(foreign)
            os.unlink(link)

    def test_removes_what_is_named(self):
        path = path_of(self.killed)
        for name in (self.killed, path, os.path.basename(path)):
            with self.subTest(name):
                if not os.path.exists(path):
                    shutil.copyfile(self.garbage, path)
                done = run("--stale", "--remove", name)
                self.assertEqual((0, ""), (done.returncode, done.stderr))
                self.assertRegex(done.stdout, rf"^{path}: .*: removed\n$")
                self.assertFalse(os.path.exists(path))
        self.assertTrue(os.path.exists(self.garbage) and os.path.exists(path_of(self.living)))

    def test_removes_several(self):
        done = run("--stale", "--remove", "--json", self.killed, self.garbage)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertEqual([(path_of(self.killed), True), (self.garbage, True)],
                         [(name["path"], name["removed"]) for name in json.loads(done.stdout)["names"]])

    def test_does_not_remove_what_lives_or_is_not_there(self):
        done = run("--stale", "--remove", self.living, "nobody's", self.killed)
        self.assertEqual(1, done.returncode)
        self.assertIn(f"{path_of(self.living)} is in use by process {self.processes[0].pid}", done.stderr)
        self.assertIn("'nobody's': no job of this user has that name", done.stderr)
        self.assertTrue(os.path.exists(path_of(self.living)))
        self.assertFalse(os.path.exists(path_of(self.killed)))

    def answer(self, text):
        """What it says to an answer at a terminal."""
        ours, its = pty.openpty()
        asking = subprocess.Popen([KOLO_INFO, "--stale", "--remove"], stdin=its, stderr=its, stdout=subprocess.PIPE)
        os.close(its)
        said = ""
        while "[y/N]" not in said:
            said += os.read(ours, 1000).decode()
        os.write(ours, text)
        asking.communicate(timeout=200)
        os.close(ours)
        self.assertEqual(0, asking.returncode)
        self.assertIn("remove the 2 that are stale?", said)

    def test_asks_at_a_terminal(self):
        for answer, remains in ((b"n\n", True), (b"\n", True), (b"y\n", False)):
            self.answer(answer)
            self.assertEqual(remains, os.path.exists(path_of(self.killed)))
            self.assertEqual(remains, os.path.exists(self.garbage))
            self.assertTrue(os.path.exists(path_of(self.living)))

    def test_refuses(self):
        for arguments, pattern in ((("--remove",), "--remove goes with --stale"),
                                   (("--stale", "--remove"), "give the names to remove, or --all"),
                                   (("--stale", "--remove", "--json"), "give the names to remove, or --all"),
                                   (("--stale", "--all"), "--all goes with --stale --remove"),
                                   (("--stale", "--remove", "--all", "x"), "give names or --all"),
                                   (("--stale", "--env"), "give one of them"),
                                   (("--stale", "--ranks", "8"), "--ranks: --env and --stale show nothing of ranks"),
                                   (("--stale", "x"), "argument 'x': is not expected")):
            with self.subTest(arguments):
                done = run(*arguments)
                self.assertEqual((2, ""), (done.returncode, done.stdout))
                self.assertIn(pattern, done.stderr)
                self.assertTrue(os.path.exists(path_of(self.killed)))


def run_in_own_shm():
    mount = f"mount -t tmpfs -o mode=1777 tmpfs {SHM} && {OWN_SHM}=1 exec \"$@\""
    command = ["unshare", "--mount", "sh", "-c", mount, "sh", sys.executable, "-B", *sys.argv]
    if subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", SHM], capture_output=True, timeout=200,
                      check=False).returncode:
        print("no right to mount a tmpfs in a namespace of its own")
        sys.exit(77)
    os.execvp(command[0], command)


if __name__ == "__main__":
    if OWN_SHM not in os.environ:
        run_in_own_shm()
    unittest.main(verbosity=2)
