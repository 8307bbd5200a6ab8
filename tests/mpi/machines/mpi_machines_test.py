"""libkolo-mpi.so with ranks on several machines: results, and what is left when a rank is killed or a cable is cut."""

import os
import pathlib
import re
import signal
import sys
import time
import unittest

import mpi_machines
from mpi_machines import lab
import launching  # noqa: E402 (mpi_machines sets the path)

SKIPPED = 77
PATIENCE_S = 60
END_S = 20  # for all to end; the launchers take up to 5
PROGRAMS = pathlib.Path(os.environ.get("MPI_PROGRAMS", "."))
COMMON_PROGRAMS = pathlib.Path(os.environ.get("COMMON_MPI_PROGRAMS", "."))  # of tests/mpi


class MachinesTest:
    """What both MPIs pass."""

    family = None

    def setUp(self):
        self.assertIsNotNone(mpi_machines.LIBRARY)
        if not mpi_machines.is_installed(self.family) or not self.program("machines_calls").exists():
            self.skipTest(f"{self.family.mpirun} or its compiler is not installed")

    def program(self, name, folder=PROGRAMS):
        return folder / f"{name}.{self.family.name}"

    def lab(self, count):
        try:
            machines = lab.Lab(count)
            machines.__enter__()
        except lab.Missing as error:
            self.skipTest(str(error))
        self.addCleanup(machines.close)
        return machines

    def check(self, ranks, command, start=mpi_machines.start, **options):
        """A job that must go well, of so many ranks on each machine: what it says."""
        machines = self.lab(len(ranks))

        def run():
            job = start(machines, self.family, ranks, command, KOLO_MPI="verbose", **options)
            done = job.wait(PATIENCE_S)
            return done.code, done
        done = launching.run_again(run)
        self.assertEqual(0, done.code, f"{ranks}: {done.out[-1000:]}\n{done.err[-4000:]}")
        self.assertEqual([[]] * len(ranks), [node.shm_names() for node in machines.nodes])
        return done

    def check_calls(self, ranks, **options):
        done = self.check(ranks, [self.program("machines_calls"), "--quick"], **options)
        self.assertEqual(sum(ranks), len(re.findall(r"^rank \d+: \d+ values$", done.out, re.MULTILINE)), done.out)
        return {name: int(calls) for name, calls in re.findall(r"kolo: (MPI_\w+) +(\d+) ", done.err)}

    def test_two_machines(self):
        counts = self.check_calls([2, 2])
        for call in ("MPI_Allreduce", "MPI_Bcast", "MPI_Reduce", "MPI_Barrier"):
            self.assertGreater(counts[call], 20, call)

    def test_uneven(self):
        self.check_calls([1, 2])
        if self.family is mpi_machines.OPENMPI:  # MPICH's ranks spin, and take much longer
            self.check_calls([3, 1], by_node=True)

    def test_three_machines(self):
        self.check_calls([2, 1, 2], by_node=True)

    def test_one_rank_each(self):
        counts = self.check_calls([1, 1])
        self.assertEqual(0, counts["MPI_Allreduce"])

    def under_way(self, machines, **options):
        job = mpi_machines.start(machines, self.family, [2, 2], [self.program("machines_calls"), "--long", "100"],
                                 **options)

        def pids():
            return dict(re.findall(r"rank (\d) is under way: process (\d+)", job.texts()[0]))
        self.assertTrue(lab.until(lambda: len(pids()) == 4, PATIENCE_S), job.texts())
        return job, {int(rank): int(pid) for rank, pid in pids().items()}

    def assert_all_end(self, machines, job, since):
        def left():
            return [pid for node in machines.nodes for pid in node.pids()]
        self.assertTrue(lab.until(lambda: not left(), END_S), f"still there: {left()}, {job.texts()[1]}")
        print(f"{self.id()}: all ended within {time.monotonic() - since:.2f} s")
        self.assertNotEqual(0, job.wait(1).code)
        self.assertEqual([[], []], [node.shm_names() for node in machines.nodes])

    def test_killed(self):
        """A machine's first rank, and one that is not."""
        for killed in (2, 1):
            machines = self.lab(2)
            job, pids = self.under_way(machines)
            since = time.monotonic()
            os.kill(pids[killed], signal.SIGKILL)
            self.assert_all_end(machines, job, since)
            if self.family is mpi_machines.OPENMPI:  # MPICH's launcher ends ranks before they can say anything
                self.assertRegex(job.texts()[1], rf"rank \d \(pid {pids[killed]}\) was killed by signal 9")


class OpenMpi(MachinesTest, unittest.TestCase):
    family = mpi_machines.OPENMPI

    def test_common_programs(self):
        """Those of tests/mpi, made for one machine. This MPI has no windows between machines."""
        collectives = self.program("mpi_collectives_test", COMMON_PROGRAMS)
        programs = self.program("mpi_random_programs", COMMON_PROGRAMS)
        if not collectives.exists() or not programs.exists():
            self.skipTest("tests/mpi has no programs for this MPI")
        self.check([2, 1], [collectives, "--quick"])
        self.check([2, 2], [programs, "--programs", "5", "--windows", "0"], by_node=True)

    def test_programs(self):
        """Several programs of one job: all have what kolo-mpi has set."""
        self.assertGreater(self.check_calls([2, 2], start=mpi_machines.start_programs)["MPI_Allreduce"], 20)

    def test_cable(self):
        """The launcher's connections notice; without their settings in mpi_machines.py it takes eight minutes."""
        machines = self.lab(2)
        job, _ = self.under_way(machines)
        since = time.monotonic()
        machines.nodes[1].plug(False)
        self.assert_all_end(machines, job, since)


class Mpich(MachinesTest, unittest.TestCase):
    """A cut cable ends no job of MPICH 4.0, with kolo or without: neither its ranks nor its launcher look after
    connections on which nothing comes."""

    family = mpi_machines.MPICH


def main():
    signal.signal(signal.SIGTERM, lab.interrupt)
    result = unittest.main(exit=False, verbosity=2).result
    if result.wasSuccessful() and result.testsRun <= len(result.skipped):
        print("\n".join(sorted({reason for _, reason in result.skipped})))
        sys.exit(SKIPPED)
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    main()
