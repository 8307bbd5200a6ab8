"""kolo-perf on the nodes of a lab, with what it took of the CPUs, the kernel and the cables."""

import collections
import json
import pathlib
import resource
import shutil
import subprocess

import lab
from compare.bench_command import Cut
from net.net_launches import by_kolorun, wait

FEW_CALLS = 1
TRACE = pathlib.Path("/sys/kernel/tracing/events/syscalls")
# Those that move data between machines, wait for it, or wake who waits; not what ranks wait for each other with.
SYSTEM_CALLS = ("read", "write", "readv", "writev", "sendto", "recvfrom", "sendmsg", "recvmsg", "poll", "ppoll",
                "epoll_wait", "epoll_pwait", "io_uring_enter")

# Of one call: seconds, CPU seconds of all processes, bytes that each node sent and received, system calls (None where
# they cannot be counted) and how busy all CPUs of the machine were, from 0 to 1.
Cost = collections.namedtuple("Cost", "seconds cpu_s sent received system_calls busy")


def counting():
    """The words of perf that begin a command whose system calls are counted; none where that is not possible."""
    events = [f"syscalls:sys_enter_{name}" for name in SYSTEM_CALLS if (TRACE / f"sys_enter_{name}").exists()]
    if not events or not shutil.which("perf"):
        return []
    words = ["perf", "stat", "-e", ",".join(events), "-x", ","]
    tried = subprocess.run([*words, "true"], capture_output=True, text=True, check=False)
    return words if tried.returncode == 0 and "<not" not in tried.stderr else []


def machine_times():
    """(busy, all) jiffies of the machine's CPUs."""
    values = [int(word) for word in pathlib.Path("/proc/stat").read_text(encoding="ascii").split("\n")[0].split()[1:9]]
    return sum(values) - values[3] - values[4], sum(values)


def children_cpu_s():
    """CPU seconds of all processes that were waited for, by us or by one of them."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def counted(path):
    """The sum of what perf counted."""
    lines = path.read_text(encoding="ascii").splitlines()
    return sum(int(line.split(",")[0]) for line in lines if ":sys_enter_" in line)


class Perf:
    """kolo-perf with `ranks` ranks on each of the first nodes of a lab."""

    def __init__(self, machines, nodes, ranks, built, timeout_s, counts_calls=False):
        self.machines, self.nodes, self.ranks, self.timeout_s = machines, nodes, ranks, timeout_s
        self.kolorun, self.kolo_perf = built.kolo_program("kolorun"), built.kolo_program("kolo-perf")
        self.perf = counting() if counts_calls else []

    def run(self, variables, nbytes, calls):
        """So many timed calls: (the row, the Cost of all of it)."""
        machines, folder = self.machines, self.machines.folder
        out = folder / "row"
        program = [self.kolo_perf, "allreduce", "--min", nbytes, "--max", nbytes, "--iters", calls, "--warmup", 0,
                   "--no-limits", "--json", out]
        traffic, times, cpu_before_s = machines.traffic(), machine_times(), children_cpu_s()
        _, error = wait(by_kolorun(machines, self.nodes, self.ranks, self.kolorun, program, variables, self.around),
                        self.timeout_s)
        if error:
            raise Cut(f"kolo failed: {error}")
        cpu_s = children_cpu_s() - cpu_before_s
        busy, all_times = (after - before for before, after in zip(times, machine_times()))
        moved = [(after.sent - before.sent, after.received - before.received)
                 for before, after in zip(traffic, machines.traffic())][:self.nodes]
        system_calls = sum(counted(folder / f"calls{index}") for index in range(self.nodes)) if self.perf else None
        row = json.loads(out.read_text(encoding="utf-8").splitlines()[-1])
        return row, Cost(row["time_us"]["median"] * 1e-6, cpu_s, *map(list, zip(*moved)), system_calls,
                         busy / max(1, all_times))

    def around(self, node):
        """The words that begin a node's part of a job, to count its system calls."""
        return [*self.perf, "-o", self.machines.folder / f"calls{node.index}", "--"] if self.perf else ()

    def cost(self, variables, nbytes, calls):
        """The Cost of one call: what more calls take more, so that neither start nor end is in it."""
        _, few = self.run(variables, nbytes, FEW_CALLS)
        row, many = self.run(variables, nbytes, FEW_CALLS + calls)

        def each(after, before):
            if isinstance(after, list):
                return list(map(each, after, before))
            return None if after is None else (after - before) / (calls * row["calls_per_iter"])
        return Cost(many.seconds, *map(each, many[1:-1], few[1:-1]), many.busy)


def make_lab(count, rate_mbit):
    """Nodes whose processes the machine sees, as mpirun's agent has to."""
    return lab.Lab(count, rate_mbit, own_pids=False)
