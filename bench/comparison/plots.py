"""Plots of a result file, by matplotlib: run as a program, since that may live in an environment of its own.

usage: plots.py RESULTS.json FOLDER

Draws for each case and state of the machine the time against the size, and the other libraries' time divided by
kolo's, as PNG and SVG; prints a JSON list of {"case": number, "state": name, "title": text, "file": path} of the
PNGs."""

import json
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot  # noqa: E402 (the backend has to be chosen first)
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from comparison import machine  # noqa: E402 (the path has to be set first)
from comparison.summary import OURS, case_text, size_text, state_text, summarize  # noqa: E402

# Okabe and Ito's colours, which the colour-blind tell apart; kolo has the strongest, and the widest line.
OUR_COLOUR = "#D55E00"
COLOURS = ("#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7A7A7A", "#000000")
MARKERS = "svD^Pp*X"
SIZE_INCHES = (12.8, 7.2)
STYLE = {"font.size": 15, "axes.labelsize": 16, "font.family": "DejaVu Sans", "axes.spines.top": False,
         "axes.spines.right": False, "svg.hashsalt": "kolo"}


def short_size(size, _position=None):
    return size_text(int(size)).replace(" ", "\u2009")


def time_text(us, _position=None):
    for unit, name in ((1e6, "s"), (1e3, "ms"), (1, "\u00b5s"), (1e-3, "ns")):
        if us >= unit * 0.999:
            return f"{us / unit:g}\u2009{name}"
    return f"{us * 1e3:g}\u2009ns"


def curves(case, state, results):
    """(title, colour, marker, sizes, times) of kolo and of each peer."""
    rows = summarize(case, state)["rows"]
    ours = [(row["bytes"], row["kolo"].us) for row in rows if row["kolo"]]
    found = [("kolo", OUR_COLOUR, "o", ours)] if ours else []
    peers = [key for key in results["libraries"] if key != OURS]
    for index, key in enumerate(peers):
        points = [(row["bytes"], row["peers"][key].us) for row in rows if key in row["peers"]]
        if points:
            title = results["libraries"][key]["title"]
            found.append((title, COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)], points))
    return found


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


def begin(results, case, state, title):
    figure, axes = pyplot.subplots(figsize=SIZE_INCHES)
    figure.subplots_adjust(left=0.1, right=0.79, top=0.84, bottom=0.17)
    figure.text(0.1, 0.94, title, fontsize=21, fontweight="bold", ha="left")
    figure.text(0.1, 0.885, f"all-reduce (sum), {case_text(case)}{state_text(state)}", fontsize=15, color="#444444",
                ha="left")
    figure.text(0.1, 0.025, f"{machine.in_a_line(results['machine'])}\nkolo {results['kolo_version']}, "
                f"{results['date']}; each library in its best configuration at each size", fontsize=9.5,
                color="#666666", ha="left", va="bottom", linespacing=1.5)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("message size")
    axes.set_xticks(apart(case["sizes"]))
    axes.xaxis.set_major_formatter(FuncFormatter(short_size))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.minorticks_off()
    axes.grid(True, which="major", color="#DDDDDD", linewidth=0.8)
    axes.set_axisbelow(True)
    return figure, axes


def draw_line(axes, title, colour, marker, points):
    ours = title == "kolo"
    axes.plot(*zip(*points), color=colour, marker=marker, linewidth=4 if ours else 2, markersize=8 if ours else 6,
              zorder=10 if ours else 3)


def draw_times(results, case, state):
    figure, axes = begin(results, case, state, "Time of one call")
    lines = curves(case, state, results)
    for title, colour, marker, points in lines:
        draw_line(axes, title, colour, marker, points)
    bound = [(row["bytes"], row["bound_us"]) for row in summarize(case, state)["rows"] if row["bound_us"]]
    named = [(title, colour, points) for title, colour, _, points in lines]
    if bound:
        axes.plot(*zip(*bound), color="#333333", linewidth=1.5, linestyle=(0, (4, 3)), zorder=2)
        named.append(("hardware's bound", "#333333", bound))
    axes.set_ylabel("time (lower is better)")
    axes.yaxis.set_major_locator(LogLocator(base=10, numticks=20))
    axes.yaxis.set_major_formatter(FuncFormatter(time_text))
    name_lines(axes, named)
    return figure


def draw_ratios(results, case, state):
    figure, axes = begin(results, case, state, "Other libraries' time as a multiple of kolo's")
    lines = curves(case, state, results)
    ours = dict(next((points for title, _, _, points in lines if title == "kolo"), []))
    named = []
    for title, colour, marker, points in lines:
        ratios = [(size, us / ours[size]) for size, us in points if size in ours]
        if title != "kolo" and ratios:
            draw_line(axes, title, colour, marker, ratios)
            named.append((title, colour, ratios))
    axes.axhline(1, color=OUR_COLOUR, linewidth=4)
    named.append(("kolo", OUR_COLOUR, [(case["sizes"][-1], 1)]))
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, 0.7), max(high, 3))
    axes.set_ylabel("time / kolo's time (above 1: kolo is faster)")
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5), numticks=30))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda ratio, _: f"{ratio:g}\u00d7"))
    name_lines(axes, named)
    return figure


def file_name(case, state, kind):
    place = "in-place" if case["in_place"] else "out-of-place"
    which = f"-{state['name']}" if len(case["states"]) > 1 else ""
    return f"{kind}-{case['ranks']}-ranks-{case['dtype']}-{case['buffers']}-{place}{which}"


def draw_case(results, number, case, state, folder):
    """The plots of a case in a state, as they are listed."""
    drawn = []
    for kind, draw in (("time", draw_times), ("ratio", draw_ratios)):
        figure = draw(results, case, state)
        path = folder / file_name(case, state, kind)
        for suffix in ("png", "svg"):
            figure.savefig(f"{path}.{suffix}", dpi=150, metadata={"Date": None} if suffix == "svg" else {})
        pyplot.close(figure)
        drawn.append({"case": number, "state": state["name"], "title": f"{kind}, {case_text(case)}{state_text(state)}",
                      "file": f"{path}.png"})
    return drawn


def main(results_path, folder):
    results = json.loads(pathlib.Path(results_path).read_text(encoding="utf-8"))
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    pyplot.rcParams.update(STYLE)
    drawn = []
    for number, case in enumerate(results["cases"]):
        for state in case["states"]:
            if curves(case, state, results):
                drawn += draw_case(results, number, case, state, folder)
    print(json.dumps(drawn))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
