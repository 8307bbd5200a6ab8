"""What bench/net does, from the command line to the last file."""

import pathlib

import lab
from comparison import drivers, rounds
from comparison.bench_command import FAILED, INTERRUPTED, Command, save, tell
from nodes import (net_architectures, net_launches, net_libraries, net_measuring, net_options, net_report,
                   net_transports)

COMMAND = Command("net", 1)
SKIPPED = 77


def transport_sizes(options):
    """The usual ones, or those that were asked for."""
    if options.sizes not in (net_options.DEFAULT_SIZES, net_options.QUICK_SIZES):
        return options.sizes
    return [65536, 1 << 24] if options.quick else net_options.TRANSPORT_SIZES


def measure_parts(options, built, results):
    """Part after part; what is measured is saved as it comes."""
    kolorun, kolo_perf = built.kolo_program("kolorun"), built.kolo_program("kolo-perf")
    wanted = options.peers if "libraries" in options.parts else ["none"]
    configurations, results["absent"] = net_launches.configurations(built, wanted, options.threads)
    sizes = transport_sizes(options)
    parts = {
        "transports": (net_transports.steps(options, sizes),
                       lambda: net_transports.measure(options, sizes, kolorun, kolo_perf, progress)),
        "libraries": (net_libraries.steps(options, configurations),
                      lambda: net_libraries.measure(options, configurations, progress)),
        "architectures": (net_architectures.steps(options),
                          lambda: net_architectures.measure(options, kolorun, kolo_perf, progress))}
    progress = rounds.Progress(sum(parts[name][0] for name in options.parts))
    try:
        for name in options.parts:
            results["parts"][name] = parts[name][1]()
            save(results, options.json)
    finally:
        progress.end()


def draw(options, results_path):
    return COMMAND.draw(pathlib.Path(__file__).with_name("net_plots.py"), results_path, options,
                        "bench/compare --install does it", lambda plot: plot["part"])


def show(results, results_path, options):
    """Tables, report and plots. Returns the exit status."""
    print(net_report.terminal(results), flush=True)
    images, drawn = draw(options, results_path) if options.plots else ({}, True)
    if options.results:
        options.results.write_text(net_report.markdown(results, options.results, images), encoding="utf-8")
    ours = [series for series in results["parts"].get("libraries", {"series": []})["series"] if series["key"] == "kolo"]
    bad = any(series["failures"] or any(row.get("wrong") for row in series["rows"]) for series in ours)
    if bad:
        COMMAND.complain("kolo failed, or its results were wrong; the notes say where")
    return FAILED if bad or not drawn or not results["parts"] else 0


def measure(options, arguments):
    built = drivers.Drivers(options.cache, options.kolo_build)
    tell("building kolo and the drivers ...")
    built.build_kolo()
    results = {**COMMAND.begin_results(arguments, built.kolo_program("kolo-perf")), "absent": {}, "parts": {}}
    status = 0
    try:
        measure_parts(options, built, results)
    except net_measuring.Failed as error:
        COMMAND.complain(f"kolo failed: {error}")
        status = FAILED
    except KeyboardInterrupt:
        COMMAND.complain("interrupted; what follows are the parts that were done")
        status = INTERRUPTED
    save(results, options.json)
    shown = show(results, options.json, options)
    return status or shown


def replot(options):
    return COMMAND.replot(options.replot, lambda results: show(results, options.replot, options))


def run(options, arguments):
    try:
        return replot(options) if options.replot else measure(options, arguments)
    except lab.Missing as error:
        COMMAND.complain(f"nodes cannot be made here: {error}")
        return SKIPPED


def main(arguments):
    options = net_options.parse(arguments)
    return COMMAND.run(lambda: run(options, arguments))
