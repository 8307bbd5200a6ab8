"""kolo-top: what it shows of tables, and that nothing it reads of them can make it fail badly."""

import contextlib
import json
import mmap
import os
import pathlib
import random
import re
import signal
import subprocess
import unittest

import launching
from launching import PATIENCE_S

KOLO_TOP = os.environ["KOLO_TOP"]
TABLE_PROBE = os.environ["TABLE_PROBE"]
SEED = int(os.environ.get("TEST_SEED", "1"))
GARBAGE_RUNS = int(os.environ.get("KOLO_TEST_RUNS", 40))
RANKS, SLOW_RANK, SLOW_MS, STALENESS = 3, 1, 300, 2
NAME, SHOWN_NAME = 'weights "a"?', r'weights "a"\?'
COLUMNS_MAX = 80
MAGIC = int.to_bytes(0x6B6F6C6F2D746162, 8, "little")
LAYOUT_AT = 8  # of the table's header, in all versions


def table_file(pid):
    """The descriptor in /proc of a process's table."""
    for entry, name in launching.open_files(pid):
        if "memfd:kolo-alloc" in name:
            with contextlib.suppress(FileNotFoundError), open(entry, "rb") as file:  # it may have been closed meanwhile
                if file.read(8) == MAGIC:
                    return entry
    return None


class TableTest(launching.LaunchingTest):
    def start_job(self, staleness=STALENESS):
        ranks = self.start_without_kolorun(f"top-tables-test-{os.getpid()}", RANKS, TABLE_PROBE, str(SLOW_RANK), str(SLOW_MS),
                                           str(staleness), stderr=subprocess.DEVNULL, text=True)
        for number, rank in enumerate(ranks):
            self.assertEqual(f"rank {number} is process {rank.pid}\n", rank.stdout.readline())
        return ranks

    @staticmethod
    def look(target, *options):
        return subprocess.run([KOLO_TOP, "--once", "--interval", "0.1", *options, str(target)], capture_output=True,
                              text=True, timeout=PATIENCE_S, env=launching.environment(), check=False)

    def tables(self, target):
        done = self.look(target, "--json")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        return [table for comm in json.loads(done.stdout)["communicators"] for table in comm["tables"]]

    def wait_for_table(self, target, condition, what):
        seen = []

        def holds():
            seen[:] = self.tables(target)
            return len(seen) == 1 and condition(seen[0])

        try:
            self.wait_until(holds, what)
        except AssertionError as error:
            raise AssertionError(f"{error}: {seen}") from error
        return seen[0]


    def wait_for_others(self, ranks, staleness=STALENESS):
        """Until they have waited for the slow rank for most of an interval, and do so. One that gets no processor is
        behind, or is shown as waiting after what it waited for."""
        def wait(table):
            others = [rank for rank in table["ranks"] if rank["rank"] != SLOW_RANK]
            return table["waiting"] == RANKS - 1 and all(
                rank["ahead"] == staleness + 1 and rank["waiting_share"] > 0.5 for rank in others)
        return self.wait_for_table(ranks[0].pid, wait, "others to wait")


class Running(TableTest):
    def test_slow_rank(self):
        ranks = self.start_job()
        table = self.wait_for_others(ranks)
        self.assertIsNone(launching.unexplained(KOLO_TOP, "  tables is a list of", table))
        self.assertEqual((NAME, "running", 10, STALENESS, RANKS, 0, SLOW_RANK),
                         tuple(table[key] for key in ("name", "state", "rows", "staleness", "shards", "servers",
                                                      "slowest_rank")))
        self.assertEqual([rank.pid for rank in ranks], [rank["pid"] for rank in table["ranks"]])
        self.assertEqual(table["slowest_clock"] + STALENESS + 1, table["fastest_clock"])
        for rank in table["ranks"]:
            is_slow = rank["rank"] == SLOW_RANK
            self.assertEqual((0, None, "working") if is_slow else (STALENESS + 1, SLOW_RANK, "waiting"),
                             (rank["ahead"], rank["waits_for"], rank["state"]))
            self.assertEqual(table["slowest_clock"] + rank["ahead"], rank["clock"])
            for counter in ("pulled", "pushed"):
                self.assertIn(rank[counter], (10 * rank["clock"], 10 * rank["clock"] + 10))
            if is_slow:  # it may have waited at first, for ranks that had no processor
                self.assertIsNone(rank["waits_s"])
            else:
                self.assertLess(rank["waits_s"], PATIENCE_S)

    def test_words(self):
        ranks = self.start_job()
        pattern = rf"""table {SHOWN_NAME}: 10 rows, 3 shards, [\d.]+ KiB
  staleness 2; slowest: rank {SLOW_RANK} at clock \d+, for which 2 wait
 rank +pid state .*
 +0 +{ranks[0].pid} waiting +\d+ +\+3 .* {SLOW_RANK}
\* +1 +{ranks[1].pid} working +\d+ +\+0 .* 0% +-
 +2 +{ranks[2].pid} waiting +\d+ +\+3 .* {SLOW_RANK}
"""
        self.wait_until(lambda: re.search(pattern, self.look(ranks[0].pid).stdout), pattern)
        text = self.look(ranks[0].pid).stdout
        self.assertLessEqual(max(map(len, text.splitlines())), COLUMNS_MAX, text)
        self.assertNotIn("\033", text)

    def test_synchronous(self):
        ranks = self.start_job(staleness=0)
        table = self.wait_for_others(ranks, staleness=0)
        self.assertEqual((SLOW_RANK, 0), (table["slowest_rank"], table["staleness"]))
        self.assertEqual([1, 0, 1], [rank["ahead"] for rank in table["ranks"]])

    def test_process_is_killed(self):
        """Also the one in which the table was found first."""
        ranks = self.start_job()
        watching = subprocess.Popen([KOLO_TOP, "--interval", "0.1", "--json", str(ranks[0].pid)], text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=launching.environment())
        self.addCleanup(watching.kill)
        watching.stdout.readline()
        ranks[0].kill()
        ranks[0].wait()
        for _ in range(100):
            table = json.loads(watching.stdout.readline())["communicators"][0]["tables"][0]
            if table["ranks"][0]["state"] == "ended":
                break
        self.assertEqual(("ended", None, None),
                         tuple(table["ranks"][0][key] for key in ("state", "process", "ahead")), table)
        self.assertEqual("running", table["state"])
        before = table["slowest_clock"]
        table = self.wait_for_table(ranks[2].pid, lambda table: table["slowest_clock"] > before and
                                    table["slowest_rank"] == SLOW_RANK, "a clock to end")
        self.assertEqual("ended", table["ranks"][0]["state"])
        for rank in ranks[1:]:
            rank.send_signal(signal.SIGUSR1)
        output, errors = watching.communicate(timeout=PATIENCE_S)
        self.assertEqual((0, "kolo-top: the job has ended\n"), (watching.returncode, errors))
        last = json.loads(output.splitlines()[-1])["communicators"][0]["tables"][0]
        self.assertEqual("ended", last["state"], last)

    def test_rank_leaves(self):
        ranks = self.start_job()
        ranks[SLOW_RANK].send_signal(signal.SIGUSR1)
        table = self.wait_for_table(ranks[0].pid, lambda table: table["ranks"][SLOW_RANK]["state"] == "left",
                                    "the rank to leave")
        self.assertNotEqual(SLOW_RANK, table["slowest_rank"])
        self.assertIsNone(table["ranks"][SLOW_RANK]["ahead"])

    def holds(self, watching, inode):
        """Whether it does at this moment, as while it looks."""
        watching.send_signal(signal.SIGSTOP)
        self.wait_until(lambda: launching.state(watching.pid) == "T", "kolo-top to stop")
        held = [os.stat(entry).st_ino for entry in pathlib.Path(f"/proc/{watching.pid}/fd").iterdir()]
        maps = pathlib.Path(f"/proc/{watching.pid}/maps").read_text(encoding="utf-8")
        watching.send_signal(signal.SIGCONT)
        return inode in held or "kolo-alloc" in maps

    def test_memory_is_not_kept(self):
        """A table that its ranks have destroyed goes, though somebody watches it."""
        ranks = self.start_job()
        inode = os.stat(table_file(ranks[0].pid)).st_ino
        watching = subprocess.Popen([KOLO_TOP, "--interval", "0.1", "--json", str(ranks[0].pid)], text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=launching.environment())
        self.addCleanup(watching.stdout.close)
        self.addCleanup(watching.wait)
        self.addCleanup(watching.kill)
        for _ in range(5):
            self.assertEqual(inode, json.loads(watching.stdout.readline())["communicators"][0]["tables"][0]["file"])
            self.wait_until(lambda: not self.holds(watching, inode), "kolo-top to let go of the table")


class Garbage(TableTest):
    """A table of this process's, which no rank writes: a copy of one whose job is running, then damaged."""

    def setUp(self):
        self.ranks = self.start_job()
        with open(table_file(self.ranks[0].pid), "rb") as file:
            self.data = file.read()
        self.fd = os.memfd_create("kolo-top-garbage")
        self.addCleanup(os.close, self.fd)
        os.truncate(self.fd, len(self.data))
        self.mapping = mmap.mmap(self.fd, len(self.data))
        self.addCleanup(self.mapping.close)

    def write(self, data):
        os.pwrite(self.fd, data, 0)

    def copy(self, tables):
        """Ours, of the two that are found below this process."""
        ours = os.fstat(self.fd).st_ino
        found = [table for table in tables if table["file"] == ours]
        return found[0] if found else None

    def test_other_version(self):
        self.write(self.data[:LAYOUT_AT] + b"\x4d\0\0\0" + self.data[LAYOUT_AT + 4:])
        tables = self.tables(os.getpid())
        self.assertEqual(2, len(tables))
        self.assertEqual({"name": NAME, "file": os.fstat(self.fd).st_ino, "state": "other version", "layout": 77},
                         self.copy(tables))
        text = self.look(os.getpid()).stdout
        self.assertRegex(text, rf"table {SHOWN_NAME}: cannot be read:\n  it is of another version of kolo "
                               r"\(layout 77\)\n")

    def test_of_no_communicator(self):
        self.write(self.data[:24] + b"\xff" * 8 + self.data[32:])
        self.assertEqual([True], [table["state"] == "running" for table in self.tables(os.getpid())])

    def test_damage(self):
        print(f"TEST_SEED={SEED}")
        chance = random.Random(SEED)
        states = set()
        for run in range(GARBAGE_RUNS):
            data = bytearray(self.data)
            first, last = chance.choice(((40, 128), (72, 128), (384, 2048), (0, 2048)))
            for _ in range(chance.choice((1, 8, 100))):
                at = chance.randrange(first, last) // 8 * 8
                data[at:at + 8] = chance.choice((bytes(8), b"\xff" * 8, chance.randbytes(8)))
            self.write(data)
            for options in ((), ("--json",)):
                with self.subTest(seed=SEED, run=run, options=options):
                    done = self.look(os.getpid(), *options)
                    self.assertEqual((0, ""), (done.returncode, done.stderr))
                    if options:
                        copy = self.copy([table for comm in json.loads(done.stdout)["communicators"]
                                          for table in comm["tables"]])
                        states.add(copy["state"] if copy else "not a table")
        self.assertIn("damaged", states)

    def test_cut_short(self):
        self.write(self.data)
        self.assertEqual("running", self.copy(self.tables(os.getpid()))["state"])
        os.truncate(self.fd, 200)
        self.assertEqual("damaged", self.copy(self.tables(os.getpid()))["state"])
        os.truncate(self.fd, 60)
        self.assertIsNone(self.copy(self.tables(os.getpid())))


if __name__ == "__main__":
    launching.main()
