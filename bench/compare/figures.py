"""Plots of a result file, by matplotlib: run as a program, since that may live in an environment of its own.

usage: figures.py MODULE RESULTS.json FOLDER

MODULE's draw_all(results, folder) draws, as PNG and perhaps also SVG, and returns a list of objects with "title", "file"
and "place", which tells where in a report the plot belongs; the program prints it as JSON. A file with an object on each
line, as kolo-perf writes it, is a list. Here is what all plots have in
common: a figure's frame, its axes of sizes and times, lines and their names."""

import importlib
import json
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot  # noqa: E402 (the backend has to be chosen first)
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter  # noqa: E402

BENCH = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(BENCH), str(BENCH.parent / "tests" / "net")]

from compare import machine  # noqa: E402 (the path has to be set first)
from compare.summary import size_text  # noqa: E402

# Okabe and Ito's colours, which the colour-blind tell apart; kolo has the strongest, and the widest line.
OUR_COLOUR = "#D55E00"
COLOURS = ("#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7A7A7A", "#000000")
BOUND_COLOUR = "#333333"
MARKERS = "svD^Pp*X"
OUR_LOOK = OUR_COLOUR, "o"
SIZE_INCHES = (12.8, 7.2)
STYLE = {"font.size": 15, "axes.labelsize": 16, "font.family": "DejaVu Sans", "axes.spines.top": False,
         "axes.spines.right": False}


def look(peer):
    """(colour, marker) of the other library with this number."""
    return COLOURS[peer % len(COLOURS)], MARKERS[peer % len(MARKERS)]


def short_size(size, _position=None):
    return size_text(int(size)).replace(" ", "\u2009")


def time_text(us, _position=None):
    for unit, name in ((1e6, "s"), (1e3, "ms"), (1, "\u00b5s"), (1e-3, "ns")):
        if us >= unit * 0.999:
            return f"{us / unit:g}\u2009{name}"
    return f"{us * 1e3:g}\u2009ns"


def spread(wanted, gap):
    """Positions near the wanted ones, in their order, at least `gap` apart."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    placed = [wanted[index] for index in order]
    for _ in range(200):
        moved = False
        for low in range(len(placed) - 1):
            lacking = gap - (placed[low + 1] - placed[low])
            if lacking > 1e-6:
                placed[low] -= lacking / 2
                placed[low + 1] += lacking / 2
                moved = True
        if not moved:
            break
    return {index: position for index, position in zip(order, placed)}


def name_lines(axes, lines):
    """Each line's name at its right end, in its colour, without overlap; a legend would have to be looked up."""
    axes.figure.canvas.draw()
    transform = axes.transData
    ends = [transform.transform((points[-1][0], points[-1][1])) for _, _, points in lines]
    positions = spread([end[1] for end in ends], gap=26)
    right = max(end[0] for end in ends)
    to_axes = axes.transAxes.inverted()
    for index, (title, colour, _) in enumerate(lines):
        x, y = to_axes.transform((right + 40, positions[index]))
        leader = [to_axes.transform(ends[index] + (12, 0)), to_axes.transform((right + 34, positions[index]))]
        axes.plot(*zip(*leader), transform=axes.transAxes, color=colour, linewidth=0.8, alpha=0.6, clip_on=False,
                  scalex=False, scaley=False)
        axes.text(x, y, title, transform=axes.transAxes, color=colour, va="center",
                  fontweight="bold" if title == "kolo" else "normal", clip_on=False)


def apart(sizes):
    """As many of the sizes as can be written below an axis without touching."""
    chosen = [sizes[0]]
    step = (sizes[-1] / sizes[0]) ** (1 / 9)
    for size in sizes[1:]:
        if size >= chosen[-1] * step:
            chosen.append(size)
    return chosen


def begin(results, title, what, note):
    """(figure, axes); `what` stands below the title, and the note after the date."""
    figure, axes = pyplot.subplots(figsize=SIZE_INCHES)
    figure.subplots_adjust(left=0.1, right=0.79, top=0.84, bottom=0.17)
    figure.text(0.1, 0.94, title, fontsize=21, fontweight="bold", ha="left")
    figure.text(0.1, 0.885, what, fontsize=15, color="#444444", ha="left")
    figure.text(0.1, 0.025, f"{machine.in_a_line(results['machine'])}\nkolo {results['kolo_version']}, "
                f"{results['date']}; {note}", fontsize=9.5, color="#666666", ha="left", va="bottom", linespacing=1.5)
    axes.grid(True, which="major", color="#DDDDDD", linewidth=0.8)
    axes.set_axisbelow(True)
    return figure, axes


def set_sizes(axes, sizes):
    """The axis of these message sizes, and a logarithmic one of whatever is drawn against them."""
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("message size")
    axes.set_xticks(apart(sizes))
    axes.xaxis.set_major_formatter(FuncFormatter(short_size))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.minorticks_off()


def set_times(axes):
    axes.set_ylabel("time (lower is better)")
    axes.yaxis.set_major_locator(LogLocator(base=10, numticks=20))
    axes.yaxis.set_major_formatter(FuncFormatter(time_text))


def set_numbers(axes, text="{:g}".format):
    """A logarithmic axis of plain numbers: matplotlib's own labels of less than a decade leave no room for the axis's."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5), numticks=30) if high > 10 * low else MaxNLocator(8))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda number, _: text(number)))
    axes.minorticks_off()


def draw_line(axes, title, colour, marker, points):
    """Returns what name_lines wants of it."""
    ours = title == "kolo"
    axes.plot(*zip(*points), color=colour, marker=marker, linewidth=4 if ours else 2, markersize=8 if ours else 6,
              zorder=10 if ours else 3)
    return title, colour, points


def draw_bound(axes, title, points):
    """Returns what name_lines wants of it."""
    axes.plot(*zip(*points), color=BOUND_COLOUR, linewidth=1.5, linestyle=(0, (4, 3)), zorder=2)
    return title, BOUND_COLOUR, points


def save(figure, path, kinds=("png",)):
    """Returns the path of the first file."""
    for kind in kinds:
        figure.savefig(f"{path}.{kind}", dpi=150)
    pyplot.close(figure)
    return f"{path}.{kinds[0]}"


def read(path):
    text = pathlib.Path(path).read_text(encoding="utf-8")
    try:
        return json.loads(text)
    except ValueError:  # no single one
        return [json.loads(line) for line in text.splitlines()]


def main(module, results_path, folder):
    results = read(results_path)
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    pyplot.rcParams.update(STYLE)
    print(json.dumps(importlib.import_module(module).draw_all(results, folder)))


if __name__ == "__main__":
    main(*sys.argv[1:])
