"""Which CPUs the ranks may run on, on this machine; binding_test knows others."""

import os
import re
import shutil
import subprocess
import sys
import unittest

import launching
from launching import KOLORUN, kolorun, python

AFFINITY = python("import os; print(os.environ['KOLO_RANK'], *sorted(os.sched_getaffinity(0)))")
ALLOWED = sorted(os.sched_getaffinity(0))
FEW = len(ALLOWED) < 2 and "only one CPU is allowed"

# Starts a kolorun for each word, all at once, and prints the CPUs of each one's rank, which waits for the others.
SIDE_BY_SIDE = """
import subprocess, sys
launcher, *modes = sys.argv[1:]
script = "grep Cpus_allowed_list /proc/self/status; cat"
jobs = [subprocess.Popen([launcher, "-n", "1", "--bind", mode, "sh", "-c", script], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True) for mode in modes]
print(*[job.stdout.readline().split()[1] for job in jobs])
for job in jobs:
    job.communicate()
"""


class Binding(launching.LaunchingTest):
    def affinities(self, *arguments, **options):
        done = kolorun(*arguments, *AFFINITY, **options)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        numbers = [[int(word) for word in line.split()] for line in done.stdout.splitlines()]
        return {rank: cpus for rank, *cpus in numbers}

    def test_each_rank_has_its_own_cpus(self):
        for options in (("--bind", "core"), ("--bind", "auto"), ()):
            cpus = self.affinities("-n", str(min(len(ALLOWED), 64)), *options)
            used = [cpu for own in cpus.values() for cpu in own]
            self.assertTrue(all(own for own in cpus.values()), cpus)
            self.assertEqual(len(used), len(set(used)), cpus)
            self.assertTrue(set(used) <= set(ALLOWED), cpus)
            if options[1:] == ("core",):
                self.assertEqual({1}, {len(own) for own in cpus.values()}, cpus)

    def test_none(self):
        self.assertEqual({0: ALLOWED}, self.affinities("-n", "1", "--bind", "none"))

    def test_auto_when_ranks_do_not_fit(self):
        few = set(ALLOWED[:1])
        cpus = self.affinities("-n", "2", preexec_fn=lambda: os.sched_setaffinity(0, few))
        self.assertEqual({0: sorted(few), 1: sorted(few)}, cpus)

    def test_only_allowed_cpus(self):
        last = ALLOWED[-1]
        for mode in ("auto", "core"):
            cpus = self.affinities("-n", "1", "--bind", mode, preexec_fn=lambda: os.sched_setaffinity(0, {last}))
            self.assertEqual({0: [last]}, cpus)

    def test_core_when_ranks_do_not_fit(self):
        done = kolorun("-n", "2", "--bind", "core", "true",
                       preexec_fn=lambda: os.sched_setaffinity(0, {ALLOWED[0]}))
        self.assertEqual((125, "kolorun: --bind core: 2 ranks do not fit 1 allowed CPU; use fewer ranks or\n"
                          "         --bind none\n"), (done.returncode, done.stderr))

    def reports(self, *arguments, **options):
        """What --report-bindings says of each rank, and the CPUs on which it did run."""
        command = python("import os; print(os.environ['KOLO_RANK'], os.getpid(), *sorted(os.sched_getaffinity(0)))")
        done = kolorun("--report-bindings", *arguments, *command, **options)
        self.assertEqual(0, done.returncode, done.stderr)
        ran = {rank: cpus for rank, *cpus in (line.split() for line in done.stdout.splitlines())}
        said = re.findall(rf"(?m)^kolorun: rank (\d+) on {re.escape(os.uname().nodename)}, pid (\d+): (.*) CPUs? (.*)$", done.stderr)
        self.assertEqual(done.stderr.count("\n"), len(said), done.stderr)
        for rank, pid, _, cpus in said:
            parts = [part.split("-") for part in cpus.split(", ")]
            self.assertEqual(ran[rank], [pid, *(str(cpu) for part in parts for cpu in range(int(part[0]), int(part[-1]) + 1))])
        self.assertEqual(sorted(ran), sorted(rank for rank, *_ in said))
        return {rank: how for rank, _, how, _ in said}

    def test_reports(self):
        ranks = min(len(ALLOWED), 8)
        self.assertEqual({str(rank): "bound to" for rank in range(ranks)}, self.reports("-n", str(ranks), "--bind", "core"))
        self.assertEqual({"0": "not bound,", "1": "not bound,"}, self.reports("-n", "2", "--bind", "none"))
        self.assertEqual({"3": "bound to"}, self.reports(
            "--nnodes", "2", "--node-rank", "1", "--rendezvous", "a:1", "-n", "3,1", "--bind", "core"))

    def test_reports_nothing_unasked(self):
        self.assertEqual("", kolorun("-n", "1", "--bind", "core", "true").stderr)


class SideBySide(launching.LaunchingTest):
    """In a pid namespace of its own, where no other job is to be seen."""

    def setUp(self):
        self.namespace = ["unshare", "--pid", "--fork", "--mount-proc"]
        if os.geteuid() != 0:
            self.namespace[1:1] = ["--user", "--map-root-user"]
        if shutil.which("unshare") is None or subprocess.run([*self.namespace, "true"], capture_output=True,
                                                             check=False).returncode != 0:
            self.skipTest("pid namespaces cannot be made here")

    def place(self, *modes):
        done = subprocess.run([*self.namespace, sys.executable, "-c", SIDE_BY_SIDE, KOLORUN, *modes],
                              env=launching.environment(), capture_output=True, text=True,
                              timeout=launching.PATIENCE_S, check=False)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        return done.stdout.split()

    def test_one_rank_has_all_cpus(self):
        cpus = self.place("auto", "auto")
        self.assertEqual(cpus[0], cpus[1])
        self.assertEqual(cpus[:1], self.place("none"))

    @unittest.skipIf(FEW, FEW)
    def test_started_at_once(self):
        jobs = min(len(ALLOWED), 8)
        for _ in range(10):
            cpus = self.place(*["core"] * jobs)
            self.assertEqual(jobs, len(set(cpus)), cpus)

    @unittest.skipIf(FEW, FEW)
    def test_more_jobs_than_cpus(self):
        if len(ALLOWED) == 2:
            cpus = self.place("core", "core", "core")
            self.assertEqual({str(cpu) for cpu in ALLOWED}, set(cpus))


if __name__ == "__main__":
    launching.main()
