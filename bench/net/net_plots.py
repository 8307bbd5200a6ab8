"""The plots of bench/net: the libraries' times against the size, and the architectures' against the number of workers,
with what the formulas say."""

from compare import figures
from net import net_architectures, net_libraries


def begin(results, title, what):
    return figures.begin(results, title, what, "all nodes are network namespaces of this machine")


def draw_libraries(results):
    part = results["parts"]["libraries"]
    ranks = f"{part['ranks']} rank{'s' if part['ranks'] > 1 else ''}"
    figure, axes = begin(results, "Time of one all-reduce between nodes",
                         f"{part['nodes']} nodes with {ranks} each, cables of {part['rate_mbit']} Mbit/s; each library "
                         "in its best configuration")
    named = []
    sizes = set()
    for index, (key, own) in enumerate(net_libraries.times(part).items()):
        colour, marker = figures.OUR_LOOK if key == "kolo" else figures.look(index - 1)
        points = sorted((size, time.us) for size, time in own.items())
        sizes |= own.keys()
        title = results["libraries"][key]["title"]
        named.append(figures.draw_line(axes, title, colour, marker, points))
    bound = [(size, net_libraries.cable_us(part, size)) for size in sorted(sizes) if size >= 1 << 16]
    if bound:
        named.append(figures.draw_bound(axes, "the cable", bound))
    figures.set_sizes(axes, sorted(sizes))
    figures.set_times(axes)
    axes.set_ylim(top=axes.get_ylim()[1] * 4)  # for the names of lines that meet at the top
    figures.name_lines(axes, named)
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
        colour = figures.OUR_COLOUR if name == "mesh" else figures.COLOURS[index]
        measured = [(row["workers"], net_architectures.scaled_s(row)) for row in own]
        formula = [(row["workers"], net_architectures.predicted_s(name, row["workers"], net_architectures.EXAMPLE_BYTES,
                                                                  net_architectures.EXAMPLE_RATE)) for row in own]
        axes.plot(*zip(*formula), color=colour, linewidth=2, alpha=0.6)
        axes.plot(*zip(*measured), color=colour, marker=figures.MARKERS[index], markersize=9, linestyle="none")
        named.append((name, colour, measured))
    axes.set_xlabel("workers, one rank on a node")
    axes.set_ylabel("seconds")
    axes.set_ylim(bottom=0)
    figures.name_lines(axes, named)
    return figure


def draw_all(results, folder):
    drawn = []
    for part, draw, title in (("libraries", draw_libraries, "time of the libraries between nodes"),
                              ("architectures", draw_architectures, "time of the architectures")):
        if results["parts"].get(part):
            drawn.append({"place": part, "title": title, "file": figures.save(draw(results), folder / f"nodes-{part}")})
    return drawn

