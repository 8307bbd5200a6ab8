"""Measuring: the configurations of all libraries in turn, round after round, so that whatever else the machine does
meets all of them alike."""

import collections
import contextlib
import json
import os
import re
import sys
import time

from compare import processes, states, summary

UNSUPPORTED = 3  # the driver's exit status where the library lacks the collective or the dtype
FAILURES_MAX = 2  # of a configuration in a case, before it is not started again
SCREENED_AFTER = 2  # rounds
SCREENED_FACTOR = 1.5
PROBE_BYTES, PROBE_BUDGET_MS = 8, 1  # of a start of kolo that only shows the exchange

Case = collections.namedtuple("Case", "ranks dtype buffers in_place collective", defaults=("allreduce",))


# How everything is measured; the same for all. extra_rounds: at most so many, for what a state of the machine lacks.
# folder: where the gate lies; None: processes.shared_folder(). twice: a start measures each size again.
Plan = collections.namedtuple("Plan", "sizes rounds budget_ms timeout_s cpus pinned extra_rounds folder twice",
                              defaults=((), False, 0, None, True))


def label(case):
    return summary.case_text(case._asdict())


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
        line = f"[{min(self.done + 1, self.steps)}/{self.steps}{left}] {text}"
        if sys.stderr.isatty():
            print(f"\r\033[K{line[:os.get_terminal_size(2).columns - 1]}", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)

    def more(self, steps):
        self.steps += steps

    def step(self):
        self.done += 1

    def end(self):
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)


class Series:
    """One configuration's measurements in one case."""

    def __init__(self, peer, launch):
        self.peer = peer
        self.launch = launch
        self.library = ""
        self.rounds = []  # of each, its rows; a size can have two
        self.failures = []
        self.stopped = None  # why it is not started any more

    def record(self, case, rows, code, error):
        self.rounds.append(rows)
        if code == UNSUPPORTED:
            self.stopped = f"has no {case.collective} of {case.dtype}"
        elif error:
            self.failures.append(error)
            if len(self.failures) >= FAILURES_MAX:
                self.stopped = f"failed {FAILURES_MAX} times"

    def rows(self):
        return [row for rows in self.rounds for row in rows]

    def as_json(self):
        return {"peer": self.peer.key, "configuration": self.launch.configuration, "how": self.launch.described(),
                "pinned": self.launch.pinned, "failures": self.failures, "stopped": self.stopped,
                "rounds": self.rounds}


def rows_of(all_series):
    return [row for series in all_series for row in series.rows()]


def name_libraries(results, names):
    """Enters what the libraries call themselves: {key: name}."""
    for key, name in names.items():
        entry = results["libraries"][key]
        entry["version"] = entry["version"] or name


def driver_options(plan, case, launch, sizes, budget_ms):
    options = ["--sizes", ",".join(map(str, sizes)), "--collective", case.collective, "--dtype", case.dtype, "--buffers",
               case.buffers, "--budget-ms", str(budget_ms)]
    if case.in_place:
        options.append("--in-place")
    if plan.pinned and launch.pinned:
        options += ["--cpus", ",".join(map(str, plan.cpus))]
    return options


def read_rows(path):
    """(library, rows) of what a driver has written, however far it came."""
    library, rows = "", []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        with contextlib.suppress(ValueError):  # it was cut short where its writer was ended
            row = json.loads(line)
            name = row.get("library", library)  # the first part of what can be many lines
            library = " ".join(re.split("[,\n]", name)[0].split())
            if all(isinstance(row.get(name), (int, float)) and row[name] > 0 for name in ("bytes", "median_us")):
                rows.append(row)
    return library, rows


def start(plan, launch, options):
    """One start of a library: its name, its rows, its exit status, and what went wrong or None."""
    with processes.own_folder(plan.folder) as folder:
        gate, out = folder / "gate", folder / "out"
        gate.touch(mode=0o600)
        code, error = launch.run(["--gate", str(gate), "--out", str(out), *options], plan.timeout_s)
        return *read_rows(out), code, error


def run_once(plan, case, series, sizes):
    """A start is what costs most with small messages, so each measures them twice."""
    options = driver_options(plan, case, series.launch, sizes, plan.budget_ms)
    library, rows, code, error = start(plan, series.launch, [*options, *(["--twice"] if plan.twice else [])])
    if code == 0 and not rows:
        error = "ended with 0, but has measured nothing"
    series.library = library or series.library
    series.record(case, rows, code, error)


def exchange_now(plan, case, launch):
    """What the driver's own rows would have as their exchange, or None: kolo's starts in no time."""
    probe = case._replace(collective="allreduce")
    _, rows, _, _ = start(plan, launch, driver_options(plan, probe, launch, [PROBE_BYTES], PROBE_BUDGET_MS))
    values = [ns for row in rows for ns in states.exchanges(row)]
    return values[-1] if values else None


def screen(all_series):
    """Configurations that are nowhere near their library's best in any state are not worth the time of further
    rounds."""
    known = states.States(rows_of(all_series))
    measured = [(series, (series.peer, known.of(row), row["bytes"]), row["median_us"])
                for series in all_series if not series.stopped for row in series.rows()]
    best_us = {}
    for _, at, us in measured:
        best_us[at] = min(best_us.get(at, us), us)
    near = {series for series, at, us in measured if us <= SCREENED_FACTOR * best_us[at]}
    for series, _, _ in measured:
        if series not in near:
            series.stopped = f"at every size above {SCREENED_FACTOR} times this library's best"


def series_of(plan, case, peers):
    return [Series(peer, launch) for peer in peers for launch in peer.launches(case.ranks, len(plan.cpus))
            if plan.pinned or launch.pinned]  # else the two would be the same


def rotated(items, number, rounds):
    """The order of a round: each of the rounds begins elsewhere."""
    first = number * len(items) // rounds
    return items[first:] + items[:first]


def measure_planned(plan, case, all_series, progress):
    """All series, round after round."""
    for number in range(plan.rounds):
        for series in rotated(all_series, number, plan.rounds):
            if not series.stopped:
                progress.show(f"{label(case)}: round {number + 1} of {plan.rounds}: {series.peer.title}, "
                              f"{series.launch.configuration}")
                run_once(plan, case, series, plan.sizes)
            progress.step()
        if number + 1 == SCREENED_AFTER:
            screen(all_series)
