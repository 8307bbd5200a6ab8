"""What Python programs get when ranks die, stall, disagree or are interrupted; forks; and where the library comes from.
Each test starts a job of its own."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest

from kolo4py import _library

ROOT = pathlib.Path(__file__).resolve().parents[2]
KOLORUN = os.environ["KOLORUN"]
PATIENCE_S = 120
BEGIN = """
import ctypes, os, signal, sys, time
import kolo4py as kolo
comm = kolo.init(timeout=60)
def print(*words):  # each line in one piece
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
def told(error):
    print(comm.rank, type(error).__name__, {**vars(error)}, error.status)
"""


def environment(**changes):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMI", "SLURM_"))}
    return {**kept, "KOLO_LOG": "off", **changes}


def run(ranks, code, begin=BEGIN, options=("--on-failure", "continue"), **changes):
    """What the ranks print, sorted."""
    script = begin + textwrap.dedent(code)
    done = subprocess.run([KOLORUN, *options, "-n", str(ranks), sys.executable, "-B", "-c", script], text=True,
                          env=environment(**changes), capture_output=True, timeout=PATIENCE_S, check=False)
    return sorted(done.stdout.splitlines()), done.stderr


def alone(code, *arguments, **changes):
    done = subprocess.run([sys.executable, "-B", *arguments, "-c", textwrap.dedent(code)], text=True,
                          env=environment(**changes), capture_output=True, timeout=PATIENCE_S, check=False)
    return done.stdout, done.stderr


class Loading(unittest.TestCase):
    def test_threads_get_one_result(self):
        """Which is whole, whoever asks first."""
        made, got = [], []

        @_library.once
        def make():
            made.append(threading.get_ident())
            time.sleep(0.05)
            return made[-1]

        threads = [threading.Thread(target=lambda: got.append(make())) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(1, len(made))
        self.assertEqual(made * 8, got)


class Latency(unittest.TestCase):
    def test_killed_rank_is_named_within_a_second(self):
        lines, errors = run(3, """
            comm.barrier()
            if comm.rank == 1:
                other = comm.recv_object(0)
                os.kill(os.getpid(), signal.SIGKILL)
            if comm.rank == 0:
                comm.send_object("now", 1)
            begin = time.monotonic()
            try:
                comm.all_reduce(bytearray(8))
            except kolo.PeerDead as error:
                told(error)
                print(comm.rank, "late" if time.monotonic() - begin > 1 else "soon", comm.failure.cause)
            left = comm.shrink()
            print(comm.rank, "left", left.rank, left.size, left.all_gather_object(comm.rank))
        """)
        expected = [line for r in (0, 2) for line in (
            f"{r} PeerDead {{'rank': 1, 'signal': 9, 'exit_status': None}} -5", f"{r} left {r // 2} 2 [0, 2]",
            f"{r} soon killed")]
        self.assertEqual(expected, lines, errors)


class Failures(unittest.TestCase):
    def test_exited_rank(self):
        lines, errors = run(2, """
            if comm.rank == 1:
                os._exit(3)
            try:
                comm.barrier()
            except kolo.PeerDead as error:
                told(error)
        """)
        self.assertEqual(["0 PeerDead {'rank': 1, 'signal': None, 'exit_status': 3} -5"], lines, errors)

    def test_mismatch(self):
        lines, errors = run(2, """
            try:
                comm.all_reduce(bytearray(8 if comm.rank else 16))
            except kolo.Mismatch as error:
                told(error)
                print(comm.rank, "both" if "16 u8" in str(error) and "8 u8" in str(error) else str(error))
        """)
        self.assertEqual([line for r in "01" for line in (f"{r} Mismatch {{}} -6", f"{r} both")], lines, errors)

    def test_abort_timeout_and_broken(self):
        lines, errors = run(2, """
            short = comm.dup()
            if comm.rank == 1:
                comm.abort(42)
            else:
                try:
                    comm.barrier()
                except kolo.Aborted as error:
                    told(error)
            try:
                comm.barrier()
            except kolo.Broken as error:
                told(error)
            print(comm.rank, repr(comm))
        """)
        self.assertEqual(["0 <kolo.Comm rank 0 of 2, broken>", "0 Aborted {'rank': 1, 'code': 42} -7", "0 Broken {} -10",
                          "1 <kolo.Comm rank 1 of 2, broken>", "1 Broken {} -10"], lines, errors)

    def test_failure_between_the_collectives_of_one_call(self):
        """It aborts: else this rank's next call would be taken for the rest of that one."""
        broadcast, gather, state = "comm.broadcast_object(1)", "comm.all_gather_object(1)", "optimizer.state_dict()"
        for place, error, code, own, others in (
                ("comm, 'broadcast'", "KeyboardInterrupt", 130, broadcast, broadcast),
                ("comm, 'all_gather'", "ValueError", 1, broadcast, broadcast),
                ("pickle, 'dumps'", "KeyboardInterrupt", 130, gather, gather),
                ("pickle, 'dumps'", "ValueError", 1, "step()", "step()"),
                ("_messages, 'bytearray'", "MemoryError", 1, "comm.recv_object(0)", "comm.send_object('x' * 10 ** 6, 1)"),
                ("_optimizers.array, 'array'", "MemoryError", 1, state, state)):
            with self.subTest(call=own, at=place):
                lines, errors = run(2, f"""
            import pickle
            from unittest import mock
            from kolo4py import _messages, _optimizers
            optimizer = kolo.Optimizer(comm, (ctypes.c_float * 4)())
            def step():
                with kolo.Buckets(comm, [(ctypes.c_float * 4)(), (ctypes.c_float * 4)()], bucket_bytes=1) as buckets:
                    buckets.ready(1)
                    pickle.dumps(1)
                    buckets.ready(0)
                    buckets.wait()
            if comm.rank == 1:
                try:
                    with mock.patch.object({place}, side_effect={error}, create=True):
                        {own}
                except {error}:
                    print(1, "own error")
                try:
                    {own}
                except kolo.Broken as error:
                    told(error)
            else:
                try:
                    {others}
                    comm.barrier()
                except kolo.Aborted as error:
                    told(error)
                """)
                expected = [f"0 Aborted {{'rank': 1, 'code': {code}}} -7", "1 Broken {} -10", "1 own error"]
                self.assertEqual(expected, lines, errors)

    def test_timeouts_name_who_is_missing(self):
        lines, errors = run(2, """
            comm.close()
            comm = kolo.init(timeout=0.2, name=f"kolo-python-{os.getppid()}", shm_fd=None)
            if comm.rank == 1:
                while comm.failure is None:
                    time.sleep(0.01)
                os._exit(0)
            try:
                comm.barrier()
            except kolo.Timeout as error:
                told(error)
        """)
        self.assertEqual(["0 Timeout {'missing': (1,)} -4"], lines, errors)
        printed, errors = alone("""
            import kolo4py as kolo, os
            try:
                kolo.init(0, 4, name=f"kolo-python-{os.getpid()}", create_timeout=0.1)
            except kolo.Timeout as error:
                print(error.missing)
        """)
        self.assertEqual("(1, 2, 3)\n", printed, errors)

    def test_timeout_of_a_communicator_that_lives(self):
        lines, errors = run(2, """
            import threading
            def change(seconds):
                time.sleep(0.2)
                comm.timeout = seconds
            first = comm.timeout
            for wrong in (-1, 1e10):
                try:
                    comm.timeout = wrong
                except kolo.ArgumentError as error:
                    print(comm.rank, error)
            if comm.rank == 1:
                comm.timeout = 0
                threading.Thread(target=change, args=(0.5,)).start()
                print(comm.rank, first, comm.timeout)
            else:
                comm.timeout = 0.1
                comm.timeout = first
                while not comm.failure:
                    time.sleep(0.01)
            try:
                comm.barrier()  # rank 0 may find rank 1 there
                comm.barrier()
            except kolo.Timeout as error:
                print(comm.rank, error.missing, comm.timeout)
                comm.close()
                try:
                    comm.timeout
                except kolo.Broken:
                    print(comm.rank, "closed")
        """)
        self.assertIn("0 timeout -1 is negative; 0 is no limit", lines, errors)
        self.assertEqual(2, sum("timeout_ms 10000000000000: must be from 0" in line for line in lines), lines)
        self.assertEqual(["0 (0,) 60.0", "0 closed", "1 (0,) 0.5", "1 60.0 0.0", "1 closed"],
                         [line for line in lines if " timeout" not in line], errors)


@unittest.skipUnless(hasattr(_library.load(), "kolo_table_create"), "a build without tables")
class Tables(unittest.TestCase):
    BODIES = ("""
        table = kolo.Table(comm, 1)
        work(table)""", """
        with kolo.Table(comm, 1) as table:
            work(table)""", """
        with comm:
            table = kolo.Table(comm, 1)
            work(table)""", """
        part = comm.split(0)
        table = kolo.Table(part, 1)
        work(table)""")

    def test_a_worker_that_fails(self):
        """It has not left in order, wherever the exception goes: the others must not end their clocks without it."""
        for fault in ("raise ValueError", "sys.exit(1)", "sys.exit(0)", "raise KeyboardInterrupt", "os._exit(1)"):
            for body in self.BODIES:
                for is_caught in (False, True):
                    with self.subTest(fault=fault, body=body, is_caught=is_caught):
                        self.fail_in(fault, body, is_caught)

    def fail_in(self, fault, body, is_caught):
        function = textwrap.indent(textwrap.dedent(body), "    ")
        lines, errors = run(3, f"""
import array
def work(table):
    for clock in range(6):
        if comm.rank == 1 and clock == 3:
            {fault}
        if clock == 3:
            time.sleep(0.1)  # they find that it has left
        table.push(array.array("f", [1]))
        table.clock()
    print(comm.rank, "has", table.pull(array.array("f", [0]))[0])
def main():{function}
if comm.rank == 1 and {is_caught}:
    try:
        main()
    except BaseException:
        pass
    del comm
    time.sleep(0.2)  # the process lives on
elif comm.rank == 1:{function}
else:
    try:
        main()
    except (kolo.Aborted, kolo.PeerDead, kolo.Broken) as error:
        print(comm.rank, "told")
""")
        self.assertEqual(["0 told", "2 told"], lines, errors)


    def test_children_of_a_worker(self):
        """Their ends are not its own."""
        lines, errors = run(2, """
            table = kolo.Table(comm, 1)
            child = os.fork()
            if child == 0:
                with comm:
                    sys.exit(3)
            print(comm.rank, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            table.clock()
            comm.close()
        """)
        self.assertEqual(["0 3", "1 3"], lines, errors)
        self.assertEqual("", errors)


class Interrupts(unittest.TestCase):
    """Rank 0 waits; a thread of it sends SIGINT and notes when."""
    SEND = """
        import threading
        def interrupt():
            global sent
            time.sleep(0.3)
            sent = time.monotonic()
            os.kill(os.getpid(), signal.SIGINT)
        def measured(call):
            threading.Thread(target=interrupt).start()
            try:
                call()
            except KeyboardInterrupt:
                print(comm.rank, "interrupted", "soon" if time.monotonic() - sent < 0.2 else "late")
    """

    def test_blocking_calls(self):
        for call in ("comm.barrier()", "comm.recv(bytearray(1), 1)", "comm.barrier(async_=True).wait()",
                     "comm.all_reduce(bytearray(1 << 20))", "(comm.barrier(async_=True), comm.free(array))",
                     "(buckets.ready(0), buckets.close())"):
            with self.subTest(call):
                lines, errors = run(2, self.SEND + f"""
        array, buckets = comm.empty(1), kolo.Buckets(comm, [bytearray(8)], "sum")
        if comm.rank == 0:
            measured(lambda: {call})
            print(0, comm.failure.error)
        else:
            time.sleep(1)
            try:
                while True:  # one may be complete, as rank 0 has come
                    comm.barrier()
            except kolo.Aborted as error:
                told(error)
                """)
                self.assertEqual(["0 interrupted soon", "0 rank 0 aborted the communicator with code 130",
                                  "1 Aborted {'rank': 0, 'code': 130} -7"], lines, errors)

    def test_request_of_a_thread_goes_on(self):
        lines, errors = run(2, self.SEND + """
        if comm.rank == 0:
            request = comm.all_reduce((ctypes.c_int * 1)(1), async_=True)
            measured(request.wait)
            print(0, list(request.wait()))
        else:
            time.sleep(1)
            comm.all_reduce((ctypes.c_int * 1)(2))
        """, KOLO_PROGRESS="1")
        self.assertEqual(["0 [3]", "0 interrupted soon"], lines, errors)

    def test_call_behind_a_request_of_a_thread(self):
        lines, errors = run(2, self.SEND + """
        if comm.rank == 0:
            request = comm.barrier(async_=True)
            time.sleep(0.1)
            measured(comm.barrier)
            request.wait()
        else:
            time.sleep(1)
            comm.barrier()
        comm.barrier()
        print(comm.rank, "whole", comm.failure)
        """, KOLO_PROGRESS="1")
        self.assertEqual(["0 interrupted soon", "0 whole None", "1 whole None"], lines, errors)

    def test_handler_that_raises_nothing(self):
        lines, errors = run(2, self.SEND + """
        if comm.rank == 0:
            signal.signal(signal.SIGINT, lambda number, frame: print(0, "noted"))
            measured(lambda: print(0, list(comm.all_reduce((ctypes.c_int * 1)(1)))))
        else:
            time.sleep(1)
            comm.all_reduce((ctypes.c_int * 1)(2))
        """)
        self.assertEqual(["0 [3]", "0 noted"], lines, errors)

    BEGIN = BEGIN + textwrap.dedent(SEND) + """
other, plan, table = comm.dup(), comm.plan(bytearray(8)), kolo.Table(comm, 1, staleness=1)
CALLS = (comm.barrier, plan, comm.dup, comm.shrink, comm.recv_object, table.clock, table.close, lambda: comm.empty(2),
         lambda: comm.all_gather_object(1), lambda: comm.barrier(async_=True), lambda: request.done(), lambda: request.wait())
def refused():
    for call in CALLS if request else CALLS[:-2]:
        try:
            print("not refused", call())
        except kolo.ArgumentError as error:
            assert "signal handler" in str(error)
    print(0, "refused")
"""

    def test_handler_that_uses_communicators(self):
        """One that closes the one that waits ends the call, and one that makes a call there is refused."""
        for handler, own, others in (
                ("comm.close(), sys.exit(3)", ["0 ended True", "0 exit 3"], ["1 aborted 1"]),
                ("comm.close()", ["0 aborted 1", "0 ended True"], ["1 aborted 1"]),
                ("comm.abort(2)", ["0 aborted 2", "0 ended False"], ["1 aborted 2"]),
                ("refused()", ["0 ended False", "0 refused", "0 whole"], ["1 whole"]),
                ("other.barrier()", ["0 ended False", "0 whole"], ["1 whole"])):
            for call in ("comm.barrier()", "request.wait()"):
                with self.subTest(handler=handler, call=call), tempfile.TemporaryDirectory() as folder:
                    mark = f"{folder}/handled"
                    lines, errors = run(2, f"""
        request = comm.barrier(async_=True) if {call.startswith("request")} else None
        signal.signal(signal.SIGINT, lambda *_: (open({mark!r}, "w").close(), {handler}))
        if comm.rank == 0:
            threading.Thread(target=interrupt).start()
        else:
            while not os.path.exists({mark!r}):
                time.sleep(0.01)
            time.sleep(0.5)
            {handler if handler.startswith("other") else "pass"}
        try:
            {call}
            comm.barrier()
            comm.barrier()
            print(comm.rank, "whole")
        except kolo.Aborted as error:
            print(comm.rank, "aborted", error.code)
        except SystemExit as error:
            print(comm.rank, "exit", error.code)
        if comm.rank == 0:
            print(0, "ended", comm._handle._owned is None)
                    """, self.BEGIN)
                    self.assertEqual((sorted(own + others), ""), (lines, errors))

    def test_creation(self):
        """What was being made is destroyed when it is there at last, as the other rank sees."""
        lines, errors = run(1, self.SEND + """
        import subprocess
        job = f"kolo-python-{os.getpid()}"
        measured(lambda: kolo.init(0, 2, name=job))
        code = chr(10).join((
            "import kolo4py as kolo",
            "try:",
            f"    kolo.init(1, 2, name={job!r}).barrier()",
            "except kolo.PeerDead as error:",
            "    print(f'other {error.rank}', 'left' in str(error))"))
        other = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True)
        print(other.stdout, other.stderr)
        """)
        self.assertEqual(["", "0 interrupted soon", "other 0 True"], [line.strip() for line in lines], errors)


class Forks(unittest.TestCase):
    def test_children(self):
        """One that uses the communicator is told; one that does not, as a DataLoader's, disturbs nothing."""
        lines, errors = run(2, """
            plan = comm.plan((ctypes.c_int * 1)(comm.rank))
            plan()
            child = os.fork()
            if child == 0:
                for call in (comm.barrier, plan, lambda: comm.empty(1)):
                    try:
                        call()
                    except kolo.Broken as error:
                        print(comm.rank, "child", "fork" in str(error))
                comm.close()
                os._exit(0)
            worker = os.fork()
            if worker == 0:
                sys.exit(0)
            statuses = [os.waitpid(pid, 0)[1] for pid in (child, worker)]
            print(comm.rank, statuses, list(plan()))
        """)
        self.assertEqual([line for r in "01" for line in [f"{r} [0, 0] [1]"] + [f"{r} child True"] * 3], lines, errors)


class Library(unittest.TestCase):
    def test_other_version(self):
        with tempfile.TemporaryDirectory(prefix="kolo-python-") as folder:
            package = pathlib.Path(folder) / "kolo4py"
            shutil.copytree(ROOT / "lib/bindings/python/kolo4py", package)
            source = package / "_library.py"
            text = source.read_text(encoding="utf-8")
            source.write_text(re.sub(r'^VERSION = ".*?"', 'VERSION = "9.8.7"', text, flags=re.MULTILINE), encoding="utf-8")
            printed, errors = alone("""
                import kolo4py as kolo
                try:
                    kolo.init()
                except kolo.VersionMismatch as error:
                    print(isinstance(error, ImportError), error)
            """, PYTHONPATH=folder)
        self.assertRegex(printed, r"^True the Python package kolo4py is 9\.8\.7, but the library \S+ is \d+\.\d+\.\d+: ", errors)

    def test_version_is_the_header_s(self):
        header = (ROOT / "include/kolo.h").read_text(encoding="utf-8")
        version = ".".join(re.findall(r"KOLO_VERSION_\w+ +(\d+)", header))
        self.assertEqual(f"{version}\n", alone("import kolo4py as kolo; print(kolo.__version__)")[0])

    def test_missing_library(self):
        printed, errors = alone("""
            import kolo4py as kolo
            try:
                kolo.init()
            except ImportError as error:
                print(error)
        """, KOLO_LIBRARY="/nowhere/libkolo.so")
        self.assertRegex(printed, "was not found.*/nowhere/libkolo.so.*KOLO_LIBRARY", errors)

    def test_library_of_the_prefix(self):
        """In lib, in a folder there for the machine's kind, or in lib64 as on Fedora and SUSE."""
        for place in ("lib", f"lib/{sys.implementation._multiarch}", "lib64"):
            with self.subTest(place), tempfile.TemporaryDirectory(prefix="kolo-python-") as folder:
                packages, library = pathlib.Path(folder) / "lib/python3.9/site-packages", pathlib.Path(folder) / place
                shutil.copytree(ROOT / "lib/bindings/python/kolo4py", packages / "kolo4py")
                library.mkdir(exist_ok=True)
                shutil.copy(os.environ["KOLO_LIBRARY"], library / _library.SONAME)
                printed, errors = alone("import kolo4py as kolo; kolo.init(); print(kolo._library.load()._name)",
                                        PYTHONPATH=str(packages), KOLO_LIBRARY="")
                self.assertEqual(f"{(library / _library.SONAME).resolve()}\n", printed, errors)

    def test_works_without_numpy(self):
        printed, errors = alone("""
            import sys
            sys.modules["numpy"] = sys.modules["ml_dtypes"] = None  # importing them fails
            import kolo4py as kolo
            with kolo.init() as comm:
                print(comm.all_reduce(memoryview(bytearray(8)).cast("i")).tolist())
                x = comm.empty(2, "bfloat16")
                comm.all_reduce(x, x)
                try:
                    x.numpy()
                except ImportError as error:
                    print("numpy" in str(error))
        """)
        self.assertEqual("[0, 0]\nTrue\n", printed, errors)


class Joining(unittest.TestCase):
    def test_grow(self):
        lines, errors = run(2, """
            import subprocess
            job = f"kolo-python-{os.getppid()}"
            listener = comm.listen(job)
            if comm.rank == 0:
                code = f"import kolo4py as kolo; comm = kolo.join({job!r}); print('new', comm.all_gather_object('n'))"
                other = subprocess.Popen([sys.executable, "-B", "-c", code], stdout=subprocess.PIPE, text=True)
            grown = None
            while grown is None:
                time.sleep(0.05)
                grown = comm.grow(listener)
            print(comm.rank, grown.rank, grown.size, grown.all_gather_object(comm.rank))
            kolo.unlisten(listener, "enough" if comm.rank == 0 else None)
            if comm.rank == 0:
                print(other.communicate()[0].strip())
        """)
        self.assertEqual(["0 0 3 [0, 1, 'n']", "1 1 3 [0, 1, 'n']", "new [0, 1, 'n']"], lines, errors)


if __name__ == "__main__":
    latency = {"Latency", "Interrupts"}  # how soon a call ends: with --latency these, without it all others
    wanted = [name for name, kind in list(globals().items()) if isinstance(kind, type) and issubclass(kind, unittest.TestCase)
              and (name in latency) == (sys.argv[1:] == ["--latency"])]
    unittest.main(argv=[sys.argv[0], *wanted], verbosity=2)
