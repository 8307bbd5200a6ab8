"""The package under the launchers of others, and with explicit arguments: each rank says where it is."""

import os
import shutil
import subprocess
import sys
import unittest

PATIENCE_S = 120
CODE = """
import os, kolo4py as kolo
arguments = eval(os.environ.get("KOLO_TEST_ARGUMENTS", "{}"))
with kolo.init(**arguments) as comm:
    total = comm.all_reduce(bytes([comm.rank + 1]))[0]
    os.write(1, f"{comm.rank} {comm.size} {comm.local_rank} {comm.node} {total}\\n".encode())
"""
EXPECTED = ["0 2 0 0 3", "1 2 1 0 3"]


def environment(**changes):
    launchers = ("KOLO_RANK", "KOLO_SIZE", "KOLO_JOB", "KOLO_SHM", "OMPI_", "PMI", "SLURM_", "HYD")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(launchers)}
    return {**kept, **changes}


class Launchers(unittest.TestCase):
    def started(self, *variables):
        """What two processes print that a launcher has given these variables."""
        ranks = [subprocess.Popen([sys.executable, "-B", "-c", CODE], env=environment(**each), stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True) for each in variables]
        done = [rank.communicate(timeout=PATIENCE_S) for rank in ranks]
        return sorted(line for printed, _ in done for line in printed.splitlines()), done

    def test_arguments(self):
        name = f"kolo-python-{os.getpid()}-arguments"
        found, done = self.started(*({"KOLO_TEST_ARGUMENTS": repr({
            "rank": rank, "size": 2, "name": name, "timeout": 60, "create_timeout": 60, "threads": 2, "progress": True,
            "algorithm": "mesh", "slot_bytes": 1 << 16, "rendezvous": ""})} for rank in range(2)))
        self.assertEqual(EXPECTED, found, done)

    def test_srun(self):
        found, done = self.started(*({
            "SLURM_PROCID": str(rank), "SLURM_NTASKS": "2", "SLURM_LOCALID": str(rank), "SLURM_JOB_ID": str(os.getpid()),
            "SLURM_STEP_ID": "7"} for rank in range(2)))
        self.assertEqual(EXPECTED, found, done)

    def test_torchrun(self):
        found, done = self.started(*({
            "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(12000 + os.getpid() % 18000),
            "TORCHELASTIC_RUN_ID": f"kolo-python-{os.getpid()}"} for rank in range(2)))
        self.assertEqual(EXPECTED, found, done)

    def test_mpirun(self):
        mpirun = shutil.which("mpirun.openmpi") or self.skipTest("Open MPI is not installed")
        done = subprocess.run([mpirun, "--allow-run-as-root", "--oversubscribe", "-n", "2", sys.executable, "-B", "-c", CODE],
                              env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)
        self.assertEqual(EXPECTED, sorted(done.stdout.splitlines()), done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
