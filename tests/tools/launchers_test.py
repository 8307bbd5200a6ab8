"""Other launchers start the same programs; each class is one launcher, and is skipped where that is missing."""

import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import launching
from launching import KOLO_PERF, RANK_PROBE

AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


# What launchers set for a rank, where none of them is installed: of rank, size, and a number that no other job has.
VARIABLES = {
    "torchrun": {"RANK": "{rank}", "WORLD_SIZE": "{size}", "LOCAL_RANK": "{rank}", "LOCAL_WORLD_SIZE": "{size}",
                 "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "{number}", "TORCHELASTIC_RUN_ID": "none"},
    "Open MPI": {"OMPI_COMM_WORLD_RANK": "{rank}", "OMPI_COMM_WORLD_SIZE": "{size}",
                 "OMPI_COMM_WORLD_LOCAL_RANK": "{rank}", "OMPI_COMM_WORLD_LOCAL_SIZE": "{size}",
                 "PMIX_NAMESPACE": "{number}"},
    "Slurm": {"SLURM_PROCID": "{rank}", "SLURM_NTASKS": "{size}", "SLURM_LOCALID": "{rank}", "SLURM_JOB_ID": "7",
              "SLURM_STEP_ID": "{number}", "PMI_RANK": "{rank}", "PMI_SIZE": "{size}"},
    "MPICH": {"PMI_RANK": "{rank}", "PMI_SIZE": "{size}", "MPI_LOCALRANKID": "{rank}", "MPI_LOCALNRANKS": "{size}"},
}
# The processes that start their ranks. Slurm's is no child of srun, which tells it what to set.
PROCESSES = {"torchrun": "pt_elastic", "Open MPI": "orted", "Slurm": "slurmstepd", "MPICH": "hydra_pmi_proxy"}
# Without modules such as json and subprocess, which take longer to import than Python to start.
START = """
import os, sys, _signal
size, templates, inherited, command = int(sys.argv[1]), eval(sys.argv[2]), eval(sys.argv[3]), sys.argv[4:]
os.closerange(3, 256)
ranks = []
for rank in range(size):
    variables = {name: text.format(rank=rank, size=size, number=os.getpid()) for name, text in templates.items()}
    ranks.append(os.posix_spawnp(command[0], command, {**os.environ, **inherited, **variables},
                                 setsigdef=[_signal.SIGPIPE]))  # which Python ignores, and its subprocess gives back
sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1]) for rank in ranks))
"""
SRUN = """
import os, sys
os.execve(sys.argv[1], [*sys.argv[1:8], repr(dict(os.environ)), *sys.argv[9:]], {})
"""


# The ports at which ranks of several machines meet, as comm/creation/launcher.c finds them.
def torchrun_port(master_port):
    return 10000 + (master_port + 1) % 10000


def slurm_port(job):
    return 20000 + job * 37 % 10000


def find_mpirun(flavour, version_text):
    """The mpirun of an implementation: by its own name, or as `mpirun` if that is it."""
    for name in (f"mpirun.{flavour}", "mpirun"):
        path = shutil.which(name)
        if path and version_text in subprocess.run([path, "--version"], capture_output=True, text=True, timeout=200,
                                                   env=launching.environment(**AS_ROOT), check=False).stdout:
            return path
    return None


def in_namespaces(test, *kinds):
    """The command that runs another one in namespaces of its own."""
    unshare = ["unshare", *kinds, *([] if os.geteuid() == 0 else ["--map-root-user"])]
    if not shutil.which("unshare") or subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        test.skipTest(f"there are no namespaces to be had here: {kinds}")
    return unshare


class Launcher(launching.LaunchingTest):
    def setUp(self):
        self.shm_names = launching.shm_names()
        folder = tempfile.TemporaryDirectory(prefix="kolo-launchers-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in PROCESSES.values():
            (self.folder / name).symlink_to(sys.executable)

    def as_by(self, launcher, size, *program, **variables):
        """A command that starts `size` ranks as the launcher does, which also have these variables."""
        if launcher == "kolorun":
            return [launching.KOLORUN, "-n", str(size), *program]
        process = [str(self.folder / PROCESSES[launcher]), *launching.python(START)[1:], str(size),
                   repr({**VARIABLES[launcher], **variables}), "{}", *program]
        return [*launching.python(SRUN), *process] if launcher == "Slurm" else process

    def begin(self, command, **variables):
        process = subprocess.Popen(command, env=launching.environment(**variables), stdin=subprocess.DEVNULL, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.end, process)
        return process

    def assert_ranks(self, output, size, jobs=1, note=None):
        """What the ranks of so many jobs of `size` ranks each have printed."""
        ranks = [f"rank {rank} of {size}, sum {size * (size - 1) // 2}" for rank in range(size)]
        self.assertEqual(sorted(ranks * jobs), sorted(output.splitlines()), note)

    def assert_jobs(self, jobs, size):
        """Each job is the processes of one launcher, which have been begun; together they hold `size` ranks."""
        for job in jobs:
            self.assert_ranks("".join(self.assert_ends(process, 0)[0] for process in job), size)
        self.assert_nothing_named(self.shm_names)


class Nesting(Launcher):
    """Launchers inside launchers: a rank is the one that the innermost has made it."""

    def check(self, *levels, **variables):
        """Each level is a launcher and how many ranks each of its jobs has, the outermost first."""
        command, jobs, size = [RANK_PROBE], 1, levels[-1][1]
        for launcher, ranks in reversed(levels):
            command = self.as_by(launcher, ranks, *command)
            jobs *= ranks
        output, errors = self.assert_ends(self.begin(command, **variables), 0)
        self.assert_ranks(output, size, jobs // size, (levels, errors))
        self.assert_nothing_named(self.shm_names)
        return errors

    def check_set(self, variables, *outer):
        """Two ranks get these from a process that is none of the launchers, such as a shell."""
        command = [*launching.python(START), "2", repr(variables), "{}", RANK_PROBE]
        output, errors = self.assert_ends(self.begin(self.as_by(*outer, *command) if outer else command), 0)
        self.assert_ranks(output, 2, 1, (variables, errors))

    def test_two(self):
        for outer, inner in itertools.product(("kolorun", *PROCESSES), repeat=2):
            for sizes in ((1, 2), (2, 1), (2, 2)):
                self.check((outer, sizes[0]), (inner, sizes[1]))

    def test_three(self):
        for outer, inner in itertools.permutations(("kolorun", *PROCESSES), 2):
            self.check((outer, 2), (inner, 1), (outer, 2))

    def test_shell(self):
        # Of variables that a shell sets at once, torchrun's hold: they are those that scripts set.
        for launcher in ("Open MPI", "Slurm", "MPICH"):
            single = {name: text.format(rank=0, size=1, number=7) for name, text in VARIABLES[launcher].items()}
            self.check_set({**single, **VARIABLES["torchrun"]})

    def test_by_hand(self):
        by_hand = {"KOLO_RANK": "{rank}", "KOLO_SIZE": "{size}", "KOLO_JOB": "test-{number}"}
        for launcher in PROCESSES:
            self.check_set(by_hand, launcher, 1)
        # Inside a kolorun they hold once the variables that tools/README.md names are unset.
        guide = (pathlib.Path(__file__).parents[2] / "tools/README.md").read_text(encoding="utf-8")
        named = re.search(r"Inside a\s+kolorun unset (.*?) first", guide, re.DOTALL).group(1)
        unset = [word for name in re.findall(r"KOLO_\w+", named) for word in ("-u", name)]
        ranks = self.as_by("kolorun", 1, "env", *unset, *launching.python(START), "2", repr(by_hand), "{}", RANK_PROBE)
        self.assert_ranks(self.assert_ends(self.begin(ranks), 0)[0], 2)

    def test_spawned(self):
        # MPICH starts several jobs from one process, which a program has spawned. What mpiexec has, all of them have.
        def begin(outer, *program, **variables):
            return self.begin(self.as_by("MPICH", 2, *program, PMI_SPAWNED="1", **variables), **outer)
        job = {"KOLO_JOB": f"test-{os.getpid()}"}
        for process in (begin({}, RANK_PROBE), begin(job, RANK_PROBE), begin({}, RANK_PROBE, **job),
                        begin({"KOLO_RENDEZVOUS": f"127.0.0.1:{launching.free_port()}", **launching.SECRET}, RANK_PROBE)):
            _, errors = self.assert_ends(process, 1)
            self.assertIn("2 ranks that MPI_Comm_spawn has started, but no name", errors)
        output, _ = self.assert_ends(begin(job, "sh", "-c", 'KOLO_JOB=test-$PPID "$0"; exit $?', RANK_PROBE), 0)
        self.assert_ranks(output, 2)

    def test_unclear(self):
        # Slurm starts the ranks, in whose variables a script's may have been before, or be set since.
        by_script = {"RANK": "{rank}", "WORLD_SIZE": "4", "MASTER_PORT": "{number}"}
        process = self.begin(self.as_by("Slurm", 1, RANK_PROBE, **by_script))
        _, errors = self.assert_ends(process, 1)
        for words in ("rank 0 of 4 (RANK, WORLD_SIZE)", "rank 0 of 1 (SLURM_PROCID, SLURM_NTASKS)", "set KOLO_RANK"):
            self.assertIn(words, errors)
        process = self.begin(self.as_by("Slurm", 1, RANK_PROBE, **by_script, KOLO_RANK="0", KOLO_SIZE="1"))
        self.assertEqual("rank 0 of 1, sum 0\n", self.assert_ends(process, 0)[0])

    def test_warning(self):
        words = "says rank 0 of 2 (RANK, WORLD_SIZE), Open MPI rank 0 of 1 (OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE)"
        for level, count in (("warn", 1), ("error", 0)):
            errors = self.check(("Open MPI", 1), ("torchrun", 2), KOLO_LOG=level)
            self.assertEqual(count, errors.count(words), errors)

    def test_kolorun_unsets_torchrun(self):
        names = [name for name in VARIABLES["torchrun"]]
        show = launching.python(f"import os; print([name for name in {names} if name in os.environ])")
        output, _ = self.assert_ends(self.begin(self.as_by("torchrun", 1, launching.KOLORUN, "-n", "1", *show)), 0)
        self.assertEqual("[]\n", output)


class Mpi:
    """What holds for both implementations of MPI."""

    options = ()

    def setUp(self):
        super().setUp()
        self.mpirun = find_mpirun(self.flavour, self.version_text)
        if self.mpirun is None:
            self.skipTest(f"mpirun of {self.flavour} is not installed")

    def command(self, size, *program):
        return [self.mpirun, *self.options, "-n", str(size), *program]

    def test_sums(self):
        for size in (1, 2, 5):
            self.assert_jobs([[self.begin(self.command(size, RANK_PROBE), **AS_ROOT)]], size)

    def test_side_by_side(self):
        jobs = [[self.begin(self.command(3, RANK_PROBE, "1"), **AS_ROOT)] for _ in range(2)]
        self.assert_jobs(jobs, 3)

    def test_pid_namespaces(self):
        # As in containers that have the host's name, its network and /dev/shm: launchers have the same pid.
        apart = [*in_namespaces(self, "--pid", "--fork", "--kill-child", "--mount-proc"), "sh", "-c", '"$@"; exit $?', "sh"]
        for _ in range(3):
            self.assert_jobs([[self.begin([*apart, *self.command(2, RANK_PROBE, "1")], **AS_ROOT)] for _ in range(2)], 2)

    def test_rendezvous(self):
        # What mpirun says of the job need not be the same on all machines; nor does it have to, then.
        variables = {"KOLO_RENDEZVOUS": f"127.0.0.1:{launching.free_port()}", **launching.SECRET, **AS_ROOT}
        self.assert_jobs([[self.begin(self.command(3, RANK_PROBE), **variables)]], 3)

    def test_nesting(self):
        for launcher in ("kolorun", *(name for name in PROCESSES if name not in (self.name, "Slurm"))):
            for outer, inner in ((1, 2), (2, 1)):
                for command in (self.command(outer, *self.as_by(launcher, inner, RANK_PROBE)),
                                self.as_by(launcher, outer, *self.command(inner, RANK_PROBE))):
                    output, errors = self.assert_ends(self.begin(command, **AS_ROOT), 0)
                    self.assert_ranks(output, inner, outer, (command, errors))
        self.assert_nothing_named(self.shm_names)

    @unittest.skipUnless(KOLO_PERF, "kolo-perf is not built")
    def test_perf(self):
        process = self.begin(self.command(2, KOLO_PERF, "allreduce", "--max", "4K", "--iters", "5", "--no-limits",
                                          "--check"), **AS_ROOT)
        output, _ = self.assert_ends(process, 0)
        rows = [line.split() for line in output.splitlines() if re.match(r"\s*\d+\s", line)]
        self.assertTrue(rows, output)
        self.assertEqual({"0"}, {row[-1] for row in rows}, output)
        self.assert_nothing_named(self.shm_names)


class OpenMpi(Mpi, Launcher):
    """Each mpirun has a folder of its own for what it puts there of its jobs: two that begin at once may both want to
    make it."""

    name, flavour, version_text = "Open MPI", "openmpi", "(Open"
    options = ("--oversubscribe",)

    def command(self, size, *program):
        apart = 'TMPDIR=$(mktemp -d) exec "$0" "$@"'
        return ["sh", "-c", apart, *super().command(size, *program)]

    def begin(self, command, **variables):
        folder = tempfile.TemporaryDirectory(prefix="kolo-mpi-")  # with a short name, for there are sockets in it
        self.addCleanup(folder.cleanup)
        return super().begin(command, **{"TMPDIR": folder.name, **variables})


class Mpich(Mpi, Launcher):
    """On a busy machine Hydra, also where nothing of kolo runs, may be ended by SIGPIPE: it answers one of its own
    processes that has ended meanwhile. What it then has printed is not of interest: it is run again."""

    name, flavour, version_text = "MPICH", "mpich", "HYDRA"

    def command(self, size, *program):
        again = ('for i in 1 2 3 4 5; do out=$("$@"); code=$?; [ $code = 141 ] || break; done; '
                 'printf "%s\\n" "$out"; exit $code')
        return ["sh", "-c", again, "mpirun", *super().command(size, *program)]


class ByVariables(Launcher):
    """Launchers that only set variables, set here by hand."""

    def begin_ranks(self, size, variables, *arguments):
        return [self.begin([RANK_PROBE, *arguments], **variables(rank, size)) for rank in range(size)]

    def check(self, variables):
        """variables(job, rank, size) is the environment of a rank."""
        for size in (1, 2, 4):
            self.assert_jobs([self.begin_ranks(size, lambda rank, size: variables(0, rank, size))], size)
        jobs = [self.begin_ranks(3, lambda rank, size, job=job: variables(job, rank, size), "1") for job in (1, 2)]
        self.assert_jobs(jobs, 3)

    def test_torchrun(self):
        ports = [launching.free_port() for _ in range(3)]
        self.check(lambda job, rank, size: {
            "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(size),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(ports[job])})

    def test_torchrun_in_network_namespaces(self):
        # Two jobs that have the same of everything, as in containers that have /dev/shm in common.
        variables = {**VARIABLES["torchrun"], "MASTER_PORT": str(launching.free_port())}
        command = [*in_namespaces(self, "--net"), *launching.python(START), "3", repr(variables), "{}", RANK_PROBE, "1"]
        for _ in range(3):
            self.assert_jobs([[self.begin(command)] for _ in range(2)], 3)

    def test_srun(self):
        self.check(lambda job, rank, size: {
            "SLURM_PROCID": str(rank), "SLURM_NTASKS": str(size), "SLURM_LOCALID": str(rank),
            "SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": str(job)})

    # Launchers that tell of several machines: the ranks find out for themselves that they are all on one.

    def check_machines(self, variables, port_of=lambda number: number):
        number = launching.free_port(port_of)
        self.assert_jobs([self.begin_ranks(4, lambda rank, size: {**launching.SECRET, **variables(rank, size, number)})], 4)

    def test_torchrun_machines(self):
        self.check_machines(lambda rank, size, port: {
            "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank % 2), "LOCAL_WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}, torchrun_port)

    def test_srun_machines(self):
        self.check_machines(lambda rank, size, job: {
            "SLURM_PROCID": str(rank), "SLURM_NTASKS": str(size), "SLURM_LOCALID": str(rank % 2), "SLURM_NNODES": "2",
            "SLURM_JOB_NODELIST": "localhost,elsewhere", "SLURM_JOB_ID": str(job), "SLURM_STEP_ID": "0"}, slurm_port)

    def test_kolo_rendezvous(self):
        self.check_machines(lambda rank, size, port: {
            "KOLO_RANK": str(rank), "KOLO_SIZE": str(size), "KOLO_RENDEZVOUS": f"127.0.0.1:{port}"})

    def test_kolo_variables(self):
        self.check(lambda job, rank, size: {
            "KOLO_RANK": str(rank), "KOLO_SIZE": str(size), "KOLO_JOB": f"test-{os.getpid()}-{job}"})


if __name__ == "__main__":
    launching.main()
