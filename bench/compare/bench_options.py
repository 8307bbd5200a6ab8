"""What the command lines of bench/compare and bench/net have in common."""

import argparse
import os
import pathlib
import re

from compare.drivers import SOURCE

SIZE_BYTES_MAX = 4 << 30


def parse_size(text):
    match = re.fullmatch(r"(\d{1,12})([kKmMgG]?)(?:i?B)?", text.strip())
    size = int(match[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[match[2].lower()] if match else 0
    if not match or size < 4 or size % 4 or size > SIZE_BYTES_MAX:
        raise argparse.ArgumentTypeError(f"'{text}' is not a size of 4 bytes to 4G in whole multiples of 4, like 64K")
    return size


def sizes(text):
    """MIN:MAX:FACTOR, or a list with commas."""
    if ":" not in text:
        return sorted({parse_size(part) for part in text.split(",")})
    parts = text.split(":")
    if len(parts) not in (2, 3):
        raise argparse.ArgumentTypeError(f"'{text}' is not MIN:MAX or MIN:MAX:FACTOR, like 8:256M:4")
    low, high = parse_size(parts[0]), parse_size(parts[1])
    factor = number(2, 1 << 20)(parts[2]) if len(parts) == 3 else 4
    if low > high:
        raise argparse.ArgumentTypeError(f"'{text}': the first size is above the last")
    found = []
    while low < high:
        found.append(low)
        low *= factor
    return [*found, high]


def number(low, high, kind=int):
    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not low <= value <= high:
            raise argparse.ArgumentTypeError(f"'{text}' is not a number from {low} to {high}")
        return value
    return parse


def numbers(low, high):
    """A list with commas; sorted, each once."""
    return lambda text: sorted({number(low, high)(part) for part in text.split(",")})


def words(*allowed):
    def parse(text):
        given = list(dict.fromkeys(word.strip() for word in text.split(",")))
        for word in given:
            if word not in allowed:
                raise argparse.ArgumentTypeError(f"'{word}' is none of {' '.join(allowed)}")
        return given
    return parse


def folder(text):
    return pathlib.Path(text).resolve()


def parser(program, examples, description):
    return argparse.ArgumentParser(prog=program, epilog=examples, description=description,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)


def add_how(made, quick, rounds, budget_ms, timeout):
    """The group of options on how it is measured; their helps."""
    how = made.add_argument_group("how")
    how.add_argument("--quick", action="store_true", help=quick)
    how.add_argument("--rounds", type=number(1, 1000), metavar="N", help=rounds)
    how.add_argument("--budget-ms", type=number(1, 100000, float), metavar="N",
                     help=f"about how long the timed samples of a size take ({budget_ms})")
    how.add_argument("--timeout", type=number(1, 86400), metavar="S", help="longest time of one start of a library "
                     f"({timeout})")
    return how


def add_builds(group, whose=""):
    """Where what is measured comes from."""
    group.add_argument("--cache", type=folder, default=folder(SOURCE / "build" / "compare"), metavar="DIR",
                       help=f"{whose}for what is built and installed (default build/compare)")
    group.add_argument("--kolo-build", type=folder, metavar="DIR", help="a build of kolo to use instead of building it")


def add_output(made, results_name):
    out = made.add_argument_group("output, beside the tables")
    out.add_argument("--json", type=pathlib.Path, metavar="FILE",
                     help=f"all of it (default {results_name} in the cache)")
    out.add_argument("--results", type=pathlib.Path, metavar="FILE", help="a report in Markdown")
    out.add_argument("--plots", type=pathlib.Path, metavar="DIR", help="plots, PNG")
    out.add_argument("--replot", type=pathlib.Path, metavar="FILE", help="measure nothing: show an earlier run's JSON")


def check_writable(made, options):
    """A long run shall not end with a file that cannot be written."""
    for name in ("json", "results"):
        path = getattr(options, name)
        if path and (path.is_dir() or not os.access(path if path.exists() else path.absolute().parent, os.W_OK)):
            made.error(f"argument --{name}: {path} cannot be written")
    if options.plots and options.plots.exists() and not options.plots.is_dir():
        made.error(f"argument --plots: {options.plots} is no folder")


def parse(made, arguments, results_name, usual, quick):
    """The options, checked. `usual` and `quick` are {option: value} where it was not given, with --quick the latter. All
    that is measured is saved as `json`; that is None where nothing is measured, and nobody asked for it."""
    options = made.parse_args(arguments)
    for name, value in {**usual, **(quick if options.quick else {})}.items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    if not options.json and not options.replot:
        options.json = options.cache / results_name
    if options.json and options.json.resolve().parent == options.cache:
        try:
            options.cache.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            made.error(f"argument --cache: {options.cache} cannot be made: {error.strerror}")
    check_writable(made, options)
    return options
