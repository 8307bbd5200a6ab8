"""What bench/compare does, from the command line to the last file."""

import datetime
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys

from comparison import (balance, drivers, installing, machine, options, peers, processes, rounds, states, summary,
                        tables)

FORMAT = 2
TORCH = "torch==2.13.0"
FAILED, INTERRUPTED = 1, 130


def complain(text):
    print(f"compare: {text}", file=sys.stderr, flush=True)


def tell(text):
    print(text, file=sys.stderr, flush=True)


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


def save(results, path):
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


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
                complain(f"{rounds.label(case)}: no size fits into the memory that is free")
                continue
            all_series, bounds = balance.measure_case(plan, case, present, kolo_perf, progress)
            results["cases"].append(case_as_json(case, plan, all_series, bounds, notes))
            for series in all_series:
                entry = results["libraries"][series.peer.key]
                entry["version"] = entry["version"] or series.library
            save(results, chosen.json)
    finally:
        progress.end()


def kolo_version(kolo_perf):
    done = subprocess.run([kolo_perf, "--version"], capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.split()[-1] if done.returncode == 0 and done.stdout else "unknown"


def begin_results(chosen, arguments, present, absent, cpus, version):
    reasons = {peer.key: peer for peer in chosen_peers(chosen)}
    return {"format": FORMAT, "date": datetime.date.today().isoformat(), "kolo_version": version,
            "arguments": shlex.join(arguments), "machine": machine.describe(),
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


def plots_python(cache):
    """A Python that has matplotlib, or None."""
    for python in (pathlib.Path(sys.executable), cache / installing.PLOTS[0] / "bin" / "python"):
        if python.exists() and subprocess.run([python, "-c", "import matplotlib"], capture_output=True, timeout=120,
                                              check=False).returncode == 0:
            return python
    return None


def draw(chosen, results_path):
    """The plots; {(number of a case, state): [(title, file)]}, and whether all went well."""
    python = plots_python(chosen.cache)
    if python is None:
        complain("no plots: matplotlib is not installed; --install does it, or: "
                 + installing.pip_commands(*installing.PLOTS, chosen.cache))
        return {}, False
    script = pathlib.Path(__file__).with_name("plots.py")
    done = subprocess.run([python, "-B", script, results_path, chosen.plots], capture_output=True, text=True,
                          timeout=600, check=False)
    if done.returncode != 0:
        complain(f"no plots: {processes.quoted(done.stderr)}")
        return {}, False
    images = {}
    for image in json.loads(done.stdout):
        images.setdefault((image["case"], image["state"]), []).append((image["title"], image["file"]))
    return images, True


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
        complain(f"kolo failed: {failed[0]}")
    if wrong:
        complain("kolo's results were wrong; the tables name the sizes")
    return FAILED if failed or wrong or not drawn or not results["cases"] else 0


def replot(chosen):
    try:
        results = json.loads(chosen.replot.read_text(encoding="utf-8"))
        if results["format"] != FORMAT:
            raise ValueError(f"its format is {results['format']}, not {FORMAT}")
        if chosen.json:
            save(results, chosen.json)
        return show(results, chosen.replot, chosen)
    except (OSError, ValueError, KeyError, TypeError) as error:
        complain(f"{chosen.replot} cannot be shown: {error if not isinstance(error, KeyError) else f'no {error}'}")
        return FAILED


def measure(chosen, arguments):
    built = drivers.Drivers(chosen.cache, chosen.kolo_build)
    if chosen.install:
        installing.install(chosen_peers(chosen), chosen.cache)
    present, absent = prepare(chosen, built)
    cpus = machine.cpus_in_order()
    cases = options.cases(chosen, len(cpus))
    kolo_perf = built.kolo_program("kolo-perf")
    results = begin_results(chosen, arguments, present, absent, cpus, kolo_version(kolo_perf))
    status = 0
    try:
        measure_into(results, chosen, cases, cpus, present, kolo_perf)
    except KeyboardInterrupt:
        complain("interrupted; what follows are the cases that were done")
        status = INTERRUPTED
    save(results, chosen.json)
    shown = show(results, chosen.json, chosen)
    return status or shown


def interrupt(_number, _frame):
    raise KeyboardInterrupt


def main(arguments):
    chosen = options.parse(arguments, TORCH, peers.all_peers(TORCH))
    signal.signal(signal.SIGTERM, interrupt)
    processes.adopt_orphans()
    try:
        return replot(chosen) if chosen.replot else measure(chosen, arguments)
    except drivers.BuildError as error:
        complain(error)
        return FAILED
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # whoever read the tables has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        complain(f"{error.filename or 'a file'}: {error.strerror}")
        return FAILED
