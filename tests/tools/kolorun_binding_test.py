"""Which CPUs the ranks may run on."""

import os
import subprocess

import launching
from launching import kolorun, python

AFFINITY = python("import os; print(os.environ['KOLO_RANK'], *sorted(os.sched_getaffinity(0)))")
ALLOWED = sorted(os.sched_getaffinity(0))


class Binding(launching.LaunchingTest):
    def affinities(self, *arguments, **options):
        done = kolorun(*arguments, *AFFINITY, **options)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        numbers = [[int(word) for word in line.split()] for line in done.stdout.splitlines()]
        return {rank: cpus for rank, *cpus in numbers}

    def test_each_rank_has_its_own_cpu(self):
        for options in (("--bind", "core"), ("--bind", "auto"), ()):
            cpus = self.affinities("-n", str(min(len(ALLOWED), 64)), *options)
            self.assertTrue(all(len(own) == 1 for own in cpus.values()), cpus)
            self.assertEqual(len(cpus), len({own[0] for own in cpus.values()}), cpus)
            self.assertTrue({own[0] for own in cpus.values()} <= set(ALLOWED), cpus)

    def test_none(self):
        self.assertEqual({0: ALLOWED}, self.affinities("-n", "1", "--bind", "none"))

    def test_auto_when_ranks_do_not_fit(self):
        few = set(ALLOWED[:1])
        cpus = self.affinities("-n", "2", preexec_fn=lambda: os.sched_setaffinity(0, few))
        self.assertEqual({0: sorted(few), 1: sorted(few)}, cpus)

    def test_only_allowed_cpus(self):
        last = ALLOWED[-1]
        cpus = self.affinities("-n", "1", preexec_fn=lambda: os.sched_setaffinity(0, {last}))
        self.assertEqual({0: [last]}, cpus)

    def test_core_when_ranks_do_not_fit(self):
        done = kolorun("-n", "2", "--bind", "core", "true",
                       preexec_fn=lambda: os.sched_setaffinity(0, {ALLOWED[0]}))
        self.assertEqual((125, "kolorun: --bind core: 2 ranks do not fit 1 allowed CPU; use fewer ranks or "
                          "--bind none\n"), (done.returncode, done.stderr))


class Order(launching.LaunchingTest):
    def test_order_on_other_machines(self):
        done = subprocess.run([os.environ["BINDING_TEST"]], capture_output=True, text=True, timeout=200, check=False)
        self.assertEqual((0, ""), (done.returncode, done.stdout + done.stderr))


if __name__ == "__main__":
    launching.main()
