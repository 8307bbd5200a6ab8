"""What bench/compare and bench/net do alike, from the command line to the last file."""

import datetime
import json
import os
import pathlib
import shlex
import subprocess
import sys

from compare import drivers, installing, machine, peers, processes, summary
from compare.processes import StepError

FAILED, INTERRUPTED = 1, 130
FIGURES = pathlib.Path(__file__).with_name("figures.py")


class Cut(Exception):
    """Measuring ends before its end, with this exit status; what was measured before counts."""

    def __init__(self, text, status=FAILED):
        super().__init__(text)
        self.status = status


def save(results, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def prepare(chosen, built):
    """(kolo and those of the chosen peers that can be started, what the results say of all)."""
    ours = peers.Kolo("kolo", "kolo")
    ours.prepare(built)
    present, absent = [ours], []
    for peer in chosen:
        try:
            peer.prepare(built)
            present.append(peer)
        except (peers.Absent, StepError, OSError, subprocess.TimeoutExpired) as error:
            absent.append({"key": peer.key, "title": peer.title, "reason": str(error),
                           "install": installing.how_to(peer, built.cache)})
    return present, {"libraries": {peer.key: {"title": peer.title, "version": ""} for peer in present},
                     "absent": absent}


class Command:
    """One of the two. It has:

    name, results_format (the number that its result files begin with), plots (the module that draws), and what (the key
    of the results under which stands all that was measured);
    parse(arguments): the options;
    begin(options, built): the results, as far as they are known beforehand;
    measure_into(results, options, built): adds what is measured, and saves it as it comes; raises Cut;
    terminal(results), and report(results, path, images) in Markdown, with {place: [(title, file)]}."""

    def cases(self, results):
        """Those in which libraries were compared."""
        return results.get("cases", ())

    def complain(self, text):
        print(f"{self.name}: {text}", file=sys.stderr)

    def draw(self, results_path, options):
        """({place: [(title, file)]}, whether all went well)."""
        python = installing.plots_python(options.cache)
        if python is None:
            how = installing.pip_commands(*installing.PLOTS, options.cache)
            self.complain(f"no plots: matplotlib is not installed; python3 bench/compare --install does it, or: {how}")
            return {}, False
        done = subprocess.run([python, "-B", FIGURES, self.plots, results_path, options.plots], capture_output=True,
                              text=True, timeout=600, check=False)
        if done.returncode != 0:
            self.complain(f"no plots: {processes.quoted(done.stderr)}")
            return {}, False
        images = {}
        for plot in json.loads(done.stdout):
            images.setdefault(plot["place"], []).append((plot["title"], plot["file"]))
        return images, True

    def show(self, results, results_path, options):
        """Tables, report and plots. Returns the exit status."""
        print(self.terminal(results), flush=True)
        images, drawn = self.draw(results_path, options) if options.plots else ({}, True)
        if options.results:
            options.results.write_text(self.report(results, options.results, images), encoding="utf-8")
        failures = summary.failures_of_ours(self.cases(results), results.get("starts", ()))
        for text in failures:
            self.complain(text)
        return FAILED if failures or not drawn or not (results[self.what] or results.get("starts")) else 0

    def measure(self, options, arguments):
        built = drivers.Drivers(options.cache, options.kolo_build)
        print("building kolo and the drivers ...", file=sys.stderr)
        built.build_kolo()
        info = json.loads(subprocess.check_output([built.kolo_program("kolo-info"), "--json"], timeout=60))
        results = {"format": self.results_format, "date": datetime.date.today().isoformat(),
                   "kolo_version": info["version"], "arguments": shlex.join(arguments),
                   "machine": machine.describe(info["machine"]), **self.begin(options, built)}
        status = 0
        try:
            self.measure_into(results, options, built)
        except Cut as cut:
            self.complain(cut)
            status = cut.status
        except KeyboardInterrupt:
            self.complain(f"interrupted; what follows are the {self.what} that were done")
            status = INTERRUPTED
        save(results, options.json)
        shown = self.show(results, options.json, options)
        return status or shown

    def replot(self, options):
        """Shows an earlier run's results."""
        path = options.replot
        try:
            results = json.loads(path.read_text(encoding="utf-8"))
            if results["format"] != self.results_format:
                raise ValueError(f"its format is {results['format']}, not {self.results_format}")
            if options.json:
                save(results, options.json)
            return self.show(results, path, options)
        except (OSError, ValueError, KeyError, TypeError) as error:
            self.complain(f"{path} cannot be shown: {error if not isinstance(error, KeyError) else f'no {error}'}")
            return FAILED

    def main(self, arguments):
        options = self.parse(arguments)
        processes.interrupt_on_signals()
        processes.adopt_leftovers()
        try:
            return self.replot(options) if options.replot else self.measure(options, arguments)
        except StepError as error:
            self.complain(error)
            return FAILED
        except KeyboardInterrupt:
            self.complain("interrupted")
            return INTERRUPTED
        except BrokenPipeError:  # whoever read the tables has gone
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAILED
        except OSError as error:
            self.complain(f"{error.filename or 'a file'}: {error.strerror}")
            return FAILED
