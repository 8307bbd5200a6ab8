"""kolo-tune: what it measures is written, accepted and used; what it refuses; and that nothing is left behind."""

import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

import launching

KOLO_TUNE = os.environ["KOLO_TUNE"]
KOLO_INFO = os.environ["KOLO_INFO"]
SECTION = "collective allreduce ranks 2\nup-to 1000 oneshot chunk 1024\nrest oneshot chunk 2048\n"


class Tune(launching.LaunchingTest):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="kolo-tune-")
        self.addCleanup(directory.cleanup)
        self.home = pathlib.Path(directory.name)

    def environment(self, **variables):
        kept = {name: value for name, value in launching.environment().items() if name != "XDG_CONFIG_HOME"}
        return {**kept, "HOME": str(self.home), **variables}

    def run_tool(self, tool, *arguments, **variables):
        return subprocess.run([tool, *map(str, arguments)], env=self.environment(**variables), capture_output=True,
                              text=True, timeout=launching.PATIENCE_S, cwd=self.home, check=False)

    def tune(self, *arguments, **variables):
        return self.run_tool(KOLO_TUNE, *arguments, **variables)

    def plan(self, ranks, **variables):
        done = self.run_tool(KOLO_INFO, "--json", "--ranks", ranks, **variables)
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout)["plan"]["rows"]

    def head(self, **changes):
        machine = json.loads(self.run_tool(KOLO_INFO, "--json").stdout)
        seen = {"version": machine["version"], **machine["machine"], **changes}
        return ("kolo-profile 2\nkolo {version}\ncpu-model {cpu_model}\ncpus {cpus_online}\nl2-bytes {l2_bytes}\n"
                "l3-bytes {l3_bytes}\n".format(**seen))

    def write(self, text, name="profile"):
        path = self.home / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def assert_clean(self):
        """Nothing but the profile, neither a temporary file beside it nor a process."""
        self.assertEqual([], [path for path in self.home.rglob("*tune.*")])

    def assert_usage(self, pattern, *arguments):
        done = self.tune(*arguments)
        self.assertEqual((2, ""), (done.returncode, done.stdout))
        self.assertRegex(done.stderr, pattern)


class Measuring(Tune):
    def test_default_file_is_written_and_used(self):
        done = self.tune("--quick", "--max", "64K", "--ranks", "2,4", "--seconds", "3", KOLO_TUNE_FILE="none")
        self.assertEqual(0, done.returncode, done.stderr)
        for collective in ("allreduce", "reduce"):
            self.assertRegex(done.stdout, rf"(?m)^{collective}, 2 ranks, .*microseconds a call$")
        self.assertRegex(done.stdout, r"(?m)^ +64 KiB +\d+\.\d+ ")
        self.assertRegex(done.stderr, r"4 ranks, \d+ bytes: \d+ %, about \d+ s left")
        path = self.home / ".config/kolo/tune"
        self.assertIn(f"{path}: used here, for allreduce with 2, 4 ranks, reduce with 2, 4 ranks\n"
                      "but KOLO_TUNE_FILE is 'none'; to go by this profile: export KOLO_TUNE_FILE=", done.stdout)
        self.assertEqual(0o700, path.parent.stat().st_mode & 0o777)
        text = path.read_text()
        for collective in ("allreduce", "reduce"):
            self.assertRegex(text, rf"(?m)^collective {collective} ranks 2\n(.+\n)*rest default$")
        self.assert_clean()
        self.assertEqual(0, self.tune("--check", path).returncode)
        # What it says is what is done.
        bands = re.findall(r"up-to (\d+) (\w+) ", text.split("ranks 2\n")[1].split("collective")[0])
        for row in self.plan(2):
            chosen = [name for bytes_max, name in bands if row["bytes"] <= int(bytes_max)]
            if chosen:
                self.assertEqual(chosen[0], row["algorithm"], row)

    def test_a_collective_alone(self):
        """Its section is written or replaced, and the others are kept."""
        path = self.write(self.head() + SECTION + SECTION.replace("allreduce", "reduce"))
        done = self.tune("--quick", "--max", "1K", "--collective", "reduce", "--ranks", "2", "--seconds", "0.1", "--output",
                         path)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(["reduce"], re.findall(r"(?m)^(\w+), 2 ranks, .*microseconds a call$", done.stdout))
        self.assertIn("used here, for reduce with 2 ranks, allreduce with 2 ranks\n", done.stdout)
        text = path.read_text()
        self.assertIn(SECTION, text)
        self.assertEqual(1, text.count("collective reduce ranks 2\n"))
        self.assertNotIn(SECTION.replace("allreduce", "reduce"), text)

    def test_sections_of_other_rank_counts_are_kept(self):
        path = self.write(self.head() + "# mine\n" + SECTION + "collective allreduce ranks 3\nrest mesh chunk 4096\n")
        done = self.tune("--quick", "--max", "1K", "--collective", "allreduce", "--ranks", "3", "--seconds", "0.1", "--output", path)
        self.assertEqual(0, done.returncode, done.stderr)
        text = path.read_text()
        self.assertIn(SECTION, text)
        self.assertEqual(1, text.count("ranks 3\n"))
        self.assertNotIn("rest mesh chunk 4096", text)
        self.assertIn("used here, for allreduce with 3, 2 ranks", done.stdout)

    def test_sections_that_do_not_fit_are_told(self):
        others = [SECTION.replace("ranks 2", f"ranks {ranks}") for ranks in range(4, 36)]
        path = self.write(self.head() + "".join(others))
        done = self.tune("--quick", "--max", "1K", "--collective", "allreduce", "--ranks", "3", "--seconds", "0.1",
                         "--output", path)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("the last 1 of its other sections are left out, as a profile has at most 32", done.stderr)
        self.assertEqual([3, *range(4, 35)], [int(found) for found in re.findall(r"ranks (\d+)\n", path.read_text())])

    def test_damaged_file_is_replaced(self):
        path = self.write("collective allreduce ranks 5\nnonsense\n")
        path.chmod(0o666)  # of which kolo would not take a profile
        done = self.tune("--quick", "--max", "1K", "--ranks", "2", "--seconds", "0.1", "--output", path)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn(f"\nto go by this profile: export KOLO_TUNE_FILE='{path}'\n", done.stdout)
        self.assertNotIn("ranks 5", path.read_text())

    def test_variables_do_not_count(self):
        self.addCleanup(os.umask, os.umask(0))
        done = self.tune("--quick", "--max", "1K", "--ranks", "2", "--seconds", "0.1", "--unbound", "--output",
                         "it's mine", KOLO_ALGO="ring", KOLO_RANK="7", KOLO_TUNE_FILE="/nonexistent")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertNotIn("ring", done.stdout)
        self.assertIn("not bound", done.stdout)
        command = done.stdout.rpartition("but KOLO_TUNE_FILE is '/nonexistent'; to go by this profile: ")[2]
        named = self.run_tool("sh", "-c", command + 'echo "$KOLO_TUNE_FILE"').stdout
        self.assertEqual(f"{self.home.resolve()}/it's mine\n", named)

    def start_long(self, *before):
        """A long run and its ranks, once they measure; in a process group of its own."""
        process = subprocess.Popen([*before, KOLO_TUNE, "--ranks", "2", "--max", "64K", "--output", "profile"],
                                   start_new_session=True,
                                   env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   cwd=self.home)
        self.addCleanup(self.end, process)
        process.stderr.readline()
        ranks = launching.children(process.pid)
        self.assertEqual(2, len(ranks))
        return process, ranks

    def end(self, process):
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()

    def assert_ended_by(self, number, process, ranks):
        """As by default, which a shell shows as 128 + number; the ranks follow without a word."""
        _, errors = process.communicate(timeout=launching.PATIENCE_S)
        self.assertEqual(-number, process.returncode, errors)
        self.assertNotIn("was ended by", errors)
        self.wait_until(lambda: not any(map(launching.is_running, ranks)), "the ranks to end")

    def test_signals_leave_nothing(self):
        before = launching.shm_names()
        for number in (signal.SIGINT, signal.SIGTERM):
            process, ranks = self.start_long()
            os.kill(process.pid, number)
            self.assert_ended_by(number, process, ranks)
        self.assertEqual([], list(self.home.iterdir()))
        self.assert_nothing_named(before)

    def test_signal_from_the_terminal(self):
        """Goes to the ranks, too."""
        process, ranks = self.start_long()
        os.killpg(process.pid, signal.SIGINT)
        self.assert_ended_by(signal.SIGINT, process, ranks)

    def test_ignored_signal_stays_ignored(self):
        process, ranks = self.start_long("sh", "-c", 'trap "" HUP; exec "$@"', "sh")
        os.kill(process.pid, signal.SIGHUP)
        time.sleep(0.3)
        self.assertTrue(all(map(launching.is_running, [process.pid, *ranks])))

    def test_killed_leaves_nothing(self):
        process, ranks = self.start_long()
        process.kill()
        self.wait_until(lambda: not any(map(launching.is_running, ranks)), "the ranks to end")

    def test_dead_rank_is_named(self):
        process, ranks = self.start_long()
        time.sleep(0.3)
        os.kill(ranks[1], signal.SIGKILL)
        _, errors = process.communicate(timeout=launching.PATIENCE_S)
        self.assertEqual(1, process.returncode)
        self.assertIn("rank 1 of 2 was ended by signal 9", errors)
        self.assertFalse(launching.is_running(ranks[0]))
        self.assertEqual([], list(self.home.iterdir()))


class Checking(Tune):
    def assert_not_used(self, text, *words):
        path = self.write(text)
        done = self.tune("--check", path)
        self.assertEqual((1, ""), (done.returncode, done.stdout))
        for word in (str(path), *words):
            self.assertIn(word, done.stderr)
        # It changes nothing, and kolo-info says why.
        self.assertEqual(self.plan(2, KOLO_TUNE_FILE="none"), self.plan(2, KOLO_TUNE_FILE=str(path)))
        self.assertIn(f"profile {path} ignored", self.run_tool(KOLO_INFO, KOLO_TUNE_FILE=str(path)).stdout)

    def test_used(self):
        path = self.write(self.head() + SECTION)
        done = self.tune("--check", path)
        self.assertEqual((0, f"{path}: used here, for allreduce with 2 ranks\n", ""), (done.returncode, done.stdout, done.stderr))
        rows = self.plan(2, KOLO_TUNE_FILE=str(path))
        self.assertEqual({"oneshot"}, {row["algorithm"] for row in rows})
        self.assertEqual({2048}, {row["chunk_bytes"] for row in rows if row["bytes"] > 1000})
        self.assertEqual(self.plan(3, KOLO_TUNE_FILE="none"), self.plan(3, KOLO_TUNE_FILE=str(path)))

    def test_default_place(self):
        defaults = self.plan(2)
        (self.home / "xdg/kolo").mkdir(parents=True)
        self.write(self.head() + SECTION, "xdg/kolo/tune")
        xdg = str(self.home / "xdg")
        self.assertNotEqual(defaults, self.plan(2, XDG_CONFIG_HOME=xdg))
        for off in ("none", ""):
            self.assertEqual(defaults, self.plan(2, XDG_CONFIG_HOME=xdg, KOLO_TUNE_FILE=off))

    def test_not_used(self):
        good = self.head() + SECTION
        self.assert_not_used(good[:-1], "line 9", "cut off")
        self.assert_not_used(good.replace("2048", "2049"), "line 9", "'2049'", "multiple of 128")
        self.assert_not_used(good.replace("rest oneshot", "rest ring"), "line 9", "'ring'")
        self.assert_not_used(self.head(cpus_online=4097) + SECTION, "another machine", "4097 CPUs")
        self.assert_not_used(self.head(cpu_model="Abacus") + SECTION, "another machine", "Abacus")
        self.assert_not_used(self.head(version="9.9.0") + SECTION, "kolo 9.9.0")
        self.assert_not_used(good.replace("profile 2", "profile 77"), "format 77")
        self.assert_not_used("", "line 1")
        self.assert_not_used(b"\0" * 100, "line 1")
        self.assert_not_used(os.urandom(1 << 17))

    def test_log(self):
        """Rank 0 says once why a profile is ignored, and nothing fails."""
        before = launching.shm_names()
        for path, words in ((self.write("kolo-profile 2\n"), "line 2"), (self.home / "absent", "No such file")):
            done = self.run_tool(launching.KOLORUN, "-n", 3, launching.RANK_PROBE, KOLO_LOG="warn",
                                 KOLO_TUNE_FILE=str(path))
            self.assertEqual(0, done.returncode, done.stderr)
            self.assertRegex(done.stderr, rf"\Akolo: rank 0: .*{path} ignored: .*{words}.*\n\Z")
            self.assertEqual(3, done.stdout.count("sum 3"))
        self.assert_nothing_named(before)

    def test_no_file(self):
        for path, words in ((self.home / "absent", "No such file"), (self.home, "regular file"),
                            ("/dev/zero", "regular file")):
            done = self.tune("--check", path)
            self.assertEqual(1, done.returncode)
            self.assertIn(words, done.stderr)

    def test_pipe_does_not_hang(self):
        os.mkfifo(self.home / "pipe")
        self.assertEqual(self.plan(2), self.plan(2, KOLO_TUNE_FILE=str(self.home / "pipe")))


class CommandLine(Tune):
    def test_help_and_version(self):
        done = self.tune("--help")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertIn("example:", done.stdout)
        for option in ("--collective", "--ranks", "--output", "--max", "--seconds", "--quick", "--unbound", "--check"):
            self.assertIn(option, done.stdout)
        self.assertRegex(self.tune("--version").stdout, r"^kolo-tune \d+\.\d+\.\d+\n$")

    def test_refuses(self):
        for ranks in ("", "1", "2,", ",2", "2,x", "1025", "2,2", "-2", "2 4"):
            self.assert_usage("--ranks", "--ranks", ranks)
        for size in ("", "0", "5G", "12Q", "1KB", "-1", "99999999999999999999"):
            self.assert_usage("--max", "--max", size)
        for seconds in ("", "0", "-1", "1e9", "x"):
            self.assert_usage("--seconds", "--seconds", seconds)
        for collective in ("", "barrier", "broadcast", "reduc", "allreduce,", "reduce,all"):
            self.assert_usage(r"--collective.*give.* allreduce or reduce", "--collective", collective)
        self.assert_usage("reduce is in the list twice", "--collective", "reduce,reduce")
        self.assert_usage("--nonsense", "--nonsense")
        self.assert_usage("spare", "spare")
        self.assert_usage("needs a value", "--output")
        self.assert_usage("--output", "--output", "")
        self.assert_usage("--check: measures nothing", "--check", "profile", "--ranks", "2")

    def test_unwritable_output_is_found_at_once(self):
        for output, words in (("/proc/nothing", "/proc"), (self.home / "absent/profile", "absent"),
                              (self.home, "not a regular file"), ("absent/", "not a regular file"), ("x" * 5000, "too long")):
            done = self.tune("--output", output)
            self.assertEqual((1, ""), (done.returncode, done.stdout))
            self.assertIn(words, done.stderr)

    def test_more_sections_than_a_profile_has(self):
        done = self.tune("--ranks", ",".join(map(str, range(2, 19))), "--output", "profile")
        self.assertEqual((1, ""), (done.returncode, done.stdout))
        self.assertIn("32 sections at most", done.stderr)

    def test_no_home(self):
        done = self.tune(HOME="")
        self.assertEqual(1, done.returncode)
        self.assertIn("--output", done.stderr)


if __name__ == "__main__":
    launching.main()
