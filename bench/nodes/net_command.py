"""What bench/net does, from the command line to the last file."""

import datetime
import json
import pathlib
import shlex
import signal
import subprocess
import sys

import lab
from comparison import command_line, drivers, machine, processes, rounds
from nodes import (net_architectures, net_launches, net_libraries, net_measuring, net_options, net_report,
                   net_transports)

FORMAT = 1
FAILED, SKIPPED, INTERRUPTED = 1, 77, 130


def complain(text):
    print(f"net: {text}", file=sys.stderr, flush=True)


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


def save(results, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def draw(options, results_path):
    """{part: [(title, file)]}, and whether all went well."""
    python = command_line.plots_python(options.cache)
    if python is None:
        complain("no plots: matplotlib is not installed; bench/compare --install does it")
        return {}, False
    script = pathlib.Path(__file__).with_name("net_plots.py")
    done = subprocess.run([python, "-B", script, results_path, options.plots], capture_output=True, text=True,
                          timeout=600, check=False)
    if done.returncode != 0:
        complain(f"no plots: {processes.quoted(done.stderr)}")
        return {}, False
    images = {}
    for image in json.loads(done.stdout):
        images.setdefault(image["part"], []).append((image["title"], image["file"]))
    return images, True


def show(results, results_path, options):
    """Tables, report and plots. Returns the exit status."""
    print(net_report.terminal(results), flush=True)
    images, drawn = draw(options, results_path) if options.plots else ({}, True)
    if options.results:
        options.results.write_text(net_report.markdown(results, options.results, images), encoding="utf-8")
    ours = [series for series in results["parts"].get("libraries", {"series": []})["series"] if series["key"] == "kolo"]
    bad = any(series["failures"] or any(row.get("wrong") for row in series["rows"]) for series in ours)
    if bad:
        complain("kolo failed, or its results were wrong; the notes say where")
    return FAILED if bad or not drawn or not results["parts"] else 0


def measure(options, arguments):
    built = drivers.Drivers(options.cache, options.kolo_build)
    print("building kolo and the drivers ...", file=sys.stderr, flush=True)
    built.build_kolo()
    results = {"format": FORMAT, "date": datetime.date.today().isoformat(),
               "kolo_version": command_line.kolo_version(built.kolo_program("kolo-perf")),
               "arguments": shlex.join(arguments), "machine": machine.describe(), "absent": {}, "parts": {}}
    status = 0
    try:
        measure_parts(options, built, results)
    except net_measuring.Failed as error:
        complain(f"kolo failed: {error}")
        status = FAILED
    except KeyboardInterrupt:
        complain("interrupted; what follows are the parts that were done")
        status = INTERRUPTED
    save(results, options.json)
    shown = show(results, options.json, options)
    return status or shown


def replot(options):
    try:
        results = json.loads(options.replot.read_text(encoding="utf-8"))
        if results["format"] != FORMAT:
            raise ValueError(f"its format is {results['format']}, not {FORMAT}")
        return show(results, options.replot, options)
    except (OSError, ValueError, KeyError, TypeError) as error:
        complain(f"{options.replot} cannot be shown: {error if not isinstance(error, KeyError) else f'no {error}'}")
        return FAILED


def main(arguments):
    options = net_options.parse(arguments)
    signal.signal(signal.SIGTERM, lab.interrupt)
    processes.adopt_orphans()
    try:
        return replot(options) if options.replot else measure(options, arguments)
    except lab.Missing as error:
        complain(f"nodes cannot be made here: {error}")
        return SKIPPED
    except drivers.BuildError as error:
        complain(error)
        return FAILED
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    except OSError as error:
        complain(f"{error.filename or 'a file'}: {error.strerror}")
        return FAILED
