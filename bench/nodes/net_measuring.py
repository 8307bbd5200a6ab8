"""Running a job on the nodes of a lab: to its end, with what it took of the CPUs, the kernel and the cables."""

import collections
import json
import os
import pathlib
import shutil
import subprocess
import time

import lab
from comparison import processes, rounds

FEW_CALLS = 1
TRACE = pathlib.Path("/sys/kernel/tracing/events/syscalls")
# Those that move data between machines, wait for it, or wake who waits; not what ranks wait for each other with.
SYSTEM_CALLS = ("read", "write", "readv", "writev", "sendto", "recvfrom", "sendmsg", "recvmsg", "poll", "ppoll",
                "epoll_wait", "epoll_pwait", "io_uring_enter")

# Of one call: seconds, CPU seconds of all processes, bytes that each node sent and received, system calls (None where
# they cannot be counted) and how busy all CPUs of the machine were, from 0 to 1.
Cost = collections.namedtuple("Cost", "seconds cpu_s sent received system_calls busy")


class Failed(Exception):
    """A job did not end well; says how."""


def wait(running, timeout_s):
    """Waits for all parts of a job; raises Failed."""
    deadline = time.monotonic() + timeout_s
    try:
        for part in running:
            done = part.wait(max(0.1, deadline - time.monotonic()))
            if done.code is None:
                raise Failed(f"was not done after {timeout_s:.0f} s: {processes.quoted(done.err + done.out)}")
            if done.code != 0:
                raise Failed(f"{processes.ending(done.code)}: {processes.quoted(done.err + done.out)}")
    finally:
        for part in running:
            part.close()


def run_driver(machines, nodes, ranks, configuration, options, timeout_s):
    """One start of a library's driver: (name of the library, rows, what went wrong or None)."""
    gate, out = machines.folder / "gate", machines.folder / "out"
    for path in (gate, out):
        path.unlink(missing_ok=True)
    gate.touch(mode=0o600)
    program = [*configuration.driver, "--gate", gate, "--out", out, *options]
    error = None
    try:
        wait(configuration.start(machines, nodes, ranks, [str(word) for word in program]), timeout_s)
    except Failed as failed:
        error = str(failed)
    library, rows = rounds.read_rows(out)
    (machines.folder / "gate.store").unlink(missing_ok=True)
    return library, rows, error or (None if rows else "has measured nothing")


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


def watched(folder, node, perf):
    """The words that begin a node's part of a job, to find out what it took: CPU time, and perhaps system calls."""
    words = ["sh", "-c", 'times_file=$0; "$@"; status=$?; times >"$times_file"; exit $status',
             folder / f"times{node.index}"]
    return [*words, *perf, "-o", folder / f"calls{node.index}", "--"] if perf else words


def counted(path):
    """The sum of what perf counted."""
    lines = path.read_text(encoding="ascii").splitlines()
    return sum(int(line.split(",")[0]) for line in lines if ":sys_enter_" in line)


def minutes_and_seconds(text):
    """Of "1m2.5s"."""
    minutes, _, seconds = text.rstrip("s").partition("m")
    return int(minutes) * 60 + float(seconds)


def perf_run(machines, nodes, ranks, kolo, kolo_perf, nbytes, calls, timeout_s, perf):
    """kolo-perf with so many timed calls: (its row, the Cost of all of it)."""
    out = machines.folder / "row"
    program = [kolo_perf, "allreduce", "--min", nbytes, "--max", nbytes, "--iters", calls, "--warmup", 0, "--no-limits",
               "--json", out]
    traffic, times = machines.traffic(), machine_times()
    wait(kolo.start(machines, nodes, ranks, program, lambda node: watched(machines.folder, node, perf)), timeout_s)
    busy, all_times = (after - before for before, after in zip(times, machine_times()))
    moved = [(after.sent - before.sent, after.received - before.received)
             for before, after in zip(traffic, machines.traffic())][:nodes]
    times_of = [(machines.folder / f"times{index}").read_text(encoding="ascii").split()[2:4] for index in range(nodes)]
    cpu_s = sum(minutes_and_seconds(text) for texts in times_of for text in texts)
    system_calls = sum(counted(machines.folder / f"calls{index}") for index in range(nodes)) if perf else None
    row = json.loads(out.read_text(encoding="utf-8").splitlines()[-1])
    return row, Cost(row["time_us"]["median"] * 1e-6, cpu_s, [sent for sent, _ in moved],
                     [received for _, received in moved], system_calls, busy / max(1, all_times))


def cost(machines, nodes, ranks, kolo, kolo_perf, nbytes, calls, timeout_s, perf=()):
    """The Cost of one call: what more calls take more, so that neither start nor end is in it."""
    _, few = perf_run(machines, nodes, ranks, kolo, kolo_perf, nbytes, FEW_CALLS, timeout_s, perf)
    row, many = perf_run(machines, nodes, ranks, kolo, kolo_perf, nbytes, FEW_CALLS + calls, timeout_s, perf)
    more = calls * row["calls_per_iter"]

    def each(after, before):
        return (after - before) / more
    return Cost(many.seconds, each(many.cpu_s, few.cpu_s), [each(*both) for both in zip(many.sent, few.sent)],
                [each(*both) for both in zip(many.received, few.received)],
                each(many.system_calls, few.system_calls) if perf else None, many.busy)


def make_lab(count, rate_mbit):
    """Nodes whose processes the machine sees, as mpirun's agent has to."""
    return lab.Lab(count, rate_mbit, own_pids=False)


def cpus():
    return len(os.sched_getaffinity(0))
