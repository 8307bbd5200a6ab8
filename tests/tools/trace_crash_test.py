"""kolo-trace --crash: what it tells of jobs that failed, and of records that were made up, or damaged."""

import json
import os
import pathlib
import random
import re
import signal
import stat
import subprocess
import tempfile

import launching

KOLO_TRACE = os.environ["KOLO_TRACE_TOOL"]
CRASH_PROBE = os.environ["CRASH_PROBE"]
RECORD_PROBE = os.environ["RECORD_PROBE"]
SUM, BARRIER = "allreduce of 1000 f32, sum", "barrier"
MS = 1000_000
UTC_NS = 1_800_000_000 * 1000 * MS
NOW_NS = 5000 * MS


def a_call(number, text=None, ended=True, digest=0):
    return {"number": number, "call": text or (SUM if number % 2 else BARRIER), "digest": digest, "ended": ended}


def a_rank(rank, calls, state="running", in_call=True, waits=None, last=None):
    """One that has begun so many calls, and waits for (rank, so many ms)."""
    made = [a_call(number, ended=number < calls or not in_call) for number in range(max(1, calls - 63), calls + 1)]
    made[len(made) - 1:] = [last] if last else made[len(made) - 1:]
    wait = {"waits_for": waits[0], "waits_since_ns": NOW_NS - waits[1] * MS} if waits else {}
    return {"rank": rank, "pid": 100 + rank, "state": state, "calls": calls, "ended": calls - in_call, "steps": 2, **wait,
            "last_calls": made}


def a_record(rank, here, ranks=4, message="rank 2 failed", **fields):
    return {"format": 1, "job": "mine", "communicator": 2**64 - 1, "rank": rank, "ranks": ranks, "node": 0, "lane": 0,
            "pid": 100 + rank, "utc_ns": UTC_NS + rank, "now_ns": NOW_NS, **fields,
            "failure": {"status": -8, "rank": min(2, ranks - 1), "reporter": 0, "message": message}, "ranks_here": here}


def records_with_a_dead_rank(**fields):
    here = [a_rank(0, 17, waits=(2, 40)), a_rank(1, 17, waits=(2, 50)), a_rank(2, 17, state="ended"),
            a_rank(3, 16, in_call=False)]
    return [a_record(rank, here, **fields) for rank in (0, 1, 3)]


class Folder(launching.LaunchingTest):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="kolo-crash-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, records):
        for record in records:
            name = f"{record['job']}.{record['rank']}.{record['pid']}.{record['communicator'] % 7}.kolodump"
            (self.folder / name).write_text(json.dumps(record))

    def run_tool(self, *paths):
        done = subprocess.run([KOLO_TRACE, "--crash", *map(str, paths or [self.folder])], capture_output=True, text=True,
                              timeout=launching.PATIENCE_S, env=launching.environment(), stdin=subprocess.DEVNULL,
                              check=False)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return done

    def sections(self, *paths, errors=""):
        """What is said below each heading, each a line; "": before the first."""
        done = self.run_tool(*paths)
        self.assertRegex(done.stderr, errors or r"\A\Z")
        self.assertEqual(0, done.returncode, done.stderr)
        for line in done.stdout.splitlines():
            self.assertLessEqual(len(line), 80, line)
        parts = re.split(r"\n\n([A-Z][a-z ]+)\n", done.stdout)
        return {"": parts[0], **{name: " ".join(text.split()) for name, text in zip(parts[1::2], parts[2::2])}}


class MadeUp(Folder):
    def test_dead_rank(self):
        self.write(records_with_a_dead_rank())
        told = self.sections()
        self.assertIn("job mine: records of 3 of 4 ranks, until 2027-01-15 08:00:00 UTC", told[""])
        self.assertEqual("rank 2 failed", told["What failed"])
        self.assertEqual(f"rank 2 (pid 102): ended; in call 17, {SUM}", told["Who is missing"])
        self.assertEqual(f"ranks 0-1: in call 17, {SUM}; waited for rank 2 since up to 50.0 ms before their records "
                         f"rank 3 (pid 103): in no call, after call 16, {BARRIER}; it waited for nobody",
                         told["What the others did"])
        self.assertIn("nowhere: in calls 1 to 17", told["Where the calls differ"])

    def test_stopped_rank(self):
        here = [a_rank(0, 9, waits=(1, 2500)), a_rank(1, 0, state="stopped", in_call=False)]
        self.write([a_record(0, here, ranks=2)])
        told = self.sections()
        self.assertEqual("rank 1 (pid 101): was stopped; it had begun no call", told["Who is missing"])
        self.assertIn("waited for rank 1 since 2.50 s before its record", told["What the others did"])
        self.assertIn("not known", told["Where the calls differ"])

    def test_mismatch(self):
        other = a_call(17, "broadcast of 1 f32, root 1", ended=False)
        here = [a_rank(rank, 17, waits=(2, 1)) for rank in range(2)] + [a_rank(2, 17, last=other)]
        self.write([a_record(rank, here, ranks=3) for rank in range(3)])
        told = self.sections()
        self.assertEqual("nobody: each rank wrote a record", told["Who is missing"])
        self.assertEqual(
            f"call 14, ranks 0-2: {BARRIER} call 15, ranks 0-2: {SUM} call 16, ranks 0-2: {BARRIER} "
            f"call 17, ranks 0-1: {SUM} call 17, rank 2: broadcast of 1 f32, root 1 "
            "From call 17 on the ranks made different calls; those before it are the same.",
            told["Where the calls differ"])

    def test_mismatch_in_what_words_do_not_show(self):
        self.write([a_record(rank, [a_rank(rank, 1, last=a_call(1, digest=2**64 - 1 - rank))], ranks=2, node=rank)
                    for rank in range(2)])
        self.assertIn(f"call 1, rank 0: {SUM} call 1, rank 1: {SUM}, with other arguments From call 1 on",
                      self.sections()["Where the calls differ"])

    def test_machines(self):
        """Each machine's part of the job has a name of its own; nothing is known of the third one."""
        for node in range(2):
            here = [a_rank(rank, 5, waits=(4, 7)) for rank in (2 * node, 2 * node + 1)]
            self.write([a_record(rank, here, ranks=6, node=node, job=f"part{node}") for rank in (2 * node, 2 * node + 1)])
        told = self.sections()
        self.assertEqual("ranks 4-5: wrote no record, as did all ranks of its machine; nothing is known of its calls",
                         told["Who is missing"])
        self.assertIn("ranks 0-3: in call 5", told["What the others did"])

    def test_wait_of_another_time(self):
        """A rank's own record says for whom it waits; without one, the record that has seen it begin most calls."""
        before, after = a_rank(0, 16, waits=(2, 90)), a_rank(0, 17, in_call=False)
        other = [a_rank(3, 16, waits=(2, 90)), a_rank(3, 17, waits=(1, 20)), a_rank(3, 17)]
        self.write([a_record(0, [after, other[1]]), a_record(1, [before, other[0]]), a_record(2, [before, other[2]])])
        told = self.sections()
        self.assertIn("rank 0 (pid 100): in no call, after call 17, " + SUM + "; it waited for nobody",
                      told["What the others did"])
        stand = json.loads(self.run_tool(self.folder, "--json").stdout)["communicators"][0]["stands"][3]
        self.assertEqual((1, 0.02), (stand["waits_for"], stand["waited_s"]))

    def test_record_that_only_an_older_one_brings_in(self):
        """Rank 1's machine has a name of its own for the job. Its process also failed in another communicator, later."""
        old, late = UTC_NS - 70_000 * MS, UTC_NS - 30_000 * MS
        self.write([a_record(0, [], ranks=2, utc_ns=UTC_NS), a_record(1, [], ranks=2, utc_ns=old, job="part"),
                    a_record(1, [], ranks=3, communicator=5, utc_ns=late, job="part")])
        self.assertIn("Communicator 2 of 2", self.run_tool().stdout)

    def test_newest_job(self):
        self.write(records_with_a_dead_rank(job="old", communicator=5, message="old failure"))
        self.write(records_with_a_dead_rank(utc_ns=UTC_NS + 7200 * 1000 * MS))
        told = self.sections(errors=r"3 records of job old are left out, .*\.kolodump among them")
        self.assertEqual("rank 2 failed", told["What failed"])

    def test_communicators(self):
        self.write(records_with_a_dead_rank(communicator=4, utc_ns=UTC_NS + MS, message="the second"))
        self.write(records_with_a_dead_rank(message="the first"))
        text = self.run_tool().stdout
        self.assertLess(text.index("Communicator 1 of 2"), text.index("the first"))
        self.assertLess(text.index("the first"), text.index("Communicator 2 of 2"))
        self.assertLess(text.index("Communicator 2 of 2"), text.index("the second"))

    def test_lanes_make_other_calls(self):
        here = [[a_rank(rank, 3, last=a_call(3, f"call of lane {lane}")) for rank in range(2)] for lane in range(2)]
        self.write([a_record(rank, here[rank], ranks=2, lane=rank) for rank in range(2)])
        told = self.sections()
        self.assertIn("ranks 0-1: in call 3, call of lane 0", told["What the others did"])
        self.assertIn("nowhere", told["Where the calls differ"])

    def test_json(self):
        other = a_call(17, "broadcast of 1 f32, root 1", digest=2**64 - 1)
        here = [a_rank(0, 17, waits=(-1, 250)), a_rank(1, 17, last=other), a_rank(2, 16, state="stopped", in_call=False)]
        self.write([a_record(rank, here) for rank in range(2)])
        self.write([a_record(0, here, communicator=3, utc_ns=UTC_NS + MS)])
        found = json.loads(self.run_tool(self.folder, "--json").stdout)
        self.assertIsNone(launching.unexplained(KOLO_TRACE, "Crash", found))
        self.assertEqual((2, 2), (found["failed_communicators"], len(found["communicators"])))
        first = found["communicators"][0]
        self.assertEqual(("mine", 4, UTC_NS + 1), (first["job"], first["ranks"], first["utc_ns"]))
        self.assertEqual([{"rank": rank, "status": -8, "failed_rank": 2, "message": "rank 2 failed"} for rank in range(2)],
                         first["failures"])
        self.assertEqual([False, False, True, True], [stand["missing"] for stand in first["stands"]])
        self.assertEqual(["running", "running", "stopped", None], [stand["state"] for stand in first["stands"]])
        self.assertEqual({"rank": 0, "pid": 100, "state": "running", "missing": False, "begun": 17, "ended": 16,
                          "last_call": SUM, "waits_for": -1, "waited_s": 0.25}, first["stands"][0])
        self.assertEqual({"number": 17, "calls": [{"rank": 0, "call": SUM, "digest": 0},
                                                  {"rank": 1, "call": other["call"], "digest": 2**64 - 1}]},
                         first["difference"])

    def test_many_ranks(self):
        here = [a_rank(rank, 9, waits=(1023, 3)) for rank in range(1023)] + [a_rank(1023, 8, in_call=False)]
        self.write([a_record(rank, here, ranks=1024) for rank in range(0, 1023, 100)])
        told = self.sections()
        self.assertIn("rank 1023 (pid 1123): wrote no record, but ran when others wrote theirs", told["Who is missing"])

    def test_nothing(self):
        done = self.run_tool()
        self.assertEqual((1, ""), (done.returncode, done.stdout))
        self.assertIn("there is no file *.kolodump", done.stderr)
        self.assertIn("KOLO_DUMP", done.stderr)


class Damaged(Folder):
    def setUp(self):
        super().setUp()
        self.write(records_with_a_dead_rank())
        self.damaged = self.folder / "mine.3.103.1.kolodump"
        self.text = self.damaged.read_text()

    def test_cut(self):
        """The head is enough for a file to count; without it the others still tell."""
        head = self.text.index('"ranks_here"')
        for length in (0, 1, 100, head, head + 10, head + 600, len(self.text) - 1):
            with self.subTest(length):
                self.damaged.write_text(self.text[:length])
                told = self.sections(errors=rf"{self.damaged.name} is damaged or cut off at byte \d+ of {length}: ")
                self.assertIn(f"records of {2 if length < head else 3} of 4 ranks", told[""])
                self.assertIn("rank 2 (pid 102): ended", told["Who is missing"])

    def test_refuses(self):
        for old, new, why in (
                ('"rank": 3', '"rank": 4', "the ranks do not fit together"), ('"rank": 3', '"rank": -1', "out of range: rank"),
                ('"rank": 3', '"rank": 3.0', "out of range: rank"), ('"rank": 3', '"rank": 03', "a number begins with 0"),
                ('"rank": 3', '"rank": 99999999999999999999', "out of range: rank"),
                ('"rank": 3', '"rank": 3, "rank": 3', "this comes twice: rank"), ('"lane": 0, ', "", "this is missing: lane"),
                ('"format": 1', '"format": 2', "out of range: format"), ('"job": "mine"', '"job": 5', "there is no '\"'"),
                ('"job": "mine"', '"job": "' + "x" * 200 + '"', "too long: job"),
                ('"job": "mine"', '"job": "\\q"', "a wrong \\\\"), ('"job": "mine"', '"job": "\\u12x4"', "four digits"),
                ('"job": "mine"', '"job": "a\nb"', "a control character"),
                ('"format": 1', '"more": ' + "[" * 10**6, "it is too deep"),
                (f'"communicator": {2**64 - 1}', f'"communicator": {2**64}', "out of range: communicator")):
            with self.subTest(new[:40]):
                self.assertIn(old, self.text)
                self.damaged.write_text(self.text.replace(old, new, 1))
                told = self.sections(errors=re.escape(why).replace(r"\\\\", r"\\") + ".* left out")
                self.assertIn("records of 2 of 4 ranks", told[""])

    def test_uses_what_comes_before(self):
        for old, new, why in (('"state": "ended"', '"state": "gone"', "there is no such state: gone"),
                              ('"number": 2,', '"number": 1,', "the calls are not in order"),
                              ('{"rank": 1,', '{"rank": 0,', "a rank comes twice"), ("]}]}", "]}]} x", "something follows its end")):
            with self.subTest(new):
                self.assertIn(old, self.text)
                self.damaged.write_text(self.text.replace(old, new, 1))
                told = self.sections(errors=why + "; what comes before that is used")
                self.assertIn("records of 3 of 4 ranks", told[""])

    def test_text_is_clean_and_unknown_fields_are_skipped(self):
        self.damaged.write_text(self.text.replace(
            '"message": "rank 2 failed"', '"message": "\\u001b[2J\\u0000\\u00e4\\ud83d\\ude00\\ud83d\\n \\"x", '
            '"news": {"a": [1.5e-3, -0, null, true, {}, []], "a": 1}').replace('"format"', ' \t\r\n"format"'))
        self.assertIn('rank 3 says: ?[2J?\u00e4\U0001f600?? "x', self.sections()["What failed"])

    def test_files_that_are_none(self):
        os.mkfifo(self.folder / "a.kolodump")
        with open(self.folder / "b.kolodump", "wb") as huge:
            huge.truncate(2**40)
        (self.folder / "c.kolodump").symlink_to("/dev/zero")
        self.sections(errors=r"a\.kolodump: it is no regular file\n(.*\n)*.*b\.kolodump: File too large\n(.*\n)*.*c\.kolodump")

    def test_any_bytes(self):
        chance = random.Random(5)
        for _ in range(60):
            changed = bytearray(self.text.encode())
            for _ in range(chance.choice((1, 3, 30))):
                changed[chance.randrange(len(changed))] = chance.choice((*b'"\\{}[],:0-9u', chance.randrange(256)))
            self.damaged.write_bytes(changed)
            self.assertEqual(0, self.run_tool().returncode)

    def test_copy(self):
        (self.folder / "copy.kolodump").write_text(self.text)
        self.assertIn("records of 3 of 4", self.sections(errors="is left out: there is another record of rank 3")[""])

    def test_goes_with_no_other_option(self):
        done = subprocess.run([KOLO_TRACE, "--crash", "--summary", str(self.folder)], capture_output=True, text=True,
                              env=launching.environment(), check=False)
        self.assertEqual(2, done.returncode)


class Jobs(Folder):
    def run_job(self, *how, **variables):
        variables = {"KOLO_DUMP": str(self.folder / "dump"), **variables}
        done = launching.kolorun("-n", "4", "--on-failure", "continue", CRASH_PROBE, *how,
                                 env=launching.environment(**variables))
        pids = dict(re.findall(r"rank (\d) is process (\d+)", done.stdout))
        self.assertEqual(4, len(pids), done.stderr)
        return done, pids

    def records(self, count):
        files = list((self.folder / "dump").iterdir())
        self.assertEqual(count, len(files), files)
        for file in files:
            self.assertEqual(0o600, stat.S_IMODE(file.stat().st_mode))
        return [json.loads(file.read_text()) for file in files]

    def test_killed_rank(self):
        _, pids = self.run_job("2", "17", "kill")
        found = self.records(3)
        self.assertEqual({0, 1, 3}, {record["rank"] for record in found})
        self.assertEqual(1, len({record["communicator"] for record in found}))
        told = self.sections(self.folder / "dump")
        self.assertIn("was killed by signal 9 (SIGKILL)", told["What failed"])
        self.assertEqual(f"rank 2 (pid {pids['2']}): ended; in no call, after call 16, {BARRIER}", told["Who is missing"])
        self.assertRegex(told["What the others did"], rf"in call 17, {SUM}; waited for rank 2 since")
        for rank in found[0]["ranks_here"]:
            for call in rank["last_calls"]:
                self.assertLess(0, call["began_ns"], call)
                self.assertEqual(call["ended"], "ended_ns" in call and call["began_ns"] <= call["ended_ns"], call)

    def test_different_call(self):
        self.run_job("1", "33", "differ")
        self.records(4)
        told = self.sections(self.folder / "dump")
        self.assertIn("nobody", told["Who is missing"])
        self.assertRegex(told["Where the calls differ"], rf"call 32, ranks 0-3: {BARRIER} call 33, (rank 1|ranks 0, 2-3): .*"
                         r"From call 33 on the ranks made different calls")

    def test_abort(self):
        self.run_job("3", "17", "abort")
        self.records(4)
        self.assertEqual("rank 3 aborted the communicator with code 7", self.sections(self.folder / "dump")["What failed"])

    def stopped_job(self):
        """A job of which a rank has stopped itself: (kolorun, process ids by rank), once the others have ended."""
        process = self.start("-n", "4", "--on-failure", "continue", CRASH_PROBE, "1", "9", "stop", env=launching.environment(
            KOLO_DUMP=str(self.folder / "dump"), KOLO_TIMEOUT_MS="1000"))
        lines = self.read_lines(process, 4)
        pids = {int(line.split()[1]): int(line.split()[-1]) for line in lines}
        self.end_with_test(pids.values())
        self.wait_until(lambda: not any(launching.is_running(pids[rank]) for rank in (0, 2, 3)), "the others to end")
        return process, pids

    def test_stopped_rank(self):
        process, pids = self.stopped_job()
        self.records(3)
        told = self.sections(self.folder / "dump")
        self.assertIn("is stopped", told["What failed"])
        self.assertEqual(f"rank 1 (pid {pids[1]}): was stopped; in no call, after call 8, {BARRIER}", told["Who is missing"])
        self.assertRegex(told["What the others did"],
                         rf"ranks 0, 2-3: in call 9, {SUM}; waited for rank 1 since up to [1-9][0-9.]* s before")
        os.kill(pids[1], signal.SIGCONT)
        self.assert_ends(process, 0)
        self.records(4)
        self.assertIn("was stopped, and wrote its record later", self.sections(self.folder / "dump")["Who is missing"])

    def test_killed_from_outside(self):
        """Wherever in its calls a rank is."""
        process = self.start("-n", "3", "--on-failure", "continue", launching.RANK_PROBE, "100",
                             env=launching.environment(KOLO_DUMP=str(self.folder / "dump")))
        self.read_lines(process, 3)
        pids = launching.children(process.pid)
        self.end_with_test(pids)
        os.kill(pids[1], signal.SIGKILL)
        process.communicate(timeout=launching.PATIENCE_S)
        told = self.sections(self.folder / "dump")
        self.assertRegex(told["Who is missing"],
                         rf"^rank 1 \(pid {pids[1]}\): ended; in (no call, after )?call \d+, (allreduce|broadcast) of 1 ")
        self.assertIn("nowhere", told["Where the calls differ"])

    def run_machines(self, rendezvous, victim):
        variables = {**launching.SECRET, "KOLO_DUMP": str(self.folder / "dump")}
        nodes = [self.start("--nnodes", "2", "--node-rank", str(node), "--rendezvous", rendezvous, "--bind", "none", "-n",
                            "2,2", "--on-failure", "continue", CRASH_PROBE, victim, "9", "kill",
                            env=launching.environment(**variables)) for node in range(2)]
        for process in nodes:
            process.communicate(timeout=launching.PATIENCE_S)

    def test_two_jobs_with_one_rendezvous(self):
        """One right after the other: records of the first are not the second one's."""
        rendezvous = f"127.0.0.1:{launching.free_port()}"
        self.run_machines(rendezvous, "2")
        self.run_machines(rendezvous, "3")
        told = self.sections(self.folder / "dump", errors="3 records of .* are left out")
        self.assertIn("records of 3 of 4 ranks", told[""])
        self.assertRegex(told["Who is missing"], r"^rank 3 \(pid \d+\): ended")

    def test_machines(self):
        self.run_machines(f"127.0.0.1:{launching.free_port()}", "3")
        found = self.records(3)
        self.assertEqual({0, 1}, {record["node"] for record in found})
        self.assertEqual(1, len({record["communicator"] for record in found}))
        told = self.sections(self.folder / "dump")
        self.assertIn("records of 3 of 4 ranks", told[""])
        self.assertRegex(told["Who is missing"], rf"^rank 3 \(pid \d+\): ended; in no call, after call 8, {BARRIER}$")

    def test_text_is_escaped(self):
        """Whatever the texts are, the file is JSON, and ASCII; what it says of its rank alone is told, too."""
        message = '"\\\b\t\n\x1b\x7f{}[]:,/ %s \u00e4'
        done = subprocess.run([RECORD_PROBE, message], timeout=launching.PATIENCE_S, check=False,
                              env=launching.environment(KOLO_DUMP=str(self.folder / "dump"), KOLO_JOB="a.b-c_d"))
        self.assertEqual(0, done.returncode)
        record, = self.records(1)
        self.assertEqual(("a.b-c_d", message.encode()), (record["job"], record["failure"]["message"].encode("latin-1")))
        file, = (self.folder / "dump").iterdir()
        self.assertTrue(file.read_bytes().isascii())
        self.assertIn("nobody", self.sections(self.folder / "dump")["Who is missing"])

    def test_folders_are_made(self):
        place = self.folder / "not" / "there"
        self.run_job("3", "17", "abort", KOLO_DUMP=str(place))
        self.assertEqual(4, len(list(place.iterdir())))

    def test_folder_that_cannot_be_written(self):
        """A warning from each rank, and otherwise the same job."""
        (self.folder / "file").write_text("")
        for place in ("file", "file/at/all"):
            with self.subTest(place):
                done, _ = self.run_job("2", "9", "abort", KOLO_DUMP=str(self.folder / place))
                self.assertEqual(0, done.returncode)
                self.assertEqual(4, done.stderr.count("no record of the failure is written"), done.stderr)
                self.assertEqual(4, done.stderr.count("aborted the communicator with code 7"), done.stderr)

    def test_without_failure_there_is_no_record(self):
        done = launching.kolorun("-n", "2", launching.RANK_PROBE, env=launching.environment(
            KOLO_DUMP=str(self.folder / "dump")))
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertFalse((self.folder / "dump").exists())


if __name__ == "__main__":
    launching.main()
