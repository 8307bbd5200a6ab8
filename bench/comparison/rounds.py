"""Measuring: the configurations of all libraries in turn, round after round, so that whatever else the machine does
meets all of them alike."""

import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from comparison import processes

UNSUPPORTED = 3  # the driver's exit status where the library cannot sum the dtype
FAILURES_MAX = 2  # of a configuration in a case, before it is not started again
SCREENED_AFTER = 2  # rounds
SCREENED_FACTOR = 1.5

Case = collections.namedtuple("Case", "ranks dtype buffers in_place")


def label(case):
    place = "in place" if case.in_place else "out of place"
    return f"{case.ranks} ranks, {case.dtype}, {case.buffers} buffers, {place}"


class Plan:
    """How everything is measured; the same for all."""

    def __init__(self, sizes, rounds, budget_ms, cpus, pinned, timeout_s=None):
        self.sizes = sizes
        self.rounds = rounds
        self.budget_ms = budget_ms
        self.cpus = cpus
        self.pinned = pinned
        self.timeout_s = timeout_s or 60 + 4 * len(sizes)


class Progress:
    """Says what runs and when it will be done, on stderr."""

    def __init__(self, steps):
        self.steps = steps
        self.done = 0
        self.begin = time.monotonic()

    def show(self, text):
        left = ""
        if self.done:
            left_s = (time.monotonic() - self.begin) / self.done * (self.steps - self.done)
            left = f"; about {left_s / 60:.0f} min left" if left_s > 90 else f"; about {left_s:.0f} s left"
        line = f"[{self.done + 1}/{self.steps}{left}] {text}"
        if sys.stderr.isatty():
            print(f"\r\033[K{line[:os.get_terminal_size(2).columns - 1]}", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)

    def step(self, count=1):
        self.done += count

    def end(self):
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)


class Series:
    """One configuration's measurements in one case."""

    def __init__(self, peer, launch):
        self.peer = peer
        self.launch = launch
        self.library = ""
        self.rounds = []  # of each, {bytes: row}
        self.failures = []
        self.stopped = None  # why it is not started any more

    def record(self, case, rows, code, error):
        self.rounds.append(rows)
        if code == UNSUPPORTED:
            self.stopped = f"cannot sum {case.dtype}"
        elif error:
            self.failures.append(error)
            if len(self.failures) >= FAILURES_MAX:
                self.stopped = f"failed {FAILURES_MAX} times"

    def best_us(self):
        """{bytes: the fastest median so far}."""
        best = {}
        for rows in self.rounds:
            for size, row in rows.items():
                best[size] = min(best.get(size, row["median_us"]), row["median_us"])
        return best

    def as_json(self):
        return {"peer": self.peer.key, "configuration": self.launch.configuration, "how": self.launch.described(),
                "pinned": self.launch.pinned, "failures": self.failures, "stopped": self.stopped,
                "rounds": [list(rows.values()) for rows in self.rounds]}


def environment_of(launch):
    """Ours, without what a launcher may have left in it, and the launch's."""
    foreign = ("KOLO_", "OMPI_", "PMI", "PMIX_", "MPIR_CVAR_", "I_MPI_", "HYDRA_", "HYDI_", "SLURM_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {**kept, "OMPI_MCA_btl_base_warn_component_unused": "0", **launch.installation,
            **launch.environment}


def driver_options(plan, case, launch, gate, out):
    options = ["--gate", gate, "--out", out, "--sizes", ",".join(map(str, plan.sizes)), "--dtype", case.dtype,
               "--buffers", case.buffers, "--budget-ms", str(plan.budget_ms)]
    if case.in_place:
        options.append("--in-place")
    if plan.pinned and launch.pinned:
        options += ["--cpus", ",".join(map(str, plan.cpus))]
    return options


def read_rows(path):
    """(library, {bytes: row}) of what a driver has written, however far it came."""
    library, rows = "", {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return library, rows
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            continue  # cut short where its writer was ended
        if "library" in row:
            library = row["library"]
        elif isinstance(row.get("median_us"), (int, float)) and isinstance(row.get("bytes"), int):
            rows[row["bytes"]] = row
    return library, rows


def shared_folder():
    """Where the gate lies: in memory, as a disk's pages are written back, and stall, now and then."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def run_once(plan, case, series):
    with tempfile.TemporaryDirectory(prefix="kolo-compare-", dir=shared_folder()) as folder:
        gate, out = pathlib.Path(folder) / "gate", pathlib.Path(folder) / "out"
        gate.touch(mode=0o600)
        command = series.launch.command + driver_options(plan, case, series.launch, str(gate), str(out))
        code, error = processes.run(command, environment_of(series.launch), plan.timeout_s)
        library, rows = read_rows(out)
    if code == 0 and not rows:
        error = "ended with 0, but has measured nothing"
    series.library = library or series.library
    series.record(case, rows, code, error)


def screen(all_series):
    """Configurations that are nowhere near their library's best are not worth the time of further rounds."""
    for series in all_series:
        rivals = [other.best_us() for other in all_series
                  if other.peer is series.peer and other is not series and not other.stopped]
        own = series.best_us()
        near = any(us <= SCREENED_FACTOR * min((rival[size] for rival in rivals if size in rival), default=us)
                   for size, us in own.items())
        if rivals and own and not near and not series.stopped:
            series.stopped = f"at every size above {SCREENED_FACTOR} times this library's best"


def measure_case(plan, case, peers, progress):
    """The series of one case, all rounds."""
    all_series = [Series(peer, launch) for peer in peers for launch in peer.launches(case.ranks, len(plan.cpus))
                  if plan.pinned or launch.pinned]  # else the two would be the same
    for number in range(plan.rounds):
        first = number * len(all_series) // plan.rounds
        for series in all_series[first:] + all_series[:first]:
            if not series.stopped:
                progress.show(f"{label(case)}: round {number + 1} of {plan.rounds}: {series.peer.title}, "
                              f"{series.launch.configuration}")
                run_once(plan, case, series)
            progress.step()
        if number + 1 == SCREENED_AFTER:
            screen(all_series)
    return all_series


def measure_bound(plan, case, kolo_perf):
    """{bytes: us} below which the hardware does not allow this case's calls, the bytes as text as in JSON; and why
    there is none, or None."""
    max_bytes = 1 << (max(plan.sizes) - 1).bit_length()
    with tempfile.TemporaryDirectory(prefix="kolo-compare-") as folder:
        out = pathlib.Path(folder) / "limits"
        command = [kolo_perf, "limits", "--ranks", str(case.ranks), "--buffers", case.buffers, "--min", "4", "--max",
                   str(max_bytes), "--factor", "2", "--json", str(out)]
        if case.in_place:
            command.append("--in-place")
        own = os.sched_getaffinity(0)
        try:
            os.sched_setaffinity(0, plan.cpus[:case.ranks])
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
            rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
        except subprocess.CalledProcessError as error:
            return {}, processes.quoted(error.stderr)
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            return {}, str(error)
        finally:
            os.sched_setaffinity(0, own)
    return {str(row["bytes"]): row["bound_us"] for row in rows if row.get("limit") == "bound"}, None
