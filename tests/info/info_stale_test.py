"""kolo-info --stale: names of jobs in /dev/shm, living and left behind, and what it removes. In a /dev/shm of its own, or
what it removes could be another test's."""

import json
import os
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
    return subprocess.run([KOLO_INFO, *arguments], capture_output=True, text=True, timeout=200, check=False)


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
            removed = {path for path, name in names("--remove").items() if name["removed"]}
            self.assertIn(path_of(self.killed), removed)
            self.assertIn(self.garbage, removed)
            self.assertNotIn(path_of(self.living), removed)
            self.assertFalse(os.path.exists(path_of(self.killed)))
            self.assertTrue(os.path.exists(path_of(self.living)))
            self.assertTrue(os.path.exists(foreign) and os.path.islink(link))
        finally:
            os.unlink(foreign)
            os.unlink(link)

    def test_refuses(self):
        done = run("--remove")
        self.assertEqual(2, done.returncode)
        self.assertIn("--remove goes with --stale", done.stderr)


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
