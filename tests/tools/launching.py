"""What the tests of launching share: running kolorun, and looking at processes."""

import ctypes
import functools
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import time
import unittest

KOLORUN = os.environ["KOLORUN"]
RANK_PROBE = os.environ.get("RANK_PROBE")
LAGGARD_PROBE = os.environ.get("LAGGARD_PROBE")
KOLO_PERF = os.environ.get("KOLO_PERF")
SKIPPED = 77
SECRET = {"KOLO_SECRET": "16 characters, or more"}

# Long enough for a machine that is busy with other things; only a hang takes so long.
PATIENCE_S = 200


def environment(**variables):
    """The environment without what this test may have inherited from a launcher itself."""
    launchers = ("KOLO_", "OMPI_", "PMI", "SLURM_", "HYD")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(launchers)}
    return {**kept, **variables}


def kolorun(*arguments, **options):
    """Runs kolorun to its end; what it printed is text. Its ranks do not say that a busy machine stalls them."""
    options = {"capture_output": True, "text": True, "timeout": PATIENCE_S, "stdin": subprocess.DEVNULL, "check": False,
               "env": environment(KOLO_LOG="warn,stall:0"), **options}
    return subprocess.run([KOLORUN, *arguments], **options)


def python(code):
    """The command of a rank that runs Python code."""
    return [sys.executable, "-I", "-S", "-c", code]


def children(pid):
    try:
        return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def open_files(pid):
    """What a process has open: paths in /proc, and what these name; without what it closes meanwhile."""
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            yield entry, os.readlink(entry)
        except FileNotFoundError:
            pass


def state(pid):
    """The state letter of a process as /proc has it; None if there is none."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def is_running(pid):
    return state(pid) not in (None, "Z", "X")


taken_ports = []


def take_port(port):
    """Whether nobody listens there, nor has another test taken it, by a name that all agree on until they end: one that
    finds a port free does not use it at once (tests/free_port.h is the other place)."""
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0kolo-test-port-{port}")
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", port))
    except OSError:
        name.close()
        return False
    taken_ports.append(name)
    return True


def free_port(port_of=lambda number: number):
    """One that is free now, and that the system gives to nobody who asks for any; or a number that a launcher may give,
    of which such a port is made."""
    for _ in range(1000):
        number = random.randrange(12000, 30000)
        if take_port(port_of(number)):
            return number
    raise RuntimeError("no free port")


@functools.cache
def own_shm():
    """Gives this process, and what it starts from now on, a /dev/shm in which nobody else's names are. Where that is not
    allowed, as it is to root alone, what others make there meanwhile is taken for ours."""
    new_mounts, private, recursive = 0x20000, 1 << 18, 1 << 14
    system = ctypes.CDLL(None)
    return (system.unshare(new_mounts) == 0 and system.mount(b"none", b"/", None, private | recursive, None) == 0
            and system.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, b"mode=1777") == 0)


def shm_names():
    """Of jobs, but not those of tests/ranks, some of which run meanwhile, as may bench/compare, which has folders."""
    own_shm()
    return {path.name for path in pathlib.Path("/dev/shm").glob("*kolo*")
            if path.is_file() and not re.fullmatch(r"kolo-\d+-test-\d+-\d+", path.name)}


def member_names(objects):
    """Of objects of JSON that are alike: names in their order, after each those of the objects within."""
    for name in dict.fromkeys(name for each in objects for name in each):
        yield name
        values = [each.get(name) for each in objects]
        inner = [item for value in values for item in (value if isinstance(value, list) else [value])]
        yield from member_names([item for item in inner if isinstance(item, dict)])


def unexplained(program, heading, found):
    """The first name in an object of JSON that the program's --help does not have in its place; None: it has all."""
    text = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    at = text.index(f"\n{heading}")
    for name in member_names([found]):
        match = re.compile(rf"\b{name}\b").search(text, at)
        if not match:
            return name
        at = match.end()
    return None


class LaunchingTest(unittest.TestCase):
    def start(self, *arguments, **options):
        """Starts kolorun; it is ended with the test, whatever becomes of that."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, "text": True,
                   "env": environment(), **options}
        process = subprocess.Popen([KOLORUN, *arguments], **options)
        self.addCleanup(self.end, process)
        return process

    def start_without_kolorun(self, job, ranks, *command, **options):
        """The processes of a job without kolorun, which would end it with its first rank."""
        started = []
        for rank in range(ranks):
            started.append(subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(
                KOLO_JOB=job, KOLO_SIZE=str(ranks), KOLO_RANK=str(rank)), **options))
            self.addCleanup(self.end, started[-1])
        return started

    @staticmethod
    def end(process):
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()

    def end_with_test(self, pids):
        """Kills at the end of the test what should have ended by itself."""
        self.addCleanup(lambda: [os.kill(pid, signal.SIGKILL) for pid in pids if is_running(pid)])

    def wait_until(self, condition, what):
        deadline = time.monotonic() + PATIENCE_S
        while not (seen := condition()):
            self.assertLess(time.monotonic(), deadline, f"waited {PATIENCE_S} s in vain: {what}")
            time.sleep(0.01)
        return seen

    @staticmethod
    def assert_in_time(attempt):
        """The ranks must have come as far as the attempt wants within its seconds, however busy this machine is."""
        try:
            attempt(1)
        except (AssertionError, ProcessLookupError):
            attempt(20)

    def wait_for_ranks(self, process, ranks):
        """Process ids of the ranks, in the order of their start, once all have left kolorun's code."""
        program = os.readlink(f"/proc/{process.pid}/exe")

        def all_run():
            pids = children(process.pid)
            try:
                return len(pids) == ranks and all(os.readlink(f"/proc/{pid}/exe") != program for pid in pids) and pids
            except FileNotFoundError:
                return False

        return self.wait_until(all_run, f"{ranks} ranks")

    def read_lines(self, process, count):
        """The next lines of the process's output, sorted."""
        return sorted(process.stdout.readline().rstrip("\n") for _ in range(count))

    def assert_nothing_named(self, before):
        """/dev/shm holds no name of kolo's that was not there before."""
        self.wait_until(lambda: shm_names() <= before, f"{shm_names() - before} to go from /dev/shm")

    def assert_ends(self, process, code):
        output, errors = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(code, process.returncode, errors)
        self.assertNotRegex(errors or "", r"\brank (\d+): rank \1:")
        return output, errors


def run_again(run):
    """run() runs an mpirun to its end: (its exit status, what else it returns). On a busy machine Hydra itself, also where
    nothing of kolo runs, may be ended by SIGPIPE: it answers one of its own processes that has ended meanwhile. Such a
    run says nothing of kolo, and is made once more. Of a program that SIGPIPE ends Hydra tells by its exit code."""
    for is_last in (False, True):
        status, said = run()
        if is_last or status != -signal.SIGPIPE:
            return said


def run_launcher(begin, timeout_s=PATIENCE_S):
    """begin() starts an mpirun: the process that has ended, and what it said; see run_again."""
    def run():
        process = begin()
        output, errors = process.communicate(timeout=timeout_s)
        return process.returncode, (process, output, errors)
    return run_again(run)


def signal_name(number):
    return signal.Signals(number).name


def main():
    """Runs the tests of the calling script; ends with the code for skipped if each of them was."""
    program = unittest.main(exit=False)
    result = program.result
    if result.wasSuccessful() and result.testsRun > 0 and len(result.skipped) == result.testsRun:
        print("\n".join(reason for _, reason in result.skipped))
        sys.exit(SKIPPED)
    sys.exit(not result.wasSuccessful())
