"""Signals: each reaches every rank, and once."""

import fcntl
import os
import signal
import subprocess
import termios

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
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
            with self.subTest(launching.signal_name(number)):
                process = self.start("-n", "2", *python(COUNT.format(wanted=f"{int(number)},")))
                self.assertEqual(["ready"] * 2, self.read_lines(process, 2))
                process.send_signal(number)
                output, errors = self.assert_ends(process, 0)
                self.assertEqual(("came 1\n" * 2, ""), (output, errors))

    def test_default_action(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start("-n", "3", "sleep", "1000")
            self.wait_for_ranks(process, 3)
            process.send_signal(number)
            _, errors = self.assert_ends(process, 128 + number)
            self.assertRegex(errors, rf"^kolorun: rank \d \(pid \d+\) was killed by signal {int(number)} ")

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
        for key, number in ((b"\x03", signal.SIGINT), (b"\x1c", signal.SIGQUIT)):
            process, controller = self.start_on_terminal("-n", "2", *python(COUNT.format(wanted=f"{int(number)},")))
            with controller:
                self.assertEqual(["ready"] * 2, self.read_lines(process, 2))
                controller.write(key)
                output, _ = self.assert_ends(process, 0)
                self.assertEqual("came 1\n" * 2, output)

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
