"""--tag-output: every byte arrives, in whole lines, each with its rank. --output: files. And who reads all that."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

import launching
from launching import kolorun, python


class Output(launching.LaunchingTest):
    def test_untagged_goes_straight_through(self):
        done = kolorun("-n", "1", "sh", "-c", "printf 'no newline'; printf words >&2")
        self.assertEqual(("no newline", "words"), (done.stdout, done.stderr))

    def test_both_streams(self):
        done = kolorun("-n", "3", "--tag-output", "sh", "-c", "echo out $KOLO_RANK; echo err $KOLO_RANK >&2")
        self.assertEqual([f"[{rank}] out {rank}" for rank in range(3)], sorted(done.stdout.splitlines()))
        self.assertEqual([f"[{rank}] err {rank}" for rank in range(3)], sorted(done.stderr.splitlines()))

    def test_partial_lines(self):
        script = "printf 'a $KOLO_RANK'; sleep 0.2; printf ' b\\n\\nc'; sleep 0.2; printf ' d'"
        done = kolorun("-n", "4", "--tag-output", "sh", "-c", script.replace("'a $KOLO_RANK'", '"a $KOLO_RANK"'))
        lines = done.stdout.splitlines()
        self.assertEqual(12, len(lines), done.stdout)
        for rank in range(4):
            own = [line for line in lines if line.startswith(f"[{rank}] ")]
            self.assertEqual([f"[{rank}] a {rank} b", f"[{rank}] ", f"[{rank}] c d"], own)
        self.assertTrue(done.stdout.endswith("\n"))

    def test_large_output(self):
        # Several MB on both streams into one pipe, read late: it fills, ranks and kolorun have to wait.
        code = ("import os, sys\nrank = os.environ['KOLO_RANK']\n"
                "for i in range(20000):\n"
                "    line = f'{rank} {i} ' + 'x' * (i % 97) + '\\n'\n"
                "    (sys.stderr if i % 2 else sys.stdout).write(line)\n")
        process = self.start("-n", "4", "--tag-output", *python(code), stderr=subprocess.STDOUT)
        time.sleep(1)
        output, _ = process.communicate(timeout=launching.PATIENCE_S)
        self.assertEqual(0, process.returncode)
        self.assertTrue(output.endswith("\n"))
        seen = {(rank, parity): -2 + parity for rank in range(4) for parity in range(2)}
        for line in output.splitlines():
            tag, rank, index, *rest = line.split(" ")
            rank, index = int(rank), int(index)
            self.assertEqual((f"[{rank}]", "x" * (index % 97)), (tag, "".join(rest)))
            self.assertEqual(seen[rank, index % 2] + 2, index, line)
            seen[rank, index % 2] = index
        self.assertEqual({19998, 19999}, set(seen.values()))

    def test_long_line(self):
        code = "import sys; sys.stdout.write('a' * 700000 + '\\n' + 'b' * 300000)"
        done = kolorun("-n", "2", "--tag-output", *python(code))
        expected = [f"[{rank}] " + line for rank in range(2) for line in ("a" * 700000, "b" * 300000)]
        self.assertTrue(expected == sorted(done.stdout.splitlines()), "lines differ")

    def test_endless_line_is_broken(self):
        code = "import sys; sys.stdout.write('0123456789' * 300000)"
        done = kolorun("-n", "1", "--tag-output", *python(code))
        pieces = done.stdout.splitlines()
        self.assertTrue(all(piece.startswith("[0] ") for piece in pieces))
        self.assertTrue(2 <= len(pieces) <= 4, len(pieces))
        self.assertTrue("".join(piece[4:] for piece in pieces) == "0123456789" * 300000, "bytes are missing")

    def test_any_bytes(self):
        done = kolorun("-n", "1", "--tag-output", "printf", r"\000\377\r\n", text=False)
        self.assertEqual(b"[0] \x00\xff\r\n", done.stdout)

    def test_output_before_death(self):
        code = "import os, signal; os.write(1, b'last words'); os.kill(os.getpid(), signal.SIGKILL)"
        done = kolorun("-n", "1", "--tag-output", *python(code))
        self.assertEqual((137, "[0] last words\n"), (done.returncode, done.stdout))
        self.assertRegex(done.stderr, r"^kolorun: rank 0 \(pid \d+\) was killed by signal 9 \(SIGKILL\)\n$")

    def test_pipe_held_by_a_rank_that_starts(self):
        # Rank 1, stopped before its exec, holds the pipes of rank 0, which has ended. That is no work for kolorun.
        slow = launching.environment(PATH="x:" * 60000 + os.environ["PATH"])
        folder = tempfile.mkdtemp(prefix="kolorun-test-")
        self.addCleanup(shutil.rmtree, folder)
        script = f"until [ -e {folder}/end ]; do {shutil.which('sleep')} 0.01; done; echo $KOLO_RANK"
        for _ in range(100):
            process = self.start("-n", "2", "--tag-output", "sh", "-c", script, env=slow)
            first, second = self.wait_until(
                lambda process=process: (pids := launching.children(process.pid))[1:] and pids, "the ranks")
            os.kill(second, signal.SIGSTOP)
            if os.readlink(f"/proc/{second}/exe") == os.readlink(f"/proc/{process.pid}/exe"):
                break
        pathlib.Path(folder, "end").touch()
        self.wait_until(lambda: launching.state(first) is None, "the end of rank 0")
        used = [sum(map(int, pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
                for _ in range(2) if time.sleep(0.8) is None]
        self.assertLess(used[1] - used[0], 10)
        os.kill(second, signal.SIGCONT)
        self.assertEqual("[0] 0\n[1] 1\n", self.assert_ends(process, 0)[0])

    def test_pipe_held_by_a_background_process(self):
        done = kolorun("-n", "1", "--tag-output", "sh", "-c", "sleep 1000 & echo $!")
        sleeper = int(done.stdout.split()[1])
        os.kill(sleeper, signal.SIGKILL)
        self.assertEqual(0, done.returncode)


class Sinks(launching.LaunchingTest):
    def test_full_device(self):
        with open("/dev/full", "wb") as full:
            done = kolorun("-n", "2", "--tag-output", "sh", "-c", "echo x; exec sleep 1000", capture_output=False,
                           stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(125, done.returncode)
        self.assertEqual("kolorun: cannot write standard output: No space left on device; ending the job\n",
                         done.stderr)

    def test_reader_gone(self):
        # As with `kolorun ... | head`. 141 is what a shell says of a program that SIGPIPE has ended.
        for options in ((), ("--tag-output",), ("--on-failure", "continue")):
            process = self.start("-n", "2", *options, "yes")
            self.assertTrue(process.stdout.read(1))
            process.stdout.close()
            process.stdout = None
            self.assertEqual("", self.assert_ends(process, 141)[1])

    def test_the_last_words_find_no_reader(self):
        process = self.start("-n", "1", "--tag-output", "sh", "-c", "echo first; read line; echo last", stdin=subprocess.PIPE)
        self.assertEqual("[0] first\n", process.stdout.readline())
        process.stdout.close()
        process.stdout = None
        process.stdin.write("go on\n")
        process.stdin.flush()
        self.assertEqual("", self.assert_ends(process, 141)[1])

    def test_another_pipe_breaks(self):
        done = kolorun("-n", "2", "sh", "-c", "[ $KOLO_RANK = 0 ] && kill -PIPE $$; exec sleep 1000")
        self.assertEqual(141, done.returncode)
        self.assertIn("kolorun: rank 0 (pid ", done.stderr)

    def test_stalled_reader(self):
        process = self.start("-n", "2", "--tag-output", "yes")
        self.wait_for_ranks(process, 2)
        time.sleep(1)
        memory_kib = int(re.search(r"VmRSS:\s*(\d+) kB", pathlib.Path(f"/proc/{process.pid}/status").read_text())[1])
        self.assertLess(memory_kib, 32768, "what nobody reads is piling up")
        process.terminate()  # goes to the ranks; the next one is kolorun's own, once it has taken note of their end
        self.wait_until(lambda: not launching.children(process.pid), "the end of the ranks")
        self.assertIsNone(process.poll(), "the rest of the output was thrown away")
        process.terminate()
        self.wait_until(lambda: process.poll() is not None, "the end of kolorun")
        self.assertEqual(143, process.returncode)


    def test_messages_that_nobody_reads(self):
        # A full pipe keeps kolorun neither from the timeout nor from SIGTERM. What is read is written, up to the end.
        unread = {"stderr": subprocess.STDOUT}
        begin = time.monotonic()
        jobs = [(124, self.start("-n", "1", "--timeout", "1", "yes", **unread)),
                (124, self.start("-n", "1", "--timeout", "2", "--tag-output", "yes")),
                (143, self.start("-n", "2", "yes", **unread)),
                (3, self.start("-n", "2", "--timeout", "9", "--on-failure", "continue", "sh", "-c",
                               "timeout 0.5 yes; exit 3", **unread))]
        self.wait_for_ranks(jobs[2][1], 2)
        jobs[2][1].terminate()
        self.wait_until(lambda: not launching.children(jobs[2][1].pid), "the end of the ranks")
        for code, process in jobs:
            self.assertEqual(code, process.wait(timeout=launching.PATIENCE_S))
        self.assertLess(time.monotonic() - begin, 100)
        self.assertEqual("kolorun: timeout after 2 s: ending rank 0\nkolorun: timeout after 2 s: all ranks have ended, but "
                         "nobody reads their output\n", jobs[1][1].stderr.read())

    def test_messages_find_a_late_reader(self):
        fill = ("import os\nos.set_blocking(1, False)\ntry:\n    while True:\n        os.write(1, b'y\\n' * 2048)\n"
                "except BlockingIOError:\n    os.set_blocking(1, True)\n    os._exit(3)\n")
        process = self.start("-n", "1", *python(fill), stderr=subprocess.STDOUT)
        self.wait_until(lambda: not launching.children(process.pid), "the end of the rank")
        self.assertRegex(self.assert_ends(process, 3)[0], r"\nkolorun: rank 0 \(pid \d+\) exited with code 3\n$")


class Files(launching.LaunchingTest):
    """--output: two files for each rank."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kolorun-test-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def contents(self, folder):
        return {path.name: path.read_text() for path in folder.iterdir()}

    def test_files(self):
        folder = self.folder / "not" / "there"
        for word in ("first", "second"):  # the second job replaces what the first has written
            done = kolorun("-n", "2", "--output", str(folder), "sh", "-c",
                           f"echo {word} $KOLO_RANK; echo err >&2; printf end")
            self.assertEqual((0, "", ""), (done.returncode, done.stdout, done.stderr))
            self.assertEqual({"rank-0.out": f"{word} 0\nend", "rank-0.err": "err\n",
                              "rank-1.out": f"{word} 1\nend", "rank-1.err": "err\n"}, self.contents(folder))

    def test_failure_says_where_to_look(self):
        done = kolorun("-n", "2", "--output", str(self.folder), "sh", "-c", "exit $KOLO_RANK")
        self.assertEqual(1, done.returncode)
        self.assertRegex(done.stderr, rf"^kolorun: rank 1 \(pid \d+\) exited with code 1; see {self.folder}/rank-1.err\n$")

    def test_started_again(self):
        script = ('if [ $KOLO_RANK = 0 ]; then until [ -e again ]; do sleep 0.01; done; exit 0; fi; '
                  'echo $KOLO_RESTARTS; [ $KOLO_RESTARTS = 1 ] || exit 5; touch again')
        done = kolorun("-n", "2", "--on-failure", "restart", "--output", "logs", "sh", "-c", script, cwd=self.folder)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual("0\n1\n", (self.folder / "logs" / "rank-1.out").read_text())

    def test_machines(self):
        done = kolorun("--nnodes", "2", "--node-rank", "1", "--rendezvous", "a:1", "-n", "1", "--output", str(self.folder),
                       "true")
        self.assertEqual((0, {"rank-1.out": "", "rank-1.err": ""}), (done.returncode, self.contents(self.folder)))

    def test_no_folder(self):
        (self.folder / "file").write_text("")
        for folder, words in (("file", "Not a directory"), ("file/below", "Not a directory")):
            done = kolorun("-n", "2", "--output", folder, "echo", "hi", cwd=self.folder)
            self.assertEqual((125, ""), (done.returncode, done.stdout))
            self.assertRegex(done.stderr, rf"^kolorun: --output: cannot use folder '{folder}': {words}[^\n]*\n$")
        done = kolorun("-n", "2", "--output", "", "true")
        self.assertEqual((125, "kolorun: --output '': give DIR; see kolorun --help\n"), (done.returncode, done.stderr))
        (self.folder / "logs" / "rank-1.err").mkdir(parents=True)
        done = kolorun("-n", "2", "--output", "logs", "sleep", "1000", cwd=self.folder)
        self.assertEqual(125, done.returncode)
        self.assertIn("kolorun: --output: cannot open 'logs/rank-1.err': Is a directory\n", done.stderr)


class Colours(launching.LaunchingTest):
    def on_terminal(self, *arguments, **variables):
        controller, terminal = os.openpty()
        env = launching.environment(**{"TERM": "xterm", **variables})
        env = {name: value for name, value in env.items() if name != "NO_COLOR" or "NO_COLOR" in variables}
        process = self.start(*arguments, stdout=terminal, stderr=terminal, env=env)
        os.close(terminal)
        with open(controller, "rb", buffering=0) as output:
            self.assert_ends(process, 3)
            read = b""
            with contextlib.suppress(OSError):  # the end of a terminal; what was written may still be on its way to it
                while more := output.read(4096):
                    read += more
            return sorted(read.decode().splitlines())

    def test_colours(self):
        command = ("-n", "1", "--tag-output", "sh", "-c", "echo hi; exit 3")
        message, line = self.on_terminal(*command)
        self.assertRegex(message, r"^\033\[1mkolorun:\033\[0m rank 0 \(pid \d+\) exited with code 3$")
        self.assertEqual("\033[31m[0]\033[0m hi", line)
        for variables in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            line, message = self.on_terminal(*command, **variables)
            self.assertRegex(message, r"^kolorun: rank 0 \(pid \d+\) exited with code 3$")
            self.assertEqual("[0] hi", line)


if __name__ == "__main__":
    launching.main()
