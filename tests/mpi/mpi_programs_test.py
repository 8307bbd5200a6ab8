"""MPI programs under each MPI that is installed, without kolo and with libkolo-mpi.so preloaded; a class is an MPI."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import launching  # pylint: disable=wrong-import-position

LIBRARY = os.environ["KOLO_MPI_LIBRARY"]
KOLO_MPI = str(pathlib.Path(LIBRARY).parents[1] / "bin/kolo-mpi")
KOLO_TOP = os.environ["KOLO_TOP"]
WITHOUT_PROGRESS = os.environ["WITHOUT_PROGRESS"]
PROGRAMS = pathlib.Path(os.environ["MPI_PROGRAMS"])
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
LIMIT_S = 150
HANGS_S = 4  # what needs no longer than 0.1 s has not ended after that
KILLED_S = 3  # 1 s on a machine that does nothing else
LARGE_GIB = 7  # for what needs 6
BLOCKING = 16  # functions that kolo makes
TABLE_ROW = re.compile(r"^kolo: (MPI_\w+) +(\d+) +[\d.]+ +(\d+) +[\d.]+$", re.MULTILINE)


class Mpi:
    """What holds for all MPIs."""

    def setUp(self):
        self.mpirun = shutil.which(f"mpirun.{self.flavour}")
        if not self.mpirun or not self.program("mpi_constants_test").exists():
            self.skipTest(f"{self.flavour} is not installed, or not its compiler")
        folder = tempfile.TemporaryDirectory(prefix="kolo-mpi-")  # with a short name, for there are sockets in it
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.killed_at = None

    def program(self, name):
        return PROGRAMS / f"{name}.{self.flavour}"

    def begin(self, ranks, name, *arguments, preload=LIBRARY, options=(), **variables):
        """Only the ranks have the library preloaded. Where `ranks` is a list, it has the variables of each, with that."""
        environment = launching.environment(TMPDIR=self.folder, **AS_ROOT, **variables)
        command = [self.mpirun, *self.options, *options]
        program = [str(self.program(name)), *arguments]
        if isinstance(ranks, list):
            for rank, own in enumerate(ranks):
                command += [":"] * (rank > 0) + ["-n", "1", "env", *own, *program]
        else:
            command += ["-n", str(ranks), *(self.preload(preload) if preload else ()), *program]
        return self.start(command, environment)

    def start(self, command, environment):
        process = subprocess.Popen(command, env=environment, text=True, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(launching.LaunchingTest.end, process)
        return process

    def finish(self, *arguments, **options):
        """A job that may fail: its process, output and errors."""
        return launching.run_launcher(lambda: self.begin(*arguments, **options), LIMIT_S)

    def run_job(self, ranks, name, *arguments, **options):
        process, output, errors = self.finish(ranks, name, *arguments, **options)
        self.assertEqual(0, process.returncode, f"{' '.join(process.args)}\n{output[-3000:]}{errors[-6000:]}")
        self.assertNotRegex(errors, r"kolo: rank (\d+)\b.*\brank \1:")  # it is named once
        return output, errors

    def test_launcher(self):
        """It is started once more where it is itself ended by SIGPIPE, not where it fails or a program is ended so."""
        starts, fake, mpirun = pathlib.Path(self.folder, "starts"), pathlib.Path(self.folder, "mpirun"), self.mpirun
        self.mpirun = str(fake)
        for ends, is_well_again, code, count in (
                ("kill -PIPE $$", True, 0, 2), ("kill -PIPE $$", False, -signal.SIGPIPE, 2),
                ("exit 141", True, 141, 1), ("kill -TERM $$", True, -signal.SIGTERM, 1)):
            with self.subTest(ends, is_well_again=is_well_again):
                again = f'[ $(wc -l <{starts}) = 1 ] || exec {mpirun} "$@"' if is_well_again else ""
                fake.write_text(f"#!/bin/sh\necho >>{starts}\n{again}\n{ends}\n", encoding="ascii")
                fake.chmod(0o755)
                starts.write_text("", encoding="ascii")
                self.assertEqual(code, self.finish(2, "mpi_odd_rank", "sums")[0].returncode)
                self.assertEqual(count, len(starts.read_text(encoding="ascii")))

    def assert_nothing_left(self, before):
        deadline = time.monotonic() + 5
        while (left := launching.shm_names() - before) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertFalse(left)

    def test_constants(self):
        ended = subprocess.run([self.program("mpi_constants_test")], capture_output=True, text=True, timeout=LIMIT_S,
                               check=False)
        self.assertEqual(0, ended.returncode, ended.stdout + ended.stderr)

    def test_collectives(self):
        """Those of two ranks in kolo are in test_report."""
        before = launching.shm_names()
        self.run_job(2, "mpi_collectives_test", "--quick", preload=None)
        self.run_job(3, "mpi_collectives_test", "--quick", "--strict")
        self.assert_nothing_left(before)

    def test_random(self):
        before = launching.shm_names()
        self.run_job(2, "mpi_random_programs", "--quick", "--programs", "20", preload=None)
        self.run_job(2, "mpi_random_programs", "--quick", "--programs", "100", "--seed", "100")
        self.run_job(3, "mpi_random_programs", "--quick", "--programs", self.programs_of_three, "--seed", "300",
                     "--strict", KOLO_MPI="after:0")
        self.assert_nothing_left(before)

    def test_fortran(self):
        if not self.program("mpi_sums_F08").exists():
            self.skipTest("no Fortran compiler")
        for interface in ("HEADER", "MODULE", "F08"):
            for preload in (None, LIBRARY):
                with self.subTest(interface, preload=preload):
                    output, errors = self.run_job(2, f"mpi_sums_{interface}", preload=preload,
                                                  KOLO_MPI="after:0,verbose")
                    self.assertEqual("right", output.strip())
                    in_kolo = {name: int(count) for name, count, _ in TABLE_ROW.findall(errors)}
                    if preload:
                        self.assertEqual(25, in_kolo["MPI_Allreduce"], errors)
                        self.assertEqual(5, in_kolo["MPI_Reduce"], errors)

    def tool_counts(self, name, *arguments, preload):
        """What a tool has counted, a line for each rank, and how many all-reduces kolo has made."""
        _, errors = self.run_job(2, name, *arguments, preload=":".join(map(str, preload)) or None,
                                 KOLO_MPI="after:0,verbose")
        return (sorted(re.findall("^tool: .*$", errors, re.MULTILINE)),
                {row: int(count) for row, count, _ in TABLE_ROW.findall(errors)}.get("MPI_Allreduce"))

    def test_tools(self):
        """A profiler counts the same with kolo as without, wherever it stands, and the collectives are kolo's."""
        tool = self.program("libmpi_tool")
        for name, sums in (("mpi_odd_rank", 21), *((f"mpi_sums_{of}", 25) for of in ("HEADER", "MODULE", "F08"))):
            if not self.program(name).exists():
                continue
            for place, plain, preloads in (("", [tool], ([tool, LIBRARY], [LIBRARY, tool])),
                                           ("_within", [], ([LIBRARY],)), ("_linked", [], ([LIBRARY],))):
                counts, none = self.tool_counts(name + place, "sums", preload=plain)
                self.assertEqual((2, None), (len(counts), none))
                for preload in preloads:
                    with self.subTest(name, place=place, preload=preload):
                        self.assertEqual((counts, sums), self.tool_counts(name + place, "sums", preload=preload))

    def test_libraries(self):
        """What is built on MPI finds the same with kolo as without; in kolo is what its source says."""
        found = {name: calls for name, calls in (("FFTW", ["Allreduce"]), ("SCALAPACK", ["Bcast", "Reduce"]),
                                                 ("HDF5", ["Allreduce", "Barrier", "Bcast"]))
                 if self.program(f"mpi_libraries_{name}").exists()}
        for name, calls in found.items():
            with self.subTest(name):
                job = (2, f"mpi_libraries_{name}", "128", "5", f"{self.folder}/file.h5")
                alone, together = (self.run_job(*job, preload=preload, KOLO_MPI="after:0,verbose",
                                                OPENBLAS_NUM_THREADS="1") for preload in (None, LIBRARY))
                sums = [sorted(re.findall("^rank .*", output, re.MULTILINE)) for output, _ in (alone, together)]
                self.assertEqual(2, len(sums[0]), alone)
                self.assertEqual(*sums)
                in_kolo = {row: int(count) for row, count, _ in TABLE_ROW.findall(together[1])}
                self.assertLessEqual({f"MPI_{call}" for call in calls}, {row for row, count in in_kolo.items() if count})
        if not found:
            self.skipTest(f"neither FFTW, ScaLAPACK nor HDF5 is installed for {self.flavour}")

    def test_threads(self):
        self.run_job(2, "mpi_threads_test", "--quick")

    def test_finalize(self):
        self.run_job(2, "mpi_finalize_test", preload=None)
        self.run_job(3, "mpi_finalize_test", KOLO_MPI="after:0")

    def test_progress(self):
        """With the negative control: it is the library's progress that keeps these programs from hanging."""
        self.run_job(2, "mpi_progress_test", preload=None)
        self.run_job(2, "mpi_progress_test", KOLO_MPI="after:0")
        for case in ("synchronous-send", "large-send"):
            process = self.begin(2, "mpi_progress_test", case, preload=WITHOUT_PROGRESS, KOLO_MPI="after:0")
            with self.assertRaises(subprocess.TimeoutExpired, msg=case):
                process.wait(timeout=HANGS_S)
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=LIMIT_S)

    def test_single(self):
        """A test after a barrier says yes at once."""
        self.run_job(2, "mpi_single_tests", "30", KOLO_MPI="after:0")
        self.run_job(3, "mpi_single_tests", "3", KOLO_MPI="after:0")
        process, _, errors = self.finish(2, "mpi_single_tests", "30", KOLO_MPI="off")
        self.assertIn(process.returncode, (0, 1), errors)  # the MPI alone may say no

    def test_wrong(self):
        """One rank's argument is wrong: the MPI there says so, and nobody waits for longer than without kolo."""
        for preload in (None, LIBRARY):
            process, _, errors = self.finish(2, "mpi_odd_rank", "fatal", preload=preload, KOLO_MPI="after:0")
            self.assertNotEqual(0, process.returncode)
            self.assertRegex(errors, self.wrong_count)
        if not self.checks_arguments:
            return
        self.run_job(2, "mpi_odd_rank", "again", preload=None)
        for ranks, after in ((2, "0"), (3, "2"), (2, "4")):
            self.run_job(ranks, "mpi_odd_rank", "again", KOLO_MPI=f"after:{after}")
        _, errors = self.run_job(3, "mpi_odd_rank", "barrier", KOLO_MPI="after:0")
        self.assertIn("rank 2 calls MPI_Barrier", errors)

    def test_words(self):
        """Errors are told in the MPI's words."""
        _, errors = self.run_job(2, "mpi_odd_rank", "block", KOLO_MPI="after:0")
        for rank, own in enumerate(("64 bytes (8 MPI_DOUBLE)", "72 bytes (9 MPI_DOUBLE)")):
            self.assertRegex(errors, rf"kolo: rank {rank} of 2: .*rank {rank} calls MPI_Allgather of {re.escape(own)}")
        for name, sent, due in (("Gather", 16, 32), ("Gatherv", 16, 32), ("Scatter", 16, 32), ("Alltoallv", 16, 32)):
            _, errors = self.run_job(3, "mpi_odd_rank", "own", name, KOLO_MPI="after:0")
            self.assertIn(f"rank 2 of 3: MPI_{name}: this rank sends itself {sent} bytes and expects {due}", errors)
        _, _, errors = self.finish(2, "mpi_odd_rank", "exit", KOLO_MPI="after:0")
        self.assertNotIn("kolo_", errors)  # nothing else is sure: the launcher may be the first to say so

    def expect_sums(self, ranks, *case, kolo, says=""):
        """The job ends well; so many of its 20 all-reduces were made in kolo, and rank 0 says the words."""
        _, errors = self.run_job(ranks, "mpi_odd_rank", *case, KOLO_MPI="verbose")
        rows = {name: int(count) for name, count, _ in TABLE_ROW.findall(errors)}
        self.assertEqual(kolo, rows.get("MPI_Allreduce", 0), errors)
        self.assertIn(says, errors)

    def test_odd(self):
        """One rank has other variables, no descriptors, not the library, or a session, behind which MPI_Init waits for
        nobody: all ranks go on alike, and at once."""
        library = f"LD_PRELOAD={LIBRARY}"
        self.expect_sums([[library]] * 2, "sums", kolo=16)
        for at in (0, 1):
            def of_two(*variables):
                return [[library, *variables] if rank == at else [library] for rank in range(2)]
            self.expect_sums(of_two("KOLO_MPI=verbose,after:7"), "sums", kolo=13, says="KOLO_MPI is after:7")
            self.expect_sums(of_two("KOLO_MPI=verbose,comms:0"), "sums", kolo=0, says="allows are in use")
            self.expect_sums(of_two("KOLO_MPI=verbose,0"), "sums", kolo=0, says=f"rank {at} has KOLO_MPI=off")
            for wrong in ("KOLO_MPI=maybe", "KOLO_MPI=on,loud", "KOLO_WAIT=long", "KOLO_RANK=x"):
                self.expect_sums(of_two(wrong), "sums", kolo=0,
                                 says=f"rank {at}: all is left to the MPI, on all ranks: {wrong}")
            for has in ([], ["KOLO_RANK=0", "KOLO_SIZE=2"], ["KOLO_RANK=x"]):
                self.expect_sums([[library, *has] if rank == at else ["KOLO=0"] for rank in range(2)], "sums", kolo=0,
                                 says=f"rank {at}: all is left to the MPI: not all ranks have libkolo-mpi.so")
            _, errors = self.run_job(2, "mpi_odd_rank", "memory", str(at))
            self.assertIn("kolo: no memory for a communicator", errors)
            for left in range(4):
                self.expect_sums(2, "descriptors", str(at), str(left), kolo=16 if left == 3 else 0,
                                 says="" if left == 3 else "left (ulimit -n)" if left == 0 else "raise it (ulimit -n)")
        if self.has_sessions:
            for at in (0, 1):
                self.expect_sums(2, "session", str(at), kolo=0, says="or one had a session before MPI_Init")
        if self.spawns:
            # As srun tells: not how many ranks a machine has, but on how many machines they are.
            slurm = [["-u", "OMPI_COMM_WORLD_RANK", "SLURM_JOB_ID=1", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_NODES=1",
                      "SLURM_NTASKS=2", f"SLURM_PROCID={rank}", f"SLURM_LOCALID={rank}"] for rank in range(2)]
            self.expect_sums([[*variables, library] for variables in slurm], "sums", kolo=16)
            self.expect_sums([[*slurm[0], library], slurm[1]], "sums", kolo=0,
                             says="not all ranks have libkolo-mpi.so")
            mpich = [["-u", "OMPI_COMM_WORLD_RANK", "PMI_SPAWNED=1", "PMI_SIZE=2", f"PMI_RANK={rank}", "MPI_LOCALNRANKS=2",
                      f"MPI_LOCALRANKID={rank}", library] for rank in range(2)]
            self.expect_sums(mpich, "sums", kolo=0, says="MPI_Comm_spawn has started the ranks")
            self.expect_sums([[library]] * 2, "spawn", kolo=0, says="processes of another MPI_COMM_WORLD")

    def test_large(self):
        """An element of a derived datatype whose bytes no int counts."""
        memory = dict(re.findall(r"^(\w+): +(\d+) kB$", pathlib.Path("/proc/meminfo").read_text("ascii"), re.MULTILINE))
        if int(memory["MemAvailable"]) < LARGE_GIB << 20:
            self.skipTest(f"less than {LARGE_GIB} GiB of memory are available")
        _, errors = self.run_job(2, "mpi_large_test", KOLO_MPI="after:0,verbose")
        self.assertIn(("MPI_Bcast", "1", "0"), TABLE_ROW.findall(errors), errors)

    def begin_endless(self, ranks, is_last=False):
        """The job, and its ranks' pids by rank."""
        process = self.begin(ranks, "mpi_endless_probe", KOLO_MPI="after:0")
        lines = "".join(process.stdout.readline() for _ in range(ranks))
        pids = {int(rank): int(pid) for rank, pid in re.findall(r"^rank (\d) has pid (\d+)$", lines, re.MULTILINE)}
        if len(pids) < ranks and not is_last and process.wait(LIMIT_S) == -signal.SIGPIPE:  # see run_launcher
            return self.begin_endless(ranks, is_last=True)
        self.assertEqual(ranks, len(pids), lines)
        return process, pids

    def test_top(self):
        """kolo-top sees the job, by a rank's process and by the launcher's."""
        process, pids = self.begin_endless(2)
        for target in (pids[1], process.pid):
            done = subprocess.run([KOLO_TOP, "--once", "--json", str(target)], capture_output=True, text=True,
                                  timeout=LIMIT_S, check=False)
            self.assertEqual((0, ""), (done.returncode, done.stderr))
            comm, = json.loads(done.stdout)["communicators"]
            self.assertEqual("running", comm["state"])
            self.assertEqual(pids, {rank["rank"]: rank["pid"] for rank in comm["ranks"]})
            self.assertLessEqual({rank["call"]["collective"] for rank in comm["ranks"]}, {"allreduce", "barrier"})
            self.assertTrue(all(rank["calls"] > 20 for rank in comm["ranks"]), done.stdout)

    def kill_one(self, victim, pids):
        """Begins a job and kills a rank of it; `pids` gets its ranks'."""
        process, found = self.begin_endless(3)
        pids.update(found)
        time.sleep(0.2)
        os.kill(pids[victim], signal.SIGKILL)
        self.killed_at = time.monotonic()
        return process

    def test_kill(self):
        """The others say who died, unless their launcher ends them before they can."""
        for victim in (0, 2):
            with self.subTest(victim=victim):
                before, pids = launching.shm_names(), {}
                process, output, errors = launching.run_launcher(lambda at=victim, of=pids: self.kill_one(at, of), LIMIT_S)
                took = time.monotonic() - self.killed_at
                self.assertNotEqual(0, process.returncode)
                self.assertLess(took, KILLED_S, errors)
                self.assertRegex(output + errors, self.killed.format(victim))
                self.assertFalse([pid for pid in pids.values() if launching.is_running(pid)])
                self.assert_nothing_left(before)

    def test_report(self):
        before = launching.shm_names()
        _, errors = self.run_job(2, "mpi_collectives_test", "--quick", "--strict", KOLO_MPI="after:0,verbose")
        self.assert_nothing_left(before)
        counts = {name: (int(kolo), int(passed)) for name, kolo, passed in TABLE_ROW.findall(errors)}
        self.assertEqual(BLOCKING, len(counts), errors)
        for name, (kolo, _) in counts.items():
            self.assertGreater(kolo, 10, f"{name} in kolo\n{errors}")
        for reason in ("MPI_Reduce with an operation of the program's own", *self.reasons):
            self.assertRegex(errors, rf"kolo: passed on \d+ times: {reason}\n")
        _, _, errors = launching.run_launcher(lambda: self.start([KOLO_MPI, "--verbose", self.mpirun, "-n", "1", "true"],
                                                                 launching.environment(**AS_ROOT)), LIMIT_S)
        self.assertRegex(errors, rf"\nkolo-mpi: mpirun\.{self.flavour} is .{{0,40}}\d+\.\d+.{{0,10}}\n$")
        _, errors = self.run_job(2, "mpi_progress_test", KOLO_MPI="verbose,off")
        self.assertFalse([row for row in TABLE_ROW.findall(errors) if row[1] != "0"], errors)

    def test_place(self):
        """LD_PRELOAD takes a space or a colon for the end of a path: kolo-mpi says so."""
        for name in ("a b", "a:b"):
            copy = pathlib.Path(self.folder, name, "bin", "kolo-mpi")
            copy.parent.mkdir(parents=True)
            shutil.copy(KOLO_MPI, copy)
            library = copy.parents[1] / "lib" / "libkolo-mpi.so"
            library.parent.mkdir()
            library.touch()
            ended = subprocess.run([copy, "true"], capture_output=True, text=True, timeout=LIMIT_S, check=False)
            self.assertEqual((127, f"kolo-mpi: LD_PRELOAD cannot hold a space or a colon, as in {library}: move kolo\n"),
                             (ended.returncode, ended.stderr))

    def test_arguments(self):
        """Each program of a job is told of the variables, where the launcher needs it; else no argument is changed."""
        fake = pathlib.Path(self.folder, "mpirun")
        fake.write_text(f'#!/bin/sh\n[ "$1" != --version ] || exec {self.mpirun} --version\nprintf "%s\\0" "$@"\n',
                        encoding="ascii")
        fake.chmod(0o755)
        variables = {"PATH": os.environ["PATH"], "KOLO_MPI": "on", **AS_ROOT}
        one, other = ["-n", "1", "a  b", "", "'\"\n$(false) *\\"], ["-n", "2", "-x"]
        for programs in ([one], [one, other], [one, other, []], [one, [], other]):  # mpirun skips an empty one
            given, due = [], []
            for program in programs:
                given += [":"] * (program is not programs[0]) + program
                due += [":"] * (program is not programs[0]) + self.passing * bool(program) + program
            ended = subprocess.run([KOLO_MPI, fake, *given], env=variables, capture_output=True, text=True,
                                   timeout=LIMIT_S, check=False)
            self.assertEqual((due, ""), (ended.stdout.split("\0")[:-1], ended.stderr))

    def test_silence(self):
        """Nothing is said where nothing is asked for, and by programs that are not MPI's."""
        output, errors = self.run_job(2, "mpi_progress_test")
        self.assertEqual(("", ""), (output, errors))
        environment = launching.environment(LD_PRELOAD=LIBRARY)
        for command in (["bash", "-c", "echo right"], [sys.executable, "-c", "print('right')"]):
            ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
            self.assertEqual((0, "right\n", ""), (ended.returncode, ended.stdout, ended.stderr))


class OpenMpi(Mpi, unittest.TestCase):
    flavour, options = "openmpi", ("--oversubscribe",)
    programs_of_three = "60"
    passing = ["-x", "LD_PRELOAD", "-x", "KOLO_MPI"]
    killed = r"kolo: .*rank {}\b"
    reasons = ("MPI_Allreduce of MPI_DOUBLE with MPI_BAND, which kolo does not have",
               "MPI_Bcast with arguments that the MPI is to refuse")
    checks_arguments = spawns = True
    has_sessions = False  # Debian's is older
    wrong_count = r"MPI_ERR_COUNT|show_help\.c"  # 4.1.4 sometimes fails to print its message, without kolo as well

    @staticmethod
    def preload(library):
        return ["-x", f"LD_PRELOAD={library}"]


class Mpich(Mpi, unittest.TestCase):
    """Spins where ranks outnumber processors. As Debian builds MPICH 4.0, it checks no arguments."""

    flavour, options = "mpich", ()
    programs_of_three = "3"
    passing = []
    killed = r"kolo: .*rank {}\b|EXIT CODE: 9"
    reasons = ()
    checks_arguments = spawns = False  # Debian's cannot spawn
    has_sessions = True
    wrong_count = r"len_=-4\b"

    @staticmethod
    def preload(library):
        return ["-env", "LD_PRELOAD", library]


if __name__ == "__main__":
    launching.main()
