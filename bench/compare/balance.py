"""After the planned rounds: measuring again what a state of the machine has too little of, once it is in that state."""

import time

from compare import bounds, rounds, states

ROWS_MIN = 2  # of a figure
BOUNDS_MAX = 4  # measurements of a case's bound
PATIENCE_S = 60  # in a case, with states that do not come back
PROBES_APART_S = 0.5


def fastest(rows_of):
    """The series with the fastest row, or None."""
    best_us = {series: min(row["median_us"] for row in rows) for series, rows in rows_of.items() if rows}
    return min(best_us, key=best_us.get, default=None)


def lacking_of_peer(candidates, sizes, known, state):
    """{series: sizes} that have too few rows in the state; of the configuration that is the fastest there, and of the
    fastest anywhere."""
    lacking = {}
    for size in sizes:
        anywhere = {series: [row for row in series.rows() if row["bytes"] == size] for series in candidates}
        there = {series: [row for row in rows if known.of(row) == state] for series, rows in anywhere.items()}
        for series in dict.fromkeys((fastest(there), fastest(anywhere))):
            if series and len(there[series]) < ROWS_MIN:
                lacking.setdefault(series, []).append(size)
    return lacking


def lacking(all_series, sizes, known):
    """{state: {series: sizes}}, for states that are worth it."""
    found = {}
    for state in known.major(rounds.rows_of(all_series)):
        for peer in dict.fromkeys(series.peer for series in all_series):
            candidates = [series for series in all_series if series.peer is peer and not series.stopped]
            found.setdefault(state, {}).update(lacking_of_peer(candidates, sizes, known, state))
    return {state: wanted for state, wanted in found.items() if wanted}


def without_bound(known, all_series, measured):
    """The states that have no bound yet, if another may be measured."""
    if len(measured) >= BOUNDS_MAX or any(bound["error"] for bound in measured):
        return set()
    found = {state.name for state in known.found(rounds.rows_of(all_series))}
    return found - {known.of_other(bound) for bound in measured}


class Watch:
    """Waits for a state of the machine, a limited time in all."""

    def __init__(self, exchange_now, patience_s=PATIENCE_S):
        self.exchange_now = exchange_now
        self.left_s = patience_s

    def first_of(self, wanted, known):
        """The first of the wanted states to come, or None."""
        begin = time.monotonic()
        while wanted:
            state = known.of_other({"exchange_ns": self.exchange_now()})
            waited_s = time.monotonic() - begin
            if state in wanted or waited_s > self.left_s:
                self.left_s -= waited_s
                return state if state in wanted else None
            time.sleep(PROBES_APART_S)
        return None


def measure_extra(plan, case, state, wanted, known, progress):
    """Only what the state lacks, and as long as the machine is in it."""
    progress.more(len(wanted))
    for series, sizes in wanted.items():
        progress.show(f"{rounds.label(case)}: cores {state}, extra round: {series.peer.title}, "
                      f"{series.launch.configuration}")
        rounds.run_once(plan, case, series, sizes)
        progress.step()
        if series.rounds[-1] and known.of(series.rounds[-1][-1]) != state:
            return


def complete(plan, case, all_series, measured, measure_bound, watch, progress):
    """Each turn adds an extra round or a bound, of which there are only so many."""
    extra_rounds = 0
    while True:
        known = states.States(rounds.rows_of(all_series))
        is_done = len(known.typical_ns) < 2 or extra_rounds == plan.extra_rounds
        wanted = {} if is_done else lacking(all_series, plan.sizes, known)
        missing = without_bound(known, all_series, measured)
        if wanted or missing:
            progress.show(f"{rounds.label(case)}: waiting for a state of the machine that lacks measurements")
        state = watch.first_of({*wanted, *missing}, known)
        if state is None:
            return
        if state in missing:
            measured.append(measure_bound())
        if state in wanted:
            measure_extra(plan, case, state, wanted[state], known, progress)
            extra_rounds += 1


def measure_case(plan, case, peers, kolo_perf, progress):
    """(the series of one case, its bounds). kolo is the first of the peers."""
    kolo = peers[0].launches(case.ranks, len(plan.cpus))[0]

    def exchange_now():
        return rounds.exchange_now(plan, case, kolo)

    def measure_bound():
        return bounds.measure(plan, case, kolo_perf, exchange_now)

    measured = bounds.earlier(plan, case) or [measure_bound()]
    all_series = rounds.series_of(plan, case, peers)
    rounds.measure_planned(plan, case, all_series, progress)
    if plan.extra_rounds:
        complete(plan, case, all_series, measured, measure_bound, Watch(exchange_now), progress)
    return all_series, measured
