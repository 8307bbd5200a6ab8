"""Every cell in a limited time: all collectives at several numbers of ranks, in warm and rewritten buffers, then kolo's
lanes. The first round starts each library as it comes, in every cell; what time is left goes to further rounds, of
all configurations. Each round's rows are saved as they come, so that a run that is cut short has what it measured."""

import json
import subprocess
import time

from compare import bounds, processes, rounds, states

RANKS = (2, 4, 8, 16)
LANES = ((2, 8), (4, 4))  # ranks, and threads of each
SAMPLED_PART = 0.25  # of the time goes into samples: the rest into starts, buffers and checks
BOUNDS_PART = 0.3  # at most
BOUND_S, LANES_S = 15, 20  # about, of one kind of cases or job
BUDGET_MS_MIN, BUDGET_MS_MAX = 0.2, 50
START_S_MAX = 60


class Cell:
    """A case, and what was measured in it so far."""

    def __init__(self, case, plan, notes, present):
        self.case, self.plan, self.notes, self.bounds = case, plan, notes, []
        self.series = rounds.series_of(plan, case, present)

    def first(self):
        """Each library as it comes."""
        found = {}
        for series in self.series:
            found.setdefault(series.peer, series)
        return list(found.values())

    def result(self):
        made = {**self.case._asdict(), "sizes": self.plan.sizes, "bounds": [dict(bound) for bound in self.bounds],
                "notes": self.notes, "series": [series.as_json() for series in self.series if series.rounds]}
        states.mark(made)
        return made


class Sweep:
    """`save` takes the results; `progress` shows what runs."""

    def __init__(self, results, cells, built, minutes, rounds_max, save):
        self.results, self.built, self.save = results, built, save
        self.cells = sorted(cells, key=lambda cell: cell.case.collective.endswith("scan"))  # the time may not reach these
        self.seconds, self.rounds_max = minutes * 60, rounds_max
        self.end = time.monotonic() + self.seconds
        starts = sum(len(cell.first()) * len(cell.plan.sizes) for cell in cells)
        self.budget_ms = min(max(1e3 * self.seconds * SAMPLED_PART / max(starts, 1), BUDGET_MS_MIN), BUDGET_MS_MAX)
        results["plan"]["budget_ms"] = round(self.budget_ms, 1)
        self.progress = rounds.Progress(sum(len(cell.first()) for cell in cells))

    def left_s(self):
        return self.end - time.monotonic()

    def keep(self):
        measured = [cell for cell in self.cells if any(series.rounds for series in cell.series)]
        self.results["cases"] = [cell.result() for cell in measured]
        for cell in measured:
            rounds.name_libraries(self.results, {series.peer.key: series.library
                                                 for series in cell.series if series.library})
        self.save(self.results)

    def bound(self):
        """One measurement serves all collectives of a kind."""
        kinds = {bounds.kind(cell.plan, cell.case) for cell in self.cells}
        if len(kinds) * BOUND_S > self.seconds * BOUNDS_PART:
            return
        for cell in self.cells:
            def exchange_now(cell=cell):
                kolo = cell.series[0].launch
                return rounds.exchange_now(cell.plan._replace(timeout_s=START_S_MAX), cell.case, kolo)
            self.progress.show(f"{rounds.label(cell.case)}: bound")
            cell.bounds = bounds.earlier(cell.plan, cell.case) or [
                bounds.measure(cell.plan, cell.case, self.built.kolo_program("kolo-perf"), exchange_now)]

    def lanes(self, jobs):
        """Rows of kolo-perf for jobs whose ranks have threads of their own."""
        rows = self.results.setdefault("lanes", [])
        for ranks, threads in jobs:
            self.progress.show(f"lanes: {ranks} ranks of {threads} threads")
            with processes.own_folder() as folder:
                out = folder / "rows"
                command = [self.built.kolo_program("kolorun"), "-n", str(ranks), self.built.kolo_program("kolo-perf"),
                           "allreduce", "--threads", str(threads), "--lanes", "-b", "8", "-e", "16M", "-f", "8",
                           "--json", out]
                try:
                    subprocess.run(command, check=True, capture_output=True, text=True, timeout=LANES_S * 2)
                except (OSError, subprocess.SubprocessError) as error:
                    rows.append({"ranks": ranks, "threads": threads, "error": str(error)})
                if out.exists():
                    rows += [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]

    def start(self, cell, series):
        plan = cell.plan._replace(budget_ms=self.budget_ms, timeout_s=max(1, min(START_S_MAX, self.left_s())))
        self.progress.show(f"{rounds.label(cell.case)}: {series.peer.title}, {series.launch.configuration}")
        rounds.run_once(plan, cell.case, series, plan.sizes)
        self.progress.step()

    def round(self, number):
        """False: there is nothing to start any more. A start that the end of the time cuts counts as no failure."""
        started = False
        for cell in self.cells:
            for series in cell.first() if number == 0 else rounds.rotated(cell.series, number % len(cell.series),
                                                                          len(cell.series)):
                if series.stopped or self.left_s() <= 0:
                    continue
                self.start(cell, series)
                started = True
                if self.left_s() <= 0 and series.failures:
                    series.failures.pop()
            self.results["plan"]["rounds"] = number + 1
        self.keep()
        return started and self.left_s() > 0

    def run(self, lanes_jobs):
        lanes_s = LANES_S * len(lanes_jobs)
        self.end -= lanes_s
        number = 0
        try:
            self.bound()
            while self.round(number) and number + 1 < self.rounds_max:
                number += 1
                self.progress.more(sum(1 for cell in self.cells for series in cell.series if not series.stopped))
                if number == rounds.SCREENED_AFTER:
                    for cell in self.cells:
                        rounds.screen(cell.series)
            self.lanes(lanes_jobs)
        finally:
            self.progress.end()
            self.keep()


def lanes_jobs(cpus):
    return [job for job in LANES if job[0] * job[1] <= cpus]

