"""kolorun and its ranks: what they are given, how they end, and what is left afterwards."""

import fcntl
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import launching
from launching import children, is_running, kolorun, python, state

F_SEAL_SHRINK = getattr(fcntl, "F_SEAL_SHRINK", 2)


class Start(launching.LaunchingTest):
    def test_environment(self):
        names = "KOLO_RANK KOLO_SIZE KOLO_LOCAL_RANK KOLO_LOCAL_SIZE"
        script = "echo " + " ".join(f"${name}" for name in names.split())
        done = kolorun("-n", "3", "sh", "-c", script)
        self.assertEqual(["0 3 0 3", "1 3 1 3", "2 3 2 3"], sorted(done.stdout.splitlines()))
        self.assertEqual((0, ""), (done.returncode, done.stderr))

    def test_job_has_a_name(self):
        first, second = (kolorun("-n", "2", "sh", "-c", "echo $KOLO_JOB $KOLO_RESTARTS").stdout.splitlines()
                         for _ in range(2))
        self.assertEqual((first[0], second[0]), (first[1], second[1]))
        self.assertNotEqual(first, second)
        self.assertRegex(first[0], r"^kolorun-[0-9a-f]{16} 0$")
        # A name that the user has given is kept; that of a kolorun around this one is not.
        for given, wanted in (("mine", "mine"), ("kolorun-outer", "kolorun-[0-9a-f]{16}")):
            done = kolorun("-n", "1", "sh", "-c", "echo $KOLO_JOB", env=launching.environment(KOLO_JOB=given))
            self.assertRegex(done.stdout, f"^{wanted}\n$")

    def test_environment_is_kept(self):
        done = kolorun("-n", "1", "sh", "-c", "echo $KOLO_LOG $KOLO_SIZE $OTHER",
                       env=launching.environment(KOLO_LOG="debug", KOLO_SIZE="99", OTHER="here"))
        self.assertEqual("debug 1 here\n", done.stdout)

    def test_unknown_variables(self):
        told = "kolorun: KOLO_ALG is not a variable of kolo; did you mean KOLO_ALGO?\n"
        for variables, expected in (({}, told), ({"KOLO_LOG": "info"}, told), ({"KOLO_LOG": "error"}, ""),
                                    ({"KOLO_LOG": "stall:9,off"}, "")):
            done = kolorun("-n", "2", "true", env=launching.environment(KOLO_ALG="ring", KOLO_TEST_X="", **variables))
            self.assertEqual((0, expected), (done.returncode, done.stderr))
        done = kolorun("-n", "2", launching.KOLO_PERF, "barrier", "--iters", "1", env=launching.environment(KOLO_ALG="ring"))
        self.assertEqual((0, 1), (done.returncode, done.stderr.count("KOLO_ALG is")), done.stderr)

    def test_descriptors(self):
        script = 'if [ "$KOLO_RANK" = 1 ]; then ls /proc/$$/fd; echo $KOLO_SHM_FD; fi'
        for options in ((), ("--tag-output",)):
            done = kolorun("-n", "3", *options, "sh", "-c", script)
            *found, segment = [line.rpartition(" ")[2] for line in done.stdout.splitlines()]
            self.assertEqual(["0", "1", "2", segment], found, done.stderr)

    def test_descriptors_with_standard_ones_closed(self):
        # The shell closes what kolorun is to start without; the segment must not take such a number.
        done = subprocess.run(["sh", "-c", '"$0" -n 1 sh -c "exit \\$KOLO_SHM_FD" <&- >&-', launching.KOLORUN],
                              env=launching.environment(), stderr=subprocess.PIPE, timeout=200, check=False)
        self.assertGreater(done.returncode, 2)
        self.assertLess(done.returncode, 124)

    def test_segment_is_an_empty_sealed_file_for_all(self):
        code = ("import fcntl, os; fd = int(os.environ['KOLO_SHM_FD']); info = os.fstat(fd); "
                f"print(os.readlink(f'/proc/self/fd/{{fd}}'), info.st_ino, info.st_size, "
                f"fcntl.fcntl(fd, {fcntl.F_GET_SEALS}) & {F_SEAL_SHRINK})")
        before = launching.shm_names()
        done = kolorun("-n", "2", *python(code))
        first, second = done.stdout.splitlines()
        self.assertEqual(first, second)
        self.assertRegex(first, rf"^/memfd:kolo \(deleted\) \d+ 0 {F_SEAL_SHRINK}$")
        self.assert_nothing_named(before)

    def test_segment_takes_holes_and_growth(self):
        code = ("import ctypes, os; fd = int(os.environ['KOLO_SHM_FD']); os.ftruncate(fd, 8192); "
                "os.pwrite(fd, b'x' * 8192, 0); "
                "keep_size_and_punch = 3; libc = ctypes.CDLL(None, use_errno=True); "
                "o = ctypes.c_long; print(libc.fallocate(fd, keep_size_and_punch, o(0), o(4096))); "
                "os.ftruncate(fd, 16384); print(os.pread(fd, 1, 0) + os.pread(fd, 1, 4096))")
        done = kolorun("-n", "1", *python(code))
        self.assertEqual(["0", r"b'\x00x'"], done.stdout.splitlines(), done.stderr)

    def test_standard_input_is_for_rank_0(self):
        done = kolorun("-n", "3", "sh", "-c", "echo $KOLO_RANK $(cat)", stdin=None, input="hello\n")
        self.assertEqual(["0 hello", "1", "2"], sorted(line.rstrip() for line in done.stdout.splitlines()))

    def test_ranks_are_direct_children(self):
        process = self.start("-n", "3", "--tag-output", "sleep", "1000")
        for pid in self.wait_for_ranks(process, 3):
            self.assertEqual("sleep", os.path.basename(os.readlink(f"/proc/{pid}/exe")).replace("coreutils", "sleep"))

    def test_many_ranks(self):
        done = kolorun("-n", "200", "--tag-output", "sh", "-c", "echo $KOLO_RANK")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertEqual(sorted(f"[{rank}] {rank}" for rank in range(200)), sorted(done.stdout.splitlines()))

    def test_too_few_files(self):
        done = subprocess.run(["sh", "-c", 'ulimit -n 20; exec "$0" -n 50 --tag-output sleep 1000', launching.KOLORUN],
                              env=launching.environment(), capture_output=True, text=True, timeout=200, check=False)
        self.assertEqual(125, done.returncode, done.stderr)
        self.assertRegex(done.stderr, r"^kolorun: cannot start rank \d+ of 50: Too many open files .*ulimit -n.*\n$")


class End(launching.LaunchingTest):
    def test_success(self):
        done = kolorun("-n", "4", "true")
        self.assertEqual((0, "", ""), (done.returncode, done.stdout, done.stderr))

    def test_early_success_is_no_failure(self):
        done = kolorun("-n", "3", "sh", "-c", 'if [ "$KOLO_RANK" = 2 ]; then sleep 1; echo late; fi')
        self.assertEqual((0, "late\n", ""), (done.returncode, done.stdout, done.stderr))

    def test_exit_code(self):
        for code in (1, 5, 77, 255):
            done = kolorun("-n", "3", "--grace", "0", "sh", "-c", f'if [ "$KOLO_RANK" = 1 ]; then exit {code}; fi; exec sleep 1000')
            self.assertEqual(code, done.returncode)
            self.assertRegex(done.stderr, rf"^kolorun: rank 1 \(pid \d+\) exited with code {code}\n$")

    def test_signal(self):
        for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGPIPE):
            name = launching.signal_name(number)
            done = kolorun("-n", "3", "--grace", "0", "sh", "-c", f'[ "$KOLO_RANK" = 2 ] && kill -{number} $$; exec sleep 1000')
            self.assertEqual(128 + number, done.returncode)
            self.assertRegex(done.stderr, rf"^kolorun: rank 2 \(pid \d+\) was killed by signal {number} \({name}\)\n$")

    def test_others_go_on(self):
        # They end one after another, each when kolorun has taken note of the one before; the last one well, or not.
        note, await_note = "echo $$ > {0}.part; mv {0}.part {0}", "until [ -e {0} ] && [ ! -e /proc/$(cat {0}) ]; do sleep 0.01; done"
        for last, code in (("exit 0", 0), ("exit 6", 5)):
            script = (f"case $KOLO_RANK in 0) {note.format('a')}; exit 5;; "
                      f"1) {await_note.format('a')}; {note.format('b')}; kill -9 $$;; "
                      f"*) {await_note.format('b')}; echo still here; {last};; esac")
            with tempfile.TemporaryDirectory(prefix="kolorun-test-") as folder:
                done = kolorun("-n", "3", "--on-failure", "continue", "--grace", "0", "sh", "-c", script, cwd=folder)
            self.assertEqual((code, "still here\n"), (done.returncode, done.stdout), done.stderr)
            messages = done.stderr.splitlines()
            self.assertEqual(2 + (code != 0), len(messages))
            self.assertRegex(messages[0], r"^kolorun: rank 0 \(pid \d+\) exited with code 5; the others go on$")
            self.assertRegex(messages[1], r"^kolorun: rank 1 .* killed by signal 9 \(SIGKILL\); the others go on$")
            if code:
                self.assertRegex(messages[2], r"^kolorun: rank 2 \(pid \d+\) exited with code 6$")
        done = kolorun("-n", "2", "--on-failure", "end", "sh", "-c", "[ $KOLO_RANK = 1 ] && exit 3; exec sleep 1000")
        self.assertEqual(3, done.returncode)

    def test_going_on_ends_by_timeout(self):
        done = kolorun("-n", "2", "--on-failure", "continue", "--timeout", "1", "sh", "-c",
                       "[ $KOLO_RANK = 1 ] && exit 3; exec sleep 1000")
        self.assertEqual(124, done.returncode, done.stderr)

    def test_going_on_without_a_program(self):
        self.assertEqual(127, kolorun("-n", "2", "--on-failure", "continue", "no-such-program").returncode)

    def test_first_failure_counts(self):
        # The others fail as soon as the first is gone; while kolorun is stopped, all of it piles up.
        code = ("import os, select, signal, sys, time\n"
                "rank = os.environ['KOLO_RANK']\n"
                "if rank == '2':\n    signal.pause()\n"
                "print(flush=True); first = int(sys.stdin.readline() if rank == '0' else 0)\n"
                "if rank == '0':\n"
                "    fd = os.pidfd_open(first); select.select([fd], [], []); sys.exit(3)\n"
                "time.sleep(1000)\n")
        process = self.start("-n", "3", *python(code), stdin=subprocess.PIPE)
        ranks = self.wait_for_ranks(process, 3)
        self.read_lines(process, 1)
        process.stdin.write(f"{ranks[2]}\n")
        process.stdin.flush()
        os.kill(process.pid, signal.SIGSTOP)
        os.kill(ranks[2], signal.SIGKILL)
        self.wait_until(lambda: not is_running(ranks[0]), "the end of rank 0")
        os.kill(process.pid, signal.SIGCONT)
        _, errors = self.assert_ends(process, 137)
        self.assertRegex(errors, rf"^kolorun: rank 2 \(pid {ranks[2]}\) was killed by signal 9 \(SIGKILL\)\n$")

    def test_others_end_by_themselves_within_grace(self):
        script = 'if [ "$KOLO_RANK" = 0 ]; then exit 4; fi; sleep 0.5; echo own words; exit 9'
        done = kolorun("-n", "2", "--grace", "50", "sh", "-c", script)
        self.assertEqual((4, "own words\n"), (done.returncode, done.stdout))
        self.assertRegex(done.stderr, r"^kolorun: rank 0 \(pid \d+\) exited with code 4\n$")

    def test_sigterm_after_grace(self):
        script = ('if [ "$KOLO_RANK" = 0 ]; then until [ -e ready ]; do sleep 0.01; done; exit 4; fi; '
                  'sleep 1000 & trap "echo asked; kill $!; exit 0" TERM; touch ready; wait')
        # Of three jobs one must be in time, because this machine may be busy; SIGKILL comes 0.3 s later.
        for _ in range(3):
            with tempfile.TemporaryDirectory(prefix="kolorun-test-") as folder:
                done = kolorun("-n", "2", "--grace", "1", "sh", "-c", script, cwd=folder)
            self.assertEqual(4, done.returncode, done.stderr)
            if done.stdout:
                break
        self.assertEqual("asked\n", done.stdout, done.stderr)

    def test_sigkill_for_who_ignores_sigterm(self):
        code = "import os, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"
        process = self.start("-n", "3", *python(code))
        self.read_lines(process, 3)
        ranks = children(process.pid)
        os.kill(ranks[1], signal.SIGKILL)
        self.assert_ends(process, 137)
        self.assertFalse(any(is_running(pid) for pid in ranks))

    def test_ends_within_a_second(self):
        # Of three jobs one must keep to it, because this machine may be busy; all must end.
        seconds = []
        for _ in range(3):
            process = self.start("-n", "2", *python("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
                                                    "print(flush=True); signal.pause()"))
            self.read_lines(process, 2)
            begin = time.monotonic()
            os.kill(children(process.pid)[0], signal.SIGKILL)
            self.assert_ends(process, 137)
            seconds.append(time.monotonic() - begin)
            if seconds[-1] < 1:
                return
        self.fail(f"took {seconds} s")

    def test_timeout(self):
        def attempt(seconds):
            done = kolorun("-n", "4", "--timeout", str(seconds), "sh", "-c", '[ "$KOLO_RANK" = 1 ] || exec sleep 1000')
            self.assertEqual((124, f"kolorun: timeout after {seconds} s: ending ranks 0, 2-3\n"),
                             (done.returncode, done.stderr))

        self.assert_in_time(attempt)
        done = kolorun("-n", "1", "--timeout", "0.2", "sleep", "1000")
        self.assertEqual((124, "kolorun: timeout after 0.2 s: ending rank 0\n"), (done.returncode, done.stderr))

    def test_timeout_cuts_grace_short(self):
        def attempt(seconds):
            done = kolorun("-n", "2", "--timeout", str(seconds), "--grace", "1000", "sh", "-c",
                           'if [ "$KOLO_RANK" = 1 ]; then exit 3; fi; exec sleep 1000')
            self.assertEqual(3, done.returncode, done.stderr)

        self.assert_in_time(attempt)

    def test_timeout_not_reached(self):
        done = kolorun("-n", "2", "--timeout", "1000", "true")
        self.assertEqual((0, ""), (done.returncode, done.stderr))


class Restart(launching.LaunchingTest):
    """The ranks wait for each other by files, so that nothing here depends on time."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kolorun-test-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def restart(self, ranks, script, *options, mode="restart"):
        return kolorun("-n", str(ranks), "--on-failure", mode, *options, "sh", "-c", script, cwd=self.folder)

    def test_started_again(self):
        script = ('if [ $KOLO_RANK = 0 ]; then until [ -e again ]; do sleep 0.01; done; exit 0; fi; '
                  'echo $KOLO_RANK $KOLO_SIZE $KOLO_RESTARTS; [ $KOLO_RESTARTS = 1 ] || kill -9 $$; touch again')
        done = self.restart(2, script)
        self.assertEqual((0, "1 2 0\n1 2 1\n"), (done.returncode, done.stdout), done.stderr)
        self.assertRegex(done.stderr, r"^kolorun: rank 1 \(pid \d+\) was killed by signal 9 \(SIGKILL\); the others go on, "
                                      r"and it is started again \(1 of 3\)\n$")

    def test_so_many_times(self):
        # Rank 0 ends when kolorun has taken note of the last end.
        script = ('if [ $KOLO_RANK = 0 ]; then until [ -e 2 ] && [ ! -e /proc/$(cat 2) ]; do sleep 0.01; done; exit 0; fi; '
                  'echo $$ > part; mv part $KOLO_RESTARTS; exit 5')
        done = self.restart(2, script, mode="restart:2")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual({"0", "1", "2"}, {path.name for path in self.folder.iterdir()})
        self.assertEqual(["; the others go on, and it is started again (1 of 2)",
                          "; the others go on, and it is started again (2 of 2)", "; the others go on"],
                         [line.partition("code 5")[2] for line in done.stderr.splitlines()])

    def test_not_without_others(self):
        done = self.restart(1, "echo once; exit 5")
        self.assertEqual((5, "once\n"), (done.returncode, done.stdout))
        self.assertRegex(done.stderr, r"^kolorun: rank 0 \(pid \d+\) exited with code 5\n$")

    def test_not_once_a_rank_has_ended_well(self):
        # Rank 1 fails when kolorun has taken note of rank 0's end; rank 2 gives it time to start rank 1 again.
        script = ('case $KOLO_RANK in 0) echo $$ > pid.part; mv pid.part pid; exit 0;; '
                  '1) until [ -e pid ] && [ ! -e /proc/$(cat pid) ]; do sleep 0.01; done; touch failed; echo once; exit 5;; '
                  '2) until [ -e failed ]; do sleep 0.01; done; sleep 1; esac')
        done = self.restart(3, script)
        self.assertEqual((0, "once\n"), (done.returncode, done.stdout), done.stderr)
        self.assertRegex(done.stderr, r"^kolorun: rank 1 \(pid \d+\) exited with code 5; the others go on\n$")

    def test_not_after_all(self):
        # While kolorun is stopped, all ranks end.
        process = self.start("-n", "2", "--on-failure", "restart", "sleep", "1000")
        ranks = self.wait_for_ranks(process, 2)
        for pid in (process.pid, *ranks):
            os.kill(pid, signal.SIGSTOP if pid == process.pid else signal.SIGKILL)
            self.wait_until(lambda pid=pid: state(pid) in "TZ", "the stop, or the end")
        os.kill(process.pid, signal.SIGCONT)
        self.assertRegex(self.assert_ends(process, 137)[1], r"^.*rank 0 .* it is started again \(1 of 3\)\n.*rank 1 .*KILL\)\n"
                                                            r"kolorun: rank 0 is not started again: the job is ending\n$")

    def test_tagged_output(self):
        # The first rank 1 leaves half a line, and a child that holds its pipes.
        script = ('if [ $KOLO_RANK = 0 ]; then until [ -e again ]; do sleep 0.01; done; exit 0; fi; '
                  'if [ $KOLO_RESTARTS = 1 ]; then echo again; touch again; exit 0; fi; '
                  'sleep 1000 & printf half; printf bad >&2; exit 5')
        done = self.restart(2, script, "--tag-output")
        self.assertEqual((0, "[1] half\n[1] again\n"), (done.returncode, done.stdout), done.stderr)
        self.assertIn("[1] bad\n", done.stderr)

    def test_program_gone(self):
        # Rank 1 cannot be started again: rank 0, which waits until kolorun has said so, goes on.
        shutil.copy("/bin/sh", self.folder)
        script = ("if [ $KOLO_RANK = 1 ]; then until [ -e begun ]; do sleep 0.01; done; rm sh; exit 5; fi; : >begun; "
                  "until grep -q 'code 127; the others go on$' log; do sleep 0.01; done; echo well")
        with open(self.folder / "log", "w+", encoding="utf-8") as log:
            done = kolorun("-n", "2", "--on-failure", "restart:1", "./sh", "-c", script, cwd=self.folder,
                           capture_output=False, stdout=subprocess.PIPE, stderr=log)
            log.seek(0)
            errors = log.read()
        self.assertEqual((0, "well\n"), (done.returncode, done.stdout), errors)
        self.assertEqual(1, errors.count("kolorun: cannot run './sh': there is no such file\n"), errors)

    def test_ends_by_timeout(self):
        done = self.restart(2, "[ $KOLO_RANK = 1 ] && exit 3; exec sleep 1000", "--timeout", "1", mode="restart:1")
        self.assertEqual(124, done.returncode, done.stderr)


class Remains(launching.LaunchingTest):
    def test_ranks_die_with_kolorun(self):
        for options in ((), ("--tag-output",)):
            process = self.start("-n", "3", *options, "sleep", "1000")
            ranks = self.wait_for_ranks(process, 3)
            self.end_with_test(ranks)
            process.kill()
            self.wait_until(lambda ranks=ranks: not any(is_running(pid) for pid in ranks), "the end of the ranks")

    def test_program_of_a_killed_script(self):
        process = self.start("-n", "2", "sh", "-c", "sleep 1000 & echo $!; wait")
        programs = [int(line) for line in self.read_lines(process, 2)]
        self.end_with_test(programs)
        self.assertTrue(all(is_running(pid) for pid in programs))
        os.kill(children(process.pid)[0], signal.SIGKILL)
        self.assertEqual(137, process.wait(timeout=launching.PATIENCE_S))
        self.assertFalse(any(is_running(pid) for pid in programs))

    def test_program_of_a_script_is_asked_to_end(self):
        # The scripts end of the signal at once. The program, of one within another, has the time that ranks have.
        code = ("import os, signal, sys, time\ndef end(*_):\n    time.sleep({})\n    os.write(1, b'saved\\n')\n    sys.exit()\n"
                "signal.signal(signal.SIGTERM, end)\nprint(flush=True)\nwhile True:\n    signal.pause()")
        script = "sh -c '\"$@\"; :' sh \"$@\"; :"
        for options in ((), ("--tag-output",)):
            process = self.start("-n", "2", *options, "sh", "-c", script, "sh", *python(code.format(1)))
            self.read_lines(process, 2)
            process.terminate()
            output, errors = self.assert_ends(process, 143)
            self.assertEqual((2, "kolorun: terminated\n"), (output.count("saved"), errors))
        # After a timeout or the failure of another rank that is 0.3 s. Of three jobs one must be in time.
        for begin, times, ended in (("", 1, 124), ("[ $KOLO_RANK = 0 ] || { sleep $0; exit 3; }; ", 100, 3)):
            for seconds in (1, 4, 16):
                done = kolorun("-n", "2", "--grace", "0", "--timeout", str(seconds * times), "sh", "-c", begin + script,
                               str(seconds), *python(code.format(0)))
                self.assertEqual(ended, done.returncode, done.stderr)
                if "saved" in done.stdout:
                    break
            self.assertIn("saved", done.stdout)

    def test_children_of_the_caller_are_its_own(self):
        # A shell that has become kolorun leaves it a child, which lives on, and from which nobody waits for a rank.
        for ranks, program, code in (("1", "exit 3", 3), ("2", '[ $KOLO_RANK = 1 ] || exec "$RANK_PROBE"', 1)):
            begin = time.monotonic()
            done = subprocess.run(["sh", "-c", 'sleep 1000 >/dev/null 2>&1 & echo $!; exec "$@"', "sh", launching.KOLORUN, "-n",
                                   ranks, "sh", "-c", program], capture_output=True, text=True, check=False,
                                  env=launching.environment(RANK_PROBE=launching.RANK_PROBE), timeout=launching.PATIENCE_S)
            sleeper = int(done.stdout.split()[0])
            self.end_with_test([sleeper])
            self.assertEqual(code, done.returncode, done.stderr)
            self.assertTrue(is_running(sleeper))
            self.assertLess(time.monotonic() - begin, 15)

    def test_leftovers_do_not_pile_up(self):
        # A process whose parent has ended is kolorun's to reap, also while the ranks run on.
        process = self.start("-n", "1", "sh", "-c", "for i in 1 2 3; do (sleep 0.1 &); done; echo; exec sleep 1000")
        self.read_lines(process, 1)
        self.wait_until(lambda: len(children(process.pid)) == 1, "the end of the leaderless")
        self.assertIsNone(process.poll())

    def test_inherited_ignored_sigchld(self):
        done = kolorun("-n", "2", "sh", "-c", "exit 6",
                       preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertEqual(6, done.returncode, done.stderr)


if __name__ == "__main__":
    launching.main()
