"""Plots of a result file of bench/net, by matplotlib: run as a program, since that may live in an environment of its
own.

usage: net_plots.py RESULTS.json FOLDER

Draws the libraries' times against the size, and the architectures' against the number of workers with what the formulas
say, as PNG and SVG; prints a JSON list of {"part": name, "title": text, "file": path} of the PNGs."""

import json
import pathlib
import sys

BENCH = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(BENCH), str(BENCH.parent / "tests" / "net")]

from matplotlib import pyplot  # noqa: E402 (the path has to be set first)
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: E402

from comparison import machine, plots  # noqa: E402
from nodes import net_architectures, net_libraries  # noqa: E402

CABLE_COLOUR = "#333333"


def begin(results, title, what):
    figure, axes = pyplot.subplots(figsize=plots.SIZE_INCHES)
    figure.subplots_adjust(left=0.1, right=0.79, top=0.84, bottom=0.17)
    figure.text(0.1, 0.94, title, fontsize=21, fontweight="bold", ha="left")
    figure.text(0.1, 0.885, what, fontsize=15, color="#444444", ha="left")
    figure.text(0.1, 0.025, f"{machine.in_a_line(results['machine'])}\nkolo {results['kolo_version']}, "
                f"{results['date']}; all nodes are network namespaces of this machine", fontsize=9.5, color="#666666",
                ha="left", va="bottom", linespacing=1.5)
    axes.grid(True, which="major", color="#DDDDDD", linewidth=0.8)
    axes.set_axisbelow(True)
    return figure, axes


def draw_libraries(results):
    part = results["parts"]["libraries"]
    ranks = f"{part['ranks']} rank{'s' if part['ranks'] > 1 else ''}"
    figure, axes = begin(results, "Time of one all-reduce between nodes",
                         f"{part['nodes']} nodes with {ranks} each, cables of {part['rate_mbit']} Mbit/s; each library "
                         "in its best configuration")
    named = []
    sizes = set()
    for index, (key, own) in enumerate(net_libraries.times(part).items()):
        ours = key == "kolo"
        colour = plots.OUR_COLOUR if ours else plots.COLOURS[(index - 1) % len(plots.COLOURS)]
        points = sorted((size, us) for size, (us, _) in own.items())
        sizes |= own.keys()
        title = net_libraries.titles(part)[key]
        plots.draw_line(axes, title, colour, "o" if ours else plots.MARKERS[(index - 1) % len(plots.MARKERS)], points)
        named.append((title, colour, points))
    bound = [(size, net_libraries.cable_us(part, size)) for size in sorted(sizes) if size >= 1 << 16]
    if bound:
        axes.plot(*zip(*bound), color=CABLE_COLOUR, linewidth=1.5, linestyle=(0, (4, 3)), zorder=2)
        named.append(("the cable", CABLE_COLOUR, bound))
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("message size")
    axes.set_xticks(plots.apart(sorted(sizes)))
    axes.xaxis.set_major_formatter(FuncFormatter(plots.short_size))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel("time (lower is better)")
    axes.yaxis.set_major_locator(LogLocator(base=10, numticks=20))
    axes.yaxis.set_major_formatter(FuncFormatter(plots.time_text))
    axes.minorticks_off()
    axes.set_ylim(top=axes.get_ylim()[1] * 4)  # for the names of lines that meet at the top
    plots.name_lines(axes, named)
    return figure


def draw_architectures(results):
    rows = results["parts"]["architectures"]
    figure, axes = begin(results, "1.2 GB over links of 1 GB/s",
                         f"time of one all-reduce, scaled from {rows[0]['bytes'] / 1e6:.0f} MB over "
                         f"{rows[0]['rate_mbit']} Mbit/s; lines: by formula, marks: measured")
    named = []
    for index, name in enumerate(net_architectures.VARIABLES):
        own = [row for row in rows if row["architecture"] == name]
        if not own:
            continue
        # Mesh and ring move the same: their formulas are one line.
        colour = plots.OUR_COLOUR if name == "mesh" else plots.COLOURS[index]
        measured = [(row["workers"], net_architectures.scaled_s(row)) for row in own]
        formula = [(row["workers"], net_architectures.predicted_s(name, row["workers"], net_architectures.EXAMPLE_BYTES,
                                                                  net_architectures.EXAMPLE_RATE)) for row in own]
        axes.plot(*zip(*formula), color=colour, linewidth=2, alpha=0.6)
        axes.plot(*zip(*measured), color=colour, marker=plots.MARKERS[index], markersize=9, linestyle="none")
        named.append((name, colour, measured))
    axes.set_xlabel("workers, one rank on a node")
    axes.set_ylabel("seconds")
    axes.set_ylim(bottom=0)
    plots.name_lines(axes, named)
    return figure


def main(results_path, folder):
    results = json.loads(pathlib.Path(results_path).read_text(encoding="utf-8"))
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    pyplot.rcParams.update(plots.STYLE)
    drawn = []
    for part, draw, title in (("libraries", draw_libraries, "time of the libraries between nodes"),
                              ("architectures", draw_architectures, "time of the architectures")):
        if not results["parts"].get(part):
            continue
        figure = draw(results)
        path = folder / f"nodes-{part}"
        for suffix in ("png", "svg"):
            figure.savefig(f"{path}.{suffix}", dpi=150, metadata={"Date": None} if suffix == "svg" else {})
        pyplot.close(figure)
        drawn.append({"part": part, "title": title, "file": f"{path}.png"})
    print(json.dumps(drawn))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
