"""Other launchers start the same programs; each class is one launcher, and is skipped where that is missing."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

import launching
from launching import KOLO_PERF, RANK_PROBE

AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


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


class Launcher(launching.LaunchingTest):
    def setUp(self):
        self.shm_names = launching.shm_names()

    def begin(self, command, **variables):
        process = subprocess.Popen(command, env=launching.environment(**variables), stdin=subprocess.DEVNULL, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.end, process)
        return process

    def assert_jobs(self, jobs, size):
        """Each job is the processes of one launcher, which have been begun; together they hold `size` ranks."""
        expected = sorted(f"rank {rank} of {size}, sum {size * (size - 1) // 2}" for rank in range(size))
        for job in jobs:
            output = "".join(self.assert_ends(process, 0)[0] for process in job)
            self.assertEqual(expected, sorted(output.splitlines()))
        self.assert_nothing_named(self.shm_names)


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

    def test_rendezvous(self):
        # What mpirun says of the job need not be the same on all machines; nor does it have to, then.
        variables = {"KOLO_RENDEZVOUS": f"127.0.0.1:{launching.free_port()}", **launching.SECRET, **AS_ROOT}
        self.assert_jobs([[self.begin(self.command(3, RANK_PROBE), **variables)]], 3)

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
    """With a folder of its own for what it puts there of its jobs: two that begin at once may both want to make it."""

    flavour, version_text = "openmpi", "(Open"
    options = ("--oversubscribe",)

    def begin(self, command, **variables):
        folder = tempfile.TemporaryDirectory(prefix="kolo-mpi-")  # with a short name, for there are sockets in it
        self.addCleanup(folder.cleanup)
        return super().begin(command, **{"TMPDIR": folder.name, **variables})


class Mpich(Mpi, Launcher):
    flavour, version_text = "mpich", "HYDRA"


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
