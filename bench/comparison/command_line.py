"""What bench/compare does, from the command line to the last file."""

import pathlib

from comparison import balance, drivers, installing, machine, options, peers, rounds, states, summary, tables
from comparison.bench_command import FAILED, INTERRUPTED, Command, save, tell

COMMAND = Command("compare", 2)
TORCH = "torch==2.13.0"


def chosen_peers(chosen):
    known = [] if chosen.no_peers else peers.all_peers(chosen.torch)
    if chosen.peers:
        known = [peer for peer in known if peer.key in chosen.peers]
    return known + chosen.peer_file


def fitting_sizes(case, sizes):
    """Those whose buffers fit into the memory, with room for the libraries' own."""
    buffers = case.ranks * (1 if case.in_place else 2)
    available = machine.memory_bytes("MemAvailable")
    return [size for size in sizes if size * buffers * 1.5 <= available]


def case_as_json(case, plan, all_series, bounds, notes):
    made = {**case._asdict(), "sizes": plan.sizes, "bounds": bounds, "notes": notes,
            "series": [series.as_json() for series in all_series]}
    states.mark(made)
    return made


def measure_into(results, chosen, cases, cpus, present, kolo_perf):
    """Adds case after case to the results, and saves them after each."""
    def plan_of(case):
        return rounds.Plan(fitting_sizes(case, chosen.sizes), chosen.rounds, chosen.extra_rounds, chosen.budget_ms,
                           cpus, not chosen.unpinned, chosen.timeout)
    starts = sum(len(peer.launches(case.ranks, len(cpus))) for peer in present for case in cases)
    progress = rounds.Progress(starts * chosen.rounds)
    try:
        for case in cases:
            plan = plan_of(case)
            notes = [f"{summary.size_text(size)}: needs more memory than is free" for size in chosen.sizes
                     if size not in plan.sizes]
            if not plan.sizes:
                COMMAND.complain(f"{rounds.label(case)}: no size fits into the memory that is free")
                continue
            all_series, bounds = balance.measure_case(plan, case, present, kolo_perf, progress)
            results["cases"].append(case_as_json(case, plan, all_series, bounds, notes))
            for series in all_series:
                entry = results["libraries"][series.peer.key]
                entry["version"] = entry["version"] or series.library
            save(results, chosen.json)
    finally:
        progress.end()


def begin_results(chosen, arguments, present, absent, cpus, kolo_perf):
    reasons = {peer.key: peer for peer in chosen_peers(chosen)}
    return {**COMMAND.begin_results(arguments, kolo_perf),
            "plan": {"rounds": chosen.rounds, "extra_rounds": chosen.extra_rounds, "budget_ms": chosen.budget_ms,
                     "pinned": not chosen.unpinned, "cpus": cpus},
            "libraries": {peer.key: {"title": peer.title, "version": ""} for peer in present},
            "absent": [{"key": key, "title": reasons[key].title, "reason": reason,
                        "install": installing.how_to(reasons[key], chosen.cache)} for key, reason in absent.items()],
            "cases": []}


def prepare(chosen, built):
    """kolo and the peers, ready to be started: those that are, and why the others are not."""
    tell("building kolo and the drivers ...")
    built.build_kolo()
    ours = peers.Kolo("kolo", "kolo")
    ours.prepare(built)
    present, absent = peers.prepare(chosen_peers(chosen), built)
    for peer in present:
        missing = getattr(peer, "missing_components", list)()
        if missing:
            absent_text = ", ".join(f"coll/{name}" for name in missing)
            tell(f"{peer.title} comes without {absent_text}")
    return [ours, *present], absent


def draw(chosen, results_path):
    return COMMAND.draw(pathlib.Path(__file__).with_name("plots.py"), results_path, chosen,
                        "--install does it, or: " + installing.pip_commands(*installing.PLOTS, chosen.cache),
                        lambda plot: (plot["case"], plot["state"]))


def show(results, results_path, chosen):
    """Tables, report and plots. Returns the exit status."""
    print(tables.terminal(results), flush=True)
    images, drawn = draw(chosen, results_path) if chosen.plots else ({}, True)
    if chosen.results:
        chosen.results.write_text(tables.report(results, chosen.results, images), encoding="utf-8")
    ours = [series for case in results["cases"] for series in case["series"] if series["peer"] == summary.OURS]
    failed = [failure for series in ours for failure in series["failures"]]
    wrong = any(row.get("wrong") for series in ours for rows in series["rounds"] for row in rows)
    if failed:
        COMMAND.complain(f"kolo failed: {failed[0]}")
    if wrong:
        COMMAND.complain("kolo's results were wrong; the tables name the sizes")
    return FAILED if failed or wrong or not drawn or not results["cases"] else 0


def replot(chosen):
    def save_and_show(results):
        if chosen.json:
            save(results, chosen.json)
        return show(results, chosen.replot, chosen)
    return COMMAND.replot(chosen.replot, save_and_show)


def measure(chosen, arguments):
    rounds.remove_stale_folders()
    built = drivers.Drivers(chosen.cache, chosen.kolo_build)
    if chosen.install:
        installing.install(chosen_peers(chosen), chosen.cache)
    present, absent = prepare(chosen, built)
    cpus = machine.cpus_in_order()
    cases = options.cases(chosen, len(cpus))
    kolo_perf = built.kolo_program("kolo-perf")
    results = begin_results(chosen, arguments, present, absent, cpus, kolo_perf)
    status = 0
    try:
        measure_into(results, chosen, cases, cpus, present, kolo_perf)
    except KeyboardInterrupt:
        COMMAND.complain("interrupted; what follows are the cases that were done")
        status = INTERRUPTED
    save(results, chosen.json)
    shown = show(results, chosen.json, chosen)
    return status or shown


def main(arguments):
    chosen = options.parse(arguments, TORCH, peers.all_peers(TORCH))
    return COMMAND.run(lambda: replot(chosen) if chosen.replot else measure(chosen, arguments))
