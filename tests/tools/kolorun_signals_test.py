"""Signals: each reaches every rank, and once."""

import fcntl
import os
import pathlib
import re
import signal
import subprocess
import sys
import termios
import time

import launching
from launching import python, state

# Prints "ready", then how many of the signals in `wanted` came; a second one may take a moment.
COUNT = """
import signal, sys, time
came = 0
def count(number, frame):
    global came
    came += 1
for number in ({wanted}):
    signal.signal(number, count)
print("ready", flush=True)
deadline = time.monotonic() + 60
while came == 0 and time.monotonic() < deadline:
    time.sleep(0.02)
time.sleep(0.5)
print("came", came, flush=True)
"""


class Signals(launching.LaunchingTest):
    def test_forwarded(self):
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
        jobs = {number: self.start("-n", "2", *python(COUNT.format(wanted=f"{int(number)},"))) for number in numbers}
        for number, process in jobs.items():
            self.assertEqual(["ready"] * 2, self.read_lines(process, 2))
            process.send_signal(number)
        for number, process in jobs.items():
            with self.subTest(launching.signal_name(number)):
                output, errors = self.assert_ends(process, 0)
                self.assertEqual(("came 1\n" * 2, ""), (output, errors))

    def test_default_action(self):
        # Whoever asked for the end is not told that a rank was to blame.
        for number, words in ((signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated"),
                              (signal.SIGHUP, "hung up: the terminal has gone"), (signal.SIGQUIT, "ended by SIGQUIT")):
            process = self.start("-n", "3", "sleep", "1000")
            self.wait_for_ranks(process, 3)
            process.send_signal(number)
            _, errors = self.assert_ends(process, 128 + number)
            self.assertEqual(f"kolorun: {words}\n", errors)

    def test_failure_after_a_signal(self):
        # As a Python program ends that KeyboardInterrupt takes by surprise.
        script = "trap 'exit 1' INT; echo ready; while :; do sleep 0.01; done"
        process = self.start("-n", "2", "--on-failure", "continue", "sh", "-c", script)
        self.read_lines(process, 2)
        process.send_signal(signal.SIGINT)
        self.assertEqual("kolorun: interrupted\n", self.assert_ends(process, 130)[1])

    def test_crash_after_a_signal(self):
        script = "trap 'kill -SEGV $$' TERM; echo ready; while :; do sleep 0.01; done"
        process = self.start("-n", "1", "sh", "-c", script)
        self.read_lines(process, 1)
        process.terminate()
        self.assertIn("kolorun: rank 0 (pid ", self.assert_ends(process, 139)[1])

    def test_a_rank_that_is_killed_by_others(self):
        process = self.start("-n", "2", "sleep", "1000")
        os.kill(self.wait_for_ranks(process, 2)[1], signal.SIGINT)
        self.assertRegex(self.assert_ends(process, 130)[1], r"^kolorun: rank 1 \(pid \d+\) was killed by signal 2 ")

    def test_stopped_ranks_end(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start("-n", "2", "sleep", "1000")
            ranks = self.wait_for_ranks(process, 2)
            for pid in ranks:
                os.kill(pid, signal.SIGSTOP)
            self.wait_until(lambda ranks=ranks: all(state(pid) == "T" for pid in ranks), "the stop")
            process.send_signal(number)
            self.assert_ends(process, 128 + number)

    def test_a_stopped_rank_ends_with_the_others(self):
        process = self.start("-n", "2", "--grace", "0", "sh", "-c",
                             "trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.01; done")
        self.read_lines(process, 2)
        ranks = self.wait_for_ranks(process, 2)
        os.kill(ranks[0], signal.SIGSTOP)
        os.kill(ranks[1], signal.SIGKILL)
        self.assertEqual("asked\n", self.assert_ends(process, 137)[0])

    def test_who_ignores_it_is_killed(self):
        code = ("import signal\nfor number in (2, 15):\n    signal.signal(number, signal.SIG_IGN)\n"
                "print(flush=True)\nwhile True:\n    signal.pause()")
        process = self.start("-n", "2", "--grace", "0.2", *python(code))
        self.read_lines(process, 2)
        process.terminate()
        self.assertEqual("kolorun: ranks 0-1 did not end within 0.2 s of SIGTERM: killing\n",
                         self.assert_ends(process, 143)[1])
        for number, words in ((signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")):
            process = self.start("-n", "2", *python(code))
            self.read_lines(process, 2)
            self.send_apart(process, number)
            process.send_signal(number)
            self.assertEqual(f"kolorun: {words}\n", self.assert_ends(process, 128 + number)[1])

    def send_apart(self, process, number):
        """Sends it, so that another one after that is a second one; of others than SIGINT two within a second are one."""
        process.send_signal(number)
        status = pathlib.Path(f"/proc/{process.pid}/status")
        self.wait_until(lambda: re.search(r"ShdPnd:\s*0+\n", status.read_text()), "kolorun to take the signal")
        time.sleep(0.1 if number == signal.SIGINT else 1.1)

    def test_two_at_once_are_one(self):
        # As timeout(1) sends SIGTERM; a shell and the kernel send SIGHUP at different times.
        script = "trap 'trap \"\" TERM HUP; sleep 2; echo saved; exit 0' TERM HUP; echo ready; while :; do sleep 0.01; done"
        # Of three jobs one must end so with SIGTERM: on a busy machine kolorun may find the second one late.
        wanted = (0, "saved\n" * 2, "")
        for number, apart, tries in ((signal.SIGTERM, 0.1, 3), (signal.SIGHUP, 1.1, 1)):
            ends = []
            while wanted not in ends and len(ends) < tries:
                process = self.start("-n", "2", "sh", "-c", script)
                self.read_lines(process, 2)
                process.send_signal(number)
                time.sleep(apart)
                process.send_signal(number)
                output, errors = process.communicate(timeout=launching.PATIENCE_S)
                ends.append((process.returncode, output, errors))
            self.assertEqual(wanted, ends[-1])

    def test_a_second_one_where_a_rank_has_ended(self):
        # By the first one, or before it: no rank is given the rest of --grace, nor of the time after SIGTERM.
        ignore = "trap '' INT TERM; echo ready; while :; do sleep 0.05; done"
        for number, code, end in ((signal.SIGTERM, 143, "exec sleep 1000"), (signal.SIGINT, 3, "exit 3")):
            process = self.start("-n", "2", "--grace", "1000", "sh", "-c", f"[ $KOLO_RANK = 1 ] || {{ echo ready; {end}; }}; {ignore}")
            self.read_lines(process, 2)
            if end == "exec sleep 1000":
                process.send_signal(number)
            self.wait_until(lambda process=process: len(launching.children(process.pid)) == 1, "the end of rank 0")
            if end == "exec sleep 1000":
                time.sleep(1.1)
            for _ in range(1 + (end == "exit 3")):
                self.send_apart(process, number)
            self.assert_ends(process, code)

    def test_no_restart_after_a_signal(self):
        process = self.start("-n", "2", "--on-failure", "restart", "sleep", "1000")
        self.wait_for_ranks(process, 2)
        process.terminate()
        self.assertEqual("kolorun: terminated\n", self.assert_ends(process, 143)[1])

    def test_under_nohup(self):
        # Started with SIGHUP ignored, a job outlives its terminal.
        process = self.start("-n", "2", "sleep", "1000", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.wait_for_ranks(process, 2)
        process.send_signal(signal.SIGHUP)
        process.terminate()
        self.assertEqual("kolorun: terminated\n", self.assert_ends(process, 143)[1])

    def test_stop_and_continue(self):
        # In a process group of its own, as a shell with job control starts it.
        process = self.start("-n", "2", "--tag-output", "--timeout", "1000", "sleep", "1000",
                             preexec_fn=lambda: os.setpgid(0, 0))
        ranks = self.wait_for_ranks(process, 2)
        everybody = [process.pid, *ranks]
        process.send_signal(signal.SIGTSTP)
        self.wait_until(lambda: all(state(pid) == "T" for pid in everybody), "the stop")
        process.send_signal(signal.SIGCONT)
        self.wait_until(lambda: all(state(pid) == "S" for pid in everybody), "the continuation")
        process.terminate()
        self.assert_ends(process, 143)

    def test_ranks_begin_unblocked(self):
        script = "grep -E '^Sig(Blk|Ign|Pnd)' /proc/self/status"
        process = self.start("-n", "1", "sh", "-c", script)
        output, _ = self.assert_ends(process, 0)
        direct = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
        self.assertEqual(direct.stdout, output)


class Terminal(launching.LaunchingTest):
    def start_on_terminal(self, *arguments):
        """Starts kolorun as the leader of a session on a new terminal; returns it with the terminal's other end."""
        controller, terminal = os.openpty()
        process = self.start(*arguments, stdin=terminal, start_new_session=True,
                             preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(terminal)
        return process, open(controller, "wb", buffering=0)

    def test_keys_reach_ranks_once(self):
        # Also where the terminal does not reach them, in a process group of their own.
        for key, number, begin in ((b"\x03", signal.SIGINT, ""), (b"\x1c", signal.SIGQUIT, ""),
                                   (b"\x03", signal.SIGINT, "import os; os.setpgid(0, 0)\n")):
            code = begin + COUNT.format(wanted=f"{int(number)},")
            process, controller = self.start_on_terminal("-n", "2", *python(code))
            with controller:
                self.assertEqual(["ready"] * 2, self.read_lines(process, 2))
                controller.write(key)
                output, _ = self.assert_ends(process, 0)
                self.assertEqual("came 1\n" * 2, output)

    def test_interrupted(self):
        process, controller = self.start_on_terminal("-n", "3", "sleep", "1000")
        with controller:
            self.wait_for_ranks(process, 3)
            controller.write(b"\x03")
            self.assertEqual("kolorun: interrupted\n", self.assert_ends(process, 130)[1])

    def test_stop_and_foreground(self):
        # A shell's part: it starts the job in a process group of its own, in the foreground, and continues it.
        shell = """
import os, signal, subprocess, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = subprocess.Popen(sys.argv[1:], preexec_fn=lambda: os.setpgid(0, 0))
os.tcsetpgrp(0, job.pid)
print(job.pid, flush=True)
for _ in range(2):
    assert os.WIFSTOPPED(os.waitpid(job.pid, os.WUNTRACED)[1])
    print("stopped", flush=True)
    os.tcsetpgrp(0, os.getpgid(0))
    sys.stdin.readline()
    os.tcsetpgrp(0, job.pid)
    os.killpg(job.pid, signal.SIGCONT)
print(job.wait(), flush=True)
"""
        controller, terminal = os.openpty()
        process = subprocess.Popen(
            [sys.executable, "-c", shell, launching.KOLORUN, "-n", "2", "--timeout", "1000", "sh", "-c",
             "[ $KOLO_RANK = 0 ] || exec timeout 1000 sleep 1000; exec sleep 1000"],
            stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            env=launching.environment(), preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.addCleanup(self.end, process)
        os.close(terminal)
        with open(controller, "wb", buffering=0) as keys:
            launcher = int(process.stdout.readline())
            self.wait_until(lambda: len(launching.children(launcher)) == 2, "the ranks")
            everybody = [launcher, *launching.children(launcher)]
            self.wait_until(lambda: all(state(pid) == "S" for pid in everybody), "their start")
            for _ in range(2):
                keys.write(b"\x1a")
                self.assertEqual("stopped\n", process.stdout.readline())
                self.wait_until(lambda: all(state(pid) == "T" for pid in everybody), "the stop")
                keys.write(b"fg\n")
                self.wait_until(lambda: all(state(pid) == "S" for pid in everybody), "the continuation")
            keys.write(b"\x03")
            self.assertEqual("130\n", process.stdout.readline())
            self.assertEqual("kolorun: interrupted\n", process.communicate(timeout=launching.PATIENCE_S)[1])

    def test_rank_0_reads_the_terminal(self):
        process, controller = self.start_on_terminal("-n", "2", "sh", "-c", "[ $KOLO_RANK = 1 ] || head -n 1")
        with controller:
            controller.write(b"typed\n")
            output, _ = self.assert_ends(process, 0)
            self.assertEqual("typed\n", output)

    def test_hangup(self):
        process, controller = self.start_on_terminal("-n", "2", "sleep", "1000")
        with controller:
            ranks = self.wait_for_ranks(process, 2)
        self.assert_ends(process, 129)
        self.assertFalse(any(launching.is_running(pid) for pid in ranks))


if __name__ == "__main__":
    launching.main()
