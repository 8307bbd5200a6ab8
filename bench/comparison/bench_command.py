"""What bench/compare and bench/net do alike: their result files, the plots of these, and how they end."""

import datetime
import json
import os
import shlex
import signal
import subprocess
import sys

from comparison import drivers, installing, machine, processes

FAILED, INTERRUPTED = 1, 130


def tell(text):
    print(text, file=sys.stderr, flush=True)


def kolo_version(kolo_perf):
    done = subprocess.run([kolo_perf, "--version"], capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.split()[-1] if done.returncode == 0 and done.stdout else "unknown"


def save(results, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def interrupt(_number, _frame):
    raise KeyboardInterrupt


class Command:
    """One of the two. `results_format` is the number that its result files begin with."""

    def __init__(self, name, results_format):
        self.name = name
        self.results_format = results_format

    def complain(self, text):
        tell(f"{self.name}: {text}")

    def begin_results(self, arguments, kolo_perf):
        return {"format": self.results_format, "date": datetime.date.today().isoformat(),
                "kolo_version": kolo_version(kolo_perf), "arguments": shlex.join(arguments),
                "machine": machine.describe()}

    def replot(self, path, show):
        """Calls show(results) with an earlier run's. Returns the exit status."""
        try:
            results = json.loads(path.read_text(encoding="utf-8"))
            if results["format"] != self.results_format:
                raise ValueError(f"its format is {results['format']}, not {self.results_format}")
            return show(results)
        except (OSError, ValueError, KeyError, TypeError) as error:
            self.complain(f"{path} cannot be shown: {error if not isinstance(error, KeyError) else f'no {error}'}")
            return FAILED

    def draw(self, script, results_path, options, to_install, place_of):
        """The plots that the script draws, as {place_of(plot): [(title, file)]}, and whether all went well.
        to_install: how to get matplotlib."""
        python = installing.plots_python(options.cache)
        if python is None:
            self.complain(f"no plots: matplotlib is not installed; {to_install}")
            return {}, False
        done = subprocess.run([python, "-B", script, results_path, options.plots], capture_output=True, text=True,
                              timeout=600, check=False)
        if done.returncode != 0:
            self.complain(f"no plots: {processes.quoted(done.stderr)}")
            return {}, False
        images = {}
        for plot in json.loads(done.stdout):
            images.setdefault(place_of(plot), []).append((plot["title"], plot["file"]))
        return images, True

    def run(self, work):
        """Calls work(), which returns the exit status, and returns what it comes to."""
        signal.signal(signal.SIGTERM, interrupt)
        processes.adopt_orphans()
        try:
            return work()
        except drivers.BuildError as error:
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
